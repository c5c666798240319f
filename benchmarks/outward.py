"""Agent-steps/s of `gymnasium.make_vec` beside those of the built-in environment alone, with the same ready-made actions.

python benchmarks/outward.py
"""

import time
from statistics import median

import gymnasium
import torch

import palaestra
from palaestra.core.timestep import Action

AREAS, TICKS, ROUNDS = 1024, 500, 7


def main() -> None:
    for name in ("3DBall", "PushBlock"):
        env, envs = palaestra.make(name, areas=AREAS), gymnasium.make_vec(f"palaestra/{name}-v0", num_envs=AREAS)
        (behavior,) = env.reset(0)
        envs.reset(seed=0)
        arrays = [envs.action_space.sample() for _ in range(16)]
        actions = [_action(array) for array in arrays]
        pairs = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for i in range(TICKS):
                env.step({behavior: actions[i % 16]})
            middle = time.perf_counter()
            for i in range(TICKS):
                envs.step(arrays[i % 16])
            pairs.append((AREAS * TICKS / (middle - begin), AREAS * TICKS / (time.perf_counter() - middle)))
        bare, vector = (median(column) for column in zip(*pairs, strict=True))
        print(f"{name}: {bare / 1e6:.2f} million agent-steps/s alone, {vector / 1e6:.2f} through make_vec ({vector / bare:.0%})")


def _action(array) -> Action:
    values = torch.from_numpy(array)
    if values.is_floating_point():
        return Action(values, torch.zeros(len(values), 0, dtype=torch.int64))
    return Action(torch.zeros(len(values), 0), values[:, None])


if __name__ == "__main__":
    main()
