"""The page `/watch`: a run's models, or an environment's own rule, in the scene."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from nicegui import ui
from numpy.typing import NDArray

from palaestra.core.display import escaped
from palaestra.core.plugins import registry
from palaestra.runtime.monitor.run_list import find_runs, with_models
from palaestra.runtime.playback.sources import DEFAULT_AREAS, PlaybackSource, steps_of
from palaestra.runtime.recording.video_files import encode_video
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.layout import Offer, address, card, icon_button, page, quiet, within
from palaestra.web.scene.canvas import SceneCanvas
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.site import Site
from palaestra.web.watch.agent_panel import AgentPanel
from palaestra.web.watch.agents_table import AgentsTable
from palaestra.web.watch.watched import WatchedPlayback, close_with_page, follows

AREAS = (1, 2, 4, 9, 16, 36, 64)
FILM_RATE = 20  # pictures a second
SPEEDS = {0.1: "0.1x", 0.5: "0.5x", 1.0: "1x", 2.0: "2x", 5.0: "5x", 10.0: "10x"}


def add_watch_page(site: Site, streams: SceneStreams) -> None:
    """Registers the page."""

    @ui.page("/watch")
    def watch(run: str = "", env: str = "", step: str = "", areas: str = "") -> None:
        runs = find_runs(site.results)
        if refused(site, run, env, runs):
            return
        if not run and not env:
            run = site.run or next(iter(with_models(site.results, runs)), "") if not site.env else ""
            env = site.env or ""
            env = env if run or env else "3DBall"
        source = PlaybackSource(
            site.results,
            run=run or None,
            env=env or None,
            step=int(step) if step.isdecimal() else None,
            brains=site.brains_for(env),
            areas=min(max(int(areas), 1), 64) if areas.isdecimal() else None,
            trust=site.trust,
            flags=site.flags,
            options=site.options_for(run, env),
        )
        with page("Watch", "Watch"):
            WatchPage(source, runs, streams)


def filmed(pictures: Sequence[NDArray[np.uint8]], rate: int) -> bytes | None:
    """Returns pictures (H, W, 3) as an MP4 video; None without any."""
    from PIL import Image

    return encode_video(map(Image.fromarray, pictures), rate) if pictures else None


class WatchPage:
    """One browser's view of one playback."""

    def __init__(self, source: PlaybackSource, runs: list[str], streams: SceneStreams) -> None:
        self.watched = WatchedPlayback(source, streams)
        close_with_page(self.watched.close)
        self._choices(source, runs)
        with ui.row().classes("w-full gap-3 items-start"):
            with ui.column().classes("p-grow gap-3") as self._stage:
                with card():
                    self.canvas = (
                        SceneCanvas(self.watched.key, self._pick).classes("w-full p-canvas").props("data-mark=scene")
                    )
                    self._agents = AgentsTable(
                        self.watched.playback, lambda behavior, slot: self.agent.choose(behavior, slot)
                    )
                    self._transport()
                self._steps = StepsCard(self.watched)
            with ui.column().classes("p-side gap-3"):
                self._status()
                with ui.column().classes("w-full gap-3") as self._details:
                    self._parameters_card = ui.column().classes("w-full")
                    self.agent = AgentPanel(self.watched)
        ui.timer(0.5, self._refresh)
        self._parameters_shown = False

    def _choices(self, source: PlaybackSource, runs: list[str]) -> None:
        """Builds the row that chooses what to watch; another choice opens another address."""
        with ui.row().classes("w-full items-center gap-3"):
            choice_of_what("/watch", source, runs)

            def more(areas: int) -> None:
                what = {"run": source.run} if source.run else {"env": source.env}
                ui.navigate.to(address("/watch", **{key: text or "" for key, text in what.items()}, areas=str(areas)))

            if not source.is_game:
                nearest = min(AREAS, key=lambda number: abs(number - (source.areas or DEFAULT_AREAS)))
                select = ui.select(list(AREAS), value=nearest, label="Areas", on_change=lambda event: more(event.value))
                select.props("dense outlined").classes("w-24")
            ui.space()
            self._play = Offer("Play it yourself", "sports_esports", self._play_address)

    def _play_address(self) -> str:
        source = self.watched.source
        return address("/play", **({"run": source.run} if source.run else {"env": source.env or ""}))

    def _transport(self) -> None:
        """Builds the buttons under the scene."""
        playback = self.watched.playback
        with ui.row().classes("w-full items-center gap-1") as self._buttons:
            self._pause = icon_button("pause", "Pause or go on", self._toggle).props(
                "aria-pressed=false data-mark=pause"
            )
            icon_button("skip_next", "One tick", self._one_tick).props("data-mark=tick")
            icon_button("replay", "Begin anew", lambda: playback.restart()).props("data-mark=restart")
            ui.toggle(SPEEDS, value=1.0, on_change=lambda event: playback.set_speed(event.value)).props(
                "dense no-caps unelevated aria-label=Speed data-mark=speed"
            )
            ui.space()
            ui.button("GIF", icon="gif_box", on_click=self._record).props("flat dense no-caps").tooltip(
                "Record 6 seconds"
            ).props("data-mark=record")
            if find_spec("imageio_ffmpeg") is not None:
                ui.button("MP4", icon="movie", on_click=self._record_video).props("flat dense no-caps").tooltip(
                    "Record 6 seconds as a video"
                ).props("data-mark=record-video")
            ui.button("WebM", icon="videocam", on_click=self.canvas.record).props("flat dense no-caps").tooltip(
                "Record 6 seconds as a video"
            )

    def _toggle(self) -> None:
        playback = self.watched.playback
        (playback.resume if playback.state.paused else playback.pause)()
        show_pause(self._pause, playback.state.paused)

    def _one_tick(self) -> None:
        if not self.watched.playback.state.paused:
            self._toggle()
        self.watched.playback.advance()

    async def _record(self) -> None:
        await self._download(self.watched.playback.record_gif, "recording.gif")

    async def _record_video(self) -> None:
        playback = self.watched.playback
        await self._download(
            lambda seconds: filmed(playback.take_pictures(seconds, FILM_RATE), FILM_RATE), "recording.mp4"
        )

    async def _download(self, recorded: Callable[[float], bytes | None], name: str) -> None:
        """Records for 6 seconds and hands the file to the person."""
        from nicegui import run

        ui.notify("Recording 6 seconds")
        content = await run.io_bound(recorded, 6.0)
        if content is None:
            ui.notify("There is nothing to draw here", type="warning")
        else:
            ui.download.content(content, name)

    def _status(self) -> None:
        with card():
            self._headline = ui.label("Opening...").classes("text-sm font-medium p-message").props("data-mark=state")
            self._notice = ui.label().classes("p-quiet text-sm p-message").props("data-mark=notice")
            self._numbers = ui.label().classes("p-quiet text-sm p-message").props("data-mark=score")

    async def _refresh(self) -> None:
        """Updates the texts, twice a second."""
        playback = self.watched.playback
        state = playback.state
        self._notice.set_text(self.watched.notice)
        if state.error is not None:
            self._headline.set_text(ending(self.watched, "shown"))
            self._headline.classes("text-negative")
            self.canvas.set_visibility(playback.has_shown)
            self._buttons.set_visibility(False)
            for part in (self._stage, self._details):
                part.set_visibility(bool(playback.steps))
            self._play.refuse("" if playback.steps else state.error)
        elif state.opening:
            self._headline.set_text("Opening...")
        else:
            self._headline.set_text(f"{'Paused at' if state.paused else 'Playing,'} tick {state.ticks:,}")
            self._numbers.set_text("\n".join(score_lines(playback)) or "No episode has ended yet.")
            if not self._parameters_shown:
                self._parameters_shown = True
                self._parameters()
            self.agent.refresh()
            self._show_scene_or_table()
            self._steps.refresh()
        if follows(self.watched):
            await self.watched.show_step(None)

    def _show_scene_or_table(self) -> None:
        """Shows the table of agents in the place of the scene if there is nothing to draw."""
        bare = self._agents.is_needed
        self.canvas.set_visibility(not bare or self.watched.playback.picture() is not None)
        self.canvas.classes(**{"add" if bare else "remove": "p-cameras"})
        self._agents.whole.set_visibility(bare)
        if bare:
            self._agents.refresh()

    def _parameters(self) -> None:
        """Builds a slider for each parameter of the environment."""
        playback = self.watched.playback
        env = playback.env
        if env is None or not env.parameters:
            return
        ranges = env.traits.parameter_ranges
        with self._parameters_card, card("Parameters"):
            quiet("They take hold at each area's next episode.")
            for name, default in env.parameters.items():
                _, low, high = ranges.get(name, (default, min(0.0, 2 * default), max(1.0, 2 * default)))
                text = ui.label(f"{name}: {default:g}").classes("text-sm p-message")

                def change(
                    sent: object, name: str = name, text: ui.label = text, low: float = low, high: float = high
                ) -> None:
                    if (value := within(sent, low, high)) is not None:
                        text.set_text(f"{name}: {value:g}")
                        playback.set_parameter(name, value)

                slider = ui.slider(min=low, max=high, step=(high - low) / 200, value=default)
                slider.props.update({"data-mark": f"parameter-{name}", "aria-label": name})
                slider.on("change", lambda event, change=change: change(event.args))

    def _pick(self, group: str, number: int) -> None:
        drawing = self.watched.playback.drawing()
        chosen = next((one for one in drawing.solids if one.name == group), None) if drawing is not None else None
        if chosen is None or chosen.slot is None or number >= chosen.slot.size:
            return
        slot = int(chosen.slot.ravel()[number])
        if slot >= 0:
            self.agent.choose(chosen.behavior, slot)


