"""Waits for a run that is just starting, and then builds its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import escaped
from palaestra.web.layout import card, marked, quiet
from palaestra.web.starting.started_runs import StartedRun, started_run

REFRESH = 0.5
"""Seconds between two looks at the files."""


class Entrance:
    """Shows a run's output until the run exists.

    The page is sent before any file is read: while the server starts or reads many runs, this would take longer than
    NiceGUI allows.
    """

    def __init__(self, results: Path, run_id: str, is_there: Callable[[], bool], build: Callable[[], object]) -> None:
        """`is_there` may read files; `build` is called once it says so."""
        self._results = results
        self._id = run_id
        self._is_there = is_there
        self._build = build
        self._place = ui.column().classes("w-full gap-3")
        with self._place:
            quiet("Reading the run...")
        self._shown: object = ""
        self._timer = ui.timer(REFRESH, self._look)

    async def _look(self) -> None:
        if await worker.io_bound(self._is_there):
            self._timer.cancel()
            self._place.clear()
            with self._place:
                self._build()
            return
        started = await worker.io_bound(started_run, self._results, self._id)
        if started != self._shown:
            self._shown = started
            self._place.clear()
            with self._place:
                self._say(started)

    def _say(self, started: StartedRun | None) -> None:
        name = escaped(self._id)
        if started is None:
            with card("No such run"):
                ui.label(f"There is no run '{name}' in {escaped(str(self._results))}. If one begins, it opens here.")
                ui.link("All runs", "/")
            return
        with card("The run has not begun" if started.ended else "Starting"):
            what = "ended before it began:" if started.ended else "is starting; its page opens here."
            marked(ui.label(f"'{name}' {what}"), "starting", "text-negative" if started.ended else "")
            if started.log:
                marked(ui.label(started.log), "log", "p-log w-full")
            if started.ended:
                ui.link("All runs", "/")
