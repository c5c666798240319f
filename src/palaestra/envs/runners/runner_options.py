"""Options of runners: how many, and on which machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """Number and place of runners."""

    runners: int
    address: str | None = None  # of a Ray cluster; None: that of a submitted job, else one on this machine
    cpus: float | None = None  # of each runner; None: 1, or an equal share if there are fewer
    working_dir: str | None = None  # a folder that Ray brings to every machine
    of_first_rank: bool = False  # whether the address is of the cluster that rank 0 has started on this machine
    show_output: bool = False  # show what runners print
