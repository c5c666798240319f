"""rsl_rl's PPO on 3DBall through `make_vec`, with tensors and without copies: prints the mean reward of its last 100
episodes.

pip install rsl-rl-lib
python examples/train_rsl_rl.py [SEED]
"""

import sys

import gymnasium
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import palaestra.gymnasium  # noqa: F401 - Gymnasium knows its environments from here on


class RslRlVectorEnv(VecEnv):
    """Adapts a vector environment that was made with `tensors=True` to rsl_rl's own interface."""

    def __init__(self, envs, seed):
        self.envs = envs
        self.device = envs.device
        self.cfg = {}
        self.num_envs = envs.num_envs
        self.num_actions = envs.single_action_space.shape[0]
        self.max_episode_length = envs.max_episode_steps or 1_000_000
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.sums = torch.zeros(self.num_envs, device=self.device)
        self.returns = []
        self.obs, _ = envs.reset(seed=seed)

    def get_observations(self):
        """Returns the current observations as the group `policy`."""
        return TensorDict({"policy": self.obs}, batch_size=[self.num_envs])

    def step(self, actions):
        """Steps all environments. `time_outs` tells rsl_rl which episodes were truncated."""
        self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        done = terminated | truncated
        self.sums += rewards
        self.returns += self.sums[done].tolist()
        self.sums[done] = 0.0
        self.episode_length_buf = torch.where(done, 0, self.episode_length_buf + 1)
        return self.get_observations(), rewards, done.long(), {"time_outs": truncated}


SETTINGS = {
    "num_steps_per_env": 32,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "algorithm": {"class_name": "PPO", "learning_rate": 1e-3, "entropy_coef": 0.0, "schedule": "fixed"},
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [64, 64],
        "obs_normalization": True,
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.6, "std_type": "scalar"},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [64, 64], "obs_normalization": True},
}

if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    envs = RslRlVectorEnv(gymnasium.make_vec("palaestra/3DBall-v0", num_envs=256, tensors=True), seed)
    OnPolicyRunner(envs, SETTINGS, log_dir=None, device="cpu").learn(100)
    print(f"mean reward {sum(envs.returns[-100:]) / len(envs.returns[-100:]):.1f}")
    envs.envs.close()
