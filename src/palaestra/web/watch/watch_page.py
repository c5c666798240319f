"""The page `/watch`: a run's models, or an environment's own heuristic, in the scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from nicegui import run as worker
from nicegui import ui

from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_list import find_runs, with_models
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.scene_display import Picture, as_gif
from palaestra.runtime.playback.sources import DEFAULT_AREAS, PlaybackSource
from palaestra.runtime.recording.video_files import encode_video
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.layout import Offer, address, card, page, quiet, within
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.site import Site
from palaestra.web.starting.entrance import Entrance
from palaestra.web.starting.started_runs import started_run
from palaestra.web.watch.agent_panel import AgentPanel
from palaestra.web.watch.learning_card import SEED, LearningCard
from palaestra.web.watch.stage import Stage, StatusCard, Transport, choice_of_what, refused, score_lines, source_of
from palaestra.web.watch.timeline_card import TimelineCard
from palaestra.web.watch.watched import WatchedPlayback, close_with_page

AREAS = (1, 2, 4, 9, 16, 36, 64)
RECORDED = 6.0
"""Length of a recording in seconds."""
GIF_RATE = 10
"""Pictures a second in a GIF."""
FILM_RATE = 20


def add_watch_page(site: Site, streams: SceneStreams, index: RunIndex) -> None:
    """Registers the page."""

    @ui.page("/watch")
    def watch(run: str = "", env: str = "", step: str = "", areas: str = "", begins: str = "") -> None:
        runs = find_runs(site.results)
        folder = RunFolder(site.results, run)
        if run and (begins or started_run(site.results, run) is not None) and not _can_play(folder):
            with page("Watch", "Watch"):
                Entrance(site.results, run, lambda: _can_play(folder), ui.navigate.reload)
            return
        if refused(site, run, env, runs):
            return
        if not run and not env:
            run = site.run or next(iter(with_models(site.results, runs)), "") if not site.env else ""
            env = site.env or ("" if run else "3DBall")
        source = source_of(
            site,
            run,
            env,
            step=int(step) if step.isdecimal() else None,
            areas=min(max(int(areas), 1), 64) if areas.isdecimal() else None,
        )
        if begins and source.is_game:  # a copy of a Unity game is opened by those who ask for it
            ui.navigate.to(address("/run", id=run))
            return
        with page("Watch", "Watch"):
            WatchPage(source, runs, streams, index)


def _can_play(run: RunFolder) -> bool:
    """Whether a run has begun, so that there is a policy to play."""
    return any(run.checkpoints.glob("[0-9]*")) or any(run.path.glob("*.onnx"))


class WatchPage:
    """One browser's view of one playback."""

    def __init__(self, source: PlaybackSource, runs: list[str], streams: SceneStreams, index: RunIndex) -> None:
        self._streams = streams
        self.watched = WatchedPlayback(source, streams)
        self._ghost: WatchedPlayback | None = None
        self._begun_together = True
        """Whether the scene and its ghost have begun anew since the ghost started to play."""
        close_with_page(self._close)
        self._choices(source, runs)
        with ui.row().classes("w-full gap-3 items-start"):
            with ui.column().classes("p-grow gap-3") as self._left:
                with card():
                    self._stage = Stage(self.watched, self._pick, lambda name, slot: self.agent.choose(name, slot))
                    self._buttons()
                self._timeline = TimelineCard(self.watched)
                self._learning = LearningCard(self.watched, index, self._haunt)
                if source.run is not None:
                    self._stage.canvas.classes("p-with-curve")
            with ui.column().classes("p-side gap-3"):
                self._status = StatusCard(self.watched)
                with ui.column().classes("w-full gap-3") as self._right:
                    self._parameters_card = ui.column().classes("w-full")
                    self.agent = AgentPanel(self.watched, lambda: self._timeline.moment)
        ui.timer(0.5, self._refresh)
        self._parameters_shown = False

    def _choices(self, source: PlaybackSource, runs: list[str]) -> None:
        what = {"run": source.run} if source.run else {"env": source.env or ""}
        with ui.row().classes("w-full items-center gap-3"):
            choice_of_what("/watch", source, runs)
            if not source.is_game:
                nearest = min(AREAS, key=lambda number: abs(number - (source.areas or DEFAULT_AREAS)))
                select = ui.select(
                    list(AREAS),
                    value=nearest,
                    label="Areas",
                    on_change=lambda event: ui.navigate.to(address("/watch", **what, areas=str(event.value))),
                )
                select.props("dense outlined").classes("w-24")
            ui.space()
            self._play = Offer("Play it yourself", "sports_esports", lambda: address("/play", **what))

    def _buttons(self) -> None:
        with ui.row().classes("w-full items-center gap-1") as self._row:
            self._transport = Transport(self.watched.playback)
            ui.space()
            for name, icon, made, mark in (
                ("GIF", "gif_box", self._gif, "record"),
                ("MP4", "movie", self._film, "record-video"),
                ("WebM", "videocam", self._stage.canvas.record, "record-webm"),
            ):
                if name != "MP4" or find_spec("imageio_ffmpeg") is not None:
                    button = ui.button(name, icon=icon, on_click=made).props(f"flat dense no-caps data-mark={mark}")
                    button.tooltip("Record 6 seconds" + ("" if name == "GIF" else " as a video"))

    async def _gif(self) -> None:
        await self._download(lambda pictures: as_gif(pictures, GIF_RATE), GIF_RATE, "recording.gif")

    async def _film(self) -> None:
        from PIL import Image

        await self._download(
            lambda pictures: encode_video(map(Image.fromarray, pictures), FILM_RATE), FILM_RATE, "recording.mp4"
        )

    async def _download(self, encode: Callable[[Sequence[Picture]], bytes], rate: int, name: str) -> None:
        ui.notify("Recording 6 seconds")
        taken = await worker.io_bound(self.watched.playback.take_pictures, RECORDED, rate)
        if not taken:
            ui.notify("There is nothing to draw here", type="warning")
        elif content := await worker.io_bound(encode, taken):  # None: the page is ending
            ui.download.content(content, name)

    async def _refresh(self) -> None:
        playback = self.watched.playback
        game = playback.game
        state = playback.state
        plays = self._status.refresh(self._stage, (self._left, self._right), "shown")
        if state.error is not None:
            self._row.set_visibility(False)
            self._play.refuse("" if game is not None and game.steps else state.error)
        elif plays and game is not None:
            self._status.state.set_text(f"{'Paused at' if state.paused else 'Playing,'} tick {state.ticks:,}")
            self._status.score.set_text("\n".join(score_lines(game)) or "No episode has ended yet.")
            if not self._parameters_shown:
                self._parameters_shown = True
                self._parameters(game)
            self.agent.refresh()
            self._stage.refresh()
            self._learning.refresh()
            await self._timeline.refresh()
            self._transport.show()
            self._accompany()
        await self._learning.draw()
        if self.watched.has_newer_models():
            await self.watched.show_step(None)

    def _close(self) -> None:
        self.watched.close()
        if self._ghost is not None:
            self._ghost.close()

    def _haunt(self, source: PlaybackSource | None) -> None:
        """Shows another policy's play in the same areas, or hides it."""
        if self._ghost is not None:
            self._ghost.close()
        self._ghost = None if source is None else WatchedPlayback(source, self._streams)
        self._begun_together = self._ghost is None
        self._stage.canvas.haunt(None if self._ghost is None else self._ghost.key)

    def _accompany(self) -> None:
        """Lets the ghost keep the pace of the scene, and both begin at once."""
        if self._ghost is None:
            return
        other, state = self._ghost.playback, self.watched.playback.state
        if not self._begun_together and not other.state.opening:
            self._begun_together = True
            for playback in (self.watched.playback, other):
                playback.restart(SEED)
        if other.state.paused != state.paused:
            (other.pause if state.paused else other.resume)()
        if other.state.speed != state.speed:
            other.set_speed(state.speed)

    def _parameters(self, game: PlayedEnv) -> None:
        playback = self.watched.playback
        if not game.env.parameters:
            return
        ranges = game.env.traits.parameter_ranges
        with self._parameters_card, card("Parameters"):
            quiet("They apply from each area's next episode on.")
            for name, default in game.env.parameters.items():
                _, low, high = ranges.get(name, (default, min(0.0, 2 * default), max(1.0, 2 * default)))
                text = ui.label(f"{name}: {default:g}").classes("text-sm p-message")

                def change(
                    sent: object, name: str = name, text: ui.label = text, low: float = low, high: float = high
                ) -> None:
                    if (value := within(sent, low, high)) is not None:
                        text.set_text(f"{name}: {value:g}")
                        playback.order(lambda game: game.set_parameter(name, value))

                slider = ui.slider(min=low, max=high, step=(high - low) / 200, value=default)
                slider.props.update({"data-mark": f"parameter-{name}", "aria-label": name})
                slider.on("change", lambda event, change=change: change(event.args))

    def _pick(self, group: str, number: int) -> None:
        drawing = self.watched.playback.display.drawing()
        chosen = next((one for one in drawing.solids if one.name == group), None) if drawing is not None else None
        if chosen is None or chosen.slot is None or number >= chosen.slot.size:
            return
        slot = int(chosen.slot.ravel()[number])
        if slot >= 0:
            self.agent.choose(chosen.behavior, slot)
