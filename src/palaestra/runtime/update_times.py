"""How long updates take, for whoever wants to stop a run in the midst of one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LONG = 1.0
"""Seconds from which on a wait is worth a word."""


class UpdateTimes:
    """Seconds of each behavior's last update, and which updates are still to be made. Safe to read in a signal handler."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._to_come: tuple[str, ...] = ()
        """Behaviors whose update has not ended, the one under way first."""
        self._began = 0.0

    @contextmanager
    def of(self, behaviors: Sequence[str]) -> Iterator[None]:
        """Within the block these behaviors are updated, in this order."""
        self._to_come = tuple(behaviors)
        self._began = time.perf_counter()
        try:
            yield
        finally:
            self._to_come = ()

    def ended(self, behavior: str) -> None:
        """The first of them is done."""
        now = time.perf_counter()
        self._last[behavior], self._began = now - self._began, now
        self._to_come = self._to_come[1:]

    def wait(self) -> str:
        """What a run that stops has to wait for, for people; empty: nothing long."""
        to_come, now = self._to_come, time.perf_counter()
        if not to_come:
            return ""
        known = [self._last.get(name) for name in to_come]
        if any(seconds is None for seconds in known):
            return f"the first update is under way for {now - self._began:.0f} s; how long one takes is not known yet"
        left = max(0.0, (known[0] or 0.0) - (now - self._began)) + sum(seconds or 0.0 for seconds in known[1:])
        longest = max(seconds or 0.0 for seconds in known)
        return f"an update is under way, about {spoken(left)} left" if longest >= LONG else ""


def spoken(seconds: float) -> str:
    """A time for people, rounded up."""
    whole = max(1, -int(-seconds // 1))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"
