"""Small charts of a run's main metrics."""

from __future__ import annotations

from functools import partial

from nicegui import run as worker
from nicegui import ui
from nicegui.events import GenericEventArguments

from palaestra.core.display import escaped
from palaestra.core.metrics import ELO, GROUP_REWARD, LENGTH, REWARD, SUCCESS
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.thinning import CurveView
from palaestra.scenario.standing import WORST_RATE
from palaestra.web.dashboard.chart_options import CurveLine, curve_options
from palaestra.web.layout import card, dialog_of, marked, quiet, within

MAIN = (
    REWARD,
    GROUP_REWARD,
    SUCCESS,
    ELO,
    WORST_RATE,
    LENGTH,
    "Policy/Entropy",
    "Losses/Policy Loss",
    "Losses/Value Loss",
    "Policy/Extrinsic Value Estimate",
    "Policy/Learning Rate",
)
"""Metrics that are shown first."""
SHOWN = 8
MOST = 48
POINTS = 300
"""Most points of a small curve."""
MOST_LINES = 8

Charts = dict[str, list[tuple[str, list[list[float]]]]]
"""Name and points of each curve, by metric."""


class SmallCharts:
    """A grid of charts; a button shows more of them."""

    def __init__(self, index: RunIndex, run_id: str) -> None:
        self._index = index
        self._id = run_id
        self._charts: dict[str, ui.echart] = {}
        self._lines: dict[str, list[CurveLine]] = {}
        self._zoom = (0.0, 100.0)
        """Part of the horizontal axis that is shown, in percent."""
        self._shown: object = None
        self._all = self._over_time = self._busy = False
        with card("Curves"):
            with ui.row().classes("w-full items-center gap-4"):
                ui.toggle(
                    {False: "Steps", True: "Time"}, value=False, on_change=lambda event: self._change(time=event.value)
                ).props('dense no-caps unelevated aria-label="Horizontal axis"')
                every = ui.switch("All metrics", on_change=lambda event: self._change(every=event.value))
                marked(every, "all-metrics", props="dense")
                self._count = quiet("")
            self._grid = ui.element("div").classes("p-small-charts w-full")

    async def _change(self, *, time: bool | None = None, every: bool | None = None) -> None:
        self._over_time = self._over_time if time is None else time
        self._all = self._all if every is None else every
        await self.refresh()

    async def refresh(self) -> None:
        """Draws what is new."""
        if self._busy:
            return
        self._busy = True
        try:
            read = await worker.io_bound(self._read, self._over_time, self._all)
            if read is not None:
                self._shown, total, charts = read
                self._draw(charts, total)
        finally:
            self._busy = False

    def _read(self, over_time: bool, every: bool) -> tuple[object, int, Charts] | None:
        curves = self._index.curves.of(self._index.results / self._id)
        state = (curves.refresh(), over_time, every)
        if state == self._shown:
            return None
        behaviors = curves.tags
        tags = ordered({tag for found in behaviors.values() for tag in found})
        view = CurveView(over_time, 0.0, POINTS)
        charts: Charts = {}
        for tag in tags[: MOST if every else SHOWN]:
            lines = [(name, curves.curve(name, tag, view)) for name, found in behaviors.items() if tag in found]
            charts[tag] = [(name, data) for name, data in lines[:MOST_LINES] if data]
        return state, len(tags), charts

    def _draw(self, charts: Charts, total: int) -> None:
        self._count.set_text(f"{len(charts)} of {total} metrics" if total else "No metrics so far")
        if list(charts) != list(self._charts):
            self._grid.clear()
            self._charts.clear()
            with self._grid:
                for tag in charts:
                    with ui.column().classes("gap-0 min-w-0"):
                        larger = ui.button(escaped(tag), on_click=partial(self._enlarge, tag))
                        larger.props("flat dense no-caps align=left").classes("text-xs font-medium p-ellipsis")
                        larger.tooltip("Enlarge")
                        chart = ui.echart({}).classes("w-full").style("height: 150px").props("role=img")
                        chart.props["aria-label"] = f"Curve of {escaped(tag)}"
                        chart.on("chart:datazoom", partial(self._zoomed, tag))
                        self._charts[tag] = chart
        for tag, found in charts.items():
            chart = self._charts[tag]
            lines = self._lines[tag] = [CurveLine(name, data, i) for i, (name, data) in enumerate(found)]
            new = curve_options(lines, over_time=self._over_time, log=False, small=True)
            if new != chart.options:
                chart.options.clear()
                chart.options.update(new)
                chart.update()

    def _zoomed(self, tag: str, event: GenericEventArguments) -> None:
        """Zooms all charts like the one that was zoomed."""
        batch = event.args.get("batch") if isinstance(event.args, dict) else None
        part = batch[0] if isinstance(batch, list) and batch and isinstance(batch[0], dict) else event.args
        start, end = (
            (within(part.get(name), 0, 100) for name in ("start", "end")) if isinstance(part, dict) else (None, None)
        )
        if start is None or end is None or (start, end) == self._zoom:
            return
        self._zoom = (start, end)
        for other, chart in self._charts.items():
            if other != tag:
                chart.run_chart_method("dispatchAction", {"type": "dataZoom", "start": start, "end": end})

    def _enlarge(self, tag: str) -> None:
        """Shows one chart large, over the page."""
        with dialog_of(escaped(tag)) as dialog:
            options = curve_options(self._lines.get(tag, []), over_time=self._over_time, log=False)
            marked(ui.echart(options), "enlarged", "p-chart").style("width: min(86vw, 1100px); height: 66vh")
        dialog.props("full-width")
        dialog.on("hide", dialog.delete)
        dialog.open()


def ordered(tags: set[str]) -> list[str]:
    """Returns the main metrics first, then losses, policy and the rest by name."""
    groups = ("Environment/", "Self-play/", "Losses/", "Policy/")

    def rank(tag: str) -> tuple[int, int, str]:
        main = MAIN.index(tag) if tag in MAIN else len(MAIN)
        group = next((i for i, start in enumerate(groups) if tag.startswith(start)), len(groups))
        return main, group, tag

    return sorted(tags, key=rank)
