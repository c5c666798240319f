"""Images on the host that take turns: each tick is painted into one that nobody holds, so that none need be copied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import warp as wp

MOST_BUFFERS = 4  # beyond that, images that all are held cost fresh memory


class ImageBuffers:
    """The column `obs_image`, and columns that tell what is painted in it, each in several copies of which one is current.

    Painting in turn writes only the pixels that differ from what the buffer showed before: less than a copy does.
    """

    def __init__(self, columns: dict[str, torch.Tensor], world: Any, names: Sequence[str]) -> None:
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

    def take(self) -> torch.Tensor:
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
