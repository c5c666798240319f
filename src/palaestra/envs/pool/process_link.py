"""A copy of an environment in a process of its own."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from palaestra.envs.pool.env_server import MakeEnv, serve
from palaestra.parallel.worker import GRACE, WorkerProcess


class ProcessLink:
    """Starts the process, and has the connection with it."""

    grace = GRACE
    connected = True

    def __init__(self, index: int, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
        self.title = f"copy {index} of the environment"
        self._task = (make, arguments, areas)

    def start(self) -> None:
        """See `Link`."""
        self.worker = WorkerProcess(serve, *self._task, title=self.title)

    @property
    def connection(self) -> Connection:
        """See `Link`."""
        return self.worker.connection

    def arrives(self) -> bool:
        """False, since it is connected from the start."""
        return False

    def take_note(self, message: bytes) -> bool:
        """False: what a process has to say comes with its answers."""
        return False

    def explain_waiting(self) -> str:
        """Nothing: the environment itself takes long to start."""
        return ""

    def describe_end(self) -> str:
        """See `Link`."""
        return self.worker.describe_exit()

    def kill(self) -> None:
        """See `Link`."""
        self.worker.kill()

    def end(self) -> None:
        """See `Link`."""
        self.worker.close()
