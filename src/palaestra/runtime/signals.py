"""Ctrl-C and SIGTERM: the first asks a run to end, saved; the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class Stoppable(Protocol):
    """What can be asked to end."""

    stopped: bool


@contextmanager
def stop_on_signals(run: Stoppable) -> Iterator[None]:
    """Within the block, a signal sets `run.stopped`. Does nothing outside the main thread, where Python hears no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, _: FrameType | None) -> None:
        if run.stopped:
            os._exit(128 + number)
        run.stopped = True
        print("\nstopping: saving what was learned (once more ends at once, without saving)", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
