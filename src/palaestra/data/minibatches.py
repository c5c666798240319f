"""Shuffled minibatches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.row_index import Sequences


def minibatches(rows: Minibatch, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Minibatch]:
    """Yields minibatches of `size` rows in `epochs` passes over all rows, each in a new order.

    What is left of a pass is dropped; fewer rows than `size` are one minibatch. Each pass is laid out once, so that a minibatch is a
    view and costs no copy.
    """
    columns = rows.columns()
    total = len(rows.advantage)
    size = min(size, total)
    for order in _orders(total, size, epochs, generator):
        pieces = [column.index_select(0, order).split(size) for column in columns]
        for piece in zip(*pieces, strict=True):
            yield rows.with_columns(piece)


def index_minibatches(total: int, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the same minibatches as row numbers, each (size,), without laying anything out."""
    size = min(size, total)
    for order in _orders(total, size, epochs, generator):
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]


def _orders(total: int, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the rows that each pass takes."""
    for _ in range(epochs):
        yield torch.randperm(total, generator=generator, device=generator.device)[: total // size * size]


@dataclass(frozen=True, slots=True)
class Minibatch:
    """N completed decisions, in any order. K: reward signals, A: action components."""

    inputs: tuple[Tensor, ...]  # prepared observations, each (N, ...)
    continuous: Tensor  # (N, continuous) as drawn
    discrete: Tensor  # (N, branches) int64
    log_prob: Tensor  # (N, A) when it was drawn
    advantage: Tensor  # (N,)
    value: Tensor  # (N, K) before the update
    target: Tensor  # (N, K) what the critic should have said
    mask: Tensor | None  # (N, choices) bool
    sequences: Sequences | None = None
    """Sequences of decisions that follow one another, where the network has memory."""

    def columns(self) -> list[Tensor]:
        """Returns all columns, for `with_columns`."""
        rest = [self.continuous, self.discrete, self.log_prob, self.advantage, self.value, self.target]
        return [*self.inputs, *rest] if self.mask is None else [*self.inputs, *rest, self.mask]

    def with_columns(self, columns: Sequence[Tensor], sequences: Sequences | None = None) -> Minibatch:
        """Returns other rows of the same kind."""
        count = len(self.inputs)
        rest = columns[count : count + 6]
        mask = None if self.mask is None else columns[count + 6]
        return Minibatch(tuple(columns[:count]), *rest, mask=mask, sequences=sequences)
