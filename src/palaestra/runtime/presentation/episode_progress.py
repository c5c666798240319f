"""Shows how many episodes have been played: a bar in a terminal and a notebook, else a line now and then."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from palaestra.core.display import PAUSE, NotebookLines, in_notebook, is_terminal, print_now

REFRESH = 0.1
"""Seconds between two updates of a terminal's bar."""
SILENCE = 30.0
"""Seconds between two lines where there is neither terminal nor notebook."""


class EpisodeProgress:
    """Context manager that shows progress on standard error, or below the cell of a notebook."""

    def __init__(self, what: str = "", *, quiet: bool = False) -> None:
        """`what` stands in front, such as the run that plays; `quiet` shows nothing."""
        self._what = f"{what}: " if what else ""
        self._quiet = quiet
        self._start = time.monotonic()
        self._bar: Any = None
        self._lines = NotebookLines() if in_notebook() and not quiet else None
        self._pause = PAUSE if self._lines is not None else REFRESH if is_terminal(sys.stderr) else SILENCE
        self._due = self._start + self._pause
        self._last = (0, 0, 0)

    def __enter__(self) -> EpisodeProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):  # a terminal that is gone
            if self._bar is not None:
                self._bar.stop()
            if self._lines is not None and self._last[1]:
                self._lines.show([(None, self._text(*self._last, over=True))])

    def show(self, done: int, total: int, decisions: int) -> None:
        """Shows episodes so far, all episodes, and decisions so far. Does nothing shortly after the last call."""
        now = time.monotonic()
        if self._quiet or now < self._due:
            return
        self._due = now + self._pause
        self._last = done, total, decisions
        with suppress(Exception):
            if self._lines is not None:
                self._lines.show([(done / max(total, 1), self._text(done, total, decisions))])
            elif is_terminal(sys.stderr):
                self._show_bar(done, total)
            else:
                print_now(f"palaestra: {self._text(done, total, decisions)}", sys.stderr)

    def end(self, done: int, total: int, decisions: int) -> None:
        """Notes what was played in the end, which a notebook keeps in one line."""
        if self._last[1]:
            self._last = done, total, decisions

    def _text(self, done: int, total: int, decisions: int, *, over: bool = False) -> str:
        seconds = time.monotonic() - self._start
        rate = f"{decisions / max(seconds, 1e-9):,.0f} decisions/s"
        return f"{self._what}{done:,} of {total:,} episodes, {rate}{f', {seconds:.1f} s' if over else ''}"

    def _show_bar(self, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            texts = TextColumn("{task.fields[what]}{task.completed:,.0f} of {task.total:,.0f} episodes")
            columns = (texts, BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.add_task("", total=total, what=self._what)
            self._bar.start()
        self._bar.update(0, completed=done, total=total, refresh=True)
