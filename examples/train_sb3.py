"""Stable-Baselines3's PPO on 3DBall through `make_vec`: prints the mean reward of its last 100 episodes.

pip install stable-baselines3
python examples/train_sb3.py [SEED]
"""

import sys

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import palaestra.gymnasium  # noqa: F401 - Gymnasium knows its environments from here on

STEPS = 250_000


class SB3VectorEnv(VecEnv):
    """Adapts a vector environment of Gymnasium, whose episodes restart at once, to Stable-Baselines3's own
    interface.
    """

    def __init__(self, envs, seed):
        self.envs = envs
        self.first_seed = seed
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self):
        """Starts new episodes and returns their observations."""
        self.returns = np.zeros(self.num_envs)
        self.lengths = np.zeros(self.num_envs, int)
        return self.envs.reset(seed=self.first_seed)[0]

    def step_async(self, actions):
        """Takes the actions of the next step, which `step_wait` makes."""
        self.actions = actions

    def step_wait(self):
        """Steps all environments. Infos get the keys from which Stable-Baselines3 learns how an episode ended."""
        obs, rewards, terminated, truncated, infos = self.envs.step(self.actions)
        done = terminated | truncated
        infos_by_env = [{} for _ in rewards]
        self.returns = self.returns + rewards
        self.lengths = self.lengths + 1
        for i in np.flatnonzero(done):
            infos_by_env[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i]),
                "episode": {"r": self.returns[i], "l": int(self.lengths[i]), "t": 0},
            }
        self.returns[done] = 0
        self.lengths[done] = 0
        return obs, rewards, done, infos_by_env

    def close(self):
        """Closes the vector environment."""
        self.envs.close()

    def get_attr(self, attr_name, indices=None):
        """Returns an attribute of the vector environment once for each environment."""
        return [getattr(self.envs, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        """Raises NotImplementedError: there are no single environments to set it in."""
        raise NotImplementedError

    def env_method(self, method_name, *args, indices=None, **kwargs):
        """Raises NotImplementedError: there are no single environments to call."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class, indices=None):
        """Returns False for each environment."""
        return [False] * self.num_envs


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    envs = SB3VectorEnv(gymnasium.make_vec("palaestra/3DBall-v0", num_envs=64), seed)
    envs = VecNormalize(envs, norm_reward=False)  # observations by their mean and spread
    settings = {"n_steps": 128, "batch_size": 512, "n_epochs": 4, "learning_rate": 1e-3}
    narrow = {"log_std_init": -0.5}  # of the policy's first Gaussian: actions go from -1 to 1
    model = PPO("MlpPolicy", envs, **settings, policy_kwargs=narrow, seed=seed, device="cpu")
    model.learn(STEPS)
    print(f"mean reward {np.mean([episode['r'] for episode in model.ep_info_buffer]):.1f}")
    envs.close()
