"""Copies of an environment in processes or on other machines: finds ready copies, restarts failed ones, and closes all.

A copy is a Unity game over gRPC (`unity/game_instance.py`), or an environment in a process or in a Ray actor
(`pool/env_copy.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Any, Protocol, TypeVar

from palaestra.core.errors import EnvError, GameGone
from palaestra.parallel.closing import close_all

CHECK_INTERVAL = 0.25
"""Seconds between two checks of all copies."""
LEAVING_INTERVAL = 0.02
"""Seconds between two checks of copies that are asked to end."""
MAX_FRUITLESS_FAILURES = 5
"""Consecutive failures of a copy, without progress of any copy in between, after which the run ends."""
MAX_RESTART_DELAY = 30.0
"""Longest delay before a restart, in seconds."""
PROGRESS = 50
"""Messages of a copy that count as progress if no episode ends."""

Log = Callable[[str, str], None]
"""Takes a level ('info' or 'warning') and a message for the user."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Restarts:
    """Limits on the restarts of a copy; None: no limit while the run makes progress."""

    lifetime: int | None = None  # restarts of one copy in total; -1: no limit
    rate: int | None = None  # restarts of one copy within `period`; -1: no limit
    period: float = 60.0  # seconds


UNLIMITED = Restarts()


class RestartPolicy:
    """Decides on restarts of one copy. Without limits the run continues while any copy makes progress."""

    def __init__(self, title: str, limits: Restarts) -> None:
        """`title` is for errors, such as 'copy 3 of the game'."""
        self._title = title
        self._limits = limits
        self.restarts = 0
        self._recent: deque[float] = deque()
        self._failures_in_a_row = 0
        self._fruitless = 0
        self._progress = -1

    def failed(self, error: EnvError, progress: int, delivered: int) -> float:
        """Returns the seconds to wait before the next start. Raises GameGone if there is no further start.

        `progress` is a number that grows while any copy makes progress; `delivered` is the number of messages of the
        copy that failed.
        """
        now = monotonic()
        limits = self._limits
        while self._recent and now - self._recent[0] > limits.period:
            self._recent.popleft()
        if limits.lifetime not in (None, -1) and self.restarts >= limits.lifetime:
            raise GameGone(
                f"{self._title} was restarted {self.restarts} times, which is all that --max-lifetime-restarts allows; "
                f"{error}"
            )
        if limits.rate not in (None, -1) and len(self._recent) >= limits.rate:
            raise GameGone(
                f"{self._title} was restarted {len(self._recent)} times within {limits.period:g} s, which is all that "
                f"--restarts-rate-limit-n allows; {error}"
            )
        self._failures_in_a_row = 1 if delivered >= PROGRESS else self._failures_in_a_row + 1
        self._fruitless = self._fruitless + 1 if progress == self._progress else 1
        self._progress = progress
        if self._fruitless >= MAX_FRUITLESS_FAILURES:
            raise GameGone(f"{self._title} failed {self._fruitless} times in a row without progress; {error}")
        self._recent.append(now)
        self.restarts += 1
        return (
            min(0.5 * 2.0 ** (self._failures_in_a_row - 2), MAX_RESTART_DELAY) if self._failures_in_a_row > 1 else 0.0
        )


class CopyFailed(Exception):
    """A copy has ended, does not answer or sends invalid messages, and may be started again."""

    def __init__(self, error: EnvError) -> None:
        """`error`: why, for the user."""
        super().__init__(error)
        self.error = error


class Copy(Protocol):
    """One copy of an environment. Any method except `kill` and `close` may raise CopyFailed, and EnvError if a restart
    would not help."""

    index: int

    @property
    def delivered(self) -> int:
        """Number of messages with tables since the copy's start."""
        ...

    @property
    def title(self) -> str:
        """The copy's name in messages, such as 'copy 2 of the game'."""
        ...

    @property
    def leaving(self) -> bool:
        """Whether the copy was asked to end, and will send another message."""
        ...

    def start(self) -> None:
        """Starts the copy; also again after `stop`."""

    def receive(self, message: Any) -> bool:
        """Takes in a message. Returns whether the copy is ready for a tick."""
        ...

    def check(self) -> None:
        """Raises an error if the copy has ended, or has been silent for too long."""

    def stop(self) -> None:
        """Ends the copy at once, because it has failed."""

    def leave(self) -> None:
        """Asks it to end."""

    def farewell(self, message: Any) -> None:
        """Handles a message that arrives after `leave`. Raises nothing."""

    def kill(self) -> None:
        """Ends it at once. Safe in a signal handler."""

    def close(self) -> None:
        """Ends the copy, even if it hangs, and frees its resources. Raises EnvError if its environment stays open."""


C = TypeVar("C", bound=Copy)


class Events(Protocol):
    """The messages of all copies."""

    def wait(self, seconds: float) -> Sequence[tuple[int, Any]]:
        """Returns the messages that have come, each with the index of its copy; waits for the first, or for `wake`."""
        ...

    def wake(self) -> None:
        """Ends a wait. Safe in a signal handler."""

    def close(self) -> None:
        """Frees the system resources of this object."""


