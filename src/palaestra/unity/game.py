"""Connection with one Unity game: each method blocks until the game's next message."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from palaestra.core.display import indented
from palaestra.core.errors import EnvError, NotFinite, ProtocolError
from palaestra.envs.unity import executable
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.process import GameProcess, arguments
from palaestra.envs.unity.timeouts import Phase, explain
from palaestra.unity.exception import (
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityNotFiniteException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from palaestra.unity.game_backend import GameBackend, StepResult
from palaestra.unity.logging_util import get_logger
from palaestra.wire import encode
from palaestra.wire.decode import GameMessage, decode
from palaestra.wire.server import Call, HungUp, Inbox, Server

CHECK_INTERVAL = 0.25
"""Seconds between checks of the game's process while waiting for a message."""
EXIT_SECONDS = 2.0
"""Seconds that a game has to exit after its connection broke, or to finish its tick so that it can quit."""


class UnityGame(GameBackend):
    """Listens on a port, starts the build, if there is one, and waits for the game to ask for a command."""

    def __init__(self, options: UnityOptions, worker_id: int, port: int, seed: int) -> None:
        """Takes the options of one copy; their `executable` is the file to start."""
        super().__init__()
        self._options = options
        self._worker_id = worker_id
        self._port = port
        self._inbox: Inbox = SimpleQueue()
        self._call: Call | None = None
        self._process: GameProcess | None = None
        self._temporary: Path | None = None
        self._phase = Phase.STARTING
        try:
            self._server = Server(worker_id, self._inbox, port, fixed=True)
        except EnvError as error:
            raise UnityWorkerInUseException(worker_id) from error
        try:
            self._start()
            self._greet(self._receive())
            self._phase = Phase.GREETED
            self._answer(encode.initialization(seed & 0x7FFFFFFF, options.areas))
            self._read(self._receive())
        except BaseException:
            self.close(0.0)
            raise

    def reset(self, side_channel: bytes) -> StepResult:
        """Begins new episodes for all agents."""
        self._phase = Phase.RESET
        return super().reset(side_channel)

    def close(self, grace: float | None = None) -> None:
        """Asks the game to quit, waits `grace` seconds (default: the timeout) for its exit, and kills it."""
        try:
            if grace is None:
                grace = self._options.wait_for() if self._has_request() else EXIT_SECONDS
            if self._call is not None:
                self._call.answer(encode.goodbye())
            while not self._inbox.empty():
                item = self._inbox.get()
                if isinstance(item, Call):
                    item.answer(encode.goodbye())
        finally:
            self._server.close()
            if self._process is not None:
                self._process.stop(grace or 0.0)
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def _has_request(self) -> bool:
        """Whether a request waits for an answer, or comes soon; only then can the game quit."""
        gone = self._phase is Phase.DOWN or (self._process is not None and self._process.code() is not None)
        if self._call is None and not gone:
            with suppress(Empty):
                item = self._inbox.get(timeout=EXIT_SECONDS)
                self._call = item if isinstance(item, Call) else None
        return self._call is not None and self._call.open

    # Start

    def _start(self) -> None:
        options = self._options
        if options.executable is None:
            get_logger(__name__).info(f"listening on port {self._port}: press Play in the Unity Editor")
            return
        self._temporary = Path(tempfile.mkdtemp(prefix="palaestra-"))
        log = (options.logs or self._temporary) / f"Player-{self._worker_id}.log"
        flags = arguments(options, self._worker_id, self._port, None if options.logs is None else log)
        try:
            words = [*executable.command(Path(options.executable)), *flags]
            self._process = GameProcess(words, log, self._temporary / "output", options.show_output)
        except EnvError as error:
            raise UnityEnvironmentException(str(error)) from error

    # Messages

    def _receive_after(self, raw: bytes) -> GameMessage:
        self._answer(raw)
        return self._receive()

    def _answer(self, raw: bytes) -> None:
        call = self._call
        if call is None:
            raise UnityCommunicatorStoppedException(
                "this conversation has ended with an error before; close the environment"
            )
        if call.open:
            self._call = None
            call.answer(raw)
        else:
            self._raise_disconnected()

    def _receive(self) -> GameMessage:
        """Waits for the next message and keeps its call, to be answered later."""
        timeout_wait = self._options.wait_for()
        deadline = time.monotonic() + timeout_wait
        while True:
            try:
                item = self._inbox.get(timeout=max(0.0, min(CHECK_INTERVAL, deadline - time.monotonic())))
            except Empty:
                self._check_process()
                if time.monotonic() >= deadline:
                    editor = self._options.executable is None
                    raise UnityTimeOutException(
                        explain(self._phase, timeout_wait, editor=editor) + self._tail()
                    ) from None
                continue
            if isinstance(item, HungUp):
                continue
            try:
                incoming = decode(item.raw)
            except NotFinite as error:
                self._call = item
                raise UnityNotFiniteException(str(error)) from error
            except ProtocolError as error:
                item.answer(None)
                raise UnityEnvironmentException(str(error)) from error
            if incoming.status != encode.OK:
                item.answer(encode.goodbye())
                self._phase = Phase.DOWN
                raise UnityCommunicatorStoppedException(
                    "the game quit by itself (Application.Quit, its window or play mode was closed)"
                )
            if (
                self._phase is not Phase.STARTING
                and incoming.hello is not None
                and incoming.hello.communication_version
            ):
                item.answer(None)  # another program, or another game that was started on this port
                continue
            self._call = item
            if incoming.infos:
                self._phase = Phase.RUNNING
            return incoming

    # Errors

    def _check_process(self) -> None:
        if self._process is not None and (code := self._process.code()) is not None:
            ended = self._process.describe_exit(f" (return code {code})")
            raise UnityEnvironmentException(f"the game {ended}{self._tail()}")

    def _raise_disconnected(self) -> None:
        """Raises the error for a connection that broke while the game waited for an answer."""
        until = time.monotonic() + EXIT_SECONDS
        while self._process is not None and time.monotonic() < until:
            self._check_process()
            time.sleep(0.02)
        raise UnityCommunicatorStoppedException("the game's connection broke" + self._tail())

    def _tail(self) -> str:
        tail = "" if self._process is None else self._process.tail()
        return indented(f"; the end of its log:\n{tail}") if tail else ""
