"""Connections with a copy of an environment, which runs in a process on this machine or on another machine
(`runners/runner_link.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from multiprocessing.connection import Connection
from typing import Any

from palaestra.core.errors import GameGone
from palaestra.envs.copies import CopyFailed
from palaestra.envs.pool.env_server import MakeEnv, serve
from palaestra.parallel.worker import GRACE, WorkerProcess


class Link(ABC):
    """Starts the process or runner of a copy's environment, and holds the connection with it."""

    title: str  # its name in messages, such as 'copy 2 of the environment'
    grace: float  # seconds that it has to close its environment
    connection: Connection  # has a message, or has ended, when the copy has
    connected = True
    """Whether `connection` leads to the environment; if not, a message on it announces the real connection, and its end
    means that none follows."""

    ended_for = ""
    """Why this side ended the link."""

    @abstractmethod
    def start(self) -> None:
        """Starts the process or runner; again after `end`. Its first message has the facts about its environment."""

    @abstractmethod
    def describe_end(self) -> str:
        """Returns how the process or runner ended, as a predicate."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once. Safe in a signal handler."""

    @abstractmethod
    def end(self) -> None:
        """Ends the process or runner and frees its resources; may be called again."""

    def failure(self) -> CopyFailed:
        """Returns the error that describes how it ended."""
        return CopyFailed(GameGone(self.ended_for or f"it {self.describe_end()}"))

    def arrives(self) -> bool:
        """Whether the connection with the environment was made just now."""
        return False

    def take_note(self, message: bytes) -> bool:
        """Shows a message if it is for the user and not an answer to a request; returns whether it was for the user."""
        return False

    def explain_waiting(self) -> str:
        """Returns a likely reason why the copy has not started, as the end of a sentence; '' if unknown."""
        return ""


class ProcessLink(Link):
    """Runs the copy in a separate process."""

    grace = GRACE

    def __init__(self, index: int, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
        self.title = f"copy {index} of the environment"
        self._task = (make, arguments, areas)

    def start(self) -> None:
        """See `Link`."""
        self.worker = WorkerProcess(serve, *self._task, title=self.title)
        self.connection = self.worker.connection

    def describe_end(self) -> str:
        """See `Link`."""
        return self.worker.describe_exit()

    def kill(self) -> None:
        """See `Link`."""
        self.worker.kill()

    def end(self) -> None:
        """See `Link`."""
        self.worker.close()
