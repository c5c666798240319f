"""Communicator over gRPC: this process is the server, the game its client."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Any

import grpc

from palaestra.unity.communicator import Communicator, PollCallback, UnityMessageProto
from palaestra.unity.exception import UnityTimeOutException, UnityWorkerInUseException
from palaestra.wire.encode import GOODBYE, OK
from palaestra.wire.messages import EXCHANGE
from palaestra.wire.server import LOOPBACK, DaemonThreads, bracketed, find_port, has_ipv6

MAX_CALLS = 10
"""Most calls at the same time; a game that restarts may leave some open."""
POLLS_PER_WAIT = 10
"""Times that `poll_callback` is called in a wait."""


class GameConnection:
    """One end of a connection between two threads."""

    def __init__(self, received: SimpleQueue[Any], sent: SimpleQueue[Any]) -> None:
        self._received = received
        self._sent = sent
        self._next: list[Any] = []

    def send(self, message: Any) -> None:
        """Sends a message to the other end."""
        self._sent.put(message)

    def recv(self) -> Any:
        """Waits for the next message of the other end and returns it."""
        return self._next.pop() if self._next else self._received.get()

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether there is a message to receive; waits for one up to `timeout` seconds."""
        if not self._next:
            try:
                self._next.append(self._received.get(timeout=timeout) if timeout > 0 else self._received.get_nowait())
            except Empty:
                return False
        return True

    def close(self) -> None:
        """Does nothing; exists for compatibility."""


class UnityToExternalServicerImplementation:
    """Service that answers a game's calls with the messages sent on `parent_conn`; `child_conn` is the server's end."""

    def __init__(self) -> None:
        here = SimpleQueue[Any]()
        there = SimpleQueue[Any]()
        self.parent_conn = GameConnection(here, there)
        self.child_conn = GameConnection(there, here)

    def Initialize(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Answers the first message."""
        self.child_conn.send(request)
        return self.child_conn.recv()

    def Exchange(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Answers any message."""
        self.child_conn.send(request)
        return self.child_conn.recv()


class RpcCommunicator(Communicator):
    """Communicator that listens on loopback from its construction. Raises UnityWorkerInUseException."""

    def __init__(self, worker_id: int = 0, base_port: int = 5005, timeout_wait: float = 30) -> None:
        """Starts to listen. `timeout_wait`: seconds that a game has for each answer."""
        super().__init__(worker_id, base_port)
        self.port = base_port + worker_id
        self.worker_id = worker_id
        self.timeout_wait = timeout_wait
        self.server: grpc.Server | None = None
        self.unity_to_external: Any = None
        self.is_open = False
        self._threads: DaemonThreads | None = None
        self.create_server()

    def create_server(self) -> None:
        """Starts the server. Raises UnityWorkerInUseException if the port is taken."""
        self.check_port(self.port)
        self.unity_to_external = UnityToExternalServicerImplementation()
        self._threads = DaemonThreads(MAX_CALLS, f"communicator-{self.worker_id}")
        self.server = grpc.server(
            self._threads,  # pyright: ignore[reportArgumentType] - any Executor will do
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)],
        )
        self.server.add_generic_rpc_handlers((_Service(self.unity_to_external),))
        try:
            for host in LOOPBACK:
                if host != "::1" or has_ipv6():
                    self.server.add_insecure_port(f"{bracketed(host)}:{self.port}")
        except RuntimeError as error:
            self.server.stop(None)
            self._threads.shutdown()
            raise UnityWorkerInUseException(self.worker_id) from error
        self.server.start()
        self.is_open = True

    def check_port(self, port: int) -> None:
        """Raises UnityWorkerInUseException if the port is taken."""
        if find_port(LOOPBACK, port) is None:
            raise UnityWorkerInUseException(self.worker_id)

    def poll_for_timeout(self, poll_callback: PollCallback | None = None) -> None:
        """Waits for a message of the game, calling `poll_callback` in between. Raises UnityTimeOutException."""
        deadline = time.monotonic() + self.timeout_wait
        while True:
            left = deadline - time.monotonic()
            if self.unity_to_external.parent_conn.poll(max(0.0, min(self.timeout_wait / POLLS_PER_WAIT, left))):
                return
            if poll_callback is not None:
                poll_callback()
            if left <= 0:
                raise UnityTimeOutException(
                    f"the game sent nothing for {self.timeout_wait:g} s: does its window wait for input, is an "
                    "agent's Behavior Type other than Default, or does it need --no-graphics on a machine without a "
                    "display?"
                )

    def initialize(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Exchanges first messages with the game and returns the game's; also waits for its second, empty message."""
        self.poll_for_timeout(poll_callback)
        introduced = self.unity_to_external.parent_conn.recv().unity_output
        self.unity_to_external.parent_conn.send(_message(inputs))
        self.poll_for_timeout(poll_callback)
        self.unity_to_external.parent_conn.recv()
        return introduced

    def exchange(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Sends a command and returns the game's next message; None: the game quit."""
        self.unity_to_external.parent_conn.send(_message(inputs))
        self.poll_for_timeout(poll_callback)
        output = self.unity_to_external.parent_conn.recv()
        return output.unity_output if output.header.status == OK else None

    def close(self) -> None:
        """Tells the game to quit and frees the port. May be called again."""
        if not self.is_open:
            return
        self.is_open = False
        message = UnityMessageProto()
        message.header.status = GOODBYE
        self.unity_to_external.parent_conn.send(message)
        self.unity_to_external.parent_conn.close()
        assert self.server is not None
        assert self._threads is not None
        self.server.stop(1.0).wait(5)
        for _ in range(MAX_CALLS):  # calls that are still open
            self.unity_to_external.parent_conn.send(message)
        self._threads.shutdown()


def _bytes(message: Any) -> bytes:
    return message.SerializeToString()


def _message(inputs: Any) -> Any:
    message = UnityMessageProto()
    message.header.status = OK
    message.unity_input.ParseFromString(inputs.SerializeToString())
    return message


class _Service(grpc.GenericRpcHandler):
    def __init__(self, servicer: UnityToExternalServicerImplementation) -> None:
        def handler(method: Any) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(method, UnityMessageProto.FromString, _bytes)

        exchange = handler(servicer.Exchange)
        self._methods = {EXCHANGE: exchange, EXCHANGE.replace("/Exchange", "/Initialize"): handler(servicer.Initialize)}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Returns the handler of a method; None for any other method."""
        return self._methods.get(str(handler_call_details.method))
