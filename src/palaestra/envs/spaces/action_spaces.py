"""Converts the actions of policies to actions of Gymnasium's spaces.

Each Box gives continuous actions; each Discrete, MultiDiscrete and MultiBinary gives a branch for each of its integers;
a Dict or Tuple of these is a hybrid action.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, RawAction
from palaestra.core.timestep import Action

NO_BOUND = 1e30
"""Size from which a bound counts as no bound, such as the largest float32."""
OPEN_WIDTH = 2.0
"""Distance between a finite bound and the bound that is assumed on the other side."""
FEW = 64
"""Most integers that an entry of an integer Box may have as a branch; with more it is a continuous action."""
MOST_CHOICES = 2**16
"""Most choices of all branches of a space."""
MOST_NUMBERS = 2**16
"""Most continuous actions."""


class SpaceActions:
    """Converts a policy's actions (continuous within -1..1, choices from 0) to actions of a space. Larger numbers are
    clipped."""

    def __init__(self, space: spaces.Space) -> None:
        """Raises EnvError for an unsupported space."""
        parts = _Parts()
        raw = parts.add(space, ())
        if not parts.low and not parts.sizes:
            raise EnvError(
                f"the actions are a {space}, which leaves nothing to choose; an agent needs at least one number or "
                "choice"
            )
        low = np.array(parts.low, np.float64)
        high = np.array(parts.high, np.float64)
        scaled = bool((low != -1).any() or (high != 1).any())
        bounds = {"low": tuple(low.tolist()), "high": tuple(high.tolist())} if scaled else {}
        self.space = space
        self.spec = ActionSpec(
            continuous=len(parts.low),
            branches=tuple(parts.sizes),
            starts=tuple(parts.starts) if any(parts.starts) else None,
            raw=raw,
            remark=parts.remark(),
            **bounds,
        )
        self._raw = raw
        self._low = low
        self._high = high
        self._middle = low / 2 + high / 2
        self._half = high / 2 - low / 2
        self._starts = np.array(parts.starts, np.int64)

    def batch(self, action: Action) -> Any:
        """Converts N rows to the actions of vector environments: arrays (N, *shape), nested as in the space."""
        return self.batch_arrays(action.continuous.cpu().numpy(), action.discrete.cpu().numpy())

    def batch_arrays(self, continuous: np.ndarray, discrete: np.ndarray) -> Any:
        """Converts N rows of each column of an action."""
        if len(self._low):
            continuous = np.clip(self._middle + self._half * continuous, self._low, self._high)
        return self._raw.assemble(continuous, discrete + self._starts if len(self._starts) else discrete)

    def single(self, batched: Any, count: int) -> Iterable[Any]:
        """Returns the actions of single environments."""
        rows_as_they_are = self._raw.parts is None and (self._raw.shape or not self._raw.continuous)
        return batched if rows_as_they_are else [self._raw.row(batched, i) for i in range(count)]


class _Parts:
    """Bounds and choices of the leaves of an action space, in its order."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.sizes: list[int] = []
        self.starts: list[int] = []
        self._open = self._half_open = 0

    def add(self, space: spaces.Space, path: tuple[Any, ...]) -> RawAction:
        """Adds a space and returns the form of its actions. Raises EnvError."""
        if isinstance(space, spaces.Dict):
            keys = tuple(space.spaces)
            inner = tuple(space.spaces.values())
            return RawAction(
                keys=keys, parts=tuple(self.add(one, (*path, key)) for key, one in zip(keys, inner, strict=True))
            )
        if isinstance(space, spaces.Tuple):
            return RawAction(parts=tuple(self.add(one, (*path, i)) for i, one in enumerate(space.spaces)))
        name = f"action '{'.'.join(map(str, path))}' is" if path else "the actions are"
        if isinstance(space, spaces.Box):
            return self._add_box(space, name)
        if isinstance(space, spaces.Discrete):
            return self._add_branches(space, name, np.array(space.n), np.array(space.start))
        if isinstance(space, spaces.MultiDiscrete):
            return self._add_branches(space, name, space.nvec, space.start)
        if isinstance(space, spaces.MultiBinary):
            return self._add_branches(space, name, np.full(space.shape, 2), np.zeros(space.shape, np.int64))
        raise EnvError(
            f"{name} a {space}; supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these: "
            f"gymnasium.wrappers.TransformAction can turn it into one of them"
        )

    def remark(self) -> str:
        """Describes the scale of the continuous actions; '' if all of them are bounded by -1..1."""
        pairs = list(dict.fromkeys(zip(self.low, self.high, strict=True)))
        texts = []
        if pairs not in ([], [(-1.0, 1.0)]):
            ranges = ", ".join(f"{low:g}..{high:g}" for low, high in pairs[:4]) + (", ..." if len(pairs) > 4 else "")
            texts.append(f"-1..1 becomes {ranges}")
        if self._open:
            texts.append(f"{self._open} without bounds: -1..1 as it is")
        if self._half_open:
            texts.append(f"{self._half_open} with one bound: {OPEN_WIDTH:g} from it")
        return "; ".join(texts)

    def _add_box(self, space: spaces.Box, name: str) -> RawAction:
        low = space.low.ravel().astype(np.float64)
        high = space.high.ravel().astype(np.float64)
        if low.size > MOST_NUMBERS:
            raise EnvError(f"{name} a {space} of {low.size} numbers; at most {MOST_NUMBERS} can be learned")
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise EnvError(f"{name} a {space}, whose bounds are no range: each `low` must be a number up to its `high`")
        if not np.issubdtype(space.dtype, np.floating):
            widest = int((high - low).max(initial=0.0))
            if widest > 2**30:
                raise EnvError(
                    f"{name} a {space} of integers without bounds; give it a low and high that the agent needs"
                )
            if widest < FEW:
                return self._add_branches(
                    space, name, (high - low + 1).astype(np.int64).reshape(space.shape), space.low
                )
        no_low = low <= -NO_BOUND
        no_high = high >= NO_BOUND
        self._open += int((no_low & no_high).sum())
        self._half_open += int((no_low ^ no_high).sum())
        self.low += np.where(no_low, np.where(no_high, -1.0, high - OPEN_WIDTH), low).tolist()
        self.high += np.where(no_high, np.where(no_low, 1.0, low + OPEN_WIDTH), high).tolist()
        return RawAction(space.shape, np.dtype(space.dtype).name, continuous=True)

    def _add_branches(self, space: spaces.Space, name: str, sizes: np.ndarray, starts: np.ndarray) -> RawAction:
        self.sizes += sizes.ravel().tolist()
        self.starts += starts.ravel().tolist()
        if sum(self.sizes) > MOST_CHOICES:
            raise EnvError(
                f"{name} a {space}: more than {MOST_CHOICES} choices can hardly be learned; split them into several "
                "integers"
            )
        return RawAction(sizes.shape, np.dtype(space.dtype).name)
