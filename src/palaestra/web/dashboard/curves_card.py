"""The card with the curves of chosen runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import run as worker
from nicegui import ui

from palaestra.core.metrics import REWARD
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.thinning import CurveView
from palaestra.web.dashboard.chart_options import CurveLine, curve_options
from palaestra.web.layout import card, marked, quiet

MOST_RUNS = 12
"""Runs in one chart, at most."""
MOST_LINES = 24
AXES = {"steps": "Steps", "time": "Time"}

Curves = list[tuple[str, int, list[list[float]]]]
"""Name, number of its color, and points of each curve."""


class CurvesCard:
    """One metric of several runs in one chart."""

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._runs: tuple[str, ...] = ()
        self._shown: object = None
        """Content of the chart: the choices, and versions of the runs."""
        self._names: list[str] = []
        self._busy = False
        with card("Curves"):
            with ui.row().classes("w-full items-center gap-x-5 gap-y-1"):
                self._metric = ui.select(
                    [REWARD], value=REWARD, with_input=True, label="Metric", on_change=self.refresh
                )
                marked(self._metric, "metric", "p-select", "dense outlined options-dense")
                self._axis = ui.toggle(AXES, value="steps", on_change=self.refresh)
                marked(self._axis, "axis", props='dense no-caps unelevated aria-label="Horizontal axis"')
                with ui.row().classes("items-center gap-2 no-wrap"):
                    quiet("Smoothing")
                    self._smoothing = ui.slider(min=0, max=0.99, step=0.01, value=0.6, on_change=self.refresh)
                    marked(self._smoothing, "smoothing", "w-32", "label aria-label=Smoothing")
                self._log = marked(ui.switch("Log scale", on_change=self.refresh), "log", props="dense")
            self._note = quiet("")
            self.chart = ui.echart(curve_options([], over_time=False, log=False))
            marked(self.chart, "curves", "w-full p-chart", 'role=img aria-label="Curves of the chosen runs"')

    async def show(self, runs: Sequence[str], note: str) -> None:
        """Shows other runs, or what is new of the same."""
        self._runs = tuple(runs[:MOST_RUNS])
        if not note and len(runs) > MOST_RUNS:
            note = f"{len(runs)} runs are chosen; these are the first {MOST_RUNS} of them."
        self._note.set_text(note)
        await self.refresh()

    async def refresh(self) -> None:
        """Draws what is new; does nothing if nothing is."""
        if self._busy:
            return
        self._busy = True
        try:
            view = CurveView(self._axis.value == "time", float(self._smoothing.value or 0))
            choice = (self._runs, self._metric.value, view, bool(self._log.value))
            read = await worker.io_bound(self._read, choice)
            if read is not None:  # None: nothing new, or the page is ending
                self._draw(choice, *read)
        finally:
            self._busy = False

    def _read(self, choice: tuple[tuple[str, ...], str, CurveView, bool]) -> tuple[object, list[str], Curves] | None:
        """Reads the curves, in a thread. Returns None if they are those that are shown."""
        runs, metric, view, _ = choice
        known = [run for run in runs if self._index.status(run) is not None]
        opened = [(run, self._index.curves.of(self._index.results / run)) for run in known]
        versions = [curves.refresh() for _, curves in opened]
        state = (choice, versions)
        if state == self._shown:
            return None
        tags: set[str] = set()
        found: Curves = []
        for color, (run, curves) in enumerate(opened):
            behaviors = curves.tags
            tags.update(tag for each in behaviors.values() for tag in each)
            for behavior in behaviors:
                if len(found) < MOST_LINES and (data := curves.curve(behavior, metric, view)):
                    several = len(behaviors) > 1
                    found.append((f"{run} ({behavior})" if several else run, len(found) if several else color, data))
        return state, sorted(tags), found

    def _draw(self, choice: tuple[Any, ...], state: object, tags: list[str], curves: Curves) -> None:
        _, _, view, log = choice
        lines = [CurveLine(name, data, color) for name, color, data in curves]
        options = curve_options(lines, over_time=view.over_time, log=log)
        before = self._shown
        self._shown = state
        if isinstance(before, tuple) and before[0] == choice and self._names == [line.name for line in lines]:
            pairs = zip(options["series"], self.chart.options["series"], strict=True)
            changed = [{"id": new["id"], "data": new["data"]} for new, old in pairs if new != old]
            self.chart.options["series"] = options["series"]
            self.chart.run_chart_method("setOption", {"series": changed})
        else:
            self.chart.options.clear()
            self.chart.options.update(options)
            self.chart.update()
        self._names = [line.name for line in lines]
        known = sorted({*tags, str(self._metric.value)})
        if known != self._metric.options:
            self._metric.set_options(known)
