"""How large what a game or a demonstration file shows may be: a few bytes can ask for all of a machine's memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Protocol

from palaestra.core.errors import ProtocolError
from palaestra.core.system_memory import format_bytes

MAX_NUMBERS = 1 << 26
"""Numbers of all observations of one agent, beyond which a message is damaged rather than a game large; 256 MiB."""
SLACK = 1 << 16
"""Bytes of an observation's message beside its numbers: names, compressed headers."""
MB = 1_000_000


class SensorSize(Protocol):
    """One observation of a behavior, as far as its size goes."""

    name: str
    sent: tuple[int, ...]


class ReaderSize(Protocol):
    """A behavior's observations, as far as their size goes."""

    name: str

    @property
    def sensors(self) -> Sequence[SensorSize]:
        """One for each observation."""
        ...


def max_bytes(shape: tuple[int, ...]) -> int:
    """Of the message of an observation of this shape: twice what its numbers take, for PNGs of more channels than are used, and SLACK."""
    return 8 * prod(shape) + SLACK


def check_agent(behavior: str, agent: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ProtocolError where an agent announces more numbers than any has. `shapes` by observation."""
    total = sum(map(prod, shapes.values()))
    if total > MAX_NUMBERS:
        name, shape = max(shapes.items(), key=lambda item: prod(item[1]))
        raise ProtocolError(
            f"behavior '{behavior}', agent {agent}: observation '{name}' has shape {shape}, and all observations {total:,} numbers; "
            f"expected at most {MAX_NUMBERS:,} ({format_bytes(4 * MAX_NUMBERS)}) of one agent"
        )


def check_tick(length: int, agents: Sequence[tuple[ReaderSize, int, int]], most: float | None) -> None:
    """Raises ProtocolError where a message is larger than `most` megabytes, as it came or as numbers.

    `length`: its bytes; `agents`: each behavior in it, with how many agents it has there and the id of one. None: anything goes.
    """
    if most is None:
        return
    raises = f"at most {most:,g} MB a message, which env_settings.max_message_mb sets"
    if length > most * MB:
        raise ProtocolError(f"a message of {length / MB:,.1f} MB came; expected {raises}")
    sizes = [(4 * prod(sensor.sent) * count, read, sensor, count, agent) for read, count, agent in agents for sensor in read.sensors]
    total = sum(size for size, *_ in sizes)
    if total > most * MB:
        size, read, sensor, count, agent = max(sizes, key=lambda one: one[0])
        raise ProtocolError(
            f"behavior '{read.name}', agent {agent}: observation '{sensor.name}' of shape {sensor.sent} takes {size / MB:,.1f} MB as "
            f"numbers for the {count:,} agents of a message, and all observations {total / MB:,.1f} MB; expected {raises}"
        )


BURST = 20
"""Warnings about a game's messages that are shown one after another."""
PAUSE = 30.0
"""Seconds after which one more is shown."""
LONGEST_WARNING = 2000
"""Letters of one warning."""
LONGEST_LOG = 256 * 2**20
"""Bytes of a game's log, and of what it prints."""


class WarningLimiter:
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
        self._tell(f"{truncate(text, LONGEST_WARNING)}{more}")


def truncate(text: str, most: int) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} letters)"


def empty_long_log(file: Path) -> int:
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
