"""Shows how many episodes have been played: a line that changes in a terminal or notebook; elsewhere a new line from
time to time."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from palaestra.core.display import PAUSE, NotebookLines, in_notebook, is_terminal, print_now

SILENCE = 30.0
"""Seconds between two lines if there is neither a terminal nor a notebook."""


class EpisodeProgress:
    """Context manager that shows progress on standard error, or below the cell of a notebook."""

    def __init__(self, what: str = "", *, quiet: bool = False) -> None:
        """`what` stands in front, such as the run that plays; `quiet` shows nothing."""
        self._what = f"{what}: " if what else ""
        self._start = time.monotonic()
        self._notebook = NotebookLines() if in_notebook() else None
        self._terminal = self._notebook is None and is_terminal(sys.stderr)
        self._pause = PAUSE if self._notebook is not None or self._terminal else SILENCE
        self._due = float("inf") if quiet else self._start + self._pause
        self._shown = ""

    def __enter__(self) -> EpisodeProgress:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # a stream that is gone
            if self._terminal and self._shown:
                print_now(f"\r{' ' * len(self._shown)}\r", sys.stderr, end="")
            elif self._notebook is not None:
                self._notebook.show([])

    def show(self, done: int, total: int, decisions: int) -> None:
        """Shows the numbers of finished episodes, all episodes, and decisions; not shortly after the last call."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self._pause
        rate = decisions / max(now - self._start, 1e-9)
        self._shown = f"{self._what}{done:,} of {total:,} episodes, {rate:,.0f} decisions/s"
        with suppress(Exception):
            if self._notebook is not None:
                self._notebook.show([(done / max(total, 1), self._shown)])
            else:
                begins, ends = ("\r", "") if self._terminal else ("palaestra: ", "\n")
                print_now(f"{begins}{self._shown}", sys.stderr, end=ends)
