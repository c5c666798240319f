"""Copies of a large column without the cost of fresh memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

WORTH_KEEPING = 1 << 20  # bytes; smaller ones come from the allocator's own store
MOST_KEPT = 4  # copies of a column that a reader may hold before further ones cost fresh memory


class Copies:
    """Copies one column again and again, into memory of earlier copies that nobody holds any more.

    Fresh memory on the host costs a page fault every 4 KiB: of an image batch six times as much as the copying.
    Accelerators have an allocator that keeps memory; there this is `clone`.
    """

    def __init__(self, column: Tensor) -> None:
        self._column = column
        self._kept: list[np.ndarray] = []
        self._keeps = column.device.type == "cpu" and column.numel() * column.element_size() >= WORTH_KEEPING

    def take(self) -> Tensor:
        """The column as it is now, never written to again while anything holds it or a view of it."""
        if not self._keeps:
            return self._column.clone()
        for k in range(len(self._kept)):
            if sys.getrefcount(self._kept[k]) == 2:  # our list's and the call's: no tensor is left over this memory
                return self._filled(self._kept[k])
        if len(self._kept) == MOST_KEPT:
            return self._column.clone()
        self._kept.append(np.empty_like(self._column.numpy()))
        return self._filled(self._kept[-1])

    def _filled(self, memory: np.ndarray) -> Tensor:
        np.copyto(memory, self._column.numpy())
        return torch.from_numpy(memory)
