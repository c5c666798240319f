"""Ctrl-C, SIGTERM and a terminal that is closed.

Before a run begins they break it off, as Ctrl-C does anywhere; while it goes on the first asks it to end, saved, and the second ends the
process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

SHOW_CURSOR = "\x1b[?25h"


class Stoppable(Protocol):
    """What can be asked to end."""

    inference: bool

    def stop(self) -> None:
        """Ends soon, saved."""
        ...

    def wait(self) -> str:
        """What ending waits for, where that takes long: what, and how long; empty: nothing."""
        ...

    def abandon(self) -> None:
        """Ends what this process has started: it ends itself at once."""
        ...


@contextmanager
def break_on_signals() -> Iterator[None]:
    """Within the block each signal raises KeyboardInterrupt, so that what was opened is closed. Outside the main thread: nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, _: FrameType | None) -> None:
        raise Terminated(number)

    before = {number: signal.signal(number, hear) for number in numbers() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C's, before a run began."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stop_on_signals(run: Stoppable) -> Iterator[None]:
    """Within the block, a signal stops the run. Does nothing outside the main thread, where Python hears no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = False

    def hear(number: int, _: FrameType | None) -> None:
        nonlocal heard
        if heard:
            run.abandon()
            if sys.stdout.isatty():
                say(SHOW_CURSOR)  # the live line hid it
            os._exit(128 + number)
        heard = True
        run.stop()
        wait = run.wait()
        saving = "" if run.inference else f": {wait}; then what was learned is saved" if wait else ": saving what was learned"
        say(f"\nstopping{saving} (once more ends at once{', without saving' if saving else ''})\n")

    before = {number: signal.signal(number, hear) for number in numbers()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def numbers() -> list[signal.Signals]:
    """Those to hear; that of a closed terminal unless `nohup` had it ignored."""
    hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    return [signal.SIGINT, signal.SIGTERM, *(number for number in hangup if signal.getsignal(number) != signal.SIG_IGN)]


def say(text: str) -> None:
    """Writes past Python's buffers, which the code that was interrupted may be writing to just now."""
    with suppress(OSError):
        os.write(2, text.encode())
