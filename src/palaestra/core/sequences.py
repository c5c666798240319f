"""Which decisions of a minibatch follow one another, for networks with memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
