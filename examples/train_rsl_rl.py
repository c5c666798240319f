"""rsl_rl's runner on 3DBall through `make_vec`, with tensors and without copies.

pip install rsl-rl-lib; python examples/train_rsl_rl.py
"""

import gymnasium
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import palaestra  # noqa: F401 - registers its environments


class VectorEnvs(VecEnv):
    """A vector environment of ours, made with `tensors=True`, as one of rsl_rl."""

    def __init__(self, envs):
        self.envs, self.device, self.cfg = envs, envs.device, {}
        self.num_envs, self.num_actions = envs.num_envs, envs.single_action_space.shape[0]
        self.max_episode_length = envs.max_episode_steps or 1_000_000
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.sums, self.returns = torch.zeros(self.num_envs, device=self.device), []
        self.obs, _ = envs.reset(seed=0)

    def get_observations(self):
        """Returns the current observations."""
        return TensorDict({"policy": self.obs}, batch_size=[self.num_envs])

    def step(self, actions):
        """Steps, and returns ends as rsl_rl reads them."""
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
    "algorithm": {"class_name": "PPO", "learning_rate": 1e-3, "entropy_coef": 0.0},
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [64, 64],
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.6, "std_type": "scalar"},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [64, 64]},
}

if __name__ == "__main__":
    envs = VectorEnvs(gymnasium.make_vec("palaestra/3DBall-v0", num_envs=256, tensors=True))
    OnPolicyRunner(envs, SETTINGS, log_dir=None, device="cpu").learn(100)
    print("mean reward", sum(envs.returns[-100:]) / len(envs.returns[-100:]))
