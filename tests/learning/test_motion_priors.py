"""A wheel that nothing pays for turning is turned as a clip turns: as fast, and the same way round."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import palaestra

FASTEST = 0.8
"""Radians of a decision with an action of 1."""
SHOWN = 0.3
"""Radians of a decision in the clip."""


class Wheel(gymnasium.Env):
    """Shows cosine and sine of its angle, and turns it by the action."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = self.np_random.uniform(0, 2 * np.pi)
        return self._observe(), {}

    def step(self, action):
        self.angle += FASTEST * float(action[0])
        return self._observe(), 0.0, False, False, {}

    def _observe(self) -> np.ndarray:
        return np.array([np.cos(self.angle), np.sin(self.angle)], np.float32)


def make() -> gymnasium.Env:
    """A wheel that is cut after 40 decisions."""
    return TimeLimit(Wheel(), 40)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_policy_learns_a_clips_motion_from_the_prior_alone(trainer: str, tmp_path: Path):
    angle = np.arange(0, 60, SHOWN)
    sensor = "observation"
    np.savez(tmp_path / "turn.npz", **{sensor: np.stack([np.cos(angle), np.sin(angle)], 1)})
    hyper = {
        "ppo": {"batch_size": 128, "buffer_size": 1024, "learning_rate": 1e-3, "beta": 1e-4, "num_epoch": 5},
        "sac": {"batch_size": 128, "buffer_size": 20000, "learning_rate": 1e-3, "buffer_init_steps": 1000}
        | {"steps_per_update": 8},
    }[trainer]
    network = {"hidden_units": 64, "num_layers": 2}
    prior = {"gamma": 0.8, "clips": str(tmp_path / "turn.npz"), "network_settings": network, "learning_rate": 1e-3}
    block = {
        "trainer_type": trainer,
        "hyperparameters": hyper,
        "network_settings": network,
        "reward_signals": {"amp": prior},
        "max_steps": 30000,
        "time_horizon": 40,
    }
    tree = {"default_settings": block}
    result = palaestra.train(tree, env=make, num_areas=8, seed=1, results_dir=str(tmp_path), quiet=True)
    (model,) = result.models.values()
    policy = palaestra.load_policy(model)
    env = make()
    turns = []
    for seed in range(10):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = policy.predict(obs, deterministic=True)
            turns.append(FASTEST * float(action[0]))
            obs, _, _, over, _ = env.step(action)
    print(f"{trainer}: {np.mean(turns):.3f} +- {np.std(turns):.3f} radians a decision")
    assert abs(np.mean(turns) - SHOWN) < 0.05