class StepsCard:
    """Exchanges the models of a run for those of another step. It is hidden as long as there is only one step.

    The steps are those that there are: a run that learns saves more, and deletes old ones.
    """

    def __init__(self, watched: WatchedPlayback) -> None:
        self._watched = watched
        self._steps = list[int]()
        with card("Watch it learn") as self._card:
            self._where = ui.label().classes("text-sm p-message").props("data-mark=step")
            self._slider = ui.slider(min=0, max=1, value=1).props("markers snap aria-label=Step data-mark=checkpoints")
            self._slider.on("change", lambda event: self._show(event.args))
        self.refresh()
        if watched.source.run is not None:
            ui.timer(0.1, lambda: self._show(self._slider.value), once=True)

    def refresh(self) -> None:
        """Offers the steps that there are now; the chosen one stays, or the nearest to it."""
        source = self._watched.source
        steps = [] if source.run is None else steps_of(RunFolder(source.results, source.run))
        self._card.set_visibility(len(steps) > 1)
        if steps == self._steps:
            return
        self._steps = steps
        wanted = source.step
        position = (
            len(steps)
            if wanted is None
            else min(range(len(steps)), key=lambda number: abs(steps[number] - wanted), default=0)
        )
        self._slider.props(f"max={max(len(steps), 1)}")
        self._slider.set_value(position)

    async def _show(self, sent: object) -> None:
        position = int(within(sent, 0, len(self._steps)) or 0)
        newest = position >= len(self._steps)
        step = None if newest else self._steps[position]
        self._where.set_text("Newest models; newer ones follow" if step is None else f"Step {step:,}")
        if (error := await self._watched.show_step(step)) is not None:
            self._where.set_text(error)


