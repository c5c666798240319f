"""Observations as readers get them: copies in memory that is used again, and images that take turns instead of being copied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

WORTH_KEEPING = 1 << 20  # bytes; smaller copies come from the allocator's own pool
MOST_KEPT = 4  # copies of a column that a reader may hold before more of them cost fresh memory
MOST_BUFFERS = 4  # the same of images that take turns


class PooledCopies:
    """Copies one column repeatedly, reusing the memory of earlier copies that are no longer referenced.

    Fresh memory on the host costs a page fault every 4 KiB: six times the copy itself for a batch of images.
    Accelerators have an allocator that keeps memory; there this is `clone`.
    """

    def __init__(self, column: Tensor) -> None:
        self._column = column
        self._kept: list[np.ndarray] = []
        self._array = column.numpy() if column.device.type == "cpu" else np.empty(0)
        self._keeps = column.device.type == "cpu" and column.numel() * column.element_size() >= WORTH_KEEPING

    def take(self) -> Tensor:
        """Returns the column as it is now. The copy is not written to while anything references it or a view of it."""
        return torch.from_numpy(self.take_array()) if self._keeps else self._column.clone()

    def take_array(self) -> np.ndarray:
        """Returns what `take` does as an array; only on the host."""
        if self._keeps:
            for k in range(len(self._kept)):
                if sys.getrefcount(self._kept[k]) == 2:  # our list's and the call's: nothing else refers to this memory
                    return self._filled(self._kept[k])
            if len(self._kept) < MOST_KEPT:
                self._kept.append(np.empty_like(self._array))
                return self._filled(self._kept[-1])
        return self._array.copy()

    def _filled(self, memory: np.ndarray) -> np.ndarray:
        np.copyto(memory, self._array)
        return memory


class ImageBuffers:
    """The column `obs_image`, and columns that tell what is painted in it, each in several copies of which one is current.

    Painting in turn writes only the pixels that differ from what the buffer showed before: less than a copy does.
    """

    def __init__(self, columns: dict[str, Tensor], world: Any, names: Sequence[str]) -> None:
        """`names` are `obs_image`, first, and the columns that go with it, in `columns` and in the Warp struct `world`."""
        self._columns, self._world, self._names = columns, world, tuple(names)
        self._kept: list[list[np.ndarray]] = []
        self._current = 0
        self._add(0)

    def turn(self) -> None:
        """Makes a buffer current whose images nobody holds. The columns and the struct are then other memory."""
        if sys.getrefcount(self._kept[self._current][0]) == 3:  # our list's, the column's and the call's
            return
        for k in range(len(self._kept)):
            if sys.getrefcount(self._kept[k][0]) == 2:
                self._use(k)
                return
        self._add(len(self._kept) if len(self._kept) < MOST_BUFFERS else self._current)

    def take(self) -> Tensor:
        """Returns the current images; they are not written to while anything references the tensor or a view of it."""
        return torch.from_numpy(self._kept[self._current][0])

    def take_array(self) -> np.ndarray:
        """Returns what `take` does as an array."""
        return self._kept[self._current][0].view()

    def _add(self, k: int) -> None:
        """Makes copies of the current columns the k-th buffer, and uses it."""
        buffer = [self._columns[name].numpy().copy() for name in self._names]
        self._kept[k : k + 1] = [buffer]
        self._use(k)

    def _use(self, k: int) -> None:
        self._current = k
        for name, array in zip(self._names, self._kept[k], strict=True):
            self._columns[name] = torch.from_numpy(array)
            setattr(self._world, name, wp.from_torch(self._columns[name]))
