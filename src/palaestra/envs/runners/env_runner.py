"""The actor that holds copies of an environment, on the machine on which Ray starts it."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from palaestra.core.errors import EnvError
from palaestra.core.versions import palaestra_version
from palaestra.envs.base import Env
from palaestra.envs.pool.env_server import serve_env
from palaestra.envs.runners.arrivals import Address, call_home
from palaestra.envs.runners.player_logs import GrowingLogs
from palaestra.parallel.shared_memory import LocalBlock
from palaestra.parallel.worker import failure_message

MakeHere = Callable[..., Env]
"""A module-level function that makes an environment from the arguments of a task and the keywords `logs` and `log`."""


@dataclass(frozen=True, slots=True)
class RunnerTask:
    """Instructions for a runner."""

    make: MakeHere
    arguments: tuple[Any, ...]
    folder: str | None  # the run's working folder; None: Ray has brought it along
    version: str  # of palaestra, where the run is
    path: tuple[str, ...]  # the run's folders of modules


NOTE = b"note:"
"""Begins a message for the user, which comes before the answer to a request."""


class EnvRunner:
    """Serves a run over a connection until the run closes it. Ray calls `serve` once."""

    def serve(self, home: Address, task: RunnerTask) -> None:
        """Makes the environment, answers requests about it, and closes it."""
        torch.set_num_threads(1)
        with (
            tempfile.TemporaryDirectory(prefix="palaestra-logs-", ignore_cleanup_errors=True) as folder,
            call_home(home) as connection,
        ):
            try:
                _prepare(task)
                notes = _Notes(connection, Path(folder))
                make = partial(task.make, *task.arguments, logs=Path(folder), log=notes.log)
                serve_env(connection, make, LocalBlock, notes.send)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                pass  # the run has closed the connection
            except BaseException as error:
                with suppress(OSError):
                    connection.send_bytes(failure_message(error))
                raise  # Ray keeps it


def _prepare(task: RunnerTask) -> None:
    """Goes to the run's folder, if it is here too. Raises EnvError if this is another version."""
    if task.version != palaestra_version():
        raise EnvError(
            f"it has palaestra {palaestra_version()}, and the run {task.version}: every machine needs the same version"
        )
    if task.folder is not None and os.path.isdir(task.folder):
        os.chdir(task.folder)
    sys.path += [folder for folder in task.path if folder not in sys.path and os.path.isdir(folder)]


class _Notes:
    """Sends messages for the user and the logs of games, as they grow."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._logs = GrowingLogs(folder)
        self._messages: list[tuple[str, str]] = []

    def log(self, level: str, text: str) -> None:
        self._messages.append((level, text))

    def send(self, last: bool) -> None:
        logs = self._logs.take(now=last)
        if logs or self._messages:
            self._connection.send_bytes(NOTE + pickle.dumps((self._messages, logs)))
            self._messages.clear()
