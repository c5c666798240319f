"""Detects observations outside of the bounds that their space declares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from palaestra.envs.spaces.observation_leaves import Leaf

BATCHES = 200
"""Number of batches of each observation that are checked against its bounds."""


class BoundsWatch:
    """Compares the first observations of an environment with the bounds of their spaces, and warns once."""

    def __init__(self, leaves: Sequence[Leaf], name: str) -> None:
        """`name` is the environment's, for the warning."""
        self._name = name
        finite = [leaf.spec.name for leaf in leaves if leaf.box and np.isfinite([leaf.box.low, leaf.box.high]).any()]
        self._left = dict.fromkeys(finite, BATCHES)

    @property
    def active(self) -> bool:
        """Whether further observations are compared."""
        return bool(self._left)

    def add(self, leaf: Leaf, values: np.ndarray) -> None:
        """Compares N batched values of a leaf, (N, *the space's shape)."""
        name = leaf.spec.name
        if leaf.box is None or not self._left.get(name):
            return
        self._left[name] -= 1
        if not self._left[name]:
            del self._left[name]
        low, high = leaf.box.low, leaf.box.high
        if (values >= low).all() and (values <= high).all():
            return
        exact = 1e-5 if values.dtype.kind != "f" else max(1e-5, 2 * float(np.finfo(values.dtype).eps))
        rounding = exact * np.fmax(1.0, np.where(np.isfinite(values), np.abs(values), 0.0))
        outside = np.argwhere((values < low - rounding) | (values > high + rounding))
        if len(outside):
            self._left.clear()
            _, *index = at = tuple(outside[0].tolist())
            warnings.warn(
                f"{self._name}: observation '{name}'{index or ''} is {values[at]:.7g}, but its space says "
                f"{low[tuple(index)]:.7g} to {high[tuple(index)]:.7g}. Correct the bounds of the space, or scale the "
                "observation in the environment",
                stacklevel=4,
            )
