"""Assigns agents, which appear and leave, to the rows of a table."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError

Ids: TypeAlias = NDArray[np.int64]

FREE = -1


class Slots:
    """Maps agent ids to row numbers, for all agents of a tick at once.

    On each tick, first `assign` the ids of all agents that ended or ask for an action, then `release` the ids that
    ended without asking. A new agent is thus never assigned to a slot whose episode ends on the same tick.
    """

    def __init__(self, size: int = 0) -> None:
        self.agent: Ids = np.full(size, FREE, np.int64)  # (S,) the id in each slot; -1: free

    def __len__(self) -> int:
        """Returns S, the number of slots including free ones, which never shrinks."""
        return len(self.agent)

    @property
    def taken(self) -> NDArray[np.bool_]:
        """Whether each slot has an agent, (S,)."""
        return self.agent != FREE

    def assign(self, ids: Ids) -> Ids:
        """Returns the slot of each id, (N,). New agents get the lowest free slots, in the order of their ids.

        If too few are free, the number of slots doubles. An id may occur twice (an end and a decision). Raises EnvError
        for a negative id.
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

    def release(self, ids: Ids) -> None:
        """Frees the slots of these agents; ids without a slot are ignored."""
        slots = self._find(np.asarray(ids, np.int64))
        self.agent[slots[slots != FREE]] = FREE

    def _find(self, ids: Ids) -> Ids:
        """Returns the slot of each id, -1 if it has none."""
        if len(self) == 0:
            return np.full(len(ids), FREE, np.int64)
        order = np.argsort(self.agent)
        slots = order[np.searchsorted(self.agent, ids, sorter=order).clip(max=len(order) - 1)]
        slots[(self.agent[slots] != ids) | (ids == FREE)] = FREE
        return slots

    def _free(self, count: int) -> Ids:
        """Returns the lowest free slots, after adding slots if there are too few."""
        missing = count - int((self.agent == FREE).sum())
        if missing > 0:
            size = max(1, len(self))
            while size < len(self) + missing:
                size *= 2
            self.agent = np.concatenate([self.agent, np.full(size - len(self), FREE, np.int64)])
        return np.flatnonzero(self.agent == FREE)[:count]
