"""Sums and objects of the ranks of one machine, through shared memory that each rank reads itself.

torch.distributed hands every call to another thread. While all cores compute, that thread waits for its turn longer
than a gradient takes.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from torch import Tensor

from palaestra.parallel.shared_memory import RAM_DISK, SharedBlock

CHUNK = 1 << 18
"""Bytes that a rank passes on at once: so few that they stay in the caches."""
LINE = 64
"""Bytes of a cache line: each rank's counter has a cache line of its own."""
SPIN_SECONDS, NAP_SECONDS, LOOK_SECONDS = 0.002, 0.0001, 0.2
"""Seconds that a rank waits without sleeping, seconds of each sleep after that, and seconds between two checks whether
the other ranks are alive."""
GONE = 0
"""Process id of a rank that has left; its earlier writes are still there."""
ORDERED = platform.machine().lower() in ("x86_64", "amd64") and sys.platform != "win32"
"""Whether other processors see this processor's writes in their order, on which the counters depend."""


class SharedSums:
    """Memory with two parts for each rank, used alternately: when a rank writes to one part, all ranks have read it."""

    def __init__(self, block: SharedBlock, number: int, size: int, timeout: float) -> None:
        self._block = block
        self._number = number
        self._size = size
        self._timeout = timeout
        self._counters = block.array(0, np.dtype(np.int64), (2 * size, LINE // 8))[:, 0]
        self._counts = self._counters[:size]
        self._pids = self._counters[size:]
        self._pids[number] = os.getpid()
        self._done = 0
        """Chunks that have been summed."""

    @staticmethod
    def bytes_for(size: int) -> int:
        """Returns the bytes that this number of ranks needs."""
        return 2 * size * (LINE + CHUNK)

    @classmethod
    def join(
        cls,
        number: int,
        size: int,
        timeout: float,
        from_first: Callable[[Any], Any],
        gather: Callable[[Any], list[Any]],
    ) -> SharedSums | None:
        """Returns the memory that all ranks have opened; None if the ranks are on several machines, or if there is no
        room.

        `from_first` and `gather` exchange objects. `timeout`: seconds after which a missing rank counts as lost.
        """
        block = None
        if number == 0 and ORDERED:
            try:
                block = SharedBlock(cls.bytes_for(size))
            except OSError:
                block = None
        path = from_first(str(block.path) if block is not None and block.path.parent == RAM_DISK else None)
        if path is not None and block is None:
            try:
                block = SharedBlock(cls.bytes_for(size), Path(path)) if ORDERED else None
            except OSError:
                block = None  # another machine
        sums = None if block is None or path is None else cls(block, number, size, timeout)
        agreed = all(gather(sums is not None))
        if number == 0 and block is not None:
            block.unlink()  # all have it open now: it vanishes with them, however they end
        return sums if agreed else None

    def add(self, values: Tensor) -> None:
        """Replaces a contiguous tensor on the CPU by its sum over all ranks, the same digits on each. Raises
        RuntimeError as `gather`."""
        flat = values.numpy().reshape(-1)
        step = CHUNK // flat.itemsize
        for start in range(0, len(flat), step):
            self._add(flat[start : start + step])

    def gather(self, own: bytes) -> list[bytes]:
        """Returns the bytes of all ranks, in their order. Raises RuntimeError if a rank is lost."""
        sizes = [int(size[0]) for size in self._pass_on(np.array([len(own)]))]
        found = [bytearray() for _ in sizes]
        for start in range(0, max(sizes), CHUNK):
            part = np.zeros(min(CHUNK, max(sizes) - start), np.uint8)
            mine = np.frombuffer(own[start : start + CHUNK], np.uint8)
            part[: len(mine)] = mine
            for whole, theirs in zip(found, self._pass_on(part), strict=True):
                whole += theirs.tobytes()
        return [bytes(whole[:size]) for whole, size in zip(found, sizes, strict=True)]

    def _add(self, own: NDArray[Any]) -> None:
        own[...] = _pairwise(self._pass_on(own))

    def _pass_on(self, own: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the arrays of all ranks, in their order, until the next call but one."""
        turn = self._done % 2
        self._done = self._done + 1
        first = 2 * self._size * LINE + turn * self._size * CHUNK
        parts = [self._block.array(first + rank * CHUNK, own.dtype, own.shape) for rank in range(self._size)]
        parts[self._number][...] = own
        self._counts[self._number] = self._done
        self._wait()
        return parts

    def _wait(self) -> None:
        counts = self._counts
        done = self._done
        if counts.min() >= done:
            return
        start = looked = time.monotonic()
        while counts.min() < done:
            now = time.monotonic()
            if now - start < SPIN_SECONDS:
                os.sched_yield()
                continue
            time.sleep(NAP_SECONDS)
            if now - looked > LOOK_SECONDS:
                looked = now
                self._look(now - start)

    def _look(self, waited: float) -> None:
        """Raises RuntimeError if a rank has ended, or has not come in time."""
        for rank in range(self._size):
            if self._counts[rank] < self._done and not _alive(int(self._pids[rank])):
                raise RuntimeError(f"rank {rank} has ended")
        if waited > self._timeout:
            raise RuntimeError("a rank did not arrive in time")

    def leave(self) -> None:
        """Tells the other ranks that this rank no longer takes part."""
        self._pids[self._number] = GONE


def _pairwise(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Returns the sum, in an order that depends on the number of parts alone."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def _alive(pid: int) -> bool:
    if pid == GONE:
        return False
    try:
        # ended, although whoever started it has not noticed yet
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
