"""How much memory this process may still take: of the machine's, and of what its container or slice is allowed."""

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
"""Of Linux's control groups, second and first version: the controller's folder; files of the limit and of what is used; in
`memory.stat` the cache of files that nobody reads, which counts as used but is given up on demand."""


def free_memory(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Bytes: what the machine has left, or less where a control group of this process, or one above it, has less."""
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
    """Bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1024:,.1f} KiB"


def cgroup_of_process(membership: Path, controller: str) -> str:
    """The group's folder below the controller's; the controller's own where that is not known."""
    for line in _read(membership).splitlines():
        _, controllers, folder = line.split(":", 2)
        if controller in controllers.split(","):
            return folder.lstrip("/")
    return ""


def read_limit(path: Path) -> int | None:
    """None where there is none, or no limit ("max")."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _stat(path: Path, name: str) -> int:
    return next((int(value) for key, _, value in (line.partition(" ") for line in _read(path).splitlines()) if key == name), 0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt, from malloc.h
KEPT = 1 << 30
"""Bytes that one piece may have, and bytes that may lie free, before they go back to the system."""
OLD_LIMIT = 1 << 25
"""The largest piece that glibc before 2.35 lets be set. Told of none, it would from then on ask the system for each from 128 KiB on."""


def keep_freed_memory() -> None:
    """Has glibc keep what large tensors leave behind, for the next ones. No other C library is touched.

    Every gradient step makes tensors of the same sizes anew. Given back to the system and taken again, each of their
    pages is cleared first: measured, a tenth to a third of an update of images or memory.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # a C library without mallopt
        library = ctypes.CDLL(None)
        if not library.mallopt(_MMAP_THRESHOLD, KEPT):
            library.mallopt(_MMAP_THRESHOLD, OLD_LIMIT)
        library.mallopt(_TRIM_THRESHOLD, KEPT)
