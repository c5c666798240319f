"""Shuffled minibatches of rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from palaestra.data.rows import Rows


def minibatches(rows: Rows, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Rows]:
    """`epochs` passes over all rows, each in a new order, `size` rows at a time.

    What is left of a pass is dropped; fewer rows than `size` are one minibatch. Each pass is
    laid out once, so that a minibatch is a view and costs no copy.
    """
    columns = rows.columns()
    total = len(rows.advantage)
    size = min(size, total)
    used = total // size * size
    for _ in range(epochs):
        order = torch.randperm(total, generator=generator, device=generator.device)[:used]
        pieces = [column.index_select(0, order).split(size) for column in columns]
        for piece in zip(*pieces, strict=True):
            yield rows.with_columns(piece)
