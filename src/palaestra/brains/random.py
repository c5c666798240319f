"""Brain `random`: random actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen, best_choices
from palaestra.core.errors import PolicyError


class RandomBrain:
    """Chooses uniformly within -1..1, and among the allowed choices."""

    def __init__(self, role: Role) -> None:
        if role.argument:
            raise PolicyError(f"behavior '{role.behavior}': 'random' takes no argument; got '{role.argument}'")
        self._action = role.spec.action
        self.rng = np.random.default_rng(role.seed)
        """`rng` is the random generator, whose state a checkpoint saves."""

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Does nothing: random actions depend on no memory."""

    def decide(self, seen: Seen) -> Choice:
        """Returns random actions: the same for the same seed and agents."""
        rows = len(seen.slots)
        action = self._action
        continuous = self.rng.uniform(-1, 1, (rows, action.continuous)).astype(np.float32)
        score = self.rng.random((rows, action.choices))
        if seen.mask is not None:
            score = np.where(seen.mask, score, -1.0)
        return Choice(continuous, best_choices(score, action.branches))