class Copies(list[C]):
    """All copies that were started. Copies that fail are started again."""

    def __init__(self, events: Events, restarts: Restarts, log: Log, *, grace: float, start_tries: int = 1) -> None:
        """`grace`: seconds that copies have to end when all are closed. `start_tries`: times that a copy is started
        before `begun`."""
        self._events = events
        self._limits = restarts
        self._log = log
        self._start_tries = start_tries
        self.grace = grace
        super().__init__()
        self._policies: list[RestartPolicy] = []
        self.starts_at: dict[int, float] = {}
        """Times at which failed copies start again."""
        self._check_at = 0.0
        self._closed = False
        self.may_start: Callable[[], bool] = lambda: True
        """Whether one more copy may load now."""
        self.before_check: Callable[[], None] = lambda: None
        """Called before all copies are checked; may add copies."""
        self.afterwards: Callable[[], None] = lambda: None
        """Called when all copies have ended."""
        self.begun = False
        """Whether the environment has begun; until it has, a copy is started `start_tries` times."""
        self.progress = 0
        """A number that grows while any copy makes progress; the environment raises it."""
        self.ready = set[int]()
        """Copies that are ready for a tick, until the environment has taken them."""
        self.failed = set[int]()
        """Copies that have failed since the environment last looked."""
        self.interrupted = False
        self.waited = 0.0
        """Seconds spent waiting for messages."""
        self.taking_in = 0.0
        """Seconds spent reading messages and checking copies."""
        self.last_message_at = monotonic()

    def add(self, copy: C) -> None:
        """Starts another copy."""
        self.append(copy)
        self._policies.append(RestartPolicy(copy.title, self._limits))
        self.attempt(copy, copy.start)

    def restarts(self, index: int) -> int:
        """Returns how often a copy was started again."""
        return self._policies[index].restarts

    def take_ready(self) -> list[C]:
        """Returns the copies that are ready, in the order of their numbers, for a tick."""
        taken = [self[index] for index in sorted(self.ready)]
        self.ready.clear()
        return taken

    def gather(self) -> None:
        """Waits for a message, or for the next check of all copies, and handles all messages that have come."""
        start = perf_counter()
        messages = self._events.wait(max(0.0, self._check_at - monotonic()))
        now = perf_counter()
        self.waited += now - start
        if messages:
            self.last_message_at = monotonic()
        for index, message in messages:
            copy = self[index]
            try:
                if copy.receive(message):
                    self.ready.add(index)
            except CopyFailed as failure:
                self._fail(copy, failure.error)
        if monotonic() >= self._check_at:
            self._check()
        self.taking_in += perf_counter() - now

    def _check(self) -> None:
        self._check_at = monotonic() + CHECK_INTERVAL
        self.before_check()
        for copy in self:
            if copy.index not in self.starts_at:
                self.attempt(copy, copy.check)
            elif monotonic() >= self.starts_at[copy.index] and self.may_start():
                del self.starts_at[copy.index]
                self.attempt(copy, copy.start)

    def attempt(self, copy: C, call: Callable[[], T]) -> T | None:
        """Calls a method of a copy; if the call fails, the copy is ended and started again later.

        Raises the error if the copy is not to be started again.
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
        self.starts_at[copy.index] = monotonic() + wait
        self._check_at = min(self._check_at, monotonic() + wait)
        when = f"in {wait:.0f} s" if wait >= 1 else "now"
        self._log(
            "warning",
            f"{named(error, copy.title)}\n  Its open episodes are left out; it is started again {when} "
            f"(restart {policy.restarts})",
        )

    def interrupt(self) -> None:
        """Ends the current wait, and soon after its start every later one. Safe in a signal handler."""
        self.interrupted = True
        self._events.wake()

    def kill(self) -> None:
        """Ends all copies at once. Safe in a signal handler."""
        for copy in self:
            copy.kill()

    def close(self) -> None:
        """Asks all copies to end, and kills those that do not end. May be called again.

        Raises the first error of a copy that did not close as it should, after all have ended.
        """
        if self._closed:
            return
        self._closed = True
        for copy in self:
            copy.leave()
        deadline = monotonic() + self.grace
        while any(copy.leaving for copy in self) and monotonic() < deadline:
            self._say_farewell(LEAVING_INTERVAL)
        self._say_farewell(0.0)
        try:
            close_all([copy.close for copy in self])
        finally:
            self._events.close()
            self.afterwards()

    def _say_farewell(self, seconds: float) -> None:
        for index, message in self._events.wait(seconds):
            self[index].farewell(message)


def named(error: EnvError, title: str) -> EnvError:
    """Returns the error with the title of its copy in front, also for classes that take other arguments."""
    if not str(error).startswith(title):
        error.args = (f"{title}: {error}",)
    return error
