"""How much memory this process may still take: of the machine's, and of what its container or slice is allowed."""

from __future__ import annotations

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
        own = root / own_group(membership, controller)
        for folder in (own, *own.parents):
            most = number_in(folder / limit)
            if most is not None:
                left.append(most - (number_in(folder / used) or 0) + _stat(folder / "memory.stat", cache))
            if folder == root:
                break
    return max(0, min(left))


def size_of(size: int) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1024:,.1f} KiB"


def own_group(membership: Path, controller: str) -> str:
    """The group's folder below the controller's; the controller's own where that is not known."""
    for line in _read(membership).splitlines():
        _, controllers, folder = line.split(":", 2)
        if controller in controllers.split(","):
            return folder.lstrip("/")
    return ""


def number_in(path: Path) -> int | None:
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
