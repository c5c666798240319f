"""`random`: chance plays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen
from palaestra.core.errors import PolicyError


class RandomBrain:
    """Uniform within -1..1, and uniform among the choices that are allowed."""

    def __init__(self, role: Role) -> None:
        if role.argument:
            raise PolicyError(f"behavior '{role.behavior}': 'random' takes nothing after it; got '{role.argument}'")
        self._action, self.chance = role.spec.action, np.random.default_rng(role.seed)
        """`chance` is what draws; a checkpoint holds where it is."""

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Chance remembers nothing."""

    def decide(self, seen: Seen) -> Choice:
        """The same draws for the same seed and the same agents."""
        rows, action = len(seen.slots), self._action
        continuous = self.chance.uniform(-1, 1, (rows, action.continuous)).astype(np.float32)
        score = self.chance.random((rows, action.choices))
        if seen.mask is not None:
            score = np.where(seen.mask, score, -1.0)
        parts = np.split(score, np.cumsum(action.branches)[:-1], axis=1) if action.branches else []
        discrete = np.stack([part.argmax(1) for part in parts], 1) if parts else np.zeros((rows, 0))
        return Choice(continuous, discrete.astype(np.int64))
