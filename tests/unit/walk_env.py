"""A walk whose observations and rewards tell seed, episode, tick and action apart, so that a stored transition can have
one origin only.
"""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

LONGEST = 5


class Walk(gymnasium.Env):
    """Ends by chance, which depends on its generator; its final observations differ from all others."""

    observation_space = spaces.Dict(place=spaces.Box(-1e6, 1e6, (4,), np.float32), last=spaces.Discrete(4))
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = float(self.np_random.random(dtype=np.float32))
        self.tick = 0
        return self._observe(3), {"is_success": False}

    def step(self, action):
        assert self.action_space.contains(action)
        self.tick += 1
        over = bool(self.np_random.random() < 0.2)
        reward = self.tick + 10.0 * float(action) + self.episode
        return self._observe(int(action) - 5), reward, over, False, {}

    def _observe(self, last: int) -> dict:
        return {
            "place": np.array([self.episode, self.tick, self.np_random.random(), -self.tick], np.float32),
            "last": last,
        }


def make() -> gymnasium.Env:
    """A walk that is cut after a few steps."""
    return TimeLimit(Walk(), LONGEST)
