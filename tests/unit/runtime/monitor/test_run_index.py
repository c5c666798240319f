"""The status of all runs of a folder: states, numbers, and what is never read."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from palaestra.runtime.monitor import run_index
from palaestra.runtime.monitor.bounded_reading import MOST_JSON, ResultsFiles
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_list import find_runs
from palaestra.runtime.monitor.run_status import RunStatus, read_status
from palaestra.runtime.storage.writer_lock import WriterLock

SETTINGS = (
    "env_settings:\n  env_path: 3DBall\nbehaviors:\n  Ball:\n    trainer_type: ppo\n    max_steps: "
    "1000\ntrackers:\n  jsonl: {}\n"
)


def summary(step: int, elapsed: float, reward: float = 0.0, behavior: str = "Ball") -> dict[str, Any]:
    times = {"time": 1e9 + elapsed, "elapsed": elapsed}
    return {"behavior": behavior, "step": step, **times, "Environment/Cumulative Reward": reward}


def make_run(folder: Path, *lines: dict, progress: dict | None = None, settings: str = SETTINGS) -> Path:
    (folder / "run_logs").mkdir(parents=True)
    (folder / "configuration.yaml").write_text(settings)
    if lines:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if progress is not None:
        (folder / "run_logs" / "progress.json").write_text(json.dumps(progress))
    return folder


def status_of(folder: Path) -> RunStatus:
    return read_status(ResultsFiles(folder.parent), folder.name)


def test_rate_share_and_reward_come_from_the_last_two_summaries(tmp_path: Path):
    run = make_run(tmp_path / "a", summary(100, 10.0, 1.0), summary(200, 14.0, 2.0), summary(400, 19.0, 3.5))
    found = status_of(run)
    (ball,) = found.behaviors
    assert (found.step, found.max_steps, found.share, found.reward) == (400, 1000, 0.4, 3.5)
    assert ball.rate == (400 - 200) / (19.0 - 14.0)
    assert found.rate is None  # nobody writes to it, so that it has no rate now
    assert (found.environment, found.trainer, found.source, found.started) == ("3DBall", "ppo", "Palaestra", 1e9)


def test_the_reward_is_that_of_the_last_summary_whatever_an_older_version_wrote_beside_it(tmp_path: Path):
    behaviors = {"Ball": {"step": 430, "reward": 59.8}, "New": {"step": 3, "reward": 2.0}}
    live = {"state": "finished", "behaviors": behaviors}
    last = {**summary(400, 19.0, 100.0), "episodes": 24}
    found = status_of(make_run(tmp_path / "a", summary(200, 14.0, 99.0), last, progress=live))
    assert {each.name: (each.reward, each.episodes) for each in found.behaviors} == {
        "Ball": (100.0, 24),
        "New": (2.0, None),
    }


def test_steps_that_a_behavior_does_after_its_last_do_not_count(tmp_path: Path):
    settings = SETTINGS.replace("behaviors:\n", "behaviors:\n  Slow:\n    max_steps: 500\n")
    lines = summary(1700, 10.0), summary(100, 10.0, behavior="Slow")
    found = status_of(make_run(tmp_path / "a", *lines, settings=settings))
    assert (found.step, found.max_steps) == (1100, 1500)


def test_a_run_with_a_living_writer_learns_and_one_without_an_end_died(tmp_path: Path):
    run = make_run(tmp_path / "a", summary(100, 10.0), summary(200, 20.0))
    assert status_of(run).state == "died"
    lock = WriterLock(run)
    lock.acquire()
    try:
        found = status_of(run)
        assert (found.state, found.rate, found.left) == ("learning", 10.0, (1000 - 200) / 10.0)
    finally:
        lock.release()
    assert status_of(run).state == "died"


def test_a_writer_that_is_gone_means_that_the_run_died(tmp_path: Path):
    run = make_run(tmp_path / "a", summary(100, 10.0))
    lock = WriterLock(run)
    lock.acquire()
    (file,) = [path for path in run.rglob("*") if path.is_file() and '"pid"' in path.read_text(errors="replace")]
    holder = json.loads(file.read_text())
    lock.release()
    file.write_text(json.dumps({**holder, "started": holder["started"] - 1000.0}))  # another process has its number now
    assert status_of(run).state == "died"
    file.write_text(json.dumps({**holder, "host": "another-machine"}))
    assert status_of(run).state == "learning"
    os.utime(file, (time.time() - 1000.0,) * 2)
    assert status_of(run).state == "died"


@pytest.mark.parametrize("state", ["stopped", "finished", "died"])
def test_the_progress_file_says_how_a_run_ended(tmp_path: Path, state: str):
    assert status_of(make_run(tmp_path / "a", summary(200, 10.0), progress={"state": state})).state == state


def test_a_run_whose_behaviors_did_all_their_steps_is_finished(tmp_path: Path):
    assert status_of(make_run(tmp_path / "a", summary(1000, 10.0))).state == "finished"


def test_broken_files_give_a_status_all_the_same(tmp_path: Path):
    run = make_run(tmp_path / "a", summary(100, 10.0), settings="a: [\n")
    with (run / "metrics.jsonl").open("a") as file:
        broken = '{"behavior": "Ball", "step": 200\n[1]\nnull\n{"behavior": 3, "step": "x", "elapsed": 1}\n'
        file.write(broken + "[" * 5000 + "\n{half")
    (run / "run_logs" / "progress.json").write_text("[" * 100_000)
    (run / "run_logs" / "training_status.json").write_bytes(b"\xff\xfe{")
    found = status_of(run)
    assert (found.step, found.max_steps) == (100, None)


def test_runs_of_others_are_found_and_said_to_be_theirs(tmp_path: Path):
    make_run(tmp_path / "theirs", settings=SETTINGS.replace("trackers:\n  jsonl: {}\n", ""))
    models = [{"steps": 500, "reward": 1.5, "creation_time": 5.0}, {"steps": 900, "reward": 2.5, "creation_time": 9.0}]
    status = {"Ball": {"elo": 1210.0, "checkpoints": models, "final_checkpoint": {}}}
    (tmp_path / "theirs" / "run_logs" / "training_status.json").write_text(json.dumps(status))
    found = status_of(tmp_path / "theirs")
    assert (found.source, found.state) == ("ML-Agents", "stopped")
    assert (found.step, found.reward, found.changed) == (900, 2.5, 9.0)
    assert found.behaviors[0].values == {"Self-play/ELO": 1210.0}


def test_ids_with_slashes_are_runs_and_hidden_or_deep_folders_are_not(tmp_path: Path):
    for name in ("a", "team/b", "w/x/y/z", "w/x/y/q/deep", ".hidden"):
        make_run(tmp_path / name)
    assert find_runs(tmp_path) == ["a", "team/b", "w/x/y/z"]


@pytest.mark.parametrize("run_id", ["../secret", "a/../../secret", "", ".", "..", "/etc", "link", "a\0", "a/"])
def test_no_id_leads_out_of_the_results(tmp_path: Path, run_id: str):
    results = tmp_path / "results"
    make_run(results / "a", summary(100, 10.0))
    make_run(tmp_path / "secret", summary(100, 10.0))
    (results / "link").symlink_to(tmp_path / "secret")
    index = RunIndex(results)
    assert index.status(run_id) is None
    assert index.settings(run_id) == {}
    assert index.status("a") is not None


def test_a_link_out_of_the_results_is_never_read(tmp_path: Path):
    results = tmp_path / "results"
    run = make_run(results / "a")
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(summary(777, 1.0)) + "\n")
    (run / "metrics.jsonl").symlink_to(secret)
    files = ResultsFiles(results)
    assert not files.contains(run / "metrics.jsonl")
    assert files.text(run / "metrics.jsonl") is None
    assert files.part(results / ".." / "secret.json") is None
    assert status_of(run).step == 0


def test_what_is_read_is_bounded(tmp_path: Path):
    files = ResultsFiles(tmp_path)
    (tmp_path / "large.json").write_text("{" + " " * MOST_JSON + "}")
    (tmp_path / "log").write_text("first\n" + "second\n" * 3)
    os.mkfifo(tmp_path / "pipe")
    assert files.json(tmp_path / "large.json") == {}
    assert files.last_lines(tmp_path / "log", 10) == "second\n"
    assert files.last_lines(tmp_path / "log", 1000).startswith("first\n")
    assert files.part(tmp_path / "pipe") is None  # would wait for ever
    assert files.part(tmp_path) is None


def test_the_index_reads_only_runs_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_index, "FRESHNESS", 0.0)
    read: list[str] = []

    def counting(files: ResultsFiles, run_id: str, settings: Any) -> RunStatus:
        read.append(run_id)
        return read_status(files, run_id, settings)

    monkeypatch.setattr(run_index, "read_status", counting)
    for name in ("a", "b"):
        make_run(tmp_path / name, summary(100, 10.0))
    index = RunIndex(tmp_path)
    index.statuses()
    index.statuses()
    assert sorted(read) == ["a", "b"]
    with (tmp_path / "b" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(summary(300, 20.0)) + "\n")
    assert {status.run_id: status.step for status in index.statuses()} == {"a": 100, "b": 300}
    assert read[2:] == ["b"]


def test_the_index_forgets_a_run_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_index, "FRESHNESS", 0.0)
    run = make_run(tmp_path / "a", summary(100, 10.0))
    index = RunIndex(tmp_path)
    assert len(index.statuses()) == 1
    run.rename(tmp_path / ".trash")
    assert index.statuses() == []
    assert index.status("a") is None
