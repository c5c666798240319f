"""What can be chosen about Unity games: how they are started, how long they are waited for, how they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palaestra.envs.unity.channels import Engine

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
