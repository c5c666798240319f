"""Requests to runs whose trainer has a process of its own, and to runs of several ranks."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import read_progress, settings

from palaestra import train
from palaestra.runtime.control.run_requests import RunRequest, answers, ask

RATE = RunRequest("hyperparameter", name="learning_rate", value=2e-5)
CHANGES = [RATE, RunRequest("parameter", name="gravity", value=5.0)]


def rates(run: Path) -> list[float]:
    """Learning rates of the summaries that follow an update, in order."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["Policy/Learning Rate"] for line in lines if "Policy/Learning Rate" in line]


def state_of(run: Path) -> tuple[str, int]:
    progress = read_progress(run)
    return progress["state"], progress["behaviors"]["3DBall"]["step"]


def small(steps: int, **block: Any) -> dict[str, Any]:
    block = {"hyperparameters": {"batch_size": 100, "buffer_size": 1000}, "summary_freq": 1000, **block}
    return settings("3DBall", steps, **block)


@pytest.mark.slow
def test_a_trainer_in_a_process_of_its_own_obeys(tmp_path):
    run = tmp_path / "apart"
    left = [[RunRequest("stop")], CHANGES]

    def asks(summary: Any) -> bool:
        if left and summary.step >= 4000 - 2000 * (len(left) - 1):
            for request in left.pop():
                ask(run, request)
            time.sleep(0.6)
        return False

    where = {"run_id": "apart", "results_dir": str(tmp_path)}
    train({**small(12_000, threaded=True), "checkpoint_settings": where}, env="3DBall", callbacks=[asks], quiet=True)
    assert [answer.done for answer in answers(run)] == [True, True, True], [answer.outcome for answer in answers(run)]
    stopped, step = state_of(run)
    assert (stopped, step < 12_000) == ("stopped", True)
    assert rates(run)[-1] < rates(run)[0]  # a summary's mean may still count an update from before
    train({**small(12_000, threaded=True), "checkpoint_settings": {**where, "resume": True}}, env="3DBall", quiet=True)
    assert state_of(run) == ("finished", 12_000)
    assert rates(run)[-1] == 2e-5


@pytest.mark.slow
def test_all_ranks_obey(tmp_path):
    file = tmp_path / "settings.yaml"
    run = tmp_path / "ranks"
    file.write_text(yaml.safe_dump(small(120_000)))
    command = [sys.executable, "-m", "palaestra", "learn", str(file), "--env=3DBall", "--processes=2", "--run-id=ranks"]
    command.append(f"--results-dir={tmp_path}")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, **pipes, text=True)
    try:
        for requests, share in ((CHANGES, 0.02), ([RunRequest("stop")], 0.3)):
            end = time.monotonic() + 60
            while (progress := read_progress(run)) is None or progress["behaviors"]["3DBall"]["step"] < share * 120_000:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < end
                time.sleep(0.05)
            for request in requests:
                ask(run, request)
        output, _ = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert [answer.done for answer in answers(run)] == [True, True, True], [answer.outcome for answer in answers(run)]
    assert state_of(run)[0] == "stopped"
    assert rates(run)[-1] == 2e-5
    resumed = subprocess.run([*command, "--resume"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert state_of(run) == ("finished", 120_000)
    assert rates(run)[-1] == 2e-5
