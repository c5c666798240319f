"""Converts the actions of policies to those of Gymnasium's spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action


class Continuous:
    """Converts actions within -1..1 to the low..high of a Box; larger ones are clipped."""

    def __init__(self, space: spaces.Box) -> None:
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        scaled = bool((low != -1).any() or (high != 1).any())
        bounds = {"low": tuple(low.ravel().tolist()), "high": tuple(high.ravel().tolist())} if scaled else {}
        self.spec = ActionSpec(continuous=low.size, **bounds)
        self._shape, self._dtype, self._low, self._high = space.shape, space.dtype, low, high
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2

    def batch(self, action: Action) -> np.ndarray:
        """Converts N rows to an array (N, *shape) in the space's dtype."""
        return self.batch_arrays(action.continuous.cpu().numpy(), action.discrete.cpu().numpy())

    def batch_arrays(self, values: np.ndarray, discrete: np.ndarray) -> np.ndarray:
        """Converts N rows of each column of an action."""
        values = self._middle + self._half * values.reshape(len(values), *self._shape)
        return np.clip(values, self._low, self._high).astype(self._dtype, copy=False)


class Branches:
    """Converts discrete branches to integers of a shape."""

    def __init__(self, sizes: np.ndarray, start: np.ndarray | int, dtype: Any) -> None:
        starts = tuple(np.broadcast_to(start, sizes.shape).ravel().tolist())
        self.spec = ActionSpec(branches=tuple(sizes.ravel().tolist()), starts=starts if any(starts) else None)
        self._shape, self._start, self._dtype = sizes.shape, start, dtype

    def batch(self, action: Action) -> np.ndarray:
        """Converts N rows to an array (N, *shape) in the space's dtype."""
        return self.batch_arrays(action.continuous.cpu().numpy(), action.discrete.cpu().numpy())

    def batch_arrays(self, continuous: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Converts N rows of each column of an action."""
        return (values.reshape(len(values), *self._shape) + self._start).astype(self._dtype, copy=False)


def actions_of(space: spaces.Space) -> Continuous | Branches:
    """Returns the conversion for an action space. Raises EnvError for an unsupported space."""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise EnvError(
                f"the actions are a {space} without bounds; actions of -1..1 are scaled to its low and high, which must be finite"
            )
        return Continuous(space)
    if isinstance(space, spaces.Discrete):
        return Branches(np.array(space.n), space.start, space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return Branches(space.nvec, space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Branches(np.full(space.shape, 2), 0, space.dtype)
    raise EnvError(f"the actions are a {space}; supported are Box (bounded floats), Discrete, MultiDiscrete and MultiBinary")
