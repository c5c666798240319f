"""Plays a game over a communicator that the calling program provides."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.unity import env_utils
from palaestra.unity.communicator import Communicator, UnityMessageProto
from palaestra.unity.exception import (
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityNotFiniteException,
)
from palaestra.unity.game_backend import GameBackend
from palaestra.wire import encode
from palaestra.wire.decode import GameMessage, decode

EXIT_SECONDS = 60.0
"""Seconds that a game has to exit after the command to quit."""


class CommunicatorBackend(GameBackend):
    """Starts the build, if there is one, and plays it through the communicator, which `close` closes."""

    def __init__(
        self, communicator: Communicator, file_name: str | None, args: Sequence[str], seed: int, areas: int
    ) -> None:
        """Starts the build with `args` and connects."""
        super().__init__()
        self._communicator = communicator
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if file_name is not None:
                self._process = env_utils.launch_executable(file_name, list(args))
            answer = _input(encode.initialization(seed & 0x7FFFFFFF, areas))
            self._greet(_incoming(communicator.initialize(answer, self._poll)))
        except BaseException:
            self.close(0.0)
            raise

    def close(self, grace: float = EXIT_SECONDS) -> None:
        """Closes the communicator and kills the process if it does not exit within `grace` seconds."""
        self._communicator.close()
        process = self._process
        self._process = None
        if process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
            return
        process.kill()
        process.wait()

    def _receive_after(self, raw: bytes) -> GameMessage:
        output = self._communicator.exchange(_input(raw), self._poll)
        if output is None:
            raise UnityCommunicatorStoppedException("the game ended its communication with the communicator")
        return _incoming(output)

    def _poll(self) -> None:
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise UnityEnvironmentException(f"the game exited (return code {code})")


def _input(raw: bytes) -> Any:
    return UnityMessageProto.FromString(raw).unity_input


def _incoming(output: Any) -> GameMessage:
    message = UnityMessageProto()
    message.header.status = encode.OK
    message.unity_output.ParseFromString(output.SerializeToString())
    try:
        return decode(message.SerializeToString())
    except NotFinite as error:
        raise UnityNotFiniteException(str(error)) from error
    except ProtocolError as error:
        raise UnityEnvironmentException(str(error)) from error
