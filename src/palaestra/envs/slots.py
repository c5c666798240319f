"""Agents that come and go: their ids become rows of a table that stays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError

Ids: TypeAlias = NDArray[np.int64]

FREE = -1


class Slots:
    """Agent ids in, row numbers out, a whole tick at a time.

    On each tick first `seat` every id that the tick speaks of, those that end and those that
    decide together, then let those `leave` that ended and do not decide as well. A newcomer is
    so never seated in a slot whose episode closes on the same tick.
    """

    def __init__(self, size: int = 0) -> None:
        self.agent: Ids = np.full(size, FREE, np.int64)  # (S,) the id in each slot; -1: free

    def __len__(self) -> int:
        """S, free slots included; never shrinks."""
        return len(self.agent)

    @property
    def taken(self) -> NDArray[np.bool_]:
        """(S,) whether an agent sits there."""
        return self.agent != FREE

    def seat(self, ids: Ids) -> Ids:
        """The slot of each id, (N,). Newcomers take the lowest free slots, in the order of their ids.

        Where too few are free, slots double. An id that stands there twice (an end and a decision) has one slot.
        Raises EnvError for a negative id.
        """
        if len(ids) == 0:
            return np.zeros(0, np.int64)
        unique, back = np.unique(ids, return_inverse=True)
        if unique[0] < 0:
            raise EnvError(f"an agent has the id {unique[0]}; ids are 0 or more")
        slots = self._find(unique)
        new = slots == FREE
        if new.any():
            slots[new] = self._free(int(new.sum()))
            self.agent[slots] = unique
        return slots[back]

    def leave(self, ids: Ids) -> None:
        """Frees the slots of these agents; an id without one is passed over."""
        slots = self._find(np.asarray(ids, np.int64))
        self.agent[slots[slots != FREE]] = FREE

    def _find(self, ids: Ids) -> Ids:
        """The slot of each id, -1 where it has none."""
        if len(self) == 0:
            return np.full(len(ids), FREE, np.int64)
        order = np.argsort(self.agent)
        slots = order[np.searchsorted(self.agent, ids, sorter=order).clip(max=len(order) - 1)]
        slots[(self.agent[slots] != ids) | (ids == FREE)] = FREE
        return slots

    def _free(self, count: int) -> Ids:
        """The lowest free slots, after making more where there are too few."""
        missing = count - int((self.agent == FREE).sum())
        if missing > 0:
            size = max(1, len(self))
            while size < len(self) + missing:
                size *= 2
            self.agent = np.concatenate([self.agent, np.full(size - len(self), FREE, np.int64)])
        return np.flatnonzero(self.agent == FREE)[:count]
