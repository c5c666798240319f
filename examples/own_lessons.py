"""A Gymnasium environment with a parameter: how far away its goal is, which lessons change.

    palaestra learn examples/own_lessons.yaml --run-id=far

`reset` reads the parameter from its options, and that is all there is to do.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MOST_STEPS = 60  # an episode is truncated after these
MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


class Far(gymnasium.Env[np.ndarray, int]):
    """A walker on a grid sees how far the goal is in both directions, and is rewarded only where it stands on it."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-2, 2, (2,), np.float32)
        self.action_space = spaces.Discrete(4)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode. The parameter `distance` is how many steps away the goal is; 20 where it is not given."""
        super().reset(seed=seed)
        distance = int((options or {}).get("distance", 20))
        across = int(self.np_random.integers(-distance, distance + 1))
        along = distance - abs(across)
        self.goal = np.array([across, along * int(self.np_random.choice([-1, 1]))])
        self.age = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves by one field."""
        self.goal = self.goal - MOVES[action]
        self.age += 1
        arrived = not self.goal.any()
        late = self.age >= MOST_STEPS
        info = {"is_success": arrived} if arrived or late else {}
        return self._seen(), float(arrived), arrived, late, info

    def _seen(self) -> np.ndarray:
        return (self.goal / MOST_STEPS).astype(np.float32)
