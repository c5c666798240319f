"""Parts that the pages /watch and /play share: the scene or a table of agents, buttons, texts, and what to open."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from nicegui import ui

from palaestra.core.display import escaped
from palaestra.core.plugins import registry
from palaestra.runtime.monitor.run_list import with_models
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.playing import Playback
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.layout import address, card, icon_button, marked_label, page
from palaestra.web.scene.canvas import SceneCanvas
from palaestra.web.site import Site
from palaestra.web.watch.agents_table import AgentsTable
from palaestra.web.watch.watched import WatchedPlayback

SPEEDS = {0.1: "0.1x", 0.5: "0.5x", 1.0: "1x", 2.0: "2x", 5.0: "5x", 10.0: "10x"}


class Stage:
    """The scene of a playback; if it cannot be drawn, pictures of what agents see, and a table of agents."""

    def __init__(
        self, watched: WatchedPlayback, pick: Callable[[str, int], object], choose: Callable[[str, int], object]
    ) -> None:
        """`pick` is called with a group and a number of its solids, `choose` with the agent of a row."""
        self._playback = watched.playback
        with ui.element("div").classes("w-full p-stage") as self.place:
            self.canvas = SceneCanvas(watched.key, pick).classes("w-full p-canvas").props("data-mark=scene")
        self._agents = AgentsTable(watched.playback, choose)

    def refresh(self) -> None:
        """Shows the newest tick."""
        bare = self._agents.is_needed
        display = self._playback.display
        self.canvas.set_visibility(not bare or display.picture() is not None)
        self.canvas.classes(**{"add" if bare else "remove": "p-cameras"})
        self._agents.whole.set_visibility(bare)
        if bare:
            self._agents.refresh()


class Transport:
    """The buttons that pause, restart and set the speed."""

    def __init__(self, playback: Playback, toggle: Callable[[], object] | None = None) -> None:
        """`toggle` replaces the usual pause, and then there is no button for single ticks."""
        self._playback = playback
        self.pause = icon_button("pause", "Pause or continue", toggle or self.toggle).props(
            "aria-pressed=false data-mark=pause"
        )
        if toggle is None:
            icon_button("skip_next", "One tick", self._one_tick).props("data-mark=tick")
        icon_button("replay", "Restart", lambda: playback.restart()).props("data-mark=restart")
        self.speed = ui.toggle(SPEEDS, value=1.0, on_change=lambda event: playback.set_speed(event.value)).props(
            "dense no-caps unelevated aria-label=Speed data-mark=speed"
        )

    def toggle(self) -> None:
        """Pauses, or goes on."""
        (self._playback.resume if self._playback.state.paused else self._playback.pause)()
        self.show()

    def show(self) -> None:
        """Shows whether the playback is paused."""
        paused = self._playback.state.paused
        self.pause.props(f"icon={'play_arrow' if paused else 'pause'} aria-pressed={'true' if paused else 'false'}")

    def _one_tick(self) -> None:
        if not self._playback.state.paused:
            self.toggle()
        self._playback.advance()


class StatusCard:
    """The state of a playback, messages of its game, and results."""

    def __init__(self, watched: WatchedPlayback) -> None:
        self._watched = watched
        with card():
            self.state = marked_label("state", "text-sm font-medium p-message")
            self.state.set_text("Opening...")
            self._notice = marked_label("notice", "p-quiet text-sm p-message")
            self.score = marked_label("score", "text-sm p-message")

    def refresh(self, stage: Stage, parts: tuple[ui.element, ...], done: str) -> bool:
        """Shows the newest message, or why the playback ended. Returns whether it plays.

        Hides the `parts` of the page if there was no tick. `done`: the action for messages, such as 'shown'.
        """
        playback = self._watched.playback
        game = playback.game
        played = game is not None and bool(game.steps)
        self._notice.set_text(self._watched.notice)
        if (error := playback.state.error) is None:
            return played and not playback.state.opening
        ended = f"{'Ended' if played else f'It cannot be {done}'}: {error}"
        again = "\nLoad the page again to start the game once more." if self._watched.source.is_game else ""
        self.state.set_text(ended + again)
        self.state.classes("text-negative")
        stage.canvas.set_visibility(playback.display.has_shown)
        for part in parts:
            part.set_visibility(played)
        return False


def score_lines(game: PlayedEnv) -> list[str]:
    """Returns the results of each side as text."""
    scores = dict(game.tally.scores)
    several = len({team for _, team in scores}) > 1
    lines = []
    for (behavior, team), score in sorted(scores.items()):
        name = f"{behavior}, team {team}" if several else behavior
        mean = "" if score.mean is None else f", mean reward {score.mean:.2f}"
        result = f", {score.won} won, {score.drawn} drawn, {score.lost} lost" if several else ""
        lines.append(f"{name}: {score.episodes:,} episode{'' if score.episodes == 1 else 's'}{mean}{result}")
    return lines


def refused(site: Site, run: str, env: str, runs: list[str]) -> bool:
    """Returns whether an address names something that the page may not open; if so, shows a page that says why."""
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


def source_of(site: Site, run: str, env: str, *, step: int | None = None, areas: int | None = 1) -> PlaybackSource:
    """Returns the environment or run that an address names, with the command line's choices for it."""
    return PlaybackSource(
        site.results,
        run=run or None,
        env=env or None,
        step=step,
        brains=site.brains_for(env),
        areas=areas,
        trust=site.trust,
        flags=site.flags,
        options=site.options_for(run, env),
    )


def choice_of_what(path: str, source: PlaybackSource, runs: list[str]) -> None:
    """Adds the selection of runs and environments; another choice opens another address of the page `path`."""
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
    ).props("dense outlined data-mark=what").classes("p-select")
