from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from small_runs import differences, settings, state

from palaestra.core.errors import ConfigError
from palaestra.runtime.run.rank_launch import count_of
from palaestra.runtime.settings.tree import TorchSettings

COMMAND = [sys.executable, "-m", "palaestra", "learn"]


def start(folder: Path, run_id: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a run of two ranks."""
    given = [*arguments, f"--run-id={run_id}", f"--results-dir={folder}"]
    return subprocess.Popen([*COMMAND, *given], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def new(folder: Path, run_id: str, steps: int = 24_000, *more: str) -> subprocess.Popen[str]:
    """Starts a new run."""
    file = folder / "settings.yaml"
    block = {"hyperparameters": {"batch_size": 100, "buffer_size": 1000}, "checkpoint_interval": 3000, "summary_freq": 1000}
    file.write_text(yaml.safe_dump(settings("3DBall", steps, **block)))
    return start(folder, run_id, str(file), "--env=3DBall", "--processes=2", "--seed=5", *more)


def ranks_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Returns the ranks of a run."""
    return [child for child in psutil.Process(process.pid).children() if "palaestra" in child.cmdline()]


def timeless(run: Path) -> dict[str, Any]:
    """Returns what the newest checkpoint of a run holds of all ranks, but for their clocks."""
    whole = state(run)
    for other in whole["run"]["ranks"]["others"]:
        other["content"] = json.loads(other["content"])
        del other["content"]["run"]["elapsed"]
    return whole


def summaries(run: Path) -> list[int]:
    """Returns the steps of a run's summaries."""
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def wait_for(file: Path) -> None:
    """Waits until a file or folder is there."""
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_run_whose_rank_is_killed_says_so_and_goes_on_as_if_it_had_not_been(tmp_path: Path, rank: int):
    whole = new(tmp_path, "whole")
    assert "error" not in whole.communicate(timeout=100)[0]
    killed = new(tmp_path, "killed")
    wait_for(tmp_path / "killed" / "checkpoints" / "0")
    time.sleep(0.5 + random.random())
    children = ranks_of(killed)
    children[rank].kill()
    text = killed.communicate(timeout=100)[0]
    assert killed.returncode == 1, text
    assert text.count("error:") == 1, text
    assert f"rank {rank} of 2" in text
    assert "--resume" in text
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    resumed = start(tmp_path, "killed", "--resume")
    text = resumed.communicate(timeout=100)[0]
    assert resumed.returncode == 0, text
    assert summaries(tmp_path / "killed") == summaries(tmp_path / "whole")
    assert not differences(timeless(tmp_path / "whole"), timeless(tmp_path / "killed"))


def test_ctrl_c_saves_all_ranks_and_another_number_of_them_goes_on(tmp_path: Path):
    stopped = new(tmp_path, "run")
    wait_for(tmp_path / "run" / "checkpoints" / "0")
    stopped.send_signal(signal.SIGINT)
    text = stopped.communicate(timeout=100)[0]
    assert stopped.returncode in (0, 130), text
    assert text.count("Training was stopped") == 1
    alone = start(tmp_path, "run", "--resume", "--set", "torch_settings.processes=1")
    text = alone.communicate(timeout=100)[0]
    assert alone.returncode == 0, text
    assert "was trained in 2 processes and goes on in 1: episodes begin anew" in text.replace("\n", " ")
    assert (tmp_path / "run" / "3DBall.onnx").is_file()


def test_torchrun_starts_ranks(tmp_path: Path):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings("3DBall", 1000)))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "palaestra", "learn", str(file)]
    done = subprocess.run(
        [*command, "--env=3DBall", f"--results-dir={tmp_path}", "--run-id=run"],
        capture_output=True, text=True, timeout=100, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Starting 'run' from step 0") == 1
    assert (tmp_path / "run" / "3DBall.onnx").is_file()


def test_more_ranks_than_areas_are_refused_in_one_message(tmp_path: Path):
    process = new(tmp_path, "run", 1000, "--num-areas=1")
    text = process.communicate(timeout=100)[0]
    assert process.returncode == 1
    assert text.count("error:") == 1
    assert "2 processes cannot share 1 areas" in text


def test_more_gpus_than_there_are_are_refused():
    with pytest.raises(ConfigError, match="--gpus=999: this machine has"):
        count_of(TorchSettings(gpus=999))
    with pytest.raises(ConfigError, match="differ"):
        count_of(TorchSettings(gpus=2, processes=3))
