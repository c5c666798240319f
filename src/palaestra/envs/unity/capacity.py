"""How many copies of a game fit on this machine: refused before they start, not found out by the machine's end."""

from __future__ import annotations

import os

from palaestra.core.errors import EnvError
from palaestra.core.processes import free_files, free_processes, memory_of, threads_of
from palaestra.core.system_memory import free_memory

LEAST_MEMORY = 32 * 2**20
"""Bytes that any game takes."""
PLENTY = 2 * 2**30
"""Bytes that few games take: where there is as much for each copy, they are started without measuring the first."""
OWN_THREADS = 7
"""Of ours for a copy: those of its server, and the process that guards it."""
FILES = 8
"""Of ours for a copy: its ports, its connection, its log."""
SHARE, ADVISED = 0.9, 0.85
"""Of the memory that is left, what copies may take, and what they take where a number is advised; the rest is for what is loaded later."""
MIB = 2**20


class Room:
    """Room for the copies of one game, of which the first is measured before the others are started where memory may be short."""

    def __init__(self, copies: int) -> None:
        """Raises EnvError where the system would not let so many be started even if they were as small as any game is."""
        self._copies = copies
        memory = free_memory()
        self.each: int | None = PLENTY if copies * PLENTY <= memory else None
        """Bytes of a copy, or more; None: not known yet."""
        self.wave = max(2, 2 * (os.cpu_count() or 1))
        """Copies that may load at once."""
        if copies > 1:
            self._must_fit(None, _per(free_processes(), OWN_THREADS + 1), _per(free_files(), FILES), "at most")

    def measure(self, pid: int, running: int = 1) -> None:
        """Looks at the first copy, which plays, as `running` have been started. Raises EnvError where the others do not fit beside them."""
        self.each = max(memory_of(pid), LEAST_MEMORY)
        threads = threads_of(pid)
        memory = int(SHARE * free_memory()) // self.each
        processes, files = _per(free_processes(), OWN_THREADS + threads), _per(free_files(), FILES)
        processes, files = (None if more is None else running + more for more in (processes, files))
        self._must_fit(running + memory, processes, files, f"with the first, which takes {self.each / MIB:,.0f} MiB and {threads} threads")

    def holds_another(self, loading: int) -> bool:
        """Whether memory is left for one more copy beside those that are loading still."""
        return self.each is None or free_memory() >= self.each * (1 + loading)

    def _must_fit(self, memory: int | None, processes: int | None, files: int | None, about: str) -> None:
        limits = {"memory that is left": memory, "processes that may be started (ulimit -u, pids.max)": processes}
        limits["files that may be opened (ulimit -n)"] = files
        known = {what: count for what, count in limits.items() if count is not None}
        what = min(known, key=lambda name: known[name], default=None)
        if what is not None and self._copies > known[what]:
            fit = max(1, int(known[what] * ADVISED / SHARE) if known[what] == memory else known[what])
            raise EnvError(
                f"--num-envs={self._copies}: so many copies of the game do not fit here; by the {what}, {fit} fit {about} "
                f"({free_memory() / MIB:,.0f} MiB of memory are left): --num-envs={fit}"
            )


def _per(count: int | None, each: int) -> int | None:
    return None if count is None else count // each
