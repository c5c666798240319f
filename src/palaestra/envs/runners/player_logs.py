"""Sends the logs of games from another machine to the run's machine, as they grow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 5.0
"""Seconds between two looks at the logs."""
MOST = 1 << 20
"""Most bytes of a log that are sent at once; of a longer piece only the end is sent."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A piece of a log."""

    name: str
    content: bytes
    afresh: bool  # the file begins anew


class GrowingLogs:
    """Reads the text that has been added to the logs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, int]] = {}
        """By name of a log, the number of the file and the bytes that have been read."""
        self._next = 0.0

    def take(self, now: bool = False) -> list[LogPart]:
        """Returns the pieces that are new since the last call; empty if that was a moment ago, unless `now`."""
        if not now and time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + INTERVAL
        return [part for file in sorted(self._folder.iterdir()) if (part := self._part(file)) is not None]

    def _part(self, file: Path) -> LogPart | None:
        with suppress(OSError):
            stat = file.stat()
            number, done = self._read.get(file.name, (stat.st_ino, 0))
            afresh = number != stat.st_ino or stat.st_size < done
            done = 0 if afresh else done
            if afresh or stat.st_size > done:
                with open(file, "rb") as opened:
                    opened.seek(max(done, stat.st_size - MOST))
                    content = opened.read(MOST)
                self._read[file.name] = (stat.st_ino, stat.st_size)
                return LogPart(file.name, content, afresh)
        return None


def write_logs(folder: Path, parts: Sequence[LogPart]) -> None:
    """Appends pieces to the logs in a folder. Ignores a log that cannot be written, as no run should end for it."""
    for part in parts:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / Path(part.name).name, "wb" if part.afresh else "ab") as file:
                file.write(part.content)
