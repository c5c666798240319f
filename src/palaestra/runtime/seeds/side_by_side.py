"""Runs processes that train, several at once; signals stop all of them, after they have saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

from palaestra.core.processes import usable_cores
from palaestra.runtime.control.os_signals import numbers

CHECK = 0.05
"""Seconds between two looks at the processes."""


class TrainingProcess(Protocol):
    """A process that trains one seed, in a separate session, so that the terminal's signals do not reach it."""

    def poll(self) -> int | None:
        """Returns the process's exit code; None while it is running."""
        ...

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
        ...

    def close(self) -> None:
        """Ends the process, if it is still running, and frees its resources."""
        ...


class Signals:
    """Passes signals on to the running processes, and remembers the first signal."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.running: dict[int, TrainingProcess] = {}

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Passes a signal on."""
        self.first = self.first or number
        for process in self.running.values():
            if process.poll() is None:
                with suppress(OSError, ValueError):  # just ended; Windows: Ctrl-C has reached it
                    process.send_signal(number)


@contextmanager
def passing_on() -> Iterator[Signals]:
    """Within the block, signals are passed on to the running processes; only in the main thread."""
    hear = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield hear
        return
    before = {number: signal.signal(number, hear) for number in numbers()}
    try:
        yield hear
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_all(
    starts: Sequence[Callable[[], TrainingProcess]], at_once: int, ended: Callable[[int, int, bool], bool]
) -> tuple[list[int | None], int | None]:
    """Runs processes, `at_once` of them at a time, in their order. Returns their exit codes (None for a process that
    was not started) and the signal that stopped them. `ended` is called with the number and the exit code of each
    process, and whether it ended after a signal; it returns whether to start further processes."""
    codes: list[int | None] = [None] * len(starts)
    waiting = list(range(len(starts)))
    with passing_on() as signals:
        try:
            while waiting or signals.running:
                if signals.first is not None:
                    waiting.clear()
                while waiting and len(signals.running) < at_once:
                    number = waiting.pop(0)
                    signals.running[number] = starts[number]()
                for number, process in list(signals.running.items()):
                    code = process.poll()
                    if code is None:
                        continue
                    codes[number] = code
                    del signals.running[number]
                    process.close()
                    if not ended(number, code, signals.first is not None):
                        waiting.clear()
                time.sleep(CHECK)
        finally:
            for process in signals.running.values():
                process.close()
    return codes, signals.first


def threads_each(at_once: int) -> int:
    """Returns each process's share of this machine's cores."""
    return max(1, usable_cores() // at_once)
