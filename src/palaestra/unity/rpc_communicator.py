"""Communicator over gRPC: this process is the server, the game its client."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Any

from palaestra.core.errors import EnvError
from palaestra.unity.communicator import Communicator, PollCallback, UnityMessageProto
from palaestra.unity.exception import UnityTimeOutException, UnityWorkerInUseException
from palaestra.wire.encode import OK, goodbye
from palaestra.wire.server import Call, Inbox, Server

POLLS_PER_WAIT = 10
"""How often `poll_callback` is called during a wait."""


class RpcCommunicator(Communicator):
    """Communicator that listens on loopback from its construction. Raises UnityWorkerInUseException."""

    def __init__(self, worker_id: int = 0, base_port: int = 5005, timeout_wait: float = 30) -> None:
        """Starts to listen. `timeout_wait`: seconds that a game has for each answer."""
        super().__init__(worker_id, base_port)
        self.port = base_port + worker_id
        self.worker_id = worker_id
        self.timeout_wait = timeout_wait
        self._inbox: Inbox = SimpleQueue()
        self._call: Call | None = None
        try:
            self._server = Server(worker_id, self._inbox, self.port, fixed=True)
        except EnvError as error:
            raise UnityWorkerInUseException(worker_id) from error
        self.is_open = True

    def initialize(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Exchanges first messages with the game and returns the game's message; also waits for the game's second,
        empty message."""
        hello = self._receive(poll_callback)
        self._answer(inputs)
        self._receive(poll_callback)
        return hello.unity_output

    def exchange(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Sends a command and returns the game's next message; None: the game quit."""
        self._answer(inputs)
        output = self._receive(poll_callback)
        return output.unity_output if output.header.status == OK else None

    def close(self) -> None:
        """Asks the game to quit and frees the port. May be called again."""
        if not self.is_open:
            return
        self.is_open = False
        waiting = [self._call, *(self._inbox.get() for _ in range(self._inbox.qsize()))]
        for call in waiting:
            if isinstance(call, Call):
                call.answer(goodbye())
        self._server.close()

    def _answer(self, inputs: Any) -> None:
        message = UnityMessageProto(header={"status": OK})
        message.unity_input.ParseFromString(inputs.SerializeToString())
        if self._call is not None:
            self._call.answer(message.SerializeToString())

    def _receive(self, poll_callback: PollCallback | None) -> Any:
        deadline = time.monotonic() + self.timeout_wait
        while True:
            left = deadline - time.monotonic()
            try:
                item = self._inbox.get(timeout=max(0.0, min(self.timeout_wait / POLLS_PER_WAIT, left)))
            except Empty:
                if poll_callback is not None:
                    poll_callback()
                if left <= 0:
                    raise UnityTimeOutException(
                        f"the game sent nothing for {self.timeout_wait:g} s: does its window wait for input, is an "
                        "agent's Behavior Type other than Default, or does it need --no-graphics on a machine without "
                        "a display?"
                    ) from None
                continue
            if isinstance(item, Call):
                self._call = item
                return UnityMessageProto.FromString(item.raw)
