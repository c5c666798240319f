"""A copy, a runner and a machine are killed in turn: the run goes on, learns, and counts nothing twice.

Game: balls on a rail (`examples/sdk_roll.py`), 10 ms a step, 9 copies with 4 balls each in 6 runners on a Ray cluster
of three nodes. 100,000 decisions, seed 3; a random policy earns -2, the bar is 1.2.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
COPIES = 9
RUNNERS = 6
BALLS = 4
EPISODE = 200
STEPS = 100_000
GAME = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from examples import sdk_roll
from palaestra import sdk

ledger = open(os.path.join({{folder!r}}, f"{{{{os.getpid()}}}}.ledger"), "ab", buffering=0)

class Booked(sdk_roll.Roller):
    decision_period = 1
    max_step = {EPISODE}
    def on_action_received(self, actions):
        ledger.write(b".")
        super().on_action_received(actions)

@sdk.game(parameters={{{{"drag": 0.1}}}})
def roll(academy):
    rollers = [academy.add(Booked(academy)) for _ in range({BALLS})]
    @academy.on_step
    def physics():
        time.sleep(0.01)
        for roller in rollers:
            roller.roll(0.1)

roll.play()
"""


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A Ray cluster of three nodes on this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("ray")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=4)
        yield cluster
        cluster.shutdown()


def find(word: str) -> list[psutil.Process]:
    """Processes with a word on their command line that run."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        one
        for one in found
        if one.info["status"] != psutil.STATUS_ZOMBIE and word in " ".join(one.info["cmdline"] or ())
    ]


def wait_for(line: str, log: Path, process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    """Waits until the log has a line."""
    deadline = time.monotonic() + seconds
    while line not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


@pytest.mark.slow
def test_a_copy_a_runner_and_a_machine_are_killed_and_the_run_goes_on(nodes: Any, tmp_path: Path):
    game = tmp_path / "booked_roll.py"
    log = tmp_path / "run.log"
    game.write_text(GAME.format(folder=str(tmp_path)))
    command = [
        sys.executable,
        "-m",
        "palaestra",
        "learn",
        str(ROOT / "configs/sdk/roll.yaml"),
        f"--env={game}",
        "--run-id=kills",
        "--seed=3",
    ]
    command += [
        f"--num-envs={COPIES}",
        f"--env-runners={RUNNERS}",
        f"--ray-address={nodes.address}",
        f"--results-dir={tmp_path}",
    ]
    command += [f"--set=behaviors.Roll.max_steps={STEPS}", "--set=behaviors.Roll.summary_freq=1000"]
    with log.open("wb") as output:
        run = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    try:
        wait_for("Step: 5000.", log, run)
        find(game.name + " --mlagents-port")[0].kill()
        wait_for("copy", log, run)
        wait_for("Step: 15000.", log, run)
        find("ray::EnvRunner")[0].send_signal(signal.SIGKILL)
        wait_for("(restart 1)", log, run)
        wait_for("Step: 30000.", log, run)
        nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
        assert run.wait(timeout=600) == 0, log.read_text(errors="replace")[-3000:]
    finally:
        run.kill()
        run.wait()
    times = [float(found) for found in re.findall(r"Time Elapsed: ([\d.]+) s", log.read_text(errors="replace"))]
    assert max(later - earlier for earlier, later in pairwise(times)) < 10
    rows = [json.loads(line) for line in (tmp_path / "kills" / "metrics.jsonl").read_text().splitlines()]
    rewards = [row["Environment/Cumulative Reward"] for row in rows if "Environment/Cumulative Reward" in row]
    assert sum(rewards[-5:]) / 5 > 1.2
    played = sum(file.stat().st_size for file in tmp_path.glob("*.ledger"))
    # played but not counted: open episodes of a copy, of a runner's two and of a machine's six, and those at the end
    unfinished = (1 + 2 + 6 + COPIES) * BALLS * EPISODE
    assert STEPS <= played <= STEPS + COPIES * BALLS + unfinished
    assert find(game.name) == []
