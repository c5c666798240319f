"""Runs a tick's kernel on several CPU cores; Warp alone would run its threads one after another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch
import warp as wp
from torch import Tensor


def shares_of(areas: int, cores: int, together: int) -> list[tuple[int, int]]:
    """Returns the range (begin, end) of areas for each core; a range consists of whole groups of `together` areas."""
    groups = -(-areas // together)
    ends = [min(together * (groups * core // cores), areas) for core in range(cores + 1)]
    return list(pairwise(ends))


class CoreLaunches:
    """Launches one kernel over shares of the areas: the first share in the calling thread, each other share in its own
    thread.

    Warp releases Python's lock within a launch, so that the shares run at the same time. Areas do not interact, so the
    results are the same.
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
        """Splits the tick of an environment's program over this number of cores; `agents`: agents in each area."""
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
        """Makes a tick, and writes the kernel's report to `report` (2,)."""
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
    """Returns a struct over some of `total` areas: views of their rows. `sizes`: see `allocate`."""
    share = struct()
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(share, name, sizes[name](last - first, "cpu") if callable(sizes[name]) else getattr(world, name))
            continue
        each = len(columns[name]) // total
        setattr(share, name, wp.from_torch(columns[name][each * first : each * last], dtype=var.type.dtype))
    return share
