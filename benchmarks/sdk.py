"""Agent-steps/s of a game in Python in this process and as a process of its own, driven by the same fixed actions.
Prints JSON.

    python benchmarks/sdk.py [--agents 1 12 100] [--areas 1] [--seconds 5] [--repeat 3]

The game is this file: agents that see 8 numbers and do 2, at a decision a step. The best stretch of TICKS counts, of
all repeats: whatever else the machine does only slows it down.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from palaestra import sdk

if TYPE_CHECKING:
    from palaestra.envs.base import Env

TICKS = 200


class Mover(sdk.Agent):
    """Agent on a plane that is pulled to a given position."""

    behavior = sdk.Behavior("Mover", observations=8, continuous=2)
    decision_period = 1
    max_step = 200

    def on_episode_begin(self) -> None:
        self.x = self.y = self.vx = self.vy = 0.0
        self.to_x, self.to_y = self.academy.random.uniform(-1, 1), self.academy.random.uniform(-1, 1)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.x, self.y, self.vx, self.vy, self.to_x, self.to_y, self.x - self.to_x, self.y - self.to_y)

    def on_action_received(self, actions: sdk.Actions) -> None:
        ax, ay = actions.continuous
        self.vx = 0.9 * self.vx + 0.05 * ax
        self.vy = 0.9 * self.vy + 0.05 * ay
        self.x = self.x + self.vx
        self.y = self.y + self.vy
        self.add_reward(-abs(self.x - self.to_x) - abs(self.y - self.to_y))


@sdk.game
def movers(academy: sdk.Academy, agents: int = 1) -> None:
    """Agents that move to given positions."""
    for _ in range(agents):
        academy.add(Mover())


def rate(env: Env, seconds: float) -> float:
    """Returns the agent-steps/s with the same actions on every tick, in the best stretch of TICKS."""
    import torch

    from palaestra.core.timestep import Action

    slots = len(env.reset(0)["Mover"].reward)
    action = {"Mover": Action(torch.full((slots, 2), 0.1), torch.zeros(slots, 0, dtype=torch.int64))}
    for _ in range(TICKS):
        env.step(action)
    best = 0.0
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        done = sum(int(env.step(action)["Mover"].acting.sum()) for _ in range(TICKS))
        best = max(best, done / (time.perf_counter() - start))
    return best


def measure(agents: int, areas: int, seconds: float, repeat: int) -> dict[str, float]:
    """Measures both ways, alternating."""
    from palaestra.envs.unity.env import UnityEnv
    from palaestra.envs.unity.options import UnityOptions

    here = []
    there = []
    options = UnityOptions(executable=os.path.abspath(__file__), args=("--agents", str(agents)), areas=areas)
    for _ in range(repeat):
        env = movers(areas, agents=agents)
        here.append(rate(env, seconds))
        env.close()
        env = UnityEnv(options, log=lambda *_: None)
        there.append(rate(env, seconds))
        env.close()
    best = max(here)
    other = max(there)
    return {
        "agents": agents,
        "areas": areas,
        "in_process": round(best),
        "as_process": round(other),
        "ratio": round(best / other, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 12, 100])
    parser.add_argument("--areas", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rows = [
        measure(agents, areas, options.seconds, options.repeat) for agents in options.agents for areas in options.areas
    ]
    print(
        json.dumps(
            {"cores": os.cpu_count(), "seconds": options.seconds, "repeat": options.repeat, "rates": rows}, indent=1
        )
    )


if __name__ == "__main__":
    if "--mlagents-port" in sys.argv:
        movers.play()
    else:
        main()
