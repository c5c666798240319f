"""The card with the curves of chosen runs: a line for each run, or a line with a band for the seeds of one setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from nicegui import run as worker
from nicegui import ui

from palaestra.runtime.comparison.intervals import band
from palaestra.runtime.comparison.scores import resampled
from palaestra.runtime.comparison.selection import grouped
from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.thinning import CurveView, shown, smoothed
from palaestra.web.dashboard.chart_options import CurveLine, curve_options
from palaestra.web.dashboard.runs_view import RunsView
from palaestra.web.layout import card, marked, quiet

MOST_RUNS = 24
"""Most runs in one chart."""
MOST_LINES = 24
RESAMPLES = 500
"""Bootstrap samples for a band's ends: fewer than `palaestra compare` takes, as the chart is drawn again and again."""
AXES = {"steps": "Steps", "time": "Time"}


class CurvesCard:
    """One metric of several runs in one chart."""

    def __init__(self, index: RunIndex, view: RunsView, changed: Callable[[Mapping[str, Any]], object]) -> None:
        """`changed` is called with a person's new choices, by the names of `RunsView`."""
        self._index = index
        self._view = view
        self._changed = changed
        self._runs: tuple[str, ...] = ()
        self._colors: Mapping[str, int] = {}
        self._shown: object = None
        """Content of the chart: the choices, and versions of the runs."""
        self._names: list[str] = []
        self._groups: tuple[object, dict[str, str]] = (None, {})
        self._busy = False
        with card("Curves"):
            with ui.row().classes("w-full items-center gap-x-5 gap-y-1"):
                self._metric = ui.select(
                    [view.metric], value=view.metric, with_input=True, label="Metric", on_change=self._choose
                )
                marked(self._metric, "metric", "p-select", "dense outlined options-dense")
                self._axis = ui.toggle(AXES, value=view.axis, on_change=self._choose)
                marked(self._axis, "axis", props='dense no-caps unelevated aria-label="Horizontal axis"')
                with ui.row().classes("items-center gap-2 no-wrap"):
                    quiet("Smoothing")
                    self._smoothing = ui.slider(min=0, max=0.99, step=0.01, value=view.smooth, on_change=self._choose)
                    marked(self._smoothing, "smoothing", "w-32", "label aria-label=Smoothing")
                self._log = marked(ui.switch("Log scale", value=view.log, on_change=self._choose), "log", props="dense")
                self._bands = ui.switch("Seeds as bands", value=view.bands, on_change=self._choose)
                marked(self._bands, "bands", props="dense").tooltip(
                    "Runs of one setting are one line: their interquartile mean, with a 95 % interval"
                )
            self._note = quiet("")
            self.chart = ui.echart(curve_options([], over_time=False, log=False))
            marked(self.chart, "curves", "w-full p-chart", 'role=img aria-label="Curves of the chosen runs"')

    async def _choose(self) -> None:
        chosen = {
            "metric": str(self._metric.value),
            "axis": str(self._axis.value),
            "smooth": float(self._smoothing.value or 0),
            "log": bool(self._log.value),
            "bands": bool(self._bands.value),
        }
        self._view = replace(self._view, **chosen)
        self._changed(chosen)
        await self.refresh()

    async def show(self, runs: Sequence[str], colors: Mapping[str, int], note: str) -> None:
        """Shows other runs, or new data of the same runs. `colors`: the number of each run's color."""
        self._runs = tuple(runs[:MOST_RUNS])
        self._colors = colors
        if not note and len(runs) > MOST_RUNS:
            note = f"{len(runs)} runs are chosen; these are the first {MOST_RUNS} of them."
        self._note.set_text(note)
        await self.refresh()

    async def refresh(self) -> None:
        """Draws new data, if there are any."""
        if self._busy:
            return
        self._busy = True
        try:
            choice = (self._runs, tuple(self._colors.get(run, 0) for run in self._runs), self._view)
            read = await worker.io_bound(self._read, choice)
            if read is not None:  # None: nothing new, or the page is ending
                self._draw(choice, *read)
        finally:
            self._busy = False

    def _read(
        self, choice: tuple[tuple[str, ...], tuple[int, ...], RunsView]
    ) -> tuple[object, list[str], list[CurveLine]] | None:
        """Reads the curves, in a thread. Returns None if they are shown already."""
        runs, colors, view = choice
        color_of = dict(zip(runs, colors, strict=True))
        known = [run for run in runs if self._index.status(run) is not None]
        opened = [(run, self._index.curves.of(self._index.results / run)) for run in known]
        versions = [curves.refresh() for _, curves in opened]
        state = (choice, versions)
        if state == self._shown:
            return None
        tags: set[str] = set()
        found: dict[str, list[tuple[str, Points]]] = {}
        for run, curves in opened:
            behaviors = curves.tags
            tags.update(tag for each in behaviors.values() for tag in each)
            for behavior in behaviors:
                if (points := curves.points(behavior, view.metric)) is not None and len(points.value):
                    found.setdefault(behavior, []).append((run, points))
        several = len(found) > 1
        lines: list[CurveLine] = []
        group_of = self.groups(known) if view.bands else {run: run for run in known}
        for behavior, curves in found.items():
            ending = f" ({behavior})" if several else ""
            for group in dict.fromkeys(group_of[run] for run, _ in curves):
                members = [(run, points) for run, points in curves if group_of[run] == group]
                name = f"{members[0][0]}" if len(members) == 1 else f"{group}, {len(members)} runs"
                color = len(lines) if several else color_of[members[0][0]]
                if line := _line(name + ending, color, [points for _, points in members], view):
                    lines.append(line)
        return state, sorted(tags), lines[:MOST_LINES]

    def groups(self, runs: Sequence[str]) -> dict[str, str]:
        """Returns the group of each run: runs of one setting belong together. Reads files: call it from a thread."""
        key = tuple(runs)
        if self._groups[0] != key:
            found = grouped({run: self._index.results / run for run in runs}, ["settings"])
            self._groups = key, {run: group.name for group in found for run in group.runs}
        return self._groups[1]

    def _draw(self, choice: tuple[object, ...], state: object, tags: list[str], lines: list[CurveLine]) -> None:
        view = self._view
        options = curve_options(lines, over_time=view.axis == "time", log=view.log)
        before = self._shown
        self._shown = state
        names = [str(one.get("name")) for one in options["series"]]
        if isinstance(before, tuple) and before[0] == choice and self._names == names:
            pairs = zip(options["series"], self.chart.options["series"], strict=True)
            changed = [{"id": new["id"], "data": new["data"]} for new, old in pairs if new != old]
            self.chart.options["series"] = options["series"]
            self.chart.run_chart_method("setOption", {"series": changed})
        else:
            self.chart.options.clear()
            self.chart.options.update(options)
            self.chart.update()
        self._names = names
        known = sorted({*tags, str(self._metric.value)})
        if known != self._metric.options:
            self._metric.set_options(known)


def _line(name: str, color: int, curves: list[Points], view: RunsView) -> CurveLine | None:
    """Returns the line of a group of runs, with a band where they are several; None without a finite value."""
    by_time = view.axis == "time"
    if len(curves) == 1:
        data = shown(curves[0], CurveView(by_time, view.smooth))
        return CurveLine(name, data, color) if data else None
    finite = [
        replace(
            points,
            step=points.step[keep],
            seconds=points.seconds[keep],
            value=smoothed(points.value[keep], view.smooth),
        )
        for points in curves
        if (keep := np.isfinite(points.value)).any()
    ]
    if not finite:
        return None
    x, values = resampled(finite, by_time=by_time)
    middle, low, high = band(values, resamples=RESAMPLES)
    across = (x / 3600 if by_time else x).tolist()
    rows = [
        [round(left, 6), *(float(f"{one:.6g}") for one in row)]
        for left, row in zip(across, np.stack([middle, low, high], 1).tolist(), strict=True)
    ]
    return CurveLine(name, [row[:2] for row in rows], color, [row[2:] for row in rows])
