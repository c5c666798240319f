"""Agent-steps per CPU second of `gymnasium.make_vec` beside those of the built-in environment alone, with the same
ready-made actions.

python benchmarks/outward.py [NAME ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch

import palaestra.gymnasium
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.interop.built_ins import built_in_names

AGENTS, ROUNDS, SECONDS = 1024, 7, 0.5


def main(names: list[str]) -> None:
    for name in names:
        try:
            bare, vector = _rates(name)
        except EnvError as error:
            print(f"{name}: no vector environment ({str(error).partition(':')[0]})", flush=True)
        else:
            print(
                f"{name}: {bare:.3f} million agent-steps/s alone, {vector:.3f} through make_vec ({vector / bare:.0%})",
                flush=True,
            )


def _rates(name: str) -> tuple[float, float]:
    """Returns millions of agent-steps per CPU second, alone and through make_vec."""
    areas = AGENTS // _agents_per_area(name)
    num_envs = areas * _agents_per_area(name)
    envs = gymnasium.make_vec(f"palaestra/{name}-v0", num_envs=num_envs)
    env = palaestra.make(name, areas=areas)
    behaviors = list(env.reset(0))
    envs.reset(seed=0)
    arrays = [envs.action_space.sample() for _ in range(16)]
    actions = [dict.fromkeys(behaviors, _action(array)) for array in arrays]
    ticks = max(16, round(SECONDS / max(1e-6, _seconds(env.step, actions, 16) / 16)))
    pairs = [(_seconds(env.step, actions, ticks), _seconds(envs.step, arrays, ticks)) for _ in range(ROUNDS)]
    bare, vector = (num_envs * ticks / median(column) / 1e6 for column in zip(*pairs, strict=True))
    envs.close()
    return bare, vector


def _agents_per_area(name: str) -> int:
    return sum(int(step.acting.sum()) for step in palaestra.make(name, areas=1).reset(0).values())


def _seconds(step: Callable[[Any], object], actions: list[Any], ticks: int) -> float:
    """Returns the CPU seconds of some ticks, which other programs on the machine disturb less than a clock's."""
    begin = time.process_time()
    for i in range(ticks):
        step(actions[i % len(actions)])
    return time.process_time() - begin


def _action(array: np.ndarray | dict[str, np.ndarray]) -> Action:
    parts = array if isinstance(array, dict) else {"continuous" if array.dtype.kind == "f" else "discrete": array}
    size = len(next(iter(parts.values())))
    numbers = torch.from_numpy(parts["continuous"]) if "continuous" in parts else torch.zeros(size, 0)
    choices = (
        torch.from_numpy(parts["discrete"]).reshape(size, -1)
        if "discrete" in parts
        else torch.zeros(size, 0, dtype=torch.int64)
    )
    return Action(numbers, choices)


if __name__ == "__main__":
    main(sys.argv[1:] or built_in_names())
