"""The run's side of one runner."""

from __future__ import annotations

import pickle
import socket
import time
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

from palaestra.envs.copies import Log
from palaestra.envs.pool.links import Link
from palaestra.envs.runners.env_runner import NOTE, RunnerTask
from palaestra.envs.runners.player_logs import write_logs
from palaestra.envs.runners.ray_cluster import Placed, RayCluster

GREETING = 0.2
"""Seconds in which the run must greet a runner that has called."""


class RunnerLink(Link):
    """Starts a runner with Ray, and connects to it."""

    grace = 8.0

    def __init__(self, index: int, cluster: RayCluster, task: RunnerTask, logs: Path | None, log: Log | None) -> None:
        """`logs`: the folder that games' logs are brought home to."""
        self._index = index
        self.title = f"runner {index}"
        self.machine = ""
        """Address of the machine on which the runner runs."""
        self._cluster = cluster
        self._task = task
        self._logs = logs
        self._log = log

    def start(self) -> None:
        """Asks Ray for an actor, which connects to the run once it has a machine and a process."""
        self._waiting, self._wake = Pipe(duplex=False)
        self.connection = self._waiting
        self.connected = False
        self._called: Connection | None = None
        self._address = self._cluster.arrivals.expect(self._arrived)
        self._placed = Placed(self._cluster, self._address, self._task, partial(self._ended, self._wake))

    def _arrived(self, home: Connection, machine: str) -> None:
        self.machine = machine
        self._called = home
        with suppress(OSError):
            self._wake.send_bytes(b"!")

    def _ended(self, wake: Connection) -> None:
        """Notes that an actor has ended, in another thread."""
        if self._called is None:
            time.sleep(GREETING)  # it may have called, and have been greeted a moment later
        if self._called is None:
            wake.close()

    def arrives(self) -> bool:
        """See `Link`."""
        if self.connected or self._called is None:
            return False
        self.connection = self._called
        self.connected = True
        self.title = f"runner {self._index} on {self.machine}"
        return True

    def take_note(self, message: bytes) -> bool:
        """Passes messages on to the user, and writes games' logs."""
        if not message.startswith(NOTE):
            return False
        messages, logs = pickle.loads(message[len(NOTE) :])
        for level, text in messages:
            if self._log is not None:
                self._log(level, text)
        if self._logs is not None:
            write_logs(self._logs, logs)
        return True

    def explain_waiting(self) -> str:
        """See `Link`."""
        return ": its environment takes too long" if self.connected else self._cluster.explain_waiting()

    def describe_end(self) -> str:
        """See `Link`."""
        return self._placed.describe_end()

    def kill(self) -> None:
        """Breaks the connection, so that the runner ends. Safe in a signal handler."""
        if self.connected:
            with suppress(OSError):
                hang_up = socket.socket(fileno=self.connection.fileno())
                try:
                    hang_up.shutdown(socket.SHUT_RDWR)
                finally:
                    hang_up.detach()

    def end(self) -> None:
        """Ends the actor."""
        self._cluster.arrivals.forget(self._address)
        for connection in (self._wake, self._waiting, self.connection):
            connection.close()
        self._placed.end()
