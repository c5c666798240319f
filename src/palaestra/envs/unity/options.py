"""Options of Unity games: how they are started and restarted, timeouts, and engine settings."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palaestra.core.errors import EnvError, GameGone
from palaestra.wire.unity_channels import Engine

EDITOR_PORT = 5004
DEFAULT_TIMEOUT = 60.0
"""Seconds to wait for a game by default."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """Limits on the restarts of a copy; None: no limit while the run makes progress."""

    lifetime: int | None = None  # restarts of one copy in total; -1: no limit
    rate: int | None = None  # restarts of one copy within `period`; -1: no limit
    period: float = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class UnityOptions:
    """Options of one environment's games."""

    executable: str | None = None  # a build, as typed; None: the Editor, or a game someone else starts
    copies: int = 1
    args: Sequence[str] = ()  # passed on to the build
    base_port: int | None = None  # first port to try; None, or if it is taken: a free port
    editor_port: int = EDITOR_PORT
    bind: str | None = None  # address to listen on; None: this machine only
    timeout_wait: float | None = None  # seconds to wait for an answer; None: DEFAULT_TIMEOUT for builds, no limit for the Editor
    restarts: Restarts = Restarts()
    engine: Engine = field(default_factory=Engine)
    areas: int = 1  # sent to the game, which may make that many copies of its training area
    no_graphics: bool = False
    no_graphics_monitor: bool = False  # no graphics for all but the first copy
    max_message_mb: float | None = 1024.0  # limit on a message, encoded and as decoded observations; None: no limit
    logs: Path | None = None  # folder of Player-<copy>.log; None: a temporary one
    show_output: bool = False  # print the output of builds on our terminal

    def wait_for(self) -> float:
        """Returns the seconds of silence after which a build has failed and the user of the Editor is reminded."""
        return DEFAULT_TIMEOUT if self.timeout_wait is None else self.timeout_wait


MAX_FRUITLESS_FAILURES = 5
"""Consecutive failures of a copy, without progress of any copy in between, after which the run ends."""
MAX_RESTART_DELAY = 30.0
"""Longest delay before a restart, in seconds."""
PROGRESS = 50
"""Messages of a game that count as progress if no episode ends."""


class RestartPolicy:
    """Decides on restarts of one copy. Without limits the run continues while any copy makes progress."""

    def __init__(self, copy: int, limits: Restarts) -> None:
        self._copy, self._limits = copy, limits
        self.restarts = 0
        self._recent: deque[float] = deque()
        self._failures_in_a_row = self._fruitless = 0
        self._progress = -1

    def failed(self, error: EnvError, progress: int, delivered: int) -> float:
        """Returns the seconds to wait before the next start. Raises GameGone if there is to be none.

        `progress` is a number that grows while any copy makes progress; `delivered` is the number of messages of the game that failed.
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
        self._failures_in_a_row = 1 if delivered >= PROGRESS else self._failures_in_a_row + 1
        self._fruitless = self._fruitless + 1 if progress == self._progress else 1
        self._progress = progress
        if self._fruitless >= MAX_FRUITLESS_FAILURES:
            raise GameGone(f"{self._name} failed {self._fruitless} times in a row without progress; {error}")
        self._recent.append(now)
        self.restarts += 1
        return min(0.5 * 2.0 ** (self._failures_in_a_row - 2), MAX_RESTART_DELAY) if self._failures_in_a_row > 1 else 0.0

    @property
    def _name(self) -> str:
        return f"copy {self._copy} of the game"
