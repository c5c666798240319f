"""Keeps play to a clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Starts ticks as far apart as they last. Time that was lost is not made up for: what is watched never rushes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._next = 0.0

    def wait(self, seconds: float) -> None:
        """Returns when the next tick is due, which is then given so many seconds."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + seconds
