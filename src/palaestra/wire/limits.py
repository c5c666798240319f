"""Limits of messages, demonstrations, warnings and logs: without them, a few bytes could ask for all of a machine's
memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path

from palaestra.core.errors import ProtocolError
from palaestra.core.system_memory import format_bytes

MAX_NUMBERS = 1 << 26
"""Most numbers in all observations of one agent, 256 MiB; a message that announces more is taken to be damaged."""
SLACK = 1 << 16
"""Bytes allowed for an observation's message beside its numbers, for names and image headers."""


def max_bytes(shape: tuple[int, ...]) -> int:
    """Returns the largest message for a shape: twice its numbers, for PNGs with unused channels, plus SLACK."""
    return 8 * prod(shape) + SLACK


def check_agent(behavior: str, agent: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ProtocolError if the observations of an agent (`shapes`) have more than MAX_NUMBERS numbers."""
    total = sum(map(prod, shapes.values()))
    if total > MAX_NUMBERS:
        name, shape = max(shapes.items(), key=lambda item: prod(item[1]))
        raise ProtocolError(
            f"behavior '{behavior}', agent {agent}: observation '{name}' has shape {shape}, and all observations "
            f"{total:,} numbers; expected at most {MAX_NUMBERS:,} ({format_bytes(4 * MAX_NUMBERS)}) of one agent"
        )


BURST = 20
"""Number of warnings about a game's messages that are shown without a pause."""
PAUSE = 30.0
"""Seconds after which one more warning is shown."""
LONGEST_WARNING = 2000
"""Longest warning in characters."""
LONGEST_LOG = 256 * 2**20
"""Most bytes of a game's log file, and of its captured output."""


class WarningLimiter:
    """Limits the rate of warnings: shows a burst, then one warning every PAUSE seconds, with the number left out."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._credit = float(BURST)
        self._since = clock()
        self.left_out = 0
        """Warnings left out since the last one that was shown."""

    def warn(self, text: str) -> None:
        """Shows the warning, or counts it as left out."""
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._since) / PAUSE)
        self._since = now
        if self._credit < 1:
            self.left_out += 1
            return
        self._credit -= 1
        more = f" (and {self.left_out:,} more warnings, which were left out)" if self.left_out else ""
        self.left_out = 0
        self._show(f"{truncate(text, LONGEST_WARNING)}{more}")


def truncate(text: str, most: int) -> str:
    """Returns the text; if it is longer than `most` characters, only its beginning, followed by its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} letters)"


def empty_long_log(file: Path) -> int:
    """Empties a log file longer than LONGEST_LOG. Returns the former size; 0 if the file was short enough."""
    with suppress(OSError):
        found = file.stat()
        taken = getattr(found, "st_blocks", None)
        size = found.st_size if taken is None else min(found.st_size, 512 * taken)
        if size > LONGEST_LOG:
            os.truncate(file, 0)
            return size
    return 0
