"""gRPC server for one game instance. Its threads only pass bytes to an inbox and wait for the answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias

import grpc
import psutil

from palaestra.core.errors import EnvError
from palaestra.wire.messages import EXCHANGE

MAX_CALLS = 4
"""Most simultaneous calls: a game has one; others come from a game that has just died, or from another program."""
PORT_ATTEMPTS = 20
LOOPBACK = ("127.0.0.1", "::1")
CLOSE_GRACE = 1.0
"""Seconds to deliver pending answers when a server closes."""


class Call:
    """A game's request that waits for an answer."""

    __slots__ = ("_answer", "arrived", "copy", "open", "peer", "raw")

    def __init__(self, copy: int, peer: str, raw: bytes) -> None:
        self.copy = copy
        self.peer = peer
        self.raw = raw
        self.arrived = monotonic()
        self.open = True
        """Whether the call is neither answered nor disconnected."""
        self._answer: SimpleQueue[bytes | None] = SimpleQueue()

    def answer(self, raw: bytes | None) -> None:
        """Sends the answer, once; None ends the call without one."""
        if self.open:
            self.open = False
            self._answer.put(raw)

    def wait(self) -> bytes | None:
        """Waits for the answer and returns it."""
        return self._answer.get()


@dataclass(frozen=True, slots=True)
class HungUp:
    """A game disconnected while it waited for this call's answer."""

    call: Call


Inbox: TypeAlias = "SimpleQueue[Call | HungUp]"


class Server:
    """Listens from construction on, and puts the calls of games into `inbox`."""

    def __init__(
        self, copy: int, inbox: Inbox, port: int | None, *, bind: str | None = None, fixed: bool = False
    ) -> None:
        """Prefers `port`; unless `fixed`, the system chooses another one if it is taken. Raises EnvError."""
        self._copy = copy
        self._inbox = inbox
        self._threads = DaemonThreads(MAX_CALLS, f"unity-{copy}")
        self.port = self._listen(port, LOOPBACK if bind is None else (bind,), fixed)

    def _listen(self, port: int | None, hosts: tuple[str, ...], fixed: bool) -> int:
        for _ in range(PORT_ATTEMPTS):
            free = find_port(hosts, port)
            if free is None and fixed:
                break
            if free is not None and self._start(hosts, free):
                return free
            port = port if fixed else None
        self._threads.shutdown()
        holder = holder_of(port) if fixed and port is not None else None
        taken = f"by {holder}, perhaps" if holder else "perhaps by"
        raise EnvError(
            f"port {port} is taken {taken} another training that waits for the Editor: end that one, or choose "
            "another port here (--editor-port) and in Unity"
            if fixed
            else f"no free port was found on {', '.join(hosts)}: is that an address of this machine?"
        )

    def _start(self, hosts: tuple[str, ...], port: int) -> bool:
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            # none: games do not compress, and a few bytes could become gigabytes
            ("grpc.compression_enabled_algorithms_bitset", 1),
        ]
        self._server = grpc.server(self._threads, options=options)  # pyright: ignore[reportArgumentType] - any Executor will do
        self._server.add_generic_rpc_handlers((_Exchange(self._exchange),))
        try:
            for host in hosts:
                if host != "::1" or has_ipv6():
                    self._server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError:  # another process took the port first
            self._server.stop(None)
            return False
        self._server.start()
        return True

    def _exchange(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        call = Call(self._copy, context.peer(), raw)

        def on_disconnect() -> None:
            if call.open:
                call.answer(None)
                self._inbox.put(HungUp(call))

        if context.add_callback(on_disconnect):
            self._inbox.put(call)
        else:
            call.answer(None)
        answer = call.wait()
        if answer is None:
            context.abort(grpc.StatusCode.CANCELLED, "the trainer has ended this conversation")
        return answer

    def close(self) -> None:
        """Stops the server after pending answers are delivered. Every call must have been answered."""
        self._server.stop(CLOSE_GRACE).wait(5)
        self._threads.shutdown()


class DaemonThreads(Executor):
    """A pool of daemon threads: programs wait for a ThreadPoolExecutor's threads before `atexit`."""

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Schedules a call for the next free thread."""
        future: Future[Any] = Future()
        self._tasks.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads after all submitted calls. May be called again."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except Exception as error:
                    future.set_exception(error)


class _Exchange(grpc.GenericRpcHandler):
    def __init__(self, exchange) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(exchange)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Returns the handler of the protocol's only method."""
        return self._handler if handler_call_details.method == EXCHANGE else None


def find_port(hosts: tuple[str, ...], port: int | None) -> int | None:
    """Returns `port` if it is free on all hosts; for `port` None, any free port; None if it is taken. Looks first,
    because gRPC would log the failure."""
    with ExitStack() as stack:
        for host in hosts:
            if host == "::1" and not has_ipv6():
                continue
            try:
                family, _, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
                trial = stack.enter_context(socket.socket(family))
                # on Windows it would let two share a port
                if hasattr(socket, "SO_REUSEADDR") and hasattr(socket, "AF_UNIX"):
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
            except OSError:
                return None
            port = trial.getsockname()[1]
    return port


def has_ipv6() -> bool:
    """Whether this machine supports IPv6 loopback, so that `localhost` may mean ::1."""
    with suppress(OSError), socket.socket(socket.AF_INET6) as trial:
        trial.bind(("::1", 0))
        return True
    return False


def holder_of(port: int) -> str | None:
    """Returns name and number of the process that listens on a port; None if there is none, or the system hides it."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            number = connection.laddr[1] if len(connection.laddr) == 2 else None
            if connection.status == psutil.CONN_LISTEN and number == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()}, process {connection.pid}"
    return None
