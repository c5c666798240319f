"""PufferLib 3's trainer on 256 copies of its own C CartPole. usage: cartpole_pufferlib.py SEED

Its game differs a little from CartPole-v1: starts within 0.04 (not 0.05), no reward on the last tick, and a cut at 500
ticks is not told from an episode that goes on. A return is the length of an episode, as in CartPole-v1.
"""

from __future__ import annotations

import os
import sys
import warnings

# or it looks for a GPU
os.environ["PATH"] = os.pathsep.join(p for p in os.get_exec_path() if not os.path.exists(os.path.join(p, "nvcc")))
warnings.simplefilter("ignore")

import pufferlib.vector
import torch
from pufferlib.models import Default
from pufferlib.ocean.cartpole.cartpole import Cartpole
from pufferlib.pufferl import PuffeRL
from race import Race

COPIES, TICKS = 256, 32


def settings(seed: int) -> dict:
    """Settings found by search: PufferLib's own are for 4,096 copies, with a minibatch larger than a rollout of 256
    (README.md).
    """
    return {
        "seed": seed,
        "torch_deterministic": True,
        "cpu_offload": False,
        "device": "cpu",
        "use_rnn": False,
        "optimizer": "adam",
        "anneal_lr": True,
        "precision": "float32",
        "total_timesteps": 3_000_000,
        "learning_rate": 0.01,
        "gamma": 0.95,
        "gae_lambda": 0.90,
        "update_epochs": 2,
        "clip_coef": 0.2,
        "vf_coef": 2.0,
        "vf_clip_coef": 0.2,
        "max_grad_norm": 1.5,
        "ent_coef": 0.001,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_eps": 1e-12,
        "data_dir": "unused",
        "checkpoint_interval": 10**9,
        "batch_size": "auto",
        "minibatch_size": 2048,
        "max_minibatch_size": 32768,
        "bptt_horizon": TICKS,
        "compile": False,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.8,
        "prio_beta0": 0.2,
    }


class Quiet(PuffeRL):
    def print_dashboard(self, *args: object, **kwargs: object) -> None:
        """Draws nothing: the terminal dashboard is not part of training."""


def main(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    race = Race("pufferlib", seed)
    carts = pufferlib.vector.make(Cartpole, env_kwargs={"num_envs": COPIES, "report_interval": TICKS}, seed=seed)
    trainer = Quiet(settings(seed), carts, Default(carts.driver_env, hidden_size=64))
    race.start()
    while not race.over:
        trainer.stats.clear()
        stats = trainer.evaluate()
        for length, count in zip(stats["episode_length"], stats["n"], strict=True):
            race.ended(length, round(count))
        race.env_steps = trainer.global_step
        if not race.over:
            trainer.train()
    race.finish()
    trainer.utilization.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
