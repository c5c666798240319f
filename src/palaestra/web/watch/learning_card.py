"""The card under the scene of a run: its reward so far, and a slider that shows how it played then."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import escaped
from palaestra.core.errors import PalaestraError
from palaestra.core.metrics import REWARD
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.thinning import CurveView
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.recording.filming import Film, FilmSource, film_sources
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.dashboard.chart_options import PALETTE, CurveLine, curve_options
from palaestra.web.dashboard.run_rows import short
from palaestra.web.layout import card, complain, marked, marked_label, within
from palaestra.web.watch.watched import WatchedPlayback

POINTS = 400
"""Points of the curve, at most."""
CLIP_SECONDS = 8.0
CLIP_AREAS, CLIP_WIDTH = 4, 1280
SEED = 7
"""Seed with which areas begin, when a policy and the newest one are shown in the same ones."""


class LearningCard:
    """Draws the reward of a run that is watched, and exchanges its models for those of another step.

    The steps are those that there are: a run that learns saves more, and deletes old ones.
    """

    def __init__(
        self, watched: WatchedPlayback, index: RunIndex, show_ghost: Callable[[PlaybackSource | None], object]
    ) -> None:
        """`show_ghost` is called with what is to play beside the scene's own, or None."""
        self._watched = watched
        self._index = index
        self._show_ghost = show_ghost
        self._steps = list[int]()
        self._drawn: object = None
        self._busy = False
        with card("It learns") as self._card:
            self._chart = marked(ui.echart({}), "learning-curve", "w-full", 'role=img aria-label="Reward so far"')
            self._chart.style("height: 120px")
            self._where = marked_label("step")
            self._slider = ui.slider(min=0, max=1, value=1).props("snap aria-label=Step data-mark=checkpoints")
            self._slider.on("update:model-value", lambda event: self._show(event.args), throttle=0.15)
            with ui.row().classes("w-full items-center gap-x-4"):
                self._beside = ui.switch("The newest too, with that policy as a ghost", on_change=self._again)
                marked(self._beside, "ghost", props="dense")
                ui.space()
                clip = ui.button("Clip: start, middle, now", icon="movie", on_click=self._clip)
                marked(clip, "clip", props="flat dense no-caps")
        if watched.source.run is None:
            self._card.visible = False
            return
        self.refresh()
        ui.timer(0.1, lambda: self._show(self._slider.value), once=True)

    def refresh(self) -> None:
        """Offers the steps that there are now; the chosen one stays, or the nearest to it."""
        source = self._watched.source
        steps = [] if source.run is None else steps_of(RunFolder(source.results, source.run))
        if steps == self._steps:
            return
        self._steps = steps
        position = len(steps)
        if (wanted := self._chosen) is not None:
            position = min(range(len(steps)), key=lambda number: abs(steps[number] - wanted), default=0)
        self._slider.props(f"max={max(len(steps), 1)}")
        self._slider.set_value(position)
        self._slider.set_visibility(len(steps) > 1)

    async def draw(self) -> None:
        """Draws the curve, where it is longer or another step is chosen."""
        if self._busy or self._watched.source.run is None:
            return
        self._busy = True
        try:
            read = await worker.io_bound(self._read)
        finally:
            self._busy = False
        if read is None:
            return
        self._drawn, lines = read
        options = curve_options(lines, over_time=False, log=False, small=True)
        if self._chosen is not None and options["series"]:
            options["series"][0]["markLine"] = {
                "symbol": "none",
                "animation": False,
                "lineStyle": {"color": PALETTE[1], "width": 1.5, "type": "solid"},
                "label": {"show": False},
                "data": [{"xAxis": self._chosen}],
            }
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()

    @property
    def _chosen(self) -> int | None:
        return self._watched.chosen

    def _read(self) -> tuple[object, list[CurveLine]] | None:
        run = self._watched.source.run
        assert run is not None
        curves = self._index.curves.of(self._index.results / run)
        state = (curves.refresh(), self._chosen)
        if state == self._drawn:
            return None
        view = CurveView(most=POINTS)
        behaviors = [name for name, tags in curves.tags.items() if REWARD in tags]
        found = [(name, curves.curve(name, REWARD, view)) for name in behaviors]
        return state, [CurveLine(name, data, i) for i, (name, data) in enumerate(found) if data]

    async def _again(self) -> None:
        await self._show(self._slider.value)

    async def _show(self, sent: object) -> None:
        position = int(within(sent, 0, len(self._steps)) or 0)
        newest = position >= len(self._steps)
        step = None if newest else self._steps[position]
        watched = self._watched
        watched.chosen = step
        beside = bool(self._beside.value) and step is not None
        self._where.set_text("Newest models; newer ones follow" if step is None else f"After {step:,} decisions")
        error = await watched.show_step(None if beside else step)
        if error is not None:
            self._where.set_text(error)
            return
        if step is not None:
            watched.playback.restart(SEED)
        self._show_ghost(replace(watched.source, step=step) if beside else None)
        await self.draw()

    async def _clip(self) -> None:
        ui.notify("Making a clip of start, middle and now; it takes a while")
        suffix = ".mp4" if find_spec("imageio_ffmpeg") is not None else ".gif"
        try:
            content = await worker.io_bound(partial(split_screen, self._watched.source, self._steps, suffix))
        except (PalaestraError, OSError) as error:
            complain(str(error))
            return
        if content:  # None: the page is ending
            ui.download.content(content, f"{escaped(self._watched.source.run or 'run')}{suffix}")


def split_screen(source: PlaybackSource, steps: list[int], suffix: str) -> bytes:
    """Returns a film of a run's first models, those of the middle and its newest ones, side by side. Raises
    PalaestraError.
    """
    chosen = list(dict.fromkeys([steps[0], steps[len(steps) // 2], steps[-1]])) if steps else [None]
    names = {steps[0]: "start", steps[-1]: "now"} if len(chosen) > 1 and steps else {}
    panels = [
        FilmSource(
            replace(source, step=step).models(),
            "now" if step is None else f"{names.get(step, 'middle')}: {short(step)} decisions",
        )
        for step in chosen
    ]
    film = Film(areas=CLIP_AREAS, seconds=CLIP_SECONDS, width=CLIP_WIDTH, sampled=False, seed=SEED, force=True)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / f"clip{suffix}"
        film_sources(panels, out, film, source.env, source.flags)
        return out.read_bytes()
