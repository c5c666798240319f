"""Copies of an environment, whatever they run in: which are ready, which have failed and are started again, how all
are closed.

A copy is a Unity game over gRPC (`unity/game_instance.py`), or an environment in a process or in a Ray actor
(`pool/env_copy.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar, overload

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.restarts import RestartPolicy, Restarts
from palaestra.parallel.closing import close_all

CHECK_INTERVAL = 0.25
"""Seconds between two checks of all copies."""
LEAVING_INTERVAL = 0.02
"""The same for copies that are asked to end."""

Tell = Callable[[str, str], None]
"""Takes a level ('info' or 'warning') and a message to the user."""
T = TypeVar("T")


class CopyFailed(Exception):
    """A copy has ended, does not answer or sends nonsense, and may be started again."""

    def __init__(self, error: EnvError) -> None:
        """`error`: why, for the user."""
        super().__init__(error)
        self.error = error


class Copy(Protocol):
    """One copy of an environment. Any method but `kill` and `close` may raise CopyFailed, and EnvError if a restart
    would not help.
    """

    index: int
    delivered: int  # messages with tables since it was started

    @property
    def title(self) -> str:
        """Its name in messages, such as 'copy 2 of the game'."""
        ...

    @property
    def leaving(self) -> bool:
        """Whether it was asked to end, and will send another message."""
        ...

    def start(self) -> None:
        """Starts it, again after `stop`."""

    def receive(self, message: Any) -> bool:
        """Takes in a message. Returns whether the copy is ready for a tick."""
        ...

    def check(self) -> None:
        """Fails if it has ended, or has been silent for too long."""

    def stop(self) -> None:
        """Ends it at once, since it has failed."""

    def leave(self) -> None:
        """Asks it to end."""

    def farewell(self, message: Any) -> None:
        """Takes in a message after `leave`. Raises nothing."""

    def kill(self) -> None:
        """Ends it at once. Safe in a signal handler."""

    def close(self) -> None:
        """Ends it, however it hangs, and frees what is held for it. Raises EnvError if its environment did not
        close.
        """


C = TypeVar("C", bound=Copy)


class Events(Protocol):
    """The messages of all copies."""

    def wait(self, seconds: float) -> Iterable[tuple[int, Any]]:
        """Returns the messages that have come, each with the index of its copy; waits for the first, or for `wake`."""
        ...

    def wake(self) -> None:
        """Ends a wait. Safe in a signal handler."""

    def close(self) -> None:
        """Frees what the system holds of it."""


class Copies(Sequence[C], Generic[C]):
    """All copies that were started. Those that fail are started again."""

    def __init__(self, events: Events, restarts: Restarts, tell: Tell, *, grace: float, start_tries: int = 1) -> None:
        """`grace`: seconds that copies have to end when all are closed. `start_tries`: times that a copy is started
        before `begun`.
        """
        self._events = events
        self._limits = restarts
        self._tell = tell
        self._start_tries = start_tries
        self.grace = grace
        self._all: list[C] = []
        self._policies: list[RestartPolicy] = []
        self._starts_at: dict[int, float] = {}
        """When copies that have failed start again."""
        self._check_at = 0.0
        self._closed = False
        self.may_start: Callable[[], bool] = lambda: True
        """Whether one more copy may load now."""
        self.begun = False
        """Whether copies that fail are started again; set by the environment."""
        self.progress = 0
        """Grows while any copy makes progress; raised by the environment."""
        self.ready = set[int]()
        """Copies that are ready for a tick, until the environment has taken them."""
        self.failed = set[int]()
        """Copies that have failed since the environment looked last."""
        self.interrupted = False
        self.waited = 0.0
        """Seconds spent waiting for messages."""
        self.last_message_at = monotonic()

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> C: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[C]: ...
    def __getitem__(self, index: int | slice) -> C | Sequence[C]:
        return self._all[index]

    def add(self, copy: C) -> None:
        """Starts another copy."""
        self._all.append(copy)
        self._policies.append(RestartPolicy(copy.title, self._limits))
        self.attempt(copy, copy.start)

    @property
    def starting_again(self) -> bool:
        """Whether a copy has failed that has not been started again."""
        return bool(self._starts_at)

    def restarts(self, index: int) -> int:
        """Returns how often a copy was started again."""
        return self._policies[index].restarts

    def has_failed(self, index: int) -> bool:
        """Whether a copy has failed and has not been started again."""
        return index in self._starts_at

    def take_ready(self) -> list[C]:
        """Returns the copies that are ready, in the order of their numbers, for a tick."""
        ready = sorted(self.ready)
        self.ready.clear()
        return [self._all[index] for index in ready]

    def gather(self) -> None:
        """Waits for a message, or for the next check of all copies, and takes in all messages that have come."""
        start = monotonic()
        messages = self._events.wait(max(0.0, self._check_at - start))
        now = monotonic()
        self.waited += now - start
        for index, message in messages:
            self.last_message_at = now
            copy = self._all[index]
            if self.attempt(copy, lambda copy=copy, message=message: copy.receive(message)):
                self.ready.add(index)
        if monotonic() >= self._check_at:
            self._check()

    def _check(self) -> None:
        self._check_at = monotonic() + CHECK_INTERVAL
        for copy in self._all:
            if copy.index not in self._starts_at:
                self.attempt(copy, copy.check)
            elif monotonic() >= self._starts_at[copy.index] and self.may_start():
                del self._starts_at[copy.index]
                self.attempt(copy, copy.start)

    def attempt(self, copy: C, call: Callable[[], T]) -> T | None:
        """Calls a method of a copy; if that fails, the copy is ended and started again later.

        Raises the error if it is not to be started again.
        """
        try:
            return call()
        except CopyFailed as failure:
            self._fail(copy, failure.error)
            return None

    def _fail(self, copy: C, error: EnvError) -> None:
        delivered = copy.delivered
        copy.stop()
        self.ready.discard(copy.index)
        self.failed.add(copy.index)
        policy = self._policies[copy.index]
        if not self.begun and policy.restarts + 1 >= self._start_tries:
            raise named(error, copy.title)
        wait = policy.failed(error, self.progress, delivered)
        self._starts_at[copy.index] = monotonic() + wait
        self._check_at = min(self._check_at, monotonic() + wait)
        when = f"in {wait:.0f} s" if wait >= 1 else "now"
        self._tell(
            "warning",
            f"{named(error, copy.title)}\n  Its open episodes are left out; it is started again {when} "
            f"(restart {policy.restarts})",
        )

    def interrupt(self) -> None:
        """Ends a wait, and every later one soon. Safe in a signal handler."""
        self.interrupted = True
        self._events.wake()

    def kill(self) -> None:
        """Ends all copies at once. Safe in a signal handler."""
        for copy in self._all:
            copy.kill()

    def close(self) -> None:
        """Asks all copies to end, and ends those that do not. May be called again.

        Raises the first error of a copy that did not close as it should, after all have ended.
        """
        if self._closed:
            return
        self._closed = True
        for copy in self._all:
            copy.leave()
        deadline = monotonic() + self.grace
        while any(copy.leaving for copy in self._all) and monotonic() < deadline:
            for index, message in self._events.wait(LEAVING_INTERVAL):
                self._all[index].farewell(message)
        try:
            close_all([copy.close for copy in self._all])
        finally:
            self._events.close()


def named(error: EnvError, title: str) -> EnvError:
    """Returns the error with the title of its copy in front; its class may take other arguments than a text."""
    if not str(error).startswith(title):
        error.args = (f"{title}: {error}",)
    return error


class EnvOfCopies(ABC, Generic[C]):
    """An environment that steps all copies at once. A tick holds the copies that are ready; rows of the others are
    inactive. It cannot be saved.
    """

    def __init__(self, copies: Copies[C]) -> None:
        self.copies = copies
        self.device = torch.device("cpu")

    @abstractmethod
    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick in the copies whose agents acted in the newest tables."""

    @abstractmethod
    def _tables_of_tick(self) -> dict[str, TimeStep]:
        """Returns the tables of the copies that are ready."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Starts a tick in the copies of the newest tables and waits for the next. Raises GameGone if a copy is not to
        be restarted.
        """
        self.send(actions)
        return self.receive()

    def receive(self) -> dict[str, TimeStep]:
        """Waits until a copy is ready or has failed, and returns the tables of all that are ready. Raises GameGone if a
        copy is not to be restarted.
        """
        copies = self.copies
        copies.gather()
        while not (copies.ready or copies.failed or copies.interrupted):
            copies.gather()
        return self._tables_of_tick()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: copies in other processes are not saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises EnvError for any state but the empty one."""
        if state:
            raise EnvError(
                "an environment in other processes cannot be restored from a saved state (this one has "
                f"{', '.join(state)})"
            )

    def interrupt(self) -> None:
        """Makes a waiting `receive` return soon, with tables in which no agent acts. Safe in a signal handler."""
        self.copies.interrupt()

    def abandon(self) -> None:
        """Ends all copies at once. Safe in a signal handler."""
        self.copies.kill()

    def close(self) -> None:
        """Ends all copies. May be called again. Raises the first error of a copy that cannot be closed, after all have
        ended.
        """
        self.copies.close()
