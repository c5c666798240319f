"""A tick's kernel on several cores of a CPU, on which Warp itself runs one thread after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch
import warp as wp
from torch import Tensor


def shares_of(areas: int, cores: int, together: int) -> list[tuple[int, int]]:
    """Returns the first area, and that after the last, of each core's share; shares are whole groups of areas."""
    groups = -(-areas // together)
    ends = [min(together * (groups * core // cores), areas) for core in range(cores + 1)]
    return list(pairwise(ends))


class CoreLaunches:
    """Launches of one kernel over shares of the areas: one in the calling thread, each other in a thread of its own.

    Warp lets go of Python's lock within a launch, so that they run at the same time. Areas do not meet, so that results
    are the same.
    """

    def __init__(
        self,
        program: Any,
        world: Any,
        columns: dict[str, Tensor],
        areas: int,
        agents: int,
        sizes: dict[str, Any],
        cores: int,
    ) -> None:
        """Splits the tick of an environment's program over so many cores; `agents`: in each of its areas."""
        shares = shares_of(areas, cores, program.together)
        self._report = torch.zeros(cores, 2, dtype=torch.int32)
        self._host_report = self._report.numpy()
        self._first_slots = [agents * first for first, _ in shares]
        self._launches: list[Any] = [
            wp.launch(
                program.tick,
                dim=-(-(last - first) // program.together),
                inputs=[
                    share_of(world, program.world, columns, areas, first, last, sizes),
                    wp.from_torch(self._report[k]),
                ],
                device="cpu",
                record_cmd=True,
            )
            for k, (first, last) in enumerate(shares)
        ]
        self._threads = ThreadPoolExecutor(cores - 1, thread_name_prefix="areas")

    def run(self, report: Any) -> None:
        """Makes a tick, and writes to `report` (2,) what the kernel reports."""
        self._host_report[:] = 0
        others = [self._threads.submit(launch.launch) for launch in self._launches[1:]]
        self._launches[0].launch()
        for other in others:
            other.result()
        report[0] = self._host_report[:, 0].any()
        for (_, wrong), first in zip(self._host_report.tolist(), self._first_slots, strict=True):
            if wrong:
                report[1] = first + wrong


def share_of(
    world: Any, struct: Any, columns: dict[str, Tensor], total: int, first: int, last: int, sizes: dict[str, Any]
) -> Any:
    """Returns a struct over some of `total` areas: views of their rows. `sizes` are those of `allocate`."""
    share = struct()
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(share, name, sizes[name](last - first, "cpu") if callable(sizes[name]) else getattr(world, name))
            continue
        each = len(columns[name]) // total
        setattr(share, name, wp.from_torch(columns[name][each * first : each * last], dtype=var.type.dtype))
    return share
