"""The actor that holds copies of an environment, on whichever machine Ray starts it."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from palaestra.core.errors import EnvError
from palaestra.core.versions import palaestra_version
from palaestra.envs.base import Env
from palaestra.envs.pool.env_server import CopyReply, EnvFacts, EnvServer, texts_of
from palaestra.envs.runners.arrivals import Address, call_home
from palaestra.envs.runners.packed_tables import pack_tables, unpack_actions
from palaestra.envs.runners.player_logs import GrowingLogs
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.shared_memory import LocalBlock
from palaestra.parallel.worker import failure_message

MakeHere = Callable[..., Env]
"""A module-level function that makes an environment from the arguments of a task and the keywords `logs` and `tell`."""


@dataclass(frozen=True, slots=True)
class RunnerTask:
    """Instructions for a runner."""

    make: MakeHere
    arguments: tuple[Any, ...]
    folder: str | None  # the run's working folder; None: Ray has brought it along
    version: str  # of palaestra, where the run is
    path: tuple[str, ...]  # the run's folders of modules


LENGTH = 4
"""Bytes that tell the length of the pickled part of a message; arrays follow it."""
NOTE = b"note:"
"""Begins a message for the user, which comes before the answer to a request."""


class EnvRunner:
    """Serves a run over a connection until it closes it. Ray calls `serve` once."""

    def serve(self, home: Address, task: RunnerTask) -> None:
        """Makes the environment, answers requests about it, and closes it."""
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory(prefix="palaestra-logs-", ignore_cleanup_errors=True) as logs:
            session = _RunnerSession(call_home(home), Path(logs))
            try:
                session.hold(task)
            except BaseException as error:
                if session.was_asked and isinstance(error, EOFError | BrokenPipeError | ConnectionResetError):
                    return  # the run has closed the connection
                session.fail(error)
                if not session.was_asked:
                    raise  # Ray keeps it
            finally:
                session.end()


class _RunnerSession:
    """Requests of the run and the answers to them."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder
        self._logs = GrowingLogs(folder)
        self.was_asked = False
        """True once the run has sent a request."""
        self._failure: BaseException | None = None
        """The newest failure that the run was told."""
        self._told: list[tuple[str, str]] = []
        self._caught: list[warnings.WarningMessage] = []

    def hold(self, task: RunnerTask) -> None:
        """Answers requests until the run takes its leave."""
        if task.version != palaestra_version():
            raise EnvError(
                f"it has palaestra {palaestra_version()}, and the run {task.version}: every machine needs the same "
                "version"
            )
        if task.folder is not None and os.path.isdir(task.folder):
            os.chdir(task.folder)
        sys.path += [folder for folder in task.path if folder not in sys.path and os.path.isdir(folder)]
        with warnings.catch_warnings(record=True) as self._caught:
            warnings.simplefilter("always")
            env = task.make(
                *task.arguments, logs=self._folder, tell=lambda level, text: self._told.append((level, text))
            )
            try:
                self._serve(EnvWrapper.of(env))
            except BaseException as error:
                self.fail(error)  # before it is closed, which may fail too, or hang
                raise
            finally:
                env.close()
                with suppress(OSError):
                    self._send_notes(now=True)

    def _serve(self, env: EnvWrapper) -> None:
        server = EnvServer(env, LocalBlock)
        self._send(CopyReply(EnvFacts.of(env), behaviors=dict(env.behaviors)))
        while True:
            request, _, rest = self._connection.recv_bytes().partition(b":")
            self.was_asked = True
            if request == b"close":
                return
            size = int.from_bytes(rest[:LENGTH], "little")
            body = memoryview(rest)[LENGTH:]
            if request == b"step":
                assert server.tables is not None
                unpack_actions(server.tables, body[size:])
            reply = server.answer(request.decode(), pickle.loads(body[:size]) if size else None)
            self._send(reply, pack_tables(server.tables) if reply.has_tables and server.tables is not None else b"")

    def _send(self, reply: CopyReply, tables: bytes = b"") -> None:
        self._send_notes()
        reply.warnings = texts_of(self._caught)
        self._caught.clear()
        head = b"" if reply == CopyReply() else pickle.dumps(reply)
        self._connection.send_bytes(len(head).to_bytes(LENGTH, "little") + head + tables)

    def _send_notes(self, now: bool = False) -> None:
        logs = self._logs.take(now)
        if logs or self._told:
            self._connection.send_bytes(NOTE + pickle.dumps((self._told, logs)))
            self._told.clear()

    def fail(self, error: BaseException) -> None:
        """Tells the run why the environment has failed, once."""
        if error is self._failure:
            return
        self._failure = error
        with suppress(OSError):
            self._connection.send_bytes(failure_message(error))

    def end(self) -> None:
        """Closes the connection."""
        self._connection.close()
