"""Handles Ctrl-C, SIGTERM and a closed terminal.

Before a run begins, a signal cancels the command, as Ctrl-C does in any program; during a run the first signal makes
the run save and end, and a later Ctrl-C ends the process. Other signals may arrive any number of times: job systems and
`timeout` send SIGTERM more than once, and then SIGKILL. The program that called the training then gets the signal
itself (`pass_on`), so that it does not start its next run.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import NoReturn, Protocol

from palaestra.core.display import is_terminal

SHOW_CURSOR = "\x1b[?25h"
LAUNCHED = "PALAESTRA_LAUNCHED"
"""Environment variable of ranks of `--processes`: their standard input closes when their launcher ends."""


def act_on_closed_input(act: Callable[[], object]) -> None:
    """Calls a function, from another thread, when standard input closes, that is, when the parent process ends."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 1):  # not by sys.stdin, whose lock would be held when the interpreter shuts down
                pass
        act()

    threading.Thread(target=watch, daemon=True, name="palaestra parent").start()


class Stoppable(Protocol):
    """Anything that can be asked to end."""

    inference: bool

    def stop(self) -> None:
        """Ends soon, after saving."""
        ...

    def wait_message(self) -> str:
        """Returns what delays the end of the run, and for how long; '' if nothing delays it."""
        ...

    def abandon(self) -> None:
        """Ends all processes that this process has started, at once."""
        ...


class Terminated(KeyboardInterrupt):
    """Raised by a signal before a run begins, or during a command that does not train."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Breaker:
    """A signal handler that raises Terminated. If the process only runs this command (`process`), two signals end the
    process instead: a signal during an import, which could lose the exception or turn it into another, and a second
    signal."""

    def __init__(self, process: bool) -> None:
        self.received: int | None = None
        self.answered = 0
        """Signals that a run inside the block has handled instead."""
        self.process = process

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raises Terminated, or ends the process."""
        if self.process and (self.received is not None or _importing(frame)):
            leave(number)
        self.received = number
        raise Terminated(number)


@contextmanager
def break_on_signals(*, process: bool = False) -> Iterator[None]:
    """Within the block each signal raises KeyboardInterrupt, so that all open resources are closed. Outside the main
    thread, or within another such block, it does nothing. `process`: also handles Ctrl-C, and ends the process if it
    cannot be interrupted."""
    if threading.current_thread() is not threading.main_thread() or isinstance(
        signal.getsignal(signal.SIGTERM), Breaker
    ):
        yield
        return
    breaker = Breaker(process)
    before = {number: signal.signal(number, breaker) for number in numbers() if process or number != signal.SIGINT}
    guard = _Guard(breaker) if process else nullcontext()
    try:
        with guard:
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reports() -> bool:
    """Whether this process shows messages to the user: with several ranks, only rank 0 does. Imports no torch."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"


def is_read() -> bool:
    """Whether the parent process reads this rank's standard error, to report errors that rank 0 cannot report."""
    return LAUNCHED in os.environ and not reports()


SAME_WISH = 1.0
"""Seconds after another signal in which Ctrl-C counts as the same request, as a job system may send both."""


class Stopper:
    """A signal handler that asks a run to end, and remembers the signal."""

    def __init__(self, run: Stoppable) -> None:
        self.received: int | None = None
        self._received_at = 0.0
        self.outer: Breaker | None = None
        """The signal handler that this one replaces while it is installed."""
        self.status: int | None = None
        """Exit status of a run that has ended and is only closing its files and environments; None while it runs."""
        self._run = run

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Asks the run to end; Ctrl-C after that ends the process."""
        if self.received is not None:
            if number != signal.SIGINT or (
                number != self.received and time.monotonic() < self._received_at + SAME_WISH
            ):
                return
            if self.leave is not None:
                self.leave()
            self._run.abandon()
            leave(number, quietly=True)
        self.received = number
        self._received_at = time.monotonic()
        if self.outer is not None:
            self.outer.answered += 1
        again = "once more" if number == signal.SIGINT else "Ctrl-C"
        if self.status is not None:
            ended = f"\npalaestra: the run has ended and closes what it has open ({again} ends at once)\n"
            say(ended if reports() else "")
            return
        self._run.stop()
        if not reports():
            return
        wait = self._run.wait_message()
        saving = (
            ""
            if self._run.inference
            else f": {wait}; then what was learned is saved"
            if wait
            else " and saving what was learned"
        )
        say(f"\npalaestra: stopping{saving} ({again} ends at once{', without saving' if saving else ''})\n")

    @property
    def leave(self) -> Callable[[], NoReturn] | None:
        """Returns a function that ends the process with the run's exit status; None while the run continues, or if the
        process belongs to the user's program."""
        return self._leave if self.status is not None and self.outer is not None and self.outer.process else None

    def _leave(self) -> NoReturn:
        self._run.abandon()
        os._exit(self.status or 0)


@contextmanager
def stop_on_signals(run: Stoppable) -> Iterator[Stopper]:
    """Within the block, a signal stops the run; after the run has ended (`status`) a signal has no effect. Ctrl-C after
    the run has ended ends the process.

    Outside the main thread, where Python handles no signals, it does nothing. Raises Terminated for an earlier signal
    whose exception was lost.
    """
    stopper = Stopper(run)
    if threading.current_thread() is not threading.main_thread():
        yield stopper
        return
    before = {number: signal.signal(number, stopper) for number in numbers()}
    try:
        for handler in before.values():
            if isinstance(handler, Breaker):
                stopper.outer = handler
                if handler.received is not None:
                    raise Terminated(handler.received)
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Guard:
    """Ends the process if a signal is not handled within a second because native code, a compiler, runs."""

    PATIENCE = 1.0  # seconds

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    def __enter__(self) -> None:
        self._inside, outside = socket.socketpair()
        outside.setblocking(False)
        self._outside = outside
        self._before = signal.set_wakeup_fd(outside.fileno(), warn_on_full_buffer=False)
        if hasattr(os, "register_at_fork"):  # a child of ours has signals of its own
            os.register_at_fork(after_in_child=partial(signal.set_wakeup_fd, -1))
        threading.Thread(target=self._watch, daemon=True, name="palaestra signals").start()

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        self._outside.close()

    def _watch(self) -> None:
        received = 0
        with self._inside:
            while numbers := self._inside.recv(16):
                received += len(numbers)
                time.sleep(self.PATIENCE)
                for number in numbers:
                    unanswered = self._breaker.received is None and self._breaker.answered < received
                    if signal.getsignal(number) is self._breaker and unanswered:
                        leave(number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def pass_on(number: int) -> None:
    """Passes a signal that ended a run to the surrounding program, which ends unless it has its own handler."""
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(number)


def leave(number: int, *, quietly: bool = False) -> NoReturn:
    """Ends the process at once, with the exit status that shells use for the signal."""
    if not quietly:
        say("palaestra: interrupted\n")
    if is_terminal(sys.stdout):
        say(SHOW_CURSOR)  # the live line hid it
    os._exit(128 + number)


def numbers() -> list[signal.Signals]:
    """Returns the signals to handle; SIGHUP is left out if `nohup` makes the process ignore it."""
    hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    return [signal.SIGINT, signal.SIGTERM, *(number for number in hangup if signal.getsignal(number) != signal.SIG_IGN)]


def say(text: str) -> None:
    """Writes to stderr without Python's buffers, because the interrupted code may be using them."""
    with suppress(OSError):
        os.write(2, text.encode())
