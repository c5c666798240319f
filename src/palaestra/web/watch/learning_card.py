"""The card under the scene of a run: its reward curve, and a slider that shows how the run played at a step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from nicegui import run as worker
from nicegui import ui
from nicegui.events import GenericEventArguments

from palaestra.core.display import escaped, escaped_lines
from palaestra.core.errors import PalaestraError
from palaestra.core.metrics import REWARD
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_status import RunStatus
from palaestra.runtime.monitor.thinning import CurveView
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.recording.filming import Film, FilmSource, film_sources
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.dashboard.chart_options import PALETTE, CurveLine, curve_options
from palaestra.web.dashboard.run_rows import headline, short
from palaestra.web.layout import address, card, complain, heading, marked, marked_label, within
from palaestra.web.watch.watched import WatchedPlayback

LEFT, RIGHT = 44, 16
"""Pixels left and right of the curve and of the slider below it, so that both are aligned."""
POINTS = 400
"""Most points of the curve."""
CLIP_SECONDS = 8.0
CLIP_AREAS, CLIP_WIDTH = 4, 1280
SEED = 7
"""Seed with which areas begin, so that two policies are shown in the same areas."""


class LearningCard:
    """Draws the reward of a run that is watched, and replaces its models by the models of another step.

    Only saved steps can be chosen: a learning run saves new ones, and deletes old ones.
    """

    def __init__(
        self, watched: WatchedPlayback, index: RunIndex, show_ghost: Callable[[PlaybackSource | None], object]
    ) -> None:
        """`show_ghost` is called with the second policy to show in the scene, or None."""
        self._watched = watched
        self._index = index
        self._show_ghost = show_ghost
        self._steps = list[int]()
        self._drawn: object = None
        self._busy = False
        self._kept = watched.chosen
        self._curve: Sequence[Sequence[float]] = ()
        """Points of the reward curve of the first behavior."""
        self._learns = True
        run = watched.source.run
        with card() as self._card:
            with ui.row().classes("w-full items-center gap-x-3 gap-y-0"):
                self._title = heading("It learns", 2).classes("text-sm font-medium")
                self._numbers = marked_label("numbers", "text-sm p-quiet")
            self._failure = marked_label("failure", "text-sm p-message text-negative")
            self._chart = marked(ui.echart({}), "learning-curve", "w-full", 'role=img aria-label="Reward so far"')
            self._chart.style("height: 120px")
            self._where = marked_label("step")
            self._slider = ui.slider(min=0, max=1, value=1, step=0)
            marked(self._slider, "checkpoints", props="aria-label=Step")
            self._slider.style(f"margin: 0 {RIGHT}px 0 {LEFT}px; width: calc(100% - {LEFT + RIGHT}px)")
            self._slider.on("update:model-value", lambda event: self._show(event.args), throttle=0.15)
            self._slider.on("change", self._chose)
            with ui.row().classes("w-full items-center gap-x-4"):
                self._beside = ui.switch("Show it as a ghost next to the newest", on_change=self._again)
                marked(self._beside, "ghost", props="dense")
                ui.space()
                to_run = ui.button(
                    "The run", icon="insights", on_click=lambda: ui.navigate.to(address("/run", id=run or ""))
                )
                marked(to_run, "to-run", props="flat dense no-caps").tooltip("Its curves, settings and logs; stop it")
                self._film = ui.button("Clip: start, middle, now", icon="movie", on_click=self._clip)
                marked(self._film, "clip", props="flat dense no-caps")
        if watched.source.run is None:
            self._card.visible = False
            return
        self.refresh()
        ui.timer(0.1, lambda: self._show(self._slider.value), once=True)

    def refresh(self) -> None:
        """Offers the steps that are saved now; the chosen step stays selected, or the nearest step."""
        source = self._watched.source
        steps = [] if source.run is None else steps_of(RunFolder(source.results, source.run))
        if steps == self._steps:
            return
        self._steps = steps
        self._slider.props(f"max={max(steps, default=1)}")
        self._settle()
        self._slider.set_visibility(len(steps) > 1)

    def _settle(self) -> None:
        """Puts the slider to the step that is shown."""
        if self._steps:
            self._slider.set_value(self._steps[-1] if self._chosen is None else self._nearest(self._chosen))

    def _nearest(self, step: float) -> int:
        return min(self._steps, key=lambda there: abs(there - step))

    async def draw(self) -> None:
        """Draws the curve, if it is longer or if another step is chosen."""
        if self._busy or self._watched.source.run is None:
            return
        self._busy = True
        try:
            read = await worker.io_bound(self._read)
        finally:
            self._busy = False
        if read is None:
            return
        self._drawn, lines, status = read
        self._curve = lines[0].data if lines else ()
        self._say(status)
        options = curve_options(lines, over_time=False, log=False, small=True)
        options["grid"] |= {"left": LEFT, "right": RIGHT, "bottom": 20, "containLabel": False}
        options["xAxis"] |= {"min": 0, "max": max([*self._steps, *(line.data[-1][0] for line in lines)], default=1)}
        options["dataZoom"] = []  # the wheel scrolls the page
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

    def _say(self, status: RunStatus | None) -> None:
        """Shows the progress of the run."""
        if status is None:
            self._numbers.set_text("its folder is gone")
            self._learns = False
            return
        self._learns = status.state == "learning"
        self._title.set_text("It learns" if self._learns else "How it learned")
        self._numbers.set_text(f"{status.state}  ·  {headline(status, facts=False)}")
        self._failure.set_text(escaped_lines(status.failure) if status.state == "died" else "")
        if self._chosen is None:
            self._where.set_text(self._newest)

    @property
    def _newest(self) -> str:
        return "The newest models; newer ones follow" if self._learns else "The newest models"

    def _read(self) -> tuple[object, list[CurveLine], RunStatus | None] | None:
        run = self._watched.source.run
        assert run is not None
        curves = self._index.curves.of(self._index.results / run)
        status = self._index.status(run)
        said = "" if status is None else f"{status.state} {headline(status, facts=False)}"
        state = (curves.refresh(), self._chosen, self._steps[-1:], said)
        if state == self._drawn:
            return None
        view = CurveView(most=POINTS)
        behaviors = [name for name, tags in curves.tags.items() if REWARD in tags]
        found = [(name, curves.curve(name, REWARD, view)) for name in behaviors]
        return state, [CurveLine(name, data, i) for i, (name, data) in enumerate(found) if data], status

    def _keep(self, step: int | None) -> None:
        """Puts the step into the address, which reloading and sharing keep."""
        if step == self._kept:
            return
        self._kept = step
        entry = f"url.searchParams.set('step', '{step}')" if step is not None else "url.searchParams.delete('step')"
        ui.run_javascript(f"const url = new URL(location); {entry}; history.replaceState(null, '', url)")

    async def _chose(self, event: GenericEventArguments) -> None:
        await self._show(event.args)
        self._settle()

    async def _again(self) -> None:
        await self._show(self._slider.value)

    async def _show(self, sent: object) -> None:
        wanted = within(sent, 0, float("inf"))
        step = None if wanted is None or not self._steps else self._nearest(wanted)
        if self._steps and step == self._steps[-1]:
            step = None
        watched = self._watched
        watched.chosen = step
        beside = bool(self._beside.value) and step is not None
        self._where.set_text(self._newest if step is None else f"After {step:,} decisions")
        self._keep(step)
        error = await watched.show_step(None if beside else step)
        if error is not None:
            self._where.set_text(error)
            return
        if step is not None:
            watched.playback.restart(SEED)
        self._show_ghost(replace(watched.source, step=step) if beside else None)
        await self.draw()

    async def _clip(self) -> None:
        self._film.props("loading")
        suffix = ".mp4" if find_spec("imageio_ffmpeg") is not None else ".gif"
        try:
            chosen = start_middle_now(self._steps, self._curve)
            content = await worker.io_bound(partial(split_screen, self._watched.source, chosen, suffix))
        except (PalaestraError, OSError) as error:
            complain(str(error))
            return
        finally:
            self._film.props(remove="loading")
        if content:  # None: the page is ending
            ui.download.content(content, f"{escaped(self._watched.source.run or 'run')}{suffix}")


def start_middle_now(steps: Sequence[int], curve: Sequence[Sequence[float]]) -> list[int]:
    """Returns the first step, the step at half of the reward's gain, and the last step; fewer if there are fewer."""
    if not steps:
        return []
    half = (curve[0][1] + curve[-1][1]) / 2 if curve else 0.0
    rises = bool(curve) and curve[-1][1] >= curve[0][1]
    gained = next((at for at, value, *_ in curve if (value >= half) == rises), steps[len(steps) // 2])
    middle = min(steps[1:-1] or steps, key=lambda step: abs(step - gained))
    return list(dict.fromkeys([steps[0], middle, steps[-1]]))


def split_screen(source: PlaybackSource, steps: Sequence[int], suffix: str) -> bytes:
    """Returns a film of a run's models of these steps, side by side; without steps, of the newest models. Raises
    PalaestraError."""
    chosen = list(steps) or [None]
    names = {steps[0]: "start", steps[-1]: "now"} if len(chosen) > 1 else {}
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
