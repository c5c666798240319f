"""Follows a game to its first decision, stage by stage."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from palaestra.core.display import shown_path
from palaestra.core.errors import EnvError, GameGone, PalaestraError
from palaestra.core.specs import describe
from palaestra.envs.unity import executable
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.game_instance import GameInstance
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.timeouts import Phase

FOUND, LISTENING, STARTED, CONNECTED = "build found", "port open", "process started", "connected"
VERSIONS, RESET, BEHAVIORS, DECISIONS = (
    "versions agree",
    "first scene reset",
    "behaviors appear",
    "agents ask for decisions",
)
OF_BUILDS = (FOUND, STARTED, CONNECTED, VERSIONS, RESET, BEHAVIORS, DECISIONS)
OF_EDITOR = (LISTENING, CONNECTED, VERSIONS, RESET, BEHAVIORS, DECISIONS)

AWAITED = {
    Phase.STARTING: CONNECTED,
    Phase.GREETED: RESET,
    Phase.RESET: BEHAVIORS,
    Phase.EMPTY: BEHAVIORS,
    Phase.UNDECIDED: DECISIONS,
}
"""For each phase of the conversation with a game, the stage that it waits for."""


@dataclass(frozen=True, slots=True)
class CheckStage:
    """Stage that was passed or failed."""

    name: str
    ok: bool
    seconds: float
    details: tuple[str, ...]  # lines; for a failed one why, and what to do


class Visitor(Protocol):
    """Receives the progress of an examination."""

    def begins(self, stage: str) -> None:
        """Called when the examination begins to wait for a stage."""
        ...

    def ended(self, stage: CheckStage) -> None:
        """Called when a stage was passed or failed."""
        ...

    def says(self, text: str) -> None:
        """Called with a message of the environment, such as which key to press."""
        ...


class StageList:
    """Stages of an examination, in order. The first stage that is not passed is the awaited stage."""

    def __init__(self, names: tuple[str, ...], visitor: Visitor) -> None:
        self.stages: list[CheckStage] = []
        self._names = names
        self._visitor = visitor
        self._since = time.perf_counter()
        visitor.begins(names[0])

    @property
    def awaited(self) -> str | None:
        """Name of the awaited stage; None if all are passed or one failed."""
        at = len(self.stages)
        return self._names[at] if at < len(self._names) and (not at or self.stages[-1].ok) else None

    def passed(self, *details: str) -> None:
        """Marks the awaited stage as passed."""
        self._end(True, details)

    def failed(self, error: PalaestraError) -> None:
        """Marks the awaited stage as failed."""
        self._end(False, tuple(str(error).splitlines()))

    def _end(self, ok: bool, details: tuple[str, ...]) -> None:
        name = self.awaited
        now = time.perf_counter()
        assert name is not None
        self.stages.append(CheckStage(name, ok, now - self._since, details))
        self._since = now
        self._visitor.ended(self.stages[-1])
        if self.awaited is not None:
            self._visitor.begins(self.awaited)


class GameProgress:
    """Follows one game from its build or the Editor to its first decision."""

    def __init__(self, options: UnityOptions, visitor: Visitor) -> None:
        self.options = options
        self._visitor = visitor
        self.stage_list = StageList(OF_EDITOR if options.executable is None else OF_BUILDS, visitor)
        self.warnings: list[str] = []
        """Warnings about the game's messages."""
        self._env: UnityEnv | None = None

    def opened(self, env: UnityEnv) -> None:
        """Marks the environment as open; its game has not started yet."""
        self._env = env
        env.entered = self._entered
        if self.options.executable is not None:
            self.stage_list.passed(*found(self.options.executable))

    def failed(self, error: PalaestraError) -> None:
        """Marks the awaited stage as failed."""
        if self.stage_list.awaited == CONNECTED and not isinstance(error, GameGone):
            self.stage_list.passed()  # it connected, but sent something invalid
        self.stage_list.failed(error)

    def receive(self, level: str, text: str) -> None:
        """Receives UnityEnv's messages. Raises EnvError if waiting longer is useless."""
        awaited = self.stage_list.awaited
        if level == "info":
            if awaited == CONNECTED:
                self._visitor.says(text)
            return
        copy = self._copy()
        ended = copy.editor and awaited is None and copy.conversation.silence.phase in (Phase.STARTING, Phase.DOWN)
        if ended or (copy.conversation.silence.reminders and not copy.editor):
            raise EnvError(text + copy.log_tail())
        if copy.editor and (copy.conversation.silence.reminders or awaited is not None):
            self._visitor.says(text)
        else:
            self.warnings.append(text)

    def _copy(self) -> GameInstance:
        assert self._env is not None
        return self._env.copies[0]

    def _entered(self, _: int, phase: Phase) -> None:
        """Passes all stages before the one that the phase waits for."""
        if phase is Phase.DOWN:
            return
        goal = AWAITED.get(phase)
        details: dict[str, Callable[[GameInstance], list[str]]] = {
            LISTENING: listening,
            STARTED: started,
            VERSIONS: versions,
            BEHAVIORS: self._behaviors,
            DECISIONS: deciders,
        }
        while self.stage_list.awaited not in (None, goal) and self._ahead(goal):
            lines = details.get(self.stage_list.awaited or "", lambda copy: [])
            self.stage_list.passed(*lines(self._copy()))

    def _ahead(self, goal: str | None) -> bool:
        """Whether a stage is still to come; a game that connects again does not repeat stages."""
        names = OF_EDITOR if self.options.executable is None else OF_BUILDS
        return goal is None or names.index(goal) > len(self.stage_list.stages)

    def _behaviors(self, _: GameInstance) -> list[str]:
        assert self._env is not None
        return [f"{name}: {describe(spec)}" for name, spec in self._env.behaviors.items()]


def found(name: str) -> list[str]:
    """Describes the file of a build."""
    file = executable.find(name) or Path(name)
    marked = "" if os.access(file, os.X_OK) else "not "
    how = "run by Python" if executable.is_script(file) else f"{marked}marked as a program"
    return [f"{shown_path(file)} ({size(file.stat().st_size)}, {how})"]


def listening(copy: GameInstance) -> list[str]:
    """Describes the port on which the run waits for the Editor."""
    return [f"port {copy.server.port} on {copy.options.bind or 'this machine only'}"]


def started(copy: GameInstance) -> list[str]:
    """Describes a started copy: process id and command line."""
    assert copy.process is not None
    return [f"process {copy.process.pid}: {shlex.join(copy.process.command)}"]


def versions(copy: GameInstance) -> list[str]:
    """Describes the versions that the game reports, and the capabilities that it lacks."""
    assert copy.conversation.game is not None
    game = copy.conversation.game.version
    lines = [f"package com.unity.ml-agents {game.package or 'unknown'}, communication API {game.communication}"]
    return [*lines, f"this package has no {', no '.join(game.missing)}"] if game.missing else lines


def deciders(copy: GameInstance) -> list[str]:
    """Describes the behaviors in a game's first message, and their agents."""
    lines = []
    for arrival in copy.conversation.arrivals:
        asking = arrival.infos.group[~arrival.infos.done]
        groups = len(set(asking[asking > 0].tolist()))
        lines.append(
            f"{arrival.name}: {counted(len(asking), 'agent')} of team {arrival.team}"
            + (f" in {counted(groups, 'group')}" if groups else "")
        )
    return lines


def counted(count: int, noun: str) -> str:
    """Returns text such as '1 agent' or '2 agents'."""
    return f"{count} {noun}{'s' * (count != 1)}"


def size(count: float) -> str:
    """Returns a number of bytes as text."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
