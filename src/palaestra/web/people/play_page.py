"""The page `/play`: a person plays an agent, against or with models, heuristics, and another person."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from palaestra.brains.player_keys import SHOWN, KeyMap
from palaestra.core.errors import PalaestraError
from palaestra.runtime.monitor.run_list import find_runs
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.playing import PlaybackState
from palaestra.web.layout import card, complain, marked, marked_label, page, quiet
from palaestra.web.people.board import HELP, BoardPlay
from palaestra.web.people.demo_card import DemoCard
from palaestra.web.people.invitation import Invitation
from palaestra.web.people.played_game import AgentSeat, Person, PlayedGame, games
from palaestra.web.people.seat_card import SeatCard
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.site import Site
from palaestra.web.watch.stage import Stage, StatusCard, Transport, choice_of_what, refused, score_lines, source_of
from palaestra.web.watch.watched import close_with_page

ARROWS = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown")


def add_play_page(site: Site, streams: SceneStreams, invitation_to: Callable[[str], Invitation]) -> None:
    """Registers the page. `invitation_to` makes the link to a game, by its key, for a second person."""

    @ui.page("/play")
    def play(run: str = "", env: str = "", join: str = "") -> None:
        runs = find_runs(site.results)
        if refused(site, run, env, runs):
            return
        if not run and not env:
            run = site.run or ""
            env = "" if site.run else site.env or "3DBall"
        with page("Play", "Play"):
            game = games.get(join) if join else PlayedGame(source_of(site, run, env), streams)
            if game is not None:
                PlayPage(game, runs, site.results, None if join else invitation_to)
                return
            with card("This game has ended"):
                ui.link("Start another one", "/play")


class PlayPage:
    """One person's window."""

    def __init__(
        self, game: PlayedGame, runs: list[str], results: Path, invitation_to: Callable[[str], Invitation] | None
    ) -> None:
        """`invitation_to`: None for a guest, who plays and chooses nothing else."""
        self.game = game
        self._name = uuid.uuid4().hex
        self.person: Person | None = None
        self._board: BoardPlay | None = None
        close_with_page(lambda: game.leave(self._name))
        if invitation_to is not None:
            with ui.row().classes("w-full items-center gap-3"):
                choice_of_what("/play", game.source, runs)
        with ui.row().classes("w-full gap-3 items-start"):
            with ui.column().classes("p-grow gap-3") as self._left, card():
                self._stage = Stage(game.watched, self._pick, lambda behavior, slot: self._seat.sit_on(behavior, slot))
                with self._stage.place:
                    self._start = ui.button("Press a key, or tap here, to start", on_click=self._begin)
                    self._start.props("no-caps data-mark=begin").classes("p-start").visible = False
                    self._count = marked_label("countdown", "p-count").props("role=status")
                    self._score = marked_label("scoreboard", "p-score")
                self._pad = ui.column().classes("w-full")
                with ui.row().classes("w-full items-center gap-1"):
                    self._transport = Transport(game.playback, self._toggle)
                    again = ui.button("Rematch", icon="sports_score", on_click=self._rematch)
                    self._again = marked(again, "rematch", props="flat dense no-caps")
                    self._again.visible = False
            with ui.column().classes("p-side gap-3"):
                self._status = StatusCard(game.watched)
                with ui.column().classes("w-full gap-3") as self._right:
                    self._seat = SeatCard(game, runs, results, invitation_to, self._sit)
                    self._keys = ui.column().classes("w-full")
                    self._demos = None if invitation_to is None else DemoCard(results, lambda: self.person)
        ui.timer(0.25, self._refresh)

    def _toggle(self) -> None:
        if self.game.begun:
            self._transport.toggle()
        else:
            self.game.begin()
            self._transport.show()

    def _rematch(self) -> None:
        """Begins at nil all, after a countdown."""
        for person in self.game.people.values():
            person.won = person.drawn = person.lost = 0
            person.last_result = person.last_reward = None
        self._score.set_text("")
        self._again.visible = False
        self.game.playback.restart()
        self.game.begun = False
        self.game.begin()

    def _begin(self) -> None:
        if self.person is not None:
            self.game.begin()

    def _sit(self, place: AgentSeat) -> None:
        if self.person is not None and self.person.place == place:
            return
        self.game.stand_up(self._name)
        self.person = None
        try:
            self.person = self.game.people[self._name] = Person(self.game, place)
        except PalaestraError as error:
            complain(str(error))
            return
        self._show_keys(self.person)

    def _show_keys(self, person: Person) -> None:
        layout = person.played.env.traits.board
        self._board = None if layout is None else BoardPlay(layout, self.game.playback, person, self._stage.canvas)
        keys = person.brains[0].keys
        self._pad.clear()
        with self._pad:
            KeyPad(keys if layout is None else None, self._hold).classes("w-full").props("data-mark=pad")
        if layout is not None:  # every move is a tick of its own
            self.game.begun = True
            self._transport.pause.visible = self._transport.speed.visible = False
        self._keys.clear()
        with self._keys, card("Keys"), ui.grid(columns="auto 1fr").classes("gap-x-4 gap-y-1"):
            for names, effect in keys.table() if layout is None else HELP.items():
                ui.label(names).classes("text-sm font-medium")
                ui.label(effect).classes("text-sm")
            if layout is None and (missing := keys.missing):
                quiet(
                    f"{missing} of {sum(keys.action.branches)} choices have no key. A file of keys gives them one: "
                    f"--brain '{person.place.behaviors[0]}=player:KEYS.yaml'"
                ).classes("col-span-2")

    def _pick(self, group: str, number: int) -> None:
        if self._board is not None:
            self._board.pick(group, number)

    def _hold(self, key: str, down: bool) -> None:
        if self._board is not None:
            if down and key:
                self._board.press(key)
        elif self.person is not None:
            if down and (key in self.person.brains[0].keys.keys or len(key) == 1 or key in ("Enter", *ARROWS)):
                self.game.begin()
            self.person.hold(key, down)

    def _refresh(self) -> None:
        playback = self.game.playback
        game = playback.game
        if not self._status.refresh(self._stage, (self._left, self._right), "played") or game is None:
            return
        if self.person is None:
            self._seat.sit_first()
            return
        self._stage.refresh()
        self._seat.refresh()
        state = playback.state
        self._show_start(state, self.person)
        self._show_status(state, game, self.person)
        if self._demos is not None:
            self._demos.show(self.person)

    def _show_start(self, state: PlaybackState, person: Person) -> None:
        self._start.visible = not self.game.begun
        self._count.visible = self.game.begun and state.held > 0 and not state.paused
        outcome = "Kick-off in " if person.last_result is None else f"{person.last_result} Next round in "
        self._count.set_text(f"{outcome}{math.ceil(state.held)}" if self._count.visible else "")

    def _show_status(self, state: PlaybackState, game: PlayedEnv, person: Person) -> None:
        reward = game.tally.returns.get(person.place.behaviors[0])
        now = 0.0 if reward is None or person.place.slot >= len(reward) else reward[person.place.slot]
        timed = not game.env.traits.real_time
        when = f"{state.ticks * game.seconds:.0f} s" if timed else f"tick {state.ticks:,}"
        self._status.state.set_text(f"{self._doing(state)}: {when}, reward {now:.2f}")
        lines = [f"Last episode: {person.last_reward:.2f}"] if person.last_reward is not None else []
        played = person.won + person.drawn + person.lost
        if played and len({place.team for place in self.game.places()}) > 1:
            lines.append(f"You: {person.won} won, {person.drawn} drawn, {person.lost} lost ({person.won / played:.0%})")
            elo = "" if person.elo is None else f"   ·   Elo {person.elo:.0f}"
            self._score.set_text(f"You {person.won} : {person.lost} them{elo}")
            self._again.visible = True
        self._status.score.set_text("\n".join([*lines, *score_lines(game)]))

    def _doing(self, state: PlaybackState) -> str:
        if self._board is not None:
            return "Your move"
        if not self.game.begun:
            return "Waiting for you"
        if state.paused:
            return "Paused"
        return "Get ready" if state.held > 0 else "Playing"


class KeyPad(Element, component="pad.js"):
    """Calls `on_hold` with each key that is pressed (True) or released (False), and with "" when all are released."""

    def __init__(self, keys: KeyMap | None, on_hold: Callable[[str, bool], Any]) -> None:
        super().__init__()
        self._props["buttons"] = [] if keys is None else buttons(keys)
        self._on_hold = on_hold
        self.on("hold", self._hold)

    def _hold(self, event: GenericEventArguments) -> None:
        key = event.args.get("key")
        down = event.args.get("down")
        if isinstance(key, str) and isinstance(down, bool):  # the browser may send anything
            self._on_hold(key, down)


def buttons(keys: KeyMap) -> list[dict[str, str]]:
    """Returns a button for each effect of a key, labeled with its first key."""
    first: dict[object, str] = {}
    for key, effect in keys.keys.items():
        if not key.startswith("pad:"):
            first.setdefault(effect, key)
    return [
        {"key": key, "shown": SHOWN.get(key, key.upper()), "name": getattr(effect, "name", "")}
        for effect, key in first.items()
    ]
