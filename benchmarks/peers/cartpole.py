"""CartPole-v1 for many copies at once, in numpy: the environment of the peers that bring none of their own.

Physics and limits are Gymnasium's: Barto, Sutton and Anderson 1983 (corrected), Euler steps of 0.02 s, 500 ticks at
most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GRAVITY, CART, POLE, HALF_LENGTH, PUSH, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TRACK, TILT, MAX_TICKS = 2.4, np.deg2rad(12), 500


class CartPole:
    """Vector environment that restarts an episode on the tick it ends, so `obs` then shows the new one."""

    def __init__(self, copies: int, seed: int) -> None:
        self.copies = copies
        self._rng = np.random.default_rng(seed)
        self._state = self._fresh(copies)
        self.age = np.zeros(copies, np.int64)

    @property
    def obs(self) -> NDArray[np.float32]:
        return self._state.T.copy()

    def step(self, right: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """Pushes each cart. Returns terminated (S,), truncated (S,) and the lengths of the episodes that ended."""
        x, speed, angle, spin = self._state
        cos, sin = np.cos(angle), np.sin(angle)
        push = (np.where(right, PUSH, -PUSH) + POLE * HALF_LENGTH * spin**2 * sin) / (CART + POLE)
        turn = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4 / 3 - POLE * cos**2 / (CART + POLE)))
        thrust = push - POLE * HALF_LENGTH * turn * cos / (CART + POLE)
        self._state += (SECONDS * np.stack([speed, thrust, spin, turn])).astype(np.float32)
        self.age += 1
        terminated = (np.abs(x) > TRACK) | (np.abs(angle) > TILT)
        truncated = (self.age >= MAX_TICKS) & ~terminated
        over = np.flatnonzero(terminated | truncated)
        lengths = self.age[over]
        self._state[:, over] = self._fresh(len(over))
        self.age[over] = 0
        return terminated, truncated, lengths

    def _fresh(self, count: int) -> NDArray[np.float32]:
        return self._rng.uniform(-0.05, 0.05, (4, count)).astype(np.float32)
