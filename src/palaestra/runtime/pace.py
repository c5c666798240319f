"""Keeps play to a clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Ticks so many seconds apart. Time that was lost is not made up for: what is watched never rushes."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._seconds, self._clock, self._sleep = seconds, clock, sleep
        self._next = 0.0

    def wait(self) -> None:
        """Returns when the next tick is due."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + self._seconds
