"""Options of Unity games: how they are started and restarted, timeouts, and engine settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palaestra.envs.copies import UNLIMITED, Restarts
from palaestra.wire.unity_channels import Engine

EDITOR_PORT = 5004
DEFAULT_TIMEOUT = 60.0
"""Seconds to wait for a game by default."""


@dataclass(frozen=True, slots=True)
class UnityOptions:
    """Options of all games of one environment."""

    executable: str | None = None  # a build, as typed; None: the Editor, or a game someone else starts
    copies: int = 1
    first_copy: int = 0  # number of the first of these, where others are in other processes
    all_copies: int | None = None  # number of copies in all processes; None: these are all
    args: Sequence[str] = ()  # passed on to the build
    base_port: int | None = None  # first port to try; None, or if it is taken: a free port
    editor_port: int = EDITOR_PORT
    bind: str | None = None  # address to listen on; None: this machine only
    # seconds to wait for an answer; None: DEFAULT_TIMEOUT for builds, no limit for the Editor
    timeout_wait: float | None = None
    restarts: Restarts = UNLIMITED
    engine: Engine = field(default_factory=Engine)
    areas: int = 1  # sent to the game, which may make that many copies of its training area
    no_graphics: bool = False
    no_graphics_monitor: bool = False  # no graphics for all but the first copy
    max_message_mb: float | None = 1024.0  # limit on a message, encoded and as decoded observations; None: no limit
    logs: Path | None = None  # folder of Player-<copy>.log; None: a temporary one
    show_output: bool = False  # print the output of builds on our terminal

    def wait_for(self) -> float:
        """Returns the seconds of silence after which a build counts as failed and the Editor's user is reminded."""
        return DEFAULT_TIMEOUT if self.timeout_wait is None else self.timeout_wait
