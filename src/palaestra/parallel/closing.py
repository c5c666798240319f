"""Closes all open resources at the end of a run or a command. A failure or a hang is reported, but changes neither the
result nor the exit status.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from palaestra.core.errors import PalaestraError, exception_summary

PATIENCE = 20.0
"""Seconds in which an object must close; job systems kill a process some 30 s after SIGTERM."""
PAUSE = 1.0
"""Seconds between attempts to interrupt a call that does not close."""
ATTEMPTS = 3
"""Attempts to interrupt the call, after which the process is ended if possible."""

Leave = Callable[[], object]
"""Ends the process at once."""


class Closeable(Protocol):
    """Anything with a `close`."""

    def close(self) -> None:
        """Frees what it holds."""
        ...


class TookTooLong(BaseException):
    """Raised in code that does not return in time."""


def close_safely(
    close: Callable[[], object],
    what: str,
    warn: Callable[[str], object],
    *,
    patience: float | None = None,
    leave: Leave | None = None,
) -> None:
    """Calls `close`; warns if it raises anything or does not return within `patience` seconds (PATIENCE). `what` names
    it there.

    Then Python code of the main thread is interrupted, on systems with POSIX signals. A call that cannot be interrupted
    is waited for, unless `leave` ends the process.
    """
    patience = PATIENCE if patience is None else patience
    deadline = _Deadline(patience, what, warn, leave)
    try:
        with deadline:
            close()
    except BaseException as error:  # a user's environment may raise anything, SystemExit too
        if deadline.passed:  # whatever TookTooLong has become on its way
            warn(f"{what} did not close within {patience:g} s, and is left as it is")
        elif isinstance(error, KeyboardInterrupt):
            warn(f"{what} was interrupted while it was closed, and is left as it is")
        else:
            warn(f"{what} could not be closed: {reason_of(error)}; nothing else is affected")


@contextmanager
def closing_safely(
    thing: Closeable, what: str, warn: Callable[[str], object], leave: Callable[[], Leave | None] = lambda: None
) -> Iterator[None]:
    """Closes `thing` at the end of the block, also after an error, as `close_safely` does; then `leave` is asked how
    the process ends."""
    try:
        yield
    finally:
        close_safely(thing.close, what, warn, leave=leave())


def close_all(closes: Iterable[Callable[[], object]]) -> None:
    """Calls all functions, each of which closes something. After the last one, raises the first PalaestraError of
    these functions."""
    failures = list[PalaestraError]()
    for close in closes:
        try:
            close()
        except PalaestraError as error:
            failures.append(error)
    if failures:
        raise failures[0]


@contextmanager
def warning_of_failure(what: str, warn: Callable[[str], object]) -> Iterator[None]:
    """Turns an exception of the block into a warning that `what` was left out."""
    try:
        yield
    except Exception as error:
        warn(f"{what} failed at the end of the run: {reason_of(error)}; the rest continues")


def reason_of(error: BaseException) -> str:
    """Returns an error's own message, or a summary of an exception of other code."""
    return str(error) if isinstance(error, PalaestraError) else exception_summary(error)


class _Deadline:
    """Interrupts the block by TookTooLong after some seconds."""

    def __init__(self, seconds: float, what: str, warn: Callable[[str], object], leave: Leave | None) -> None:
        self._seconds = seconds
        self._what = what
        self._warn = warn
        self._leave = leave
        self.passed = False
        """True once the block was interrupted."""
        self._over = threading.Event()
        self._main = hasattr(signal, "pthread_kill") and threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(target=self._watch, name="palaestra closing", daemon=True)

    def __enter__(self) -> None:
        if self._main:
            self._before = signal.signal(signal.SIGALRM, self._interrupt)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._main:
            signal.signal(signal.SIGALRM, self._before)

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        if not self._over.is_set():
            self.passed = True
            raise TookTooLong

    def _watch(self) -> None:
        if self._over.wait(self._seconds):
            return
        for _ in range(ATTEMPTS):
            if self._main:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            if self._over.wait(PAUSE):
                return
        if self._leave is not None:
            self._warn(
                f"{self._what} does not close and cannot be interrupted: the process ends without waiting for it"
            )
            self._leave()
