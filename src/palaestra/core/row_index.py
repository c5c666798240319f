"""Who is there at a moment, for critics that see all agents of a group at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Groups:
    """The agents of M moments, in P places, as numbers of N views."""

    members: Tensor  # (M, P) int64; any number where nobody is
    here: Tensor  # (M, P) bool
    in_order: bool = False
    """All places are taken, by the views in their order."""

    def of(self, column: Tensor) -> Tensor:
        """A column (N, ...) of the views as (M, P, ...)."""
        if self.in_order:
            return column.unflatten(0, self.members.shape)
        return column.index_select(0, self.members.flatten()).unflatten(0, self.members.shape)

    def agents_at(self, places: Tensor) -> Tensor:
        """How many agents there are in the groups of these places (R,), which index the flattened (M, P) table."""
        return self.here.sum(1).index_select(0, places // self.here.shape[1])


if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of one slot's decisions, none across the end of an episode.

    They lie in a grid of time by sequences, in which short ones leave room at their ends; the N rows of the
    minibatch are only the decisions themselves.
    """

    steps: int
    """Decisions of the longest: rows of the grid."""
    place: Tensor  # (N,) int64: where each row lies in the grid, counted along its rows, rising
    memory: Tensor  # (n, L): what was remembered before the first decision of each sequence
