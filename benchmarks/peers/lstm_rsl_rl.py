"""rsl_rl's recurrent PPO update; it has no body for both. usage: lstm_rsl_rl.py MINIBATCH THREADS 2"""

from __future__ import annotations

import contextlib
import io
import sys

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor
from updates import ACTIONS, EPOCHS, NUMBERS, SLOTS, STEPS, UNITS, report


class Noise(VecEnv):
    """Environment with random observations: only the update is measured."""

    num_envs, num_actions, max_episode_length, device, cfg = SLOTS, ACTIONS, 1000, "cpu", {}
    episode_length_buf = torch.zeros(SLOTS, dtype=torch.long)

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.randn(SLOTS, NUMBERS)}, batch_size=[SLOTS])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        return self.get_observations(), torch.randn(SLOTS), torch.zeros(SLOTS, dtype=torch.bool), {}


def config(minibatch: int) -> dict:
    """Network whose hidden layer follows the LSTM."""
    net = {
        "class_name": "RNNModel",
        "hidden_dims": [UNITS],
        "rnn_type": "lstm",
        "rnn_hidden_dim": UNITS,
        "rnn_num_layers": 1,
    }
    algorithm = {"class_name": "PPO", "num_learning_epochs": EPOCHS, "num_mini_batches": STEPS * SLOTS // minibatch}
    return {
        "num_steps_per_env": STEPS,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(net),
        "algorithm": {**algorithm, "rnd_cfg": None, "symmetry_cfg": None},
    }


def main(minibatch: int, threads: int, networks: int) -> None:
    if networks != 2:
        sys.exit("rsl_rl's actor and critic share nothing")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    env = Noise()
    with contextlib.redirect_stdout(io.StringIO()):
        learner = OnPolicyRunner(env, config(minibatch), log_dir=None, device="cpu").alg
    obs = env.get_observations()
    with torch.inference_mode():
        for _ in range(STEPS):
            obs, rewards, dones, extras = env.step(learner.act(obs))
            learner.process_env_step(obs, rewards, dones, extras)
        learner.compute_returns(obs)
    clear = learner.storage.clear
    learner.storage.clear = lambda: None  # the same rollout each time

    report("rsl_rl", learner.update, EPOCHS * STEPS * SLOTS, minibatch=minibatch, threads=threads, networks=networks)
    clear()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
