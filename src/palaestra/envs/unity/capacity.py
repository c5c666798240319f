"""Checks how many copies of a game fit on this machine before they are started."""

from __future__ import annotations

from palaestra.core.errors import EnvError
from palaestra.core.processes import free_files, free_processes, memory_of, threads_of, usable_cores
from palaestra.core.system_memory import free_memory
from palaestra.envs.copies import Log
from palaestra.envs.unity.process import GameProcess

LEAST_MEMORY = 32 * 2**20
"""Least bytes of memory assumed for a game."""
PLENTY = 2 * 2**30
"""Bytes of free memory for each copy with which all copies are started without measuring the first."""
OWN_THREADS = 7
"""Threads of this process for each copy: one of its server, and one of the guard process."""
FILES = 8
"""Open files of this process for each copy: ports, connection and log."""
USABLE_SHARE, ADVISED_SHARE = 0.9, 0.85
"""Shares of the free memory that copies may take, and that the advised number of copies takes; the rest is for what is
loaded later."""
MIB = 2**20


class CopyCapacity:
    """Number of copies of a game that fit. If memory may be short, the first copy is measured before others start."""

    def __init__(self, copies: int) -> None:
        """Checks the limits that are known beforehand. Raises EnvError if the system would not allow so many processes
        or files."""
        self._copies = copies
        memory = free_memory()
        self.bytes_per_copy: int | None = PLENTY if copies * PLENTY <= memory else None
        """Bytes of a copy, or an upper bound; None: not measured yet."""
        self.max_loading = max(2, 2 * usable_cores())
        """Copies that may load at the same time."""
        self._full = False
        """True if no memory is left for the copies that have not been started."""
        if copies > 1:
            self._check_limits(None, _per(free_processes(), OWN_THREADS + 1), _per(free_files(), FILES), "at most")

    def measure(self, game: GameProcess | None, running: int) -> None:
        """Measures the first copy while `running` copies run, if there are to be more. Raises EnvError if the remaining
        copies do not fit."""
        if game is None or running >= self._copies:
            return
        pid = game.pid
        self.bytes_per_copy = max(memory_of(pid), LEAST_MEMORY)
        threads = threads_of(pid)
        memory = int(USABLE_SHARE * free_memory()) // self.bytes_per_copy
        processes = _per(free_processes(), OWN_THREADS + threads)
        files = _per(free_files(), FILES)
        processes, files = (None if more is None else running + more for more in (processes, files))
        self._check_limits(
            running + memory,
            processes,
            files,
            f"with the first, which takes {self.bytes_per_copy / MIB:,.0f} MiB and {threads} threads",
        )

    def fits_another(self, running: int, loading: int, log: Log) -> bool:
        """Whether one more copy may start in addition to `running` copies, `loading` of which are still loading; tells
        the user once if there is too little memory."""
        if self.bytes_per_copy is None or loading >= self.max_loading:
            return False
        if free_memory() >= self.bytes_per_copy * (1 + loading):
            return True
        if not loading and not self._full:
            self._full = True
            log(
                "warning",
                f"no memory is left for more than {running} of {self._copies} copies: the run continues with {running}",
            )
        return False

    def _check_limits(self, memory: int | None, processes: int | None, files: int | None, about: str) -> None:
        limits = {"memory that is left": memory, "processes that may be started (ulimit -u, pids.max)": processes}
        limits["files that may be opened (ulimit -n)"] = files
        known = {what: count for what, count in limits.items() if count is not None}
        what = min(known, key=lambda name: known[name], default=None)
        if what is not None and self._copies > known[what]:
            fit = max(1, int(known[what] * ADVISED_SHARE / USABLE_SHARE) if known[what] == memory else known[what])
            raise EnvError(
                f"--num-envs={self._copies}: this machine has no room for so many copies of the game; with the {what}, "
                f"{fit} fit "
                f"{about} ({free_memory() / MIB:,.0f} MiB of memory are left): --num-envs={fit}"
            )


def _per(count: int | None, each: int) -> int | None:
    return None if count is None else count // each
