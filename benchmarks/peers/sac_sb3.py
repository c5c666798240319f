"""Stable-Baselines3's SAC gradient steps on decisions of noise. usage: sac_sb3.py GAME THREADS"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn
from updates import GAMMA, SOFT, STORED, TAU, Soft, report


class Simple(BaseFeaturesExtractor):
    """The simple encoder's convolutions and dense layer."""

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__(space, 256)
        first, second = nn.Conv2d(space.shape[0], 16, 8, 4), nn.Conv2d(16, 32, 4, 2)
        rest = (nn.LeakyReLU(), second, nn.LeakyReLU(), nn.Flatten(), nn.Linear(288, 256), nn.LeakyReLU())
        self.layers = nn.Sequential(first, *rest)

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Spaces(gymnasium.Env):
    """Environment with the shapes only; it is never stepped."""

    def __init__(self, shape: Soft) -> None:
        image = len(shape.obs) == 3
        kind = (0, 255, shape.obs, np.uint8) if image else (-np.inf, np.inf, shape.obs, np.float32)
        self.observation_space = gymnasium.spaces.Box(*kind)
        self.action_space = gymnasium.spaces.Box(-1, 1, (shape.actions,), np.float32)


def main(game: str, threads: int) -> None:
    torch.set_num_threads(threads)
    shape = SOFT[game]
    image = len(shape.obs) == 3
    policy = {"net_arch": [shape.units] * shape.layers, "activation_fn": nn.SiLU}
    if image:
        policy |= {"features_extractor_class": Simple, "share_features_extractor": False}
    model = SAC(
        "CnnPolicy" if image else "MlpPolicy",
        Spaces(shape),
        learning_rate=shape.rate,
        buffer_size=STORED,
        batch_size=shape.batch,
        tau=TAU,
        gamma=GAMMA,
        ent_coef=f"auto_{shape.entropy_coef}",
        policy_kwargs=policy,
        seed=0,
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    buffer, rng = model.replay_buffer, np.random.default_rng(0)
    for name in ("observations", "next_observations"):
        column = getattr(buffer, name)
        column[:] = 255 * (rng.random(column.shape) < 0.01) if image else rng.standard_normal(column.shape)
    for name in ("actions", "rewards"):
        column = getattr(buffer, name)
        column[:] = rng.uniform(-1, 1, column.shape)
    buffer.full = True
    report("sb3", lambda: model.train(shape.steps, shape.batch), shape.steps, rounds=9, game=game, threads=threads)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
