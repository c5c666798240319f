"""One copy of an environment in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

from torch import Tensor

from palaestra.core.errors import EnvError, PalaestraError
from palaestra.core.timestep import Action
from palaestra.envs.pool.env_server import CLOSE, CLOSED, Call, Changes, CopyReply, EnvFacts, MakeEnv, serve
from palaestra.envs.pool.shared_tables import SharedTables
from palaestra.parallel.shared_memory import SharedBlock
from palaestra.parallel.worker import GRACE, WorkerLost, WorkerProcess


class EnvProcess:
    """Starts a copy and exchanges tables with it. One request at a time: each is answered before the next."""

    def __init__(self, index: int, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
        self.index = index
        self.title = f"copy {index} of the environment"
        self._task = (make, arguments, areas)
        self.facts: EnvFacts | None = None
        self.tables: SharedTables | None = None
        self.start()

    def start(self) -> None:
        """Starts the process, whose first message has its facts."""
        self.worker = WorkerProcess(serve, *self._task, title=self.title)
        self.asked_at: float | None = monotonic()
        self.ticks = 0
        self._ends_at: float | None = None
        """Time at which the process is killed, after it was asked to end."""
        self._made = False
        """Whether the process has told that it has an environment."""

        self.parameters: dict[str, Tensor] = {}
        """Values for the copy's areas that it has not been sent."""
        self.calls: list[Call] = []
        """Other methods of the environment that are to be called before its next tick."""

    def arrives(self) -> bool:
        """Whether its connection has only now been made: False, since this copy is connected from the start."""
        return False

    @property
    def connection(self) -> Connection:
        """Has a message, or has ended, when the copy has."""
        return self.worker.connection

    def explain(self) -> str:
        """Returns nothing: the environment itself takes long to start."""
        return ""

    def leave(self) -> None:
        """Asks the process to close its environment and to end; one that still makes its environment ends at once."""
        if not self._made:
            return
        self._ends_at = monotonic() + GRACE
        with suppress(PalaestraError, OSError):  # it has failed or ended by itself
            self.worker.send(CLOSE.encode())

    def kill(self) -> None:
        """Ends the process at once. Safe in a signal handler."""
        self.worker.kill()

    def close(self) -> None:
        """Waits until the process that was asked to end has ended, or kills it. May be called again.

        Raises what the environment raises when it is closed, and EnvError if it is not closed in time.
        """
        ends_at = self._ends_at
        self._ends_at = None
        try:
            if ends_at is not None:
                self._wait_for_end(ends_at)
        finally:
            self.worker.close()

    def _wait_for_end(self, ends_at: float) -> None:
        busy = self.asked_at is not None
        self.asked_at = None
        with suppress(WorkerLost, OSError):
            while self.worker.ready(max(0.0, ends_at - monotonic())):
                try:
                    message = self.worker.receive()
                except WorkerLost:
                    raise
                except PalaestraError:
                    if not busy:
                        raise
                    message = b""  # of the last request, which nobody waits for
                if message == CLOSED:
                    return
                busy = False
            self.kill()
            if not busy:
                raise EnvError(f"{self.title} did not close within {GRACE:g} s, and its process was ended")

    @property
    def waiting(self) -> bool:
        """Whether an answer is outstanding."""
        return self.asked_at is not None

    def ask(self, request: str, value: object = None) -> None:
        """Sends a request."""
        self.asked_at = monotonic()
        self.worker.send(request.encode() + b":" + (b"" if value is None else pickle.dumps(value)))

    def reset(self, seed: int) -> None:
        """Starts a reset."""
        self.ask("reset", (seed, self._changes()))

    def step(self, actions: Mapping[str, Action], slots_of: Mapping[str, Any]) -> None:
        """Writes the actions of the copy's slots and starts a tick."""
        assert self.tables is not None
        self.tables.write_actions(actions, slots_of)
        self.ask("step", self._changes())

    def _changes(self) -> Changes | None:
        """Returns what the environment is told before its next tick, once."""
        changes = Changes(self.parameters, self.calls) if self.parameters or self.calls else None
        self.parameters = {}
        self.calls = []
        return changes

    def receive(self) -> CopyReply:
        """Returns the answer that has arrived. Raises WorkerLost, or what the environment raised."""
        self.asked_at = None
        message = self.worker.receive()
        self._made = True
        reply: CopyReply = pickle.loads(message) if message else CopyReply()
        if reply.layout is not None:
            try:
                block = SharedBlock(reply.layout.size, Path(reply.layout.path))
            except (OSError, ValueError) as error:  # someone has cleared /dev/shm
                raise WorkerLost(f"{self.title} has lost its shared memory ({error})") from error
            block.unlink()  # both processes have it open now
            self.tables = SharedTables(reply.layout, block)
        return reply
