"""Stable-Baselines3's PPO update alone: 12,288 rows, 8-128-128 actor and critic, two continuous actions. usage:
update_sb3.py MINIBATCH
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger

ROWS, EPOCHS, ROUNDS = 12_288, 3, 4


class Spaces(gymnasium.Env):
    """Environment with the shapes only; it is never stepped."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)


def main(minibatch: int) -> None:
    torch.set_num_threads(1)
    nets = {"pi": [128, 128], "vf": [128, 128]}
    model = PPO(
        "MlpPolicy",
        Spaces(),
        n_steps=ROWS,
        batch_size=minibatch,
        n_epochs=EPOCHS,
        policy_kwargs={"net_arch": nets},
        seed=0,
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    rates = []
    for _ in range(ROUNDS):
        buffer, rng = model.rollout_buffer, np.random.default_rng(0)
        buffer.reset()
        for name in ("observations", "actions", "values", "advantages", "returns"):
            column = getattr(buffer, name)
            column[:] = rng.standard_normal(column.shape)
        buffer.log_probs[:] = -2.8
        buffer.pos, buffer.full = ROWS, True
        began = time.process_time()
        model.train()
        rates.append(ROWS * EPOCHS / (time.process_time() - began))
    print(json.dumps({"peer": "sb3", "minibatch": minibatch, "samples_per_cpu_s": round(statistics.median(rates[1:]))}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
