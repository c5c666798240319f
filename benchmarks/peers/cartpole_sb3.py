"""Stable-Baselines3's PPO with RL Zoo's settings for CartPole-v1. usage: cartpole_sb3.py SEED"""

from __future__ import annotations

import sys

import torch
from race import Race
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

BUDGET = 100_000  # the zoo's: learning rate and clip range fall to 0 over it


class Watch(BaseCallback):
    """Reads each episode's return from SB3's own monitor and stops at the goal."""

    def __init__(self, race: Race) -> None:
        super().__init__()
        self.race = race

    def _on_step(self) -> bool:
        self.race.took(self.training_env.num_envs)
        for info in self.locals["infos"]:
            if "episode" in info:
                self.race.ended(info["episode"]["r"])
        return not self.race.over


def main(seed: int) -> None:
    torch.set_num_threads(1)
    race = Race("sb3", seed)
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        seed=seed,
        device="cpu",
    )
    race.start()
    model.learn(BUDGET, callback=Watch(race))
    race.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]))
