import json

import pytest

from palaestra.core.errors import RunError
from palaestra.runtime.logging.run_times import Timers


def test_a_block_has_the_time_that_its_children_leave():
    timers = Timers()
    timers.add(("advance",), 3.0, count=3)
    timers.add(("advance", "env"), 2.0)
    timers.add(("advance", "beside"), 9.0, parallel=True)
    tree = timers.tree()
    advance = tree["children"]["advance"]
    assert (advance["total"], advance["count"], advance["self"]) == (3.0, 3, 1.0)
    assert advance["children"]["beside"]["is_parallel"]
    assert "children" not in advance["children"]["env"]


def test_the_file_has_the_layout_that_tools_know(tmp_path):
    timers = Timers()
    timers.add(("advance", "env"), 1.0)
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


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "run_logs").write_text("in the way")
    with pytest.raises(RunError, match=r"timers\.json: a file stands"):
        Timers().write(tmp_path / "run_logs" / "timers.json", {})
