"""Indices into the rows of a minibatch: the agents of a group at one tick, and the sequences of a recurrent network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Groups:
    """Agents of M group steps, each with P places, as indices into the rows of N observations."""

    members: Tensor  # (M, P) int64 row of each agent; arbitrary in empty places
    present: Tensor  # (M, P) bool: the place has an agent
    in_order: bool = False
    """Every place has an agent, and the agents are in the order of the rows."""

    def of(self, column: Tensor) -> Tensor:
        """Gathers a column (N, ...) into (M, P, ...)."""
        if self.in_order:
            return column.unflatten(0, self.members.shape)
        return column.index_select(0, self.members.flatten()).unflatten(0, self.members.shape)

    def at(self, column: Tensor, rows: Tensor) -> Tensor:
        """Returns the rows (R,) of a column (N, ...) that holds observations or places."""
        everybody = self.in_order and len(rows) == self.present.numel()
        return column if everybody else column.index_select(0, rows)

    def agents_at(self, places: Tensor) -> Tensor:
        """Returns the number of agents in each place's group, (R,); `places` (R,) index the flattened (M, P) table."""
        return self.present.sum(1).index_select(0, places // self.present.shape[1])


if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of consecutive decisions of one slot, none of which crosses the end of an episode.

    They form a padded grid, time by sequence; the N rows of the minibatch hold only the decisions, without padding.
    """

    steps: int
    """Length of the longest sequence: rows of the grid."""
    place: Tensor  # (N,) int64: each row's index in the flattened grid, rising
    recurrent_state: Tensor  # (n, L): the state before the first decision of each sequence
