"""Measures the memory that this process may still allocate, within the limits of the machine and its container."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
LIMITS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of Linux control groups, versions 2 and 1: the controller's folder, the files of the limit and of the usage,
and the entry of `memory.stat` for inactive file cache, which counts as used but is freed on demand."""


def free_memory(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Returns the free bytes of the machine, or of its control group or a parent group, if that has fewer."""
    left = [psutil.virtual_memory().available]
    for controller, limit, used, cache in LIMITS:
        root = cgroups / controller
        own = root / cgroup_of_process(membership, controller)
        for folder in (own, *own.parents):
            most = read_limit(folder / limit)
            if most is not None:
                left.append(most - (read_limit(folder / used) or 0) + _stat(folder / "memory.stat", cache))
            if folder == root:
                break
    return max(0, min(left))


def format_bytes(size: int) -> str:
    """Formats a number of bytes, such as '1.5 GiB'."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1024:,.1f} KiB"


def cgroup_of_process(membership: Path, controller: str) -> str:
    """Returns the folder of this process's control group, below the controller's folder; '' if it is unknown."""
    for line in _read(membership).splitlines():
        _, controllers, folder = line.split(":", 2)
        if controller in controllers.split(","):
            return folder.lstrip("/")
    return ""


def read_limit(path: Path) -> int | None:
    """Reads a number from a file; None if the file is missing or says "max"."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _stat(path: Path, name: str) -> int:
    return next(
        (int(value) for key, _, value in (line.partition(" ") for line in _read(path).splitlines()) if key == name), 0
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt, from malloc.h
KEPT_BYTES = 1 << 30
"""Bytes of the largest block, and of unused memory, that malloc keeps instead of returning them to the system."""
OLD_LIMIT = 1 << 25
"""Largest block size that glibc before 2.35 accepts as a limit. Without a limit, it asks the system for blocks from 128
KiB on."""


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory of large tensors for the next ones. With other C libraries it does nothing.

    Every gradient step allocates tensors of the same sizes. Memory that went back to the system is cleared page by page
    when it is allocated again, which was measured at a tenth to a third of the time of an update with images or an
    LSTM.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # a C library without mallopt
        library = ctypes.CDLL(None)
        if not library.mallopt(_MMAP_THRESHOLD, KEPT_BYTES):
            library.mallopt(_MMAP_THRESHOLD, OLD_LIMIT)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
