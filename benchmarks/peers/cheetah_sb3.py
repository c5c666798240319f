"""Stable-Baselines3's PPO on HalfCheetah-v5, with its own vector environments. usage: cheetah_sb3.py MINIBATCH
serial|parallel
"""

from __future__ import annotations

import sys

import torch
from cheetah import CLIP, COPIES, EPOCHS, GAME, GAMMA, LAMBDA, NORM, RATE, TICKS, UNITS, Meter
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize


class Cycles(BaseCallback):
    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter, self.over, self.begun = meter, False, False

    def _on_rollout_start(self) -> None:
        if self.begun:
            self.over = self.meter.cycle()
        self.begun = True

    def _on_step(self) -> bool:
        return not self.over


def main(minibatch: int, way: str) -> None:
    torch.set_num_threads(1)
    games = make_vec_env(GAME, COPIES, seed=0, vec_env_cls=SubprocVecEnv if way == "parallel" else DummyVecEnv)
    model = PPO(
        "MlpPolicy",
        VecNormalize(games),
        learning_rate=RATE,
        n_steps=TICKS,
        batch_size=minibatch,
        n_epochs=EPOCHS,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        clip_range=CLIP,
        max_grad_norm=NORM,
        policy_kwargs={"net_arch": [UNITS, UNITS]},
        seed=0,
        device="cpu",
    )
    model.learn(10**9, callback=Cycles(Meter("sb3", minibatch, way)))
    games.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
