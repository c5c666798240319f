"""What can be chosen about Unity games: how they are started, how long they are waited for, how they run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palaestra.core.errors import EnvError, GameGone
from palaestra.wire.unity_channels import Engine

EDITOR_PORT = 5004
PATIENCE = 60.0
"""Seconds to wait for a game where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a copy may be started anew; None: as long as the run makes progress."""

    lifetime: int | None = None  # of one copy in all; -1: no limit
    rate: int | None = None  # of one copy within `period`; -1: no limit
    period: float = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class UnityOptions:
    """Everything about the games of one environment."""

    executable: str | None = None  # a build, as typed; None: the Editor, or a game someone else starts
    copies: int = 1
    args: Sequence[str] = ()  # passed on to the build
    base_port: int | None = None  # first port to try; None, or where it is taken: one that the system picks
    editor_port: int = EDITOR_PORT
    bind: str | None = None  # address to listen on; None: this machine only
    patience: float | None = None  # seconds to wait for an answer; None: PATIENCE for builds, for ever for the Editor
    restarts: Restarts = Restarts()
    engine: Engine = field(default_factory=Engine)
    areas: int = 1  # told to the game, which may make that many copies of its training area
    no_graphics: bool = False
    no_graphics_monitor: bool = False  # the same but for the first copy
    max_message_mb: float | None = 1024.0  # of a message as it comes, and of its observations as numbers; None: no limit
    logs: Path | None = None  # folder of Player-<copy>.log; None: a temporary one
    show_output: bool = False  # what builds print goes to our terminal

    def wait_for(self) -> float:
        """Seconds after which silence is an error for builds, and worth a word for the Editor."""
        return PATIENCE if self.patience is None else self.patience


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
