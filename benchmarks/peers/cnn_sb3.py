"""Stable-Baselines3's PPO update on images. usage: cnn_sb3.py MINIBATCH THREADS 32"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from updates import ACTIONS, EPOCHS, FEATURES, IMAGE, IMAGES, report


class Spaces(gymnasium.Env):
    """Environment with the shapes only; it is never stepped."""

    observation_space = gymnasium.spaces.Box(0, 255, IMAGE, np.uint8)
    action_space = gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32)


def main(minibatch: int, threads: int, bits: int) -> None:
    if bits != 32:
        sys.exit("Stable-Baselines3 computes in 32 bits")
    torch.set_num_threads(threads)
    policy = {"net_arch": [], "features_extractor_kwargs": {"features_dim": FEATURES}}
    model = PPO(
        "CnnPolicy",
        Spaces(),
        n_steps=IMAGES,
        batch_size=minibatch,
        n_epochs=EPOCHS,
        policy_kwargs=policy,
        seed=0,
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    buffer, rng = model.rollout_buffer, np.random.default_rng(0)
    buffer.observations[:] = rng.integers(0, 256, buffer.observations.shape)

    def learn() -> None:
        pictures = buffer.observations
        buffer.reset()
        buffer.observations = pictures.reshape(IMAGES, 1, *IMAGE)  # noise, in whatever order
        for name in ("actions", "values", "advantages", "returns"):
            column = getattr(buffer, name)
            column[:] = rng.standard_normal(column.shape)
        buffer.log_probs[:] = -2.8
        buffer.pos, buffer.full = IMAGES, True
        model.train()

    report("sb3", learn, EPOCHS * IMAGES, minibatch=minibatch, threads=threads, bits=bits)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
