"""The run's side of one runner."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError, PalaestraError
from palaestra.core.timestep import Action
from palaestra.envs.pool.env_server import CLOSE, Call, Changes, CopyReply, EnvFacts
from palaestra.envs.pool.shared_tables import SharedTables
from palaestra.envs.runners.arrivals import Address
from palaestra.envs.runners.env_runner import LENGTH, NOTE, RunnerTask
from palaestra.envs.runners.packed_tables import pack_actions, unpack_tables
from palaestra.envs.runners.player_logs import write_logs
from palaestra.parallel.shared_memory import LocalBlock
from palaestra.parallel.worker import WorkerLost, raise_failure

if TYPE_CHECKING:
    from palaestra.envs.runners.ray_cluster import Placed, RayCluster

GREETING = 0.2
"""Seconds in which a runner that has called is greeted."""
GRACE = 8.0
"""Seconds that a runner has to close its environment."""
_GONE = (EOFError, BrokenPipeError, ConnectionResetError, OSError)


class RunnerLink:
    """Has Ray start a runner, and exchanges tables with it over a connection of its own."""

    def __init__(
        self,
        index: int,
        cluster: RayCluster,
        task: RunnerTask,
        logs: Path | None,
        tell: Callable[[str, str], None] | None,
    ) -> None:
        """`logs`: the folder that games' logs are brought home to. `tell` takes level and text of a message to the
        user.
        """
        self.index = index
        self.title = f"runner {index}"
        self._cluster = cluster
        self._task = task
        self._logs = logs
        self._tell = tell
        self.facts: EnvFacts | None = None
        self.machine = ""
        """Address of the machine that it runs on."""
        self.tables: SharedTables | None = None
        self.parameters: dict[str, Tensor] = {}
        self.calls: list[Call] = []
        self.start()

    def start(self) -> None:
        """Asks Ray for an actor, which calls home once it has a place and a process."""
        self.tables = None
        self.asked_at: float | None = None
        self.ticks = 0
        self._ends_at: float | None = None
        """Time until which it is waited for, after it was asked to end."""
        self.parameters = {}
        self.calls = []
        self._waiting, self._wake = Pipe(duplex=False)
        self._home: Connection | None = None
        self._called: Connection | None = None
        self._address: Address = self._cluster.arrivals.expect(self._arrived)
        self._placed: Placed = self._cluster.start_runner(self._address, self._task, self._ended)

    def _arrived(self, home: Connection, machine: str) -> None:
        """Takes the runner's connection, in another thread."""
        self.machine = machine
        self._called = home
        self._ring()

    def _ended(self) -> None:
        """Learns that the runner's actor has ended, in another thread."""
        if self._called is None:
            time.sleep(GREETING)  # it may have called, and have been greeted a moment later
        if self._called is None:
            self._ring()

    def _ring(self) -> None:
        with suppress(OSError):
            self._wake.send_bytes(b"!")

    @property
    def connection(self) -> Connection:
        """Has a message when the runner has called, or has ended; then it is the connection with it."""
        return self._waiting if self._home is None else self._home

    @property
    def waiting(self) -> bool:
        """Whether an answer is outstanding."""
        return self._home is None or self.asked_at is not None

    def arrives(self) -> bool:
        """Whether the runner has only now called home."""
        if self._home is not None or self._called is None:
            return False
        self._home = self._called
        self.title = f"runner {self.index} on {self.machine}"
        self.asked_at = monotonic()
        return True

    def explain(self) -> str:
        """Returns what it waits for, as the end of a sentence."""
        return ": its environment takes too long" if self._home is not None else self._cluster.explain_waiting()

    def ask(self, request: str, value: object = None, arrays: bytes = b"") -> None:
        """Sends a request. Raises WorkerLost if the runner has ended."""
        assert self._home is not None
        self.asked_at = monotonic()
        head = b"" if value is None else pickle.dumps(value)
        try:
            self._home.send_bytes(request.encode() + b":" + len(head).to_bytes(LENGTH, "little") + head + arrays)
        except _GONE as error:
            self._read_the_end()
            raise WorkerLost(f"{self.title} {self._placed.describe_end()}") from error

    def _read_the_end(self) -> None:
        """Raises the exception that ended the runner, if it left one."""
        assert self._home is not None
        with suppress(*_GONE):
            while True:
                self._receive()

    def reset(self, seed: int) -> None:
        """Starts a reset."""
        self.ask("reset", (seed, self._changes()))

    def step(self, actions: Mapping[str, Action], slots_of: Mapping[str, NDArray[np.int64]]) -> None:
        """Starts a tick with the actions of its slots."""
        assert self.tables is not None
        self.tables.write_actions(actions, slots_of)
        self.ask("step", self._changes(), pack_actions(self.tables))

    def _changes(self) -> Changes | None:
        changes = Changes(self.parameters, self.calls) if self.parameters or self.calls else None
        self.parameters = {}
        self.calls = []
        return changes

    def receive(self) -> CopyReply:
        """Returns the answer that has arrived. Raises WorkerLost, or what the environment raised."""
        if self._home is None:
            raise WorkerLost(f"{self.title} {self._placed.describe_end()}")
        self.asked_at = None
        try:
            message = self._receive()
        except _GONE as error:
            raise WorkerLost(f"{self.title} {self._placed.describe_end()}") from error
        size = int.from_bytes(message[:LENGTH], "little")
        body = memoryview(message)[LENGTH:]
        reply: CopyReply = pickle.loads(body[:size]) if size else CopyReply()
        if reply.layout is not None:
            self.tables = SharedTables(reply.layout, LocalBlock(reply.layout.size))
        if reply.has_tables and self.tables is not None:
            unpack_tables(self.tables, body[size:])
        return reply

    def _receive(self) -> bytes:
        """Returns the next message with an answer; passes on what comes before it. Raises what the environment
        raised.
        """
        assert self._home is not None
        while self._is_note(message := self._home.recv_bytes()):
            pass
        try:
            raise_failure(message, self.title)
        except EnvError as error:
            error.args = (f"{self.title}: {error}",)  # its class may take other arguments than a text
            raise
        return message

    def _is_note(self, message: bytes) -> bool:
        """Whether a message is only for the user, or brings logs; passes it on if it is."""
        if not message.startswith(NOTE):
            return False
        told, logs = pickle.loads(message[len(NOTE) :])
        for level, text in told:
            if self._tell is not None:
                self._tell(level, text)
        if self._logs is not None:
            write_logs(self._logs, logs)
        return True

    def kill(self) -> None:
        """Breaks the connection, whereupon the runner ends. Safe in a signal handler."""
        if self._home is not None:
            with suppress(OSError):
                hang_up = socket.socket(fileno=self._home.fileno())
                try:
                    hang_up.shutdown(socket.SHUT_RDWR)
                finally:
                    hang_up.detach()

    def leave(self) -> None:
        """Asks the runner to close its environment."""
        self._ends_at = time.monotonic() + GRACE
        with suppress(*_GONE):
            if self._home is not None:
                self._home.send_bytes(f"{CLOSE}:".encode())

    def close(self) -> None:
        """Waits for the runner to close its environment, brings the last of its logs home, and ends the actor. May be
        called again.

        Raises what the environment raises when it is closed.
        """
        self._cluster.arrivals.forget(self._address)
        try:
            if self._home is not None:
                self._wait_for_end(self._home)
        finally:
            if self._home is not None:
                self._home.close()
            self._placed.end()
            self._wake.close()
            self._waiting.close()

    def _wait_for_end(self, home: Connection) -> None:
        ends_at = time.monotonic() + GRACE if self._ends_at is None else self._ends_at
        busy = self.asked_at is not None
        self.asked_at = None
        failure = None
        with suppress(*_GONE):
            while home.poll(max(0.0, ends_at - time.monotonic())):
                message = home.recv_bytes()
                if self._is_note(message):
                    continue
                try:
                    raise_failure(message, self.title)
                except PalaestraError as error:
                    failure = failure if busy else failure or error
                busy = False  # what answers the last request is dropped: nobody waits for it
        if failure is not None:
            raise failure
