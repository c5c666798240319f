"""rsl_rl's PPO on 64 copies of the numpy CartPole-v1. usage: cartpole_rsl_rl.py SEED

Settings are its example's, but for a categorical action (it ships none, and takes one by this same door) and two layers
of 64.
"""

from __future__ import annotations

import contextlib
import sys

import torch
from cartpole import MAX_TICKS, CartPole
from race import Finished, Race
from rsl_rl.env import VecEnv
from rsl_rl.modules.distribution import Distribution
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor
from torch.distributions.categorical import Categorical
from torch.distributions.kl import kl_divergence

COPIES, TICKS = 64, 32


class Discrete(Distribution):
    """Categorical distribution over two actions, as a column (S, 1) of 0 and 1."""

    input_dim = 2

    def update(self, mlp_output: Tensor) -> None:
        self._law = Categorical(logits=mlp_output, validate_args=False)

    def sample(self) -> Tensor:
        return self._law.sample()[:, None].float()

    @property
    def entropy(self) -> Tensor:
        return self._law.entropy()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return (self._law.logits,)

    @property
    def std(self) -> Tensor:
        return self._law.probs[:, :1]  # it is only logged

    def log_prob(self, outputs: Tensor) -> Tensor:
        return self._law.log_prob(outputs[:, 0])

    def kl_divergence(self, old_params: tuple[Tensor, ...], new_params: tuple[Tensor, ...]) -> Tensor:
        old, new = (Categorical(logits=p[0], validate_args=False) for p in (old_params, new_params))
        return kl_divergence(old, new)


class Carts(VecEnv):
    def __init__(self, race: Race) -> None:
        self.race, self.game = race, CartPole(COPIES, race.seed)
        self.num_envs, self.num_actions, self.max_episode_length = COPIES, 1, MAX_TICKS
        self.device, self.cfg = "cpu", {}
        self.episode_length_buf = torch.zeros(COPIES, dtype=torch.long)

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(self.game.obs)}, batch_size=[COPIES])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        terminated, truncated, lengths = self.game.step(actions[:, 0].numpy() > 0.5)
        for length in lengths:
            self.race.ended(float(length))
        self.race.took(COPIES)
        self.race.check()
        extras = {"time_outs": torch.from_numpy(truncated)}
        return self.get_observations(), torch.ones(COPIES), torch.from_numpy(terminated | truncated), extras


def config() -> dict:
    net = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    return {
        "num_steps_per_env": TICKS,
        "save_interval": 10**9,
        "check_for_nan": False,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": Discrete}},
        "critic": dict(net),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "learning_rate": 1e-3,
            "schedule": "adaptive",
            "desired_kl": 0.01,
            "gamma": 0.99,
            "lam": 0.95,
            "entropy_coef": 0.01,
            "clip_param": 0.2,
            "value_loss_coef": 1.0,
            "use_clipped_value_loss": True,
            "max_grad_norm": 1.0,
            "rnd_cfg": None,
            "symmetry_cfg": None,
        },
    }


def main(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    race = Race("rsl_rl", seed)
    runner = OnPolicyRunner(Carts(race), config(), log_dir=None, device="cpu")
    race.start()
    with contextlib.suppress(Finished):
        runner.learn(race.max_env_steps // (COPIES * TICKS))
    race.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]))
