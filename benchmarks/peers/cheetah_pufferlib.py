"""PufferLib 3's trainer on HalfCheetah-v4, in its own vector environments. usage: cheetah_pufferlib.py MINIBATCH
serial|parallel

PufferLib 3 needs a Gymnasium that has no v5 of the game yet; v4 has the same body, observations and rewards.
"""

from __future__ import annotations

import os
import sys
import warnings

# or it looks for a GPU
os.environ["PATH"] = os.pathsep.join(p for p in os.get_exec_path() if not os.path.exists(os.path.join(p, "nvcc")))
warnings.simplefilter("ignore")

import gymnasium
import pufferlib.emulation
import pufferlib.models
import pufferlib.vector
import torch
from cheetah import CLIP, COPIES, EPOCHS, GAMMA, LAMBDA, NORM, RATE, ROLLOUT, UNITS, WORKERS, Meter
from pufferlib.pufferl import PuffeRL
from torch import Tensor, nn

HORIZON = 32


def make(*args: object, buf: object = None, seed: int = 0, **options: object) -> pufferlib.emulation.GymnasiumPufferEnv:
    return pufferlib.emulation.GymnasiumPufferEnv(gymnasium.make("HalfCheetah-v4"), buf=buf, seed=seed)


def net(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(17, UNITS), nn.Tanh(), nn.Linear(UNITS, UNITS), nn.Tanh(), nn.Linear(UNITS, outputs))


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.is_continuous = True
        self.actor, self.critic, self.log_std = net(6), net(1), nn.Parameter(torch.zeros(1, 6))

    def forward(self, observations: Tensor, state: object = None) -> tuple[torch.distributions.Normal, Tensor]:
        flat = observations.float().flatten(0, -2)
        mean = self.actor(flat)
        return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean)), self.critic(flat)

    forward_eval = forward


def settings(minibatch: int) -> dict:
    return {
        "seed": 0,
        "torch_deterministic": True,
        "cpu_offload": False,
        "device": "cpu",
        "use_rnn": False,
        "optimizer": "adam",
        "anneal_lr": False,
        "precision": "float32",
        "total_timesteps": 10**9,
        "learning_rate": RATE,
        "gamma": GAMMA,
        "gae_lambda": LAMBDA,
        "update_epochs": EPOCHS,
        "clip_coef": CLIP,
        "vf_coef": 0.5,
        "vf_clip_coef": 10.0,
        "max_grad_norm": NORM,
        "ent_coef": 0.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_eps": 1e-5,
        "data_dir": "unused",
        "checkpoint_interval": 10**9,
        "batch_size": ROLLOUT,
        "minibatch_size": minibatch,
        "max_minibatch_size": 32768,
        "bptt_horizon": HORIZON,
        "compile": False,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.0,
        "prio_beta0": 1.0,
    }


class Quiet(PuffeRL):
    def print_dashboard(self, *args: object, **kwargs: object) -> None:
        """Draws nothing: the terminal dashboard is not part of training."""


def main(minibatch: int, way: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    apart = {"backend": pufferlib.vector.Multiprocessing, "num_workers": WORKERS}
    games = pufferlib.vector.make(
        make, num_envs=COPIES, seed=0, **(apart if way == "parallel" else {"backend": pufferlib.vector.Serial})
    )
    trainer, meter = Quiet(settings(minibatch), games, ActorCritic()), Meter("pufferlib", minibatch, way)
    over = False
    while not over:
        trainer.stats.clear()
        trainer.evaluate()
        trainer.train()
        over = meter.cycle()
    trainer.utilization.stop()
    games.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
