import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]


def start(folder: Path, run_id: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a run of two ranks."""
    given = [*arguments, f"--run-id={run_id}", f"--results-dir={folder}"]
    return subprocess.Popen(
        [*COMMAND, *given], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def new(folder: Path, run_id: str, steps: int = 24_000, *more: str) -> subprocess.Popen[str]:
    """Starts a new run."""
    file = folder / "settings.yaml"
    block = {
        "hyperparameters": {"batch_size": 100, "buffer_size": 1000},
        "checkpoint_interval": 3000,
        "summary_freq": 1000,
    }
    file.write_text(yaml.safe_dump(settings("3DBall", steps, **block)))
    return start(folder, run_id, str(file), "--env=3DBall", "--processes=2", "--seed=5", *more)


def ranks_of(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Returns the ranks of a run."""
    return [child for child in psutil.Process(process.pid).children() if "palaestra" in child.cmdline()]


def timeless(run: Path) -> dict[str, Any]:
    """Returns what the newest checkpoint of a run holds of all ranks, but for their clocks."""
    whole = state(run)
    for other in whole["run"]["ranks"]["others"]:
        other["content"] = json.loads(other["content"])
        del other["content"]["run"]["elapsed"]
    return whole


def saved_steps(run: Path) -> list[int]:
    return [int(saved.name) for saved in (run / "checkpoints").glob("[0-9]*")]


def summaries(run: Path) -> list[int]:
    """Returns the steps of a run's summaries."""
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def until(met: Callable[[], object]) -> None:
    """Waits until a condition is met."""
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(process: subprocess.Popen[str], *statuses: int) -> str:
    """Waits for the end of a run with one of these statuses and returns what it printed: one error if it failed."""
    text = process.communicate(timeout=100)[0]
    assert process.returncode in statuses, text
    assert text.count("error:") == process.returncode % 2, text
    return text


def all_gone(children: list[psutil.Process]) -> bool:
    return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)


def same_training(folder: Path) -> bool:
    """Whether the runs 'whole' and 'killed' have learned the same."""
    assert summaries(folder / "killed") == summaries(folder / "whole")
    return not differences(timeless(folder / "whole"), timeless(folder / "killed"))


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "threaded"), [(0, "false"), (1, "false"), (1, "true")])
def test_a_run_whose_rank_is_killed_says_so_and_goes_on_as_if_it_had_not_been(tmp_path: Path, rank: int, threaded: str):
    given = "--set", f"behaviors.*.threaded={threaded}"
    whole = new(tmp_path, "whole", 24_000, *given)
    ended(whole, 0)
    killed = new(tmp_path, "killed", 24_000, *given)
    until((tmp_path / "killed" / "checkpoints" / "0").exists)
    time.sleep(0.5 + random.random())
    children = ranks_of(killed)
    children[rank].kill()
    text = ended(killed, 1)
    assert f"rank {rank} of 2" in text
    assert "--resume" in text
    assert all_gone(children)
    ended(start(tmp_path, "killed", "--resume"), 0)
    assert same_training(tmp_path)


@pytest.mark.slow
def test_ctrl_c_saves_all_ranks_and_another_number_of_them_goes_on(tmp_path: Path):
    stopped = new(tmp_path, "run")
    until((tmp_path / "run" / "checkpoints" / "0").exists)
    stopped.send_signal(signal.SIGINT)
    assert ended(stopped, 0, 130).count("Stopped at step") == 1
    text = ended(start(tmp_path, "run", "--resume", "--set", "torch_settings.processes=1"), 0)
    assert "was trained in 2 processes and continues in 1: episodes start again" in text.replace("\n", " ")
    assert (tmp_path / "run" / "3DBall.onnx").is_file()


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_in_two_from_the_step_that_it_had(tmp_path: Path):
    ended(new(tmp_path, "run", 3000, "--processes=1"), 0)
    text = ended(start(tmp_path, "run", "--resume", "--processes=2", "--set", "behaviors.*.max_steps=6000"), 0)
    assert "was trained in 1 process and continues in 2: episodes start again" in text.replace("\n", " ")
    assert summaries(tmp_path / "run") == [*range(1000, 6001, 1000)]


@pytest.mark.slow
def test_torchrun_starts_ranks(tmp_path: Path):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings("3DBall", 1000)))
    learn = ["-m", "palaestra", "learn", str(file), "--env=3DBall", f"--results-dir={tmp_path}", "--run-id=run"]
    done = subprocess.run(
        [*TORCHRUN, *learn],
        capture_output=True, text=True, timeout=100, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Starting 'run' from step 0") == 1
    assert (tmp_path / "run" / "3DBall.onnx").is_file()


@pytest.mark.slow
def test_ranks_that_torchrun_starts_again_go_on_as_if_none_had_been_killed(tmp_path: Path):
    ended(new(tmp_path, "whole"), 0)
    learn = ["-m", "palaestra", "learn", str(tmp_path / "settings.yaml"), "--env=3DBall", "--seed=5"]
    command = [*TORCHRUN, "--max-restarts=2", *learn, f"--results-dir={tmp_path}", "--run-id=killed"]
    agent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for step in (1, 9000):
        until(lambda step=step: max(saved_steps(tmp_path / "killed"), default=0) >= step)
        until(lambda: ranks_of(agent))
        random.choice(ranks_of(agent)).kill()
    assert agent.wait(100) == 0
    assert same_training(tmp_path)


@pytest.mark.slow
def test_ranks_save_and_end_when_the_process_that_started_them_is_killed(tmp_path: Path):
    launcher = new(tmp_path, "run", 10_000_000)
    until((tmp_path / "run" / "metrics.jsonl").exists)  # they have met, and have steps to save
    children = ranks_of(launcher)
    launcher.kill()
    launcher.communicate()
    assert not psutil.wait_procs(children, 60)[1]
    assert max(saved_steps(tmp_path / "run")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_hangs_is_named(tmp_path: Path, rank: int):
    run = new(tmp_path, "run", 10_000_000, "--rank-timeout=3")
    until((tmp_path / "run" / "checkpoints" / "0").exists)
    children = ranks_of(run)
    children[rank].suspend()
    assert f"rank {rank} of 2 has ended or hangs" in ended(run, 1)
    assert all_gone(children)


@pytest.mark.slow
def test_the_traceback_of_a_rank_that_fails_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "game.py").write_text(
        "import os\nfrom palaestra.envs.builtin.basic.env import Basic\n\nclass Game(Basic):\n    def step(self, "
        "actions):\n        1 / (1 - int(os.environ['RANK']))\n        return super().step(actions)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings("Basic", 1000)))
    process = start(tmp_path, "run", str(file), "--env=python:game:Game", "--num-areas=4", "--processes=2")
    text = ended(process, 1)
    assert "rank 1 of 2: " in text
    assert "ZeroDivisionError" in text
    assert "game.py" in text


@pytest.mark.slow
def test_more_ranks_than_areas_are_refused_in_one_message(tmp_path: Path):
    assert "2 processes need at least 2 areas; got 1 (--num-areas)" in ended(
        new(tmp_path, "run", 1000, "--num-areas=1"), 1
    )


def test_all_gpus_are_refused_where_there_are_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ConfigError, match=r"^--multi-gpu: this machine has 0 GPUs"):
        count_of(TorchSettings(gpus=-1))


def test_more_gpus_than_there_are_are_refused():
    with pytest.raises(ConfigError, match="--gpus=999: this machine has"):
        count_of(TorchSettings(gpus=999))
    with pytest.raises(ConfigError, match="differ"):
        count_of(TorchSettings(gpus=2, processes=3))
