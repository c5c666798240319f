"""Copies of a game in runners on a Ray cluster of three nodes, all on this machine: `python benchmarks/runners.py`.

The game (examples/sdk_roll.py) sleeps 10 ms a step and has one agent. Decisions per second of 16 copies, in 4, 8 and 16
runners and in processes without Ray, against one copy without Ray; each measured for ten seconds, twice, in turn.
Random actions, no learning.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import torch

from palaestra.core.timestep import Action
from palaestra.envs.runners.runner_options import RunnerOptions
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings

ROOT = Path(__file__).parents[1]
GAME = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from examples import sdk_roll
from palaestra import sdk

class Slow(sdk_roll.Roller):
    decision_period = 1

@sdk.game(parameters={{"drag": 0.1}})
def roll(academy):
    roller = academy.add(Slow(academy))
    @academy.on_step
    def physics():
        time.sleep(0.01)
        roller.roll(0.1)

roll.play()
"""


def measure(game: str, copies: int, runners: RunnerOptions | None, seconds: float) -> float:
    """Returns decisions per second."""
    env = make_env(game, games=GameSettings(UnityOptions(copies=copies), (), lambda _level, _text: None, runners))
    try:
        steps = env.reset(1)
        begun = time.perf_counter()
        decisions = 0
        ready = False
        while time.perf_counter() - begun < seconds:
            slots = len(steps["Roll"].acting)
            steps = env.step({"Roll": Action(torch.rand(slots, 1), torch.zeros(slots, 0, dtype=torch.int64))})
            if ready:
                decisions += int(steps["Roll"].acting.sum())
            elif slots == copies and time.perf_counter() - begun > 1:  # all have started
                begun = time.perf_counter()
                ready = True
        return decisions / (time.perf_counter() - begun)
    finally:
        env.close()


def main() -> None:
    """Prints one line for each kind of copies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 8, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=8)
    kinds: dict[str, tuple[int, int | None]] = {
        "1 copy, no runner": (1, None),
        "16 copies, no runner": (16, None),
        "16 copies, 4 runners": (16, 4),
        "16 copies, 8 runners": (16, 8),
        "16 copies, 16 runners": (16, 16),
    }
    with tempfile.TemporaryDirectory() as folder:
        game = Path(folder) / "slow_roll.py"
        game.write_text(GAME)
        for _ in range(given.rounds):
            first = 0.0
            for name, (copies, runners) in kinds.items():
                options = None if runners is None else RunnerOptions(runners, cluster.address)
                rate = measure(str(game), copies, options, given.seconds)
                first = first or rate
                print(f"{name:22} {rate:7.0f} decisions/s, {rate / first:5.2f} times one copy", flush=True)


if __name__ == "__main__":
    main()
