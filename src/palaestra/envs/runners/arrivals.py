"""Connections between a run and its runners: each runner connects over TCP and identifies itself by a secret word."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from palaestra.core.errors import EnvError

WORD_BYTES = 32
CALL_SECONDS = 30.0
"""Seconds that a runner tries to reach the run."""
GREETING_SECONDS = 10.0
"""Seconds that a caller has to send the secret word."""
IDLE, INTERVAL, COUNT = 5, 2, 3
"""Seconds of silence after which the system asks whether the other machine is still there, seconds between such
questions, and their number."""

Arrived = Callable[[Connection, str], None]
"""Takes the connection and the address of the calling machine."""


@dataclass(frozen=True, slots=True)
class Address:
    """Network address of the run, and the secret word by which it recognizes a runner."""

    host: str
    port: int
    word: bytes


class Arrivals:
    """Listens for runners on one address of this machine."""

    def __init__(self, host: str) -> None:
        """Raises EnvError if this machine cannot listen there."""
        try:
            self._socket = socket.create_server(
                (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
            )
        except OSError as error:
            raise EnvError(f"the run cannot listen for its runners on {host}: {error.strerror}") from error
        self._host, self._port = host, self._socket.getsockname()[1]
        self._expected: dict[bytes, Arrived] = {}
        threading.Thread(target=self._accept, daemon=True, name="palaestra arrivals").start()

    def expect(self, arrived: Arrived) -> Address:
        """Returns an address; `arrived` is called once, in another thread, when a runner has connected with the secret
        word of this address."""
        word = secrets.token_bytes(WORD_BYTES)
        self._expected[word] = arrived
        return Address(self._host, self._port, word)

    def forget(self, address: Address) -> None:
        """Stops expecting a runner under this address."""
        self._expected.pop(address.word, None)

    def close(self) -> None:
        """Closes the listening socket; no further runner can connect."""
        self._expected.clear()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, (machine, *_) = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._greet, args=(caller, machine), daemon=True, name="palaestra greeting").start()

    def _greet(self, caller: socket.socket, machine: str) -> None:
        caller.settimeout(GREETING_SECONDS)
        word = b""
        with suppress(OSError):
            while len(word) < WORD_BYTES and (more := caller.recv(WORD_BYTES - len(word))):
                word += more
        arrived = self._expected.pop(word, None)
        if arrived is None:
            caller.close()
            return
        arrived(_connection(caller), machine)


def call_home(address: Address) -> Connection:
    """Connects a runner with its run. Raises EnvError if the run cannot be reached."""
    try:
        home = socket.create_connection((address.host, address.port), CALL_SECONDS)
        home.sendall(address.word)
    except OSError as error:
        raise EnvError(
            f"the machine {socket.gethostname()} does not reach the run at {address.host}, port {address.port}: "
            f"{error.strerror or error}; does a firewall stand between them?"
        ) from error
    return _connection(home)


def _connection(connected: socket.socket) -> Connection:
    """Returns a connection whose messages are sent at once, and which breaks soon after the other machine vanished."""
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", INTERVAL), ("TCP_KEEPCNT", COUNT)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (IDLE + INTERVAL * COUNT))
    return Connection(connected.detach())
