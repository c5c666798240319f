"""sb3-contrib's recurrent PPO update. usage: lstm_sb3.py MINIBATCH THREADS NETWORKS"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv
from updates import ACTIONS, EPOCHS, NUMBERS, SLOTS, STEPS, UNITS, report


class Spaces(gymnasium.Env):
    """Environment with the shapes only; it is never stepped."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (NUMBERS,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32)


def main(minibatch: int, threads: int, networks: int) -> None:
    torch.set_num_threads(threads)
    shared = {"shared_lstm": networks == 1, "enable_critic_lstm": networks == 2}
    policy = {"net_arch": [UNITS], "lstm_hidden_size": UNITS, **shared}  # the layer lies behind the LSTM
    sizes = {"n_steps": STEPS, "batch_size": minibatch, "n_epochs": EPOCHS}
    model = RecurrentPPO(
        "MlpLstmPolicy", DummyVecEnv([Spaces] * SLOTS), **sizes, policy_kwargs=policy, seed=0, device="cpu"
    )
    model.set_logger(Logger(None, []))

    def learn() -> None:
        buffer, rng = model.rollout_buffer, np.random.default_rng(0)
        buffer.reset()
        for name in ("observations", "actions", "values", "advantages", "returns"):
            column = getattr(buffer, name)
            column[:] = rng.standard_normal(column.shape)
        buffer.log_probs[:] = -2.8
        buffer.pos, buffer.full = STEPS, True
        model.train()

    report("sb3", learn, EPOCHS * STEPS * SLOTS, minibatch=minibatch, threads=threads, networks=networks)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
