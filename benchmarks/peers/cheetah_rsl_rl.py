"""rsl_rl's PPO on HalfCheetah-v5, in Gymnasium's vector environments. usage: cheetah_rsl_rl.py MINIBATCH
serial|parallel
"""

from __future__ import annotations

import contextlib
import sys

import gymnasium
import torch
from cheetah import CLIP, COPIES, EPOCHS, GAME, GAMMA, LAMBDA, NORM, RATE, ROLLOUT, TICKS, UNITS, Enough, Meter
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor


class Cheetahs(VecEnv):
    def __init__(self, way: str, meter: Meter) -> None:
        mode = "async" if way == "parallel" else "sync"
        self.games = gymnasium.make_vec(
            GAME, COPIES, vectorization_mode=mode, vector_kwargs={"autoreset_mode": "SameStep"}
        )
        self.num_envs, self.num_actions, self.max_episode_length = COPIES, 6, 1000
        self.device, self.cfg = "cpu", {}
        self.episode_length_buf = torch.zeros(COPIES, dtype=torch.long)
        self.obs, _ = self.games.reset(seed=0)
        self.meter, self.ticks = meter, 0

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(self.obs).float()}, batch_size=[COPIES])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        if self.ticks and self.ticks % TICKS == 0:  # the update of the last rollout is over
            self.meter.check()
        self.ticks += 1
        self.obs, reward, terminated, truncated, _ = self.games.step(actions.clamp(-1.0, 1.0).numpy())
        done = torch.from_numpy(terminated | truncated)
        return (
            self.get_observations(),
            torch.from_numpy(reward).float(),
            done,
            {"time_outs": torch.from_numpy(truncated)},
        )


def config(minibatch: int) -> dict:
    net = {"class_name": "MLPModel", "hidden_dims": [UNITS, UNITS], "activation": "tanh", "obs_normalization": True}
    return {
        "num_steps_per_env": TICKS,
        "save_interval": 10**9,
        "check_for_nan": False,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": dict(net),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": EPOCHS,
            "num_mini_batches": ROLLOUT // minibatch,
            "learning_rate": RATE,
            "schedule": "fixed",
            "desired_kl": 0.01,
            "gamma": GAMMA,
            "lam": LAMBDA,
            "entropy_coef": 0.0,
            "clip_param": CLIP,
            "value_loss_coef": 0.5,
            "use_clipped_value_loss": False,
            "max_grad_norm": NORM,
            "rnd_cfg": None,
            "symmetry_cfg": None,
        },
    }


def main(minibatch: int, way: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = Cheetahs(way, Meter("rsl_rl", minibatch, way))
    runner = OnPolicyRunner(env, config(minibatch), log_dir=None, device="cpu")
    with contextlib.suppress(Enough):
        runner.learn(10**6)
    env.games.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
