"""Shuffled minibatches of rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from palaestra.data.rows import Rows


def minibatches(rows: Rows, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Rows]:
    """`epochs` passes over all rows, each in a new order, `size` rows at a time.

    What is left of a pass is dropped; fewer rows than `size` are one minibatch. Each pass is
    laid out once, so that a minibatch is a view and costs no copy.
    """
    columns = rows.columns()
    total = len(rows.advantage)
    size = min(size, total)
    for order in _orders(total, size, epochs, generator):
        pieces = [column.index_select(0, order).split(size) for column in columns]
        for piece in zip(*pieces, strict=True):
            yield rows.with_columns(piece)


def index_minibatches(total: int, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The same as numbers of rows, each (size,), for whoever lays out nothing."""
    size = min(size, total)
    for order in _orders(total, size, epochs, generator):
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]


def _orders(total: int, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """For each pass, the rows it takes."""
    for _ in range(epochs):
        yield torch.randperm(total, generator=generator, device=generator.device)[: total // size * size]
