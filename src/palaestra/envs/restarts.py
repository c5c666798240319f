"""When a copy of an environment is started again: limits, delays, and when the run ends instead."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic

from palaestra.core.errors import EnvError, GameGone

MAX_FRUITLESS_FAILURES = 5
"""Consecutive failures of a copy, without progress of any copy in between, after which the run ends."""
MAX_RESTART_DELAY = 30.0
"""Longest delay before a restart, in seconds."""
PROGRESS = 50
"""Messages of a copy that count as progress if no episode ends."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """Limits on the restarts of a copy; None: no limit while the run makes progress."""

    lifetime: int | None = None  # restarts of one copy in total; -1: no limit
    rate: int | None = None  # restarts of one copy within `period`; -1: no limit
    period: float = 60.0  # seconds


UNLIMITED = Restarts()


class RestartPolicy:
    """Decides on restarts of one copy. Without limits the run continues while any copy makes progress."""

    def __init__(self, title: str, limits: Restarts) -> None:
        """`title` is for errors, such as 'copy 3 of the game'."""
        self._title = title
        self._limits = limits
        self.restarts = 0
        self._recent: deque[float] = deque()
        self._failures_in_a_row = 0
        self._fruitless = 0
        self._progress = -1

    def failed(self, error: EnvError, progress: int, delivered: int) -> float:
        """Returns the seconds to wait before the next start. Raises GameGone if there is to be none.

        `progress` is a number that grows while any copy makes progress; `delivered` is the number of messages of the
        copy that failed.
        """
        now = monotonic()
        limits = self._limits
        while self._recent and now - self._recent[0] > limits.period:
            self._recent.popleft()
        if limits.lifetime not in (None, -1) and self.restarts >= limits.lifetime:
            raise GameGone(
                f"{self._title} was restarted {self.restarts} times, which is all that --max-lifetime-restarts allows; "
                f"{error}"
            )
        if limits.rate not in (None, -1) and len(self._recent) >= limits.rate:
            raise GameGone(
                f"{self._title} was restarted {len(self._recent)} times within {limits.period:g} s, which is all that "
                f"--restarts-rate-limit-n allows; {error}"
            )
        self._failures_in_a_row = 1 if delivered >= PROGRESS else self._failures_in_a_row + 1
        self._fruitless = self._fruitless + 1 if progress == self._progress else 1
        self._progress = progress
        if self._fruitless >= MAX_FRUITLESS_FAILURES:
            raise GameGone(f"{self._title} failed {self._fruitless} times in a row without progress; {error}")
        self._recent.append(now)
        self.restarts += 1
        return (
            min(0.5 * 2.0 ** (self._failures_in_a_row - 2), MAX_RESTART_DELAY) if self._failures_in_a_row > 1 else 0.0
        )
