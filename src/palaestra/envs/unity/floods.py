"""What a game could send or write without end is counted and cut."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BURST = 20
"""Warnings about a game's messages that are shown one after another."""
PAUSE = 30.0
"""Seconds after which one more is shown."""
LONGEST_WARNING = 2000
"""Letters of one warning."""
LONGEST_LOG = 256 * 2**20
"""Bytes of a game's log, and of what it prints."""


class WarningBrake:
    """Passes a burst of warnings on, then one every now and then, which says how many were left out."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._credit, self._since = float(BURST), clock()
        self.left_out = 0
        """Since the last one that was shown."""

    def warn(self, text: str) -> None:
        """Shows it, or counts it."""
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._since) / PAUSE)
        self._since = now
        if self._credit < 1:
            self.left_out += 1
            return
        self._credit -= 1
        more = f" (and {self.left_out:,} more warnings, which were left out)" if self.left_out else ""
        self.left_out = 0
        self._tell(f"{shortened(text, LONGEST_WARNING)}{more}")


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} letters)"


def cut_log(file: Path) -> int:
    """Empties a log that has become too long for its disk. Its size, where it was; 0: it stays as it is.

    Whoever writes it goes on: at the beginning where it appends, else behind a hole that takes no room.
    """
    with suppress(OSError):
        found = file.stat()
        taken = getattr(found, "st_blocks", None)
        size = found.st_size if taken is None else min(found.st_size, 512 * taken)
        if size > LONGEST_LOG:
            os.truncate(file, 0)
            return size
    return 0
