"""Progress of a run for pages and scripts: `run_logs/progress.json` each second, `run_logs/console.log`."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from palaestra.core.display import escaped_lines
from palaestra.core.files import read_end, regular, write_whole

PROGRESS = "progress.json"
CONSOLE = "console.log"
PROGRAM = "a program's"
"""Value of `environment` in the file if a program gave the environment as an object."""
LARGEST = 4 << 20
"""Bytes of the file above which its older half is dropped."""
EVERY = 1.0
WINDOW = 30.0
"""Seconds over which the rate is measured."""
OLD = 15.0
"""Seconds after which a learning process must have written again, unless it is in a long update."""


def of_program(run: Path) -> bool:
    """Whether a run, given by its folder, was trained in an environment that a program made, so that no command can
    open it."""
    with suppress(OSError, ValueError):
        return json.loads((run / "run_logs" / PROGRESS).read_text(encoding="utf-8")).get("environment") == PROGRAM
    return False


class ProgressFile:
    """Writes the file; does nothing if the run's folder is lost, because other code reports this."""

    def __init__(self, run: Path, since: float) -> None:
        """`since`: when the session began, in Unix seconds."""
        self._file = run / "run_logs" / PROGRESS
        self._since = since
        self._due = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    @property
    def begun(self) -> bool:
        """Whether the file was written in this session: a refused run leaves an earlier run's file unchanged."""
        return bool(self._seen)

    def due(self) -> bool:
        """Whether a second has passed since the last write."""
        return time.monotonic() >= self._due

    def write(self, state: str, behaviors: dict[str, dict[str, Any]], message: str = "", **more: Any) -> None:
        """Writes the state (learning, stopped, finished, failed), and each behavior's step, max_steps, reward."""
        now = time.monotonic()
        self._due = now + EVERY
        steps = sum(int(entry["step"]) for entry in behaviors.values())
        self._seen.append((now, steps))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        seconds = now - self._seen[0][0]
        before = self._seen[0][1]
        rate = (steps - before) / seconds if seconds > 0 and state == "learning" else None
        left = sum(
            max(int(entry["max_steps"]) - int(entry["step"]), 0)
            for entry in behaviors.values()
            if entry.get("max_steps")
        )
        whole = {
            "state": state,
            "message": message,
            "time": time.time(),
            "since": self._since,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "rate": rate,
            "seconds_left": left / rate if rate else None,
            "behaviors": behaviors,
            **more,
        }
        with suppress(OSError, ValueError):
            write_whole(self._file, json.dumps(whole, allow_nan=False).encode())


class ConsoleLog:
    """Appends each line with its time, also when the run is resumed. Ignores a lost folder, because other code reports
    it."""

    def __init__(self, run: Path) -> None:
        self._file = run / "run_logs" / CONSOLE

    def add(self, level: str, text: str) -> None:
        """Appends a line."""
        with suppress(OSError):
            with open(self._file, "a", encoding="utf-8", opener=regular) as stream:
                stream.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{level}] {escaped_lines(text)}\n")
            if self._file.stat().st_size > LARGEST:
                self._file.write_bytes(read_end(self._file, LARGEST // 2).encode())
