"""When a crashed copy is started again, and when it is not worth it any more."""

from __future__ import annotations

import time
from collections import deque

from palaestra.core.errors import EnvError, GameGone
from palaestra.envs.unity.options import Restarts

IN_VAIN = 5
"""Failures of a copy in a row, with nothing achieved by any copy in between, after which the run ends."""
LONGEST = 30.0
"""Seconds between two starts at most."""
PROGRESS = 50
"""Messages of a game that count as progress where no episode ends."""


class RestartPolicy:
    """Of one copy. Unless limits are set the run goes on for as long as any copy makes progress."""

    def __init__(self, copy: int, limits: Restarts) -> None:
        self._copy, self._limits = copy, limits
        self.restarts = 0
        self._recent: deque[float] = deque()
        self._row = self._in_vain = 0
        self._progress = -1

    def failed(self, error: EnvError, progress: int, delivered: int) -> float:
        """Seconds to wait before the next start. Raises GameGone where there is to be none.

        `progress`: a number that grows while any copy gets on; `delivered`: messages of the game that failed.
        """
        now, limits = time.monotonic(), self._limits
        while self._recent and now - self._recent[0] > limits.period:
            self._recent.popleft()
        if limits.lifetime not in (None, -1) and self.restarts >= limits.lifetime:
            raise GameGone(f"{self._name} was restarted {self.restarts} times, which is all that --max-lifetime-restarts allows; {error}")
        if limits.rate not in (None, -1) and len(self._recent) >= limits.rate:
            raise GameGone(
                f"{self._name} was restarted {len(self._recent)} times within {limits.period:g} s, which is all that "
                f"--restarts-rate-limit-n allows; {error}"
            )
        self._row = 1 if delivered >= PROGRESS else self._row + 1
        self._in_vain = self._in_vain + 1 if progress == self._progress else 1
        self._progress = progress
        if self._in_vain >= IN_VAIN:
            raise GameGone(f"{self._name} failed {self._in_vain} times in a row without getting anywhere; {error}")
        self._recent.append(now)
        self.restarts += 1
        return min(0.5 * 2.0 ** (self._row - 2), LONGEST) if self._row > 1 else 0.0

    @property
    def _name(self) -> str:
        return f"copy {self._copy} of the game"
