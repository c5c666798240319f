"""SIGKILL at any moment never leaves a run that does not resume, and the resumed run ends as one that was never
killed.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import differences, settings, state, write

INTERVAL = 400


def start(run: Path) -> subprocess.Popen[str]:
    """`palaestra learn`; with --resume where a run was begun: a kill may come before its first file."""
    more = (
        ["--resume"]
        if (run / "configuration.yaml").exists()
        else [str(run.parents[1] / "settings.yaml"), "--env=Basic", "--seed=5", "--num-areas=4"]
    )
    command = [sys.executable, "-m", "palaestra", "learn", f"--run-id={run.name}", f"--results-dir={run.parent}", *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def wait_for_writing(run: Path, process: subprocess.Popen[str]) -> None:
    """Until a checkpoint is being written, or the process ends."""
    while process.poll() is None and not any((run / "checkpoints").glob(".*")):
        time.sleep(0.0002)


def kill_at_some_moment(run: Path, chance: random.Random) -> bool:
    """Whether it was killed; False: it had ended before."""
    process = start(run)
    kind = chance.random()
    if kind < 0.4:
        wait_for_writing(run, process)
        time.sleep(chance.choice((0, 0, 0.001, 0.003)))
    else:
        time.sleep(chance.uniform(0.3, 2.0 if kind < 0.6 else 5.0))
    process.kill()
    said, complaint = process.communicate()
    assert complaint == "", f"after {said}"
    assert process.returncode in (0, -9)
    return process.returncode == -9


def finish(run: Path) -> None:
    process = start(run)
    said, complaint = process.communicate()
    assert process.returncode == 0, said + complaint


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.parametrize(("kills", "steps"), [(1, 1000), (100, 12_000)])
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(kills: int, steps: int, tmp_path: Path):
    write(str(tmp_path / "settings.yaml"), settings("Basic", steps, checkpoint_interval=INTERVAL, summary_freq=1000))
    finish(tmp_path / "results" / "whole")
    whole = state(tmp_path / "results" / "whole")
    chance = random.Random(kills)
    survived = 0
    runs = 0
    while survived < kills:
        run = tmp_path / "results" / f"run{runs}"
        while survived < kills and kill_at_some_moment(run, chance):
            survived += 1
        finish(run)
        assert differences(state(run), whole) == []
        assert [*run.rglob(".*")] == []  # nor is anything half written left lying about
        runs += 1
    print(f"{survived} kills survived by {runs} runs")
