"""rsl_rl's PPO update alone: 12,288 rows, 8-128-128 actor and critic, two continuous actions. usage: update_rsl_rl.py
MINIBATCH
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import sys
import time

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor

COPIES, TICKS, EPOCHS, ROUNDS = 64, 192, 3, 4
ROWS = COPIES * TICKS


class Noise(VecEnv):
    """Environment with random observations: only the update is measured."""

    num_envs, num_actions, max_episode_length, device, cfg = COPIES, 2, 1000, "cpu", {}
    episode_length_buf = torch.zeros(COPIES, dtype=torch.long)

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.randn(COPIES, 8)}, batch_size=[COPIES])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        return self.get_observations(), torch.randn(COPIES), torch.zeros(COPIES, dtype=torch.bool), {}


def config(minibatch: int) -> dict:
    net = {"class_name": "MLPModel", "hidden_dims": [128, 128], "activation": "tanh"}
    return {
        "num_steps_per_env": TICKS,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(net),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": EPOCHS,
            "num_mini_batches": ROWS // minibatch,
            "rnd_cfg": None,
            "symmetry_cfg": None,
        },
    }


def main(minibatch: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = Noise()
    with contextlib.redirect_stdout(io.StringIO()):
        learner = OnPolicyRunner(env, config(minibatch), log_dir=None, device="cpu").alg
    rates = []
    for _ in range(ROUNDS):
        obs = env.get_observations()
        with torch.inference_mode():
            for _ in range(TICKS):
                obs, rewards, dones, extras = env.step(learner.act(obs))
                learner.process_env_step(obs, rewards, dones, extras)
            learner.compute_returns(obs)
        began = time.process_time()
        learner.update()
        rates.append(ROWS * EPOCHS / (time.process_time() - began))
    print(
        json.dumps({"peer": "rsl_rl", "minibatch": minibatch, "samples_per_cpu_s": round(statistics.median(rates[1:]))})
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
