"""A curriculum for an environment of your own, interrupted and resumed: the goal moves away as the agent learns.

python resume_and_lessons.py
"""

import gymnasium
import numpy as np
from gymnasium import spaces

import palaestra

DONE = {"measure": "reward", "behavior": "Walk", "threshold": 0.9, "min_lesson_length": 50}
LESSONS = [
    {"name": "near", "value": 4, "completion_criteria": DONE},
    {"name": "far", "value": 12, "completion_criteria": DONE},
    {"name": "farther", "value": 24},
]


class Walk(gymnasium.Env):
    """An agent on a line sees how far the goal is, and is rewarded only when it stands on it."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        distance = int((options or {}).get("distance", 24))  # the parameter, as lessons set it
        self.place, self.age = distance * int(self.np_random.choice([-1, 1])), 0
        return np.float32([self.place / 20]), {}

    def step(self, action):
        self.place += 1 if action else -1
        self.age += 1
        arrived = self.place == 0
        return np.float32([np.clip(self.place / 20, -1, 1)]), float(arrived), arrived, self.age >= 30, {}


if __name__ == "__main__":
    settings = {"environment_parameters.distance.curriculum": LESSONS, "summary_freq": 2_000}
    palaestra.train(env=Walk, max_steps=20_000, settings=settings, run_id="walk", force=True)
    result = palaestra.train(env=Walk, max_steps=60_000, run_id="walk", resume=True)
    metrics = ["Cumulative Reward", "Environment/Lesson Number/*"]
    palaestra.plot(result, metric=metrics, out="resume_and_lessons.png", force=True)
