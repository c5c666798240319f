"""Stable-Baselines3 with RL Zoo's settings, until it reaches the bar of an environment. usage: bar_sb3.py GAME SEED

Settings: https://github.com/DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml and sac.yml; LunarLander's are those of v2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bar import Course
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


def linear(start: float) -> Callable[[float], float]:
    """Returns a schedule that falls to 0 at the end of training."""
    return lambda left: start * left


ZOO: dict[str, tuple[type[PPO] | type[SAC], int, int, bool, dict[str, Any]]] = {
    "CartPole-v1": (
        PPO,
        100_000,
        8,
        False,
        {
            "n_steps": 32,
            "batch_size": 256,
            "n_epochs": 20,
            "gamma": 0.98,
            "gae_lambda": 0.8,
            "ent_coef": 0.0,
            "learning_rate": linear(1e-3),
            "clip_range": linear(0.2),
        },
    ),
    "Acrobot-v1": (
        PPO,
        1_000_000,
        16,
        True,
        {"n_steps": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.94, "ent_coef": 0.0},
    ),
    "Pendulum-v1": (SAC, 20_000, 1, False, {"learning_rate": 1e-3}),
    "LunarLander-v3": (
        PPO,
        1_000_000,
        16,
        False,
        {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01},
    ),
}
"""Algorithm, decisions, copies, whether observations and rewards are normalized, and what differs from defaults."""


class Watch(BaseCallback):
    """Reads each episode's return from SB3's own monitor and stops at the bar."""

    def __init__(self, course: Course) -> None:
        super().__init__()
        self.course = course

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.course.ended(info["episode"]["r"])
        return not (self.course.is_due(self.num_timesteps) and self.course.look(self.num_timesteps, self._act))

    def _act(self, obs: np.ndarray) -> np.ndarray:
        normalizer = self.model.get_vec_normalize_env()
        seen = obs if normalizer is None else normalizer.normalize_obs(obs)
        return self.model.predict(seen, deterministic=True)[0]


def main(game: str, seed: int) -> None:
    torch.set_num_threads(1)
    algorithm, budget, copies, normalized, settings = ZOO[game]
    course = Course("sb3", game, seed, budget)
    env = make_vec_env(game, n_envs=copies, seed=seed)
    if normalized:
        env = VecNormalize(env, gamma=settings["gamma"])
    model = algorithm("MlpPolicy", env, seed=seed, device="cpu", **settings)
    course.start()
    model.learn(budget, callback=Watch(course))
    course.report()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
