"""Reports long waits, such as imports and the start of an environment, while nothing else is printed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from palaestra.core.display import print_now

FIRST = 1.5
"""Seconds until the first message; each pause after it is twice as long as the one before."""
LONGEST = 30.0
"""Longest pause between two messages, in seconds."""


class WaitingNotice:
    """Context manager that reports a long wait: after 1.5 s, then at growing intervals."""

    def __init__(self, what: str, show: Callable[[str], object]) -> None:
        """Calls `show` from another thread, with lines such as 'opening 3DBall: 5 s so far'."""
        self._what = what
        self._show = show
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="waiting", daemon=True)

    def _watch(self) -> None:
        begin = time.monotonic()
        pause = FIRST
        while not self._over.wait(pause):
            self._show(f"{self._what}: {time.monotonic() - begin:.0f} s so far")
            pause = min(2 * pause, LONGEST)

    def __enter__(self) -> WaitingNotice:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()


def on_stdout(text: str) -> None:
    """Prints in the way in which a run prints its own lines."""
    with suppress(Exception):  # closed, or what a program has put in its place
        print_now(f"[INFO] {text}")


def on_stderr(text: str) -> None:
    """Prints to standard error, separate from a command's results."""
    with suppress(Exception):  # closed, or what a program has put in its place
        print_now(f"palaestra: {text}", sys.stderr)
