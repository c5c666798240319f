"""Counts the cores that this process may use, and the processes, threads and files that it may still open, within the
limits of the system and its container.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from palaestra.core.system_memory import CGROUPS, MEMBERSHIP, cgroup_of_process, read_limit


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Returns the number of cores that this process may use, at least 1.

    Slurm, `taskset` or a container may give it fewer than the machine has. Two threads that wait for each other on one
    core were measured at a twentieth of one thread's speed.
    """
    cores = float(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)
    for controller in ("", "cpu"):
        root = cgroups / controller
        own = root / cgroup_of_process(membership, controller)
        for folder in (own, *own.parents):
            cores = min(cores, _cpu_quota(folder))
            if folder == root:
                break
    return max(1, math.ceil(cores))


def _cpu_quota(folder: Path) -> float:
    """Returns how many cores a control group may keep busy; infinity if it has no limit."""
    with suppress(OSError, ValueError):  # version 2: "max 100000" or "150000 100000"
        most, period = (folder / "cpu.max").read_text().split()
        return int(most) / int(period)
    # version 1; -1: no limit
    most_of_1 = read_limit(folder / "cpu.cfs_quota_us")
    period_of_1 = read_limit(folder / "cpu.cfs_period_us")
    return most_of_1 / period_of_1 if most_of_1 and period_of_1 else math.inf


def free_processes(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """Returns how many processes and threads may still be started (Linux counts both); None: no known limit."""
    left: list[int] = []
    for controller in ("", "pids"):
        root = cgroups / controller
        own = root / cgroup_of_process(membership, controller)
        for folder in (own, *own.parents):
            most = read_limit(folder / "pids.max")
            if most is not None:
                left.append(most - (read_limit(folder / "pids.current") or 0))
            if folder == root:
                break
    if sys.platform != "win32":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        if soft != resource.RLIM_INFINITY and os.getuid() != 0:  # the limit does not apply to root
            left.append(soft - _threads_of_user(os.getuid()))
    return max(0, min(left)) if left else None


def free_files() -> int | None:
    """Returns how many files and connections this process may still open; None: no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else max(0, soft - psutil.Process().num_fds())


def memory_of(pid: int) -> int:
    """Returns the bytes of memory of a process and its descendants, without shared memory where the system tells."""
    return sum(_own_memory(process) for process in _family(pid))


def threads_of(pid: int) -> int:
    """Returns the number of threads of a process and its descendants."""
    count = 0
    for process in _family(pid):
        with suppress(psutil.Error):
            count += process.num_threads()
    return count


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _own_memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        try:
            return process.memory_full_info().uss
        except psutil.AccessDenied:
            return process.memory_info().rss
    return 0


def _threads_of_user(user: int) -> int:
    count = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            count += process.num_threads() if process.uids().real == user else 0
    return count


def surely_no_gpu() -> bool:
    """Whether PyTorch certainly finds no GPU, without importing it: PyTorch is built for CPUs, or has no GPU driver."""
    with suppress(PackageNotFoundError):
        if version("torch").endswith("+cpu"):
            return True
    drivers = ("nvidia", "nvhost", "nvgpu", "nvmap", "kfd", "dxg", "dri")
    return sys.platform == "linux" and not any(name.startswith(drivers) for name in os.listdir("/dev"))
