from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaestra.core.errors import RunError
from palaestra.runtime.logging.timers import Timers


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("palaestra.runtime.logging.timers.time.perf_counter", lambda: clock.now)
    return clock


def test_stretches_nest_and_count(time: Clock):
    timers = Timers()
    for _ in range(3):
        with timers("advance"):
            with timers("env"):
                time.sleep(0.002)
            with timers("infer"):
                pass
    tree = timers.tree()
    advance = tree["children"]["advance"]
    assert advance["count"] == 3
    assert set(advance["children"]) == {"env", "infer"}
    assert advance["children"]["env"]["total"] == pytest.approx(0.006)
    assert advance["self"] == pytest.approx(
        advance["total"] - sum(child["total"] for child in advance["children"].values())
    )
    assert tree["total"] >= advance["total"]
    assert "children" not in advance["children"]["env"]


def test_a_stretch_that_fails_is_closed():
    timers = Timers()
    with pytest.raises(KeyError), timers("bad"):
        raise KeyError
    with timers("next"):
        pass
    assert set(timers.tree()["children"]) == {"bad", "next"}


def test_a_stretch_within_one_of_its_name_counts_on_its_own(time: Clock):
    timers = Timers()
    with timers("a"), timers("a"):
        time.sleep(0.002)
    outer = timers.tree()["children"]["a"]
    assert outer["children"]["a"]["count"] == outer["count"] == 1
    assert outer["self"] == pytest.approx(0.0)


def test_an_open_stretch_is_in_the_tree(time: Clock):
    timers = Timers()
    with timers("open"):
        time.sleep(0.002)
        assert timers.tree()["children"]["open"]["total"] == pytest.approx(0.002)


def test_shares_add_up_to_one_the_largest_first(time: Clock):
    timers = Timers()
    with timers("short"):
        time.sleep(0.002)
    with timers("long"):
        time.sleep(0.008)
    shares = timers.shares()
    assert [*shares] == ["long", "short", "other"]
    assert [*shares.values()] == pytest.approx([0.8, 0.2, 0.0])


def test_the_file_has_the_layout_that_tools_know(tmp_path: Path):
    timers = Timers()
    with timers("advance"), timers("env"):
        pass
    for value in (2.0, 1.0, 3.0):
        timers.gauge("B.Policy.Entropy.mean", value)
    timers.write(tmp_path / "run_logs" / "timers.json", {"palaestra_device": "cpu"})
    data = json.loads((tmp_path / "run_logs" / "timers.json").read_text())
    assert [*data] == ["name", "gauges", "metadata", "total", "count", "self", "children"]
    assert data["name"] == "root"
    assert data["gauges"] == {"B.Policy.Entropy.mean": {"value": 3.0, "min": 1.0, "max": 3.0, "count": 3}}
    known = (
        "timer_format_version start_time_seconds python_version command_line_arguments mlagents_version "
        "mlagents_envs_version"
    )
    known += " communication_protocol_version pytorch_version numpy_version end_time_seconds palaestra_device"
    assert set(known.split()) <= set(data["metadata"])
    assert all(isinstance(value, str) for value in data["metadata"].values())
    assert data["children"]["advance"]["children"]["env"]["count"] == 1


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path):
    (tmp_path / "run_logs").write_text("in the way")
    with pytest.raises(RunError, match=r"timers\.json: a file stands"):
        Timers().write(tmp_path / "run_logs" / "timers.json", {})
