"""A copy of an environment, as the pool uses it, in a process or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, GameGone, PalaestraError
from palaestra.core.timestep import Action
from palaestra.envs.copies import CopyFailed, named
from palaestra.envs.pool.env_server import CLOSE, CLOSED, Changes, CopyReply, EnvFacts, pack, unpack
from palaestra.envs.pool.links import Link
from palaestra.envs.pool.packed_tables import pack_actions, unpack_tables
from palaestra.envs.pool.shared_tables import SharedTables
from palaestra.parallel.worker import BROKEN, Listener, raise_failure


class EnvCopy:
    """Exchanges requests and tables with a copy. There is one request at a time: each is answered before the next."""

    def __init__(
        self,
        index: int,
        link: Link,
        listener: Listener,
        timeout: float,
        start_timeout: float,
        take_in: Callable[[EnvCopy, CopyReply], None],
    ) -> None:
        """Both timeouts are seconds without an answer, after which the copy counts as hung. `take_in` is called with
        each answer."""
        self.index = index
        self.link = link
        self._listener = listener
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._take_in = take_in
        self.facts: EnvFacts | None = None
        """Facts about the copy's environment; None until the copy has sent them for the first time."""
        self.tables: SharedTables | None = None
        """Tables of the copy's newest tick."""
        self.changes: Changes | None = None
        """Parameters and calls to send to the copy before its next tick."""
        self.delivered = 0
        self.asked_at: float | None = None
        """Time of the request that the copy has not answered."""
        self.leaving = False
        self._runs = False
        self._made = False
        """Whether the copy has an environment."""
        self._failure: PalaestraError | None = None
        """Why the copy's environment did not close."""
        self._busy_before = 0.0

    @property
    def title(self) -> str:
        """See `Copy`."""
        return self.link.title

    @property
    def busy(self) -> float:
        """Seconds that the copy spent on finished ticks and resets since its first start."""
        return self._busy_before + (0.0 if self.tables is None else self.tables.busy_seconds)

    def start(self) -> None:
        """See `Copy`."""
        self.link.ended_for = ""
        self.link.start()
        self._runs = True
        self._listener.add(self.link.connection, self.index)
        self.asked_at = monotonic()
        self.delivered = 0

    def ask(self, request: str, value: object = None, arrays: bytes = b"") -> None:
        """Sends a request, with the changes since the last one."""
        changes = self.changes
        self.changes = None
        self.asked_at = monotonic()
        try:
            self.link.connection.send_bytes(pack((request, value, changes), arrays))
        except BROKEN as error:
            with suppress(*BROKEN):
                while True:
                    self._read()  # raises what has ended the environment, if it has left a word
            raise self.link.failure() from error

    def step(self, actions: Mapping[str, Action], slots_of: Mapping[str, NDArray[np.int64]]) -> None:
        """Starts a tick with the actions of the copy's slots."""
        assert self.tables is not None
        self.tables.write_actions(actions, slots_of)
        self.ask("step", arrays=pack_actions(self.tables))

    def draw(self, area: int) -> CopyReply:
        """Waits for an image of one of the copy's areas."""
        self.ask("render", area)
        if not self.link.connection.poll(self._timeout):
            self.kill()
            self.link.ended_for = f"it did not draw within {self._timeout:g} s (--timeout-wait)"
            raise self.link.failure()
        return self._answer()

    def receive(self, message: Any) -> bool:
        """See `Copy`."""
        if self.link.arrives():
            self._listener.remove(message)
            self._listener.add(self.link.connection, self.index)
            self.asked_at = monotonic()
            return False
        reply = self._answer()
        self._take_in(self, reply)
        ready = reply.has_tables and self.tables is not None
        self.delivered += ready
        return ready

    def _answer(self) -> CopyReply:
        self.asked_at = None
        try:
            head, arrays = unpack(self._read())
        except BROKEN as error:
            raise self.link.failure() from error
        self._made = True
        reply: CopyReply = CopyReply() if head is None else head
        if reply.layout is not None:
            try:
                self.tables = SharedTables.open(reply.layout)
            except (OSError, ValueError) as error:  # someone has cleared /dev/shm
                raise CopyFailed(GameGone(f"it has lost its shared memory ({error})")) from error
        if arrays and self.tables is not None:
            unpack_tables(self.tables, arrays)
        return reply

    def _read(self) -> bytes:
        """Returns the next message but notes. Raises what the environment raised."""
        while self.link.take_note(message := self.link.connection.recv_bytes()):
            pass
        try:
            raise_failure(message, self.title)
        except EnvError as error:
            named(error, self.title)
            raise
        return message

    def check(self) -> None:
        """See `Copy`."""
        started = self.facts is not None and self.link.connected
        timeout = self._timeout if self._made else self._start_timeout
        if started and self.asked_at is not None and monotonic() - self.asked_at > timeout:
            raise CopyFailed(GameGone(f"it did not answer for {timeout:g} s (--timeout-wait)"))

    def stop(self) -> None:
        """See `Copy`."""
        self._busy_before = self.busy
        self.tables = None
        self.changes = None
        self.asked_at = None
        self._made = False
        if self._runs:
            self.kill()
            self._runs = False
            self._listener.remove(self.link.connection)
            self.link.end()

    def kill(self) -> None:
        """See `Copy`."""
        if self._runs:
            self.link.kill()

    def leave(self) -> None:
        """See `Copy`. Does not wait for a copy that is still making its environment."""
        if self._made:
            self.leaving = True
            with suppress(*BROKEN):  # it has failed or ended by itself
                self.link.connection.send_bytes(pack((CLOSE, None, None)))

    def farewell(self, message: Any) -> None:
        """See `Copy`."""
        busy = self.asked_at is not None
        self.asked_at = None
        try:
            self.leaving = self.leaving and self._read() != CLOSED
        except BROKEN:
            self.leaving = False
        except PalaestraError as error:
            if not busy:  # not of the last request, whose answer nobody waits for
                self._failure = self._failure or error
        if not self.leaving:
            self._listener.remove(message)

    def close(self) -> None:
        """See `Copy`."""
        hangs = self.leaving
        self.leaving = False
        if hangs:
            self.kill()
            if self.asked_at is None:
                self._failure = EnvError(
                    f"{self.title} did not close within {self.link.grace:g} s, and its process was ended"
                )
        if self._runs:
            self.link.end()
        if self._failure is not None:
            raise self._failure
