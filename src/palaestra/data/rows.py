"""What a gradient step reads: decisions with nothing left of slots and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from palaestra.core.sequences import Sequences


@dataclass(frozen=True, slots=True)
class Rows:
    """N settled decisions, in any order. K: reward signals, A: action components."""

    inputs: tuple[Tensor, ...]  # prepared observations, each (N, ...)
    continuous: Tensor  # (N, continuous) as drawn
    discrete: Tensor  # (N, branches) int64
    log_prob: Tensor  # (N, A) when it was drawn
    advantage: Tensor  # (N,)
    value: Tensor  # (N, K) before the update
    target: Tensor  # (N, K) what the critic should have said
    mask: Tensor | None  # (N, choices) bool
    sequences: Sequences | None = None
    """Which of them follow one another, where the network has memory."""

    def columns(self) -> list[Tensor]:
        """All columns, for `with_columns`."""
        rest = [self.continuous, self.discrete, self.log_prob, self.advantage, self.value, self.target]
        return [*self.inputs, *rest] if self.mask is None else [*self.inputs, *rest, self.mask]

    def with_columns(self, columns: Sequence[Tensor], sequences: Sequences | None = None) -> Rows:
        """Other rows of the same kind."""
        count = len(self.inputs)
        rest = columns[count : count + 6]
        mask = None if self.mask is None else columns[count + 6]
        return Rows(tuple(columns[:count]), *rest, mask=mask, sequences=sequences)
