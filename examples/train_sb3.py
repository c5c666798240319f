"""Stable-Baselines3's PPO on 3DBall through `make_vec`.

pip install stable-baselines3; python examples/train_sb3.py
"""

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import palaestra  # noqa: F401 - registers its environments


class VectorEnvs(VecEnv):
    """A vector environment of Gymnasium as one of Stable-Baselines3."""

    def __init__(self, envs):
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self):
        """Begins new episodes."""
        self.sums, self.lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        return self.envs.reset(seed=0)[0]

    def step_async(self, actions):
        """Keeps the actions."""
        self.actions = actions

    def step_wait(self):
        """Steps, and returns ends as Stable-Baselines3 reads them."""
        obs, rewards, terminated, truncated, infos = self.envs.step(self.actions)
        done, each = terminated | truncated, [{} for _ in rewards]
        self.sums, self.lengths = self.sums + rewards, self.lengths + 1
        for i in np.flatnonzero(done):
            each[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i]),
                "episode": {"r": self.sums[i], "l": int(self.lengths[i]), "t": 0},
            }
        self.sums[done], self.lengths[done] = 0, 0
        return obs, rewards, done, each

    def close(self):
        """Closes the environment."""
        self.envs.close()

    def get_attr(self, attr_name, indices=None):
        """Returns an attribute, the same for each environment."""
        return [getattr(self.envs, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        """Is not needed."""
        raise NotImplementedError

    def env_method(self, method_name, *args, indices=None, **kwargs):
        """Is not needed."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class, indices=None):
        """Returns that there are no wrappers."""
        return [False] * self.num_envs


if __name__ == "__main__":
    envs = VectorEnvs(gymnasium.make_vec("palaestra/3DBall-v0", num_envs=64))
    model = PPO("MlpPolicy", envs, n_steps=128, batch_size=512, n_epochs=4, learning_rate=1e-3, device="cpu")
    model.learn(250_000)
    print("mean reward", np.mean([episode["r"] for episode in model.ep_info_buffer]))