def refused(site: Site, run: str, env: str, runs: list[str]) -> bool:
    """Returns whether an address names something that the page may not open, and if so shows a page that says why."""
    if run and run not in runs:
        problem = f"There is no run '{escaped(run)}' in {escaped(str(site.results))}."
    elif not site.allows_env(env):
        problem = f"To open '{escaped(env)}', name it in the terminal: palaestra view {escaped(shlex.quote(env))}"
    else:
        return False
    with page("Not opened", ""), card("Not opened"):
        ui.label(problem).props("data-mark=refused")
        ui.link("All runs", "/")
    return True


def choice_of_what(path: str, source: PlaybackSource, runs: list[str]) -> None:
    """Adds the select of runs and environments; another choice opens another address of the page `path`."""
    options = {f"run={name}": f"run {name}" for name in with_models(source.results, runs)}
    options |= {f"env={name}": name for name in sorted(registry("envs").names())}
    now = f"run={source.run}" if source.run else f"env={source.env}"
    options.setdefault(now, now.partition("=")[2])

    def go(what: str | None) -> None:
        if what:
            key, _, name = what.partition("=")
            ui.navigate.to(address(path, **{key: name}))

    ui.select(
        options, value=now, with_input=True, label="Run or environment", on_change=lambda event: go(event.value)
    ).props("dense outlined").classes("p-select").props("data-mark=what")


def ending(watched: WatchedPlayback, done: str) -> str:
    """Returns why a playback ended, or why it cannot be shown or played (`done`), and how to begin anew."""
    ended = f"{'Ended' if watched.playback.steps else f'It cannot be {done}'}: {watched.playback.state.error}"
    return f"{ended}\nLoad the page again to start the game once more." if watched.source.is_game else ended


def show_pause(button: ui.button, paused: bool) -> None:
    """Shows on the button whether the playback is paused."""
    button.props(f"icon={'play_arrow' if paused else 'pause'} aria-pressed={'true' if paused else 'false'}")


def score_lines(playback: Any) -> list[str]:
    """Returns the results of each side as text."""
    scores = dict(playback.tally.scores)
    several = len({team for _, team in scores}) > 1
    lines = []
    for (behavior, team), score in sorted(scores.items()):
        name = f"{behavior}, team {team}" if several else behavior
        mean = "" if score.mean is None else f", mean reward {score.mean:.2f}"
        result = f", {score.won} won, {score.drawn} drawn, {score.lost} lost" if several else ""
        lines.append(f"{name}: {score.episodes:,} episode{'' if score.episodes == 1 else 's'}{mean}{result}")
    return lines
