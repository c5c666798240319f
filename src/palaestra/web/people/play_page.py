"""The page `/play`: a person plays an agent, against or with models, heuristics, and another person."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from palaestra.brains.player_keys import SHOWN, KeyMap
from palaestra.core.errors import PalaestraError
from palaestra.envs.traits import SwapBoard
from palaestra.runtime.monitor.run_list import find_runs
from palaestra.runtime.playback.playing import PlaybackState
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.layout import address, card, complain, dialog_of, icon_button, page, quiet
from palaestra.web.people.board import HELP, Board
from palaestra.web.people.invitation import Invitation, qr_code
from palaestra.web.people.opponents import choices
from palaestra.web.people.played_game import Person, PlayedGame, games
from palaestra.web.scene.canvas import SceneCanvas
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.site import Site
from palaestra.web.watch.agents_table import AgentsTable
from palaestra.web.watch.watch_page import SPEEDS, choice_of_what, ending, refused, score_lines, show_pause
from palaestra.web.watch.watched import close_with_page

ARROWS = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown")


def add_play_page(site: Site, streams: SceneStreams, invitation_to: Callable[[str], Invitation]) -> None:
    """Registers the page. `invitation_to` makes the link to a path for a second person."""

    @ui.page("/play")
    def play(run: str = "", env: str = "", join: str = "") -> None:
        runs = find_runs(site.results)
        if refused(site, run, env, runs):
            return
        if not run and not env:
            run = site.run or ""
            env = "" if site.run else site.env or "3DBall"
        with page("Play", "Play"):
            if join:
                game = games.get(join)
                if game is None:
                    with card("This game has ended"):
                        ui.link("Start another one", "/play")
                    return
            else:
                source = PlaybackSource(
                    site.results,
                    run=run or None,
                    env=env or None,
                    brains=site.brains_for(env),
                    trust=site.trust,
                    flags=site.flags,
                    options=site.options_for(run, env),
                )
                game = PlayedGame(source, streams)
            PlayPage(game, runs, site.results, invitation_to)


class PlayPage:
    """One person's window."""

    def __init__(
        self, game: PlayedGame, runs: list[str], results: Path, invitation_to: Callable[[str], Invitation]
    ) -> None:
        self.game = game
        self._runs = runs
        self._results = results
        self._name = uuid.uuid4().hex
        self._invitation_to = invitation_to
        self.person: Person | None = None
        self._shown = 0
        self._board: Board | None = None
        close_with_page(lambda: game.leave(self._name))
        with ui.row().classes("w-full items-center gap-3"):
            choice_of_what("/play", game.source, runs)
        with ui.row().classes("w-full gap-3 items-start"):
            with ui.column().classes("p-grow gap-3") as self._stage, card():
                with ui.element("div").classes("w-full p-stage"):
                    self._canvas = SceneCanvas(game.key, self._pick).classes("w-full p-canvas").props("data-mark=scene")
                    self._start = (
                        ui.button("", on_click=self._begin).props("no-caps data-mark=begin").classes("p-start")
                    )
                    self._count = ui.label().classes("p-count").props("role=status data-mark=countdown")
                self._start.visible = False
                self._agents = AgentsTable(game.playback, lambda behavior, slot: self._sit_on(behavior, slot))
                self._pad = ui.column().classes("w-full")
                self._transport()
            with ui.column().classes("p-side gap-3"):
                with card():
                    self._state = (
                        ui.label("Opening...").classes("text-sm font-medium p-message").props("data-mark=state")
                    )
                    self._notice = ui.label().classes("p-quiet text-sm p-message").props("data-mark=notice")
                    self._score = ui.label().classes("text-sm p-message").props("data-mark=score")
                with ui.column().classes("w-full gap-3") as self._details:
                    with card("Seat"):
                        self._seat = (
                            ui.select({}, label="You play")
                            .props("dense outlined")
                            .classes("w-full")
                            .props("data-mark=seat")
                        )
                        self._seat.on_value_change(lambda event: self._sit(event.value))
                        self._invite = ui.button(
                            "Invite a second person", icon="person_add", on_click=self._show_invitation
                        )
                        self._invite.props("flat dense no-caps data-mark=invite").visible = False
                    self._sides = ui.column().classes("w-full")
                    self._keys = ui.column().classes("w-full")
                    self._demonstrations()
        ui.timer(0.25, self._refresh)

    def _show_sides(self) -> None:
        """Builds a choice for each side: what plays its agents that no person plays."""
        game = self.game
        self._sides.clear()
        with self._sides, card("All others are played by"):
            for (behavior, team), label in game.sides().items():
                now = game.brain_of_side(behavior, team)
                options = {now: now, **choices(self._results, self._runs, behavior)}

                async def choose(brain: str, behavior: str = behavior, team: int = team) -> None:
                    if (error := await game.play_side(behavior, team, brain)) is not None:
                        complain(error)

                select = ui.select(
                    options, value=now, label=label, on_change=lambda event, choose=choose: choose(event.value)
                )
                select.props(f"dense outlined data-mark=side-{team}").classes("w-full")

    def _transport(self) -> None:
        playback = self.game.playback
        with ui.row().classes("w-full items-center gap-1"):
            self._pause = icon_button("pause", "Pause or go on", self._toggle).props(
                "aria-pressed=false data-mark=pause"
            )
            icon_button("replay", "Begin anew", lambda: playback.restart()).props("data-mark=restart")
            self._speed = ui.toggle(SPEEDS, value=1.0, on_change=lambda event: playback.set_speed(event.value)).props(
                "dense no-caps unelevated aria-label=Speed"
            )

    def _toggle(self) -> None:
        playback = self.game.playback
        if not self.game.begun:
            self.game.begin()
        else:
            (playback.resume if playback.state.paused else playback.pause)()
        show_pause(self._pause, playback.state.paused)

    def _sit(self, number: Any) -> None:
        """Takes another seat."""
        places = self.game.places()
        if not isinstance(number, int) or not 0 <= number < len(places):
            return
        if self.person is not None and self.person.place == places[number]:
            return
        self.game.people.pop(self._name, None)
        if self.person is not None:
            self.person.stand_up()
        try:
            self.person = self.game.people[self._name] = Person(self.game, places[number])
        except PalaestraError as error:
            complain(str(error))
            return
        self._show_keys(self.person)

    @property
    def _layout(self) -> SwapBoard | None:
        env = self.game.playback.env
        return None if env is None else env.traits.board

    def _show_keys(self, person: Person) -> None:
        layout = self._layout
        self._board = None if layout is None else Board(layout.columns, self._has_piece)
        keys = person.brains[0].keys
        self._pad.clear()
        with self._pad:
            KeyPad(keys if self._board is None else None, self._hold).classes("w-full").props("data-mark=pad")
        if self._board is not None:  # every move is a tick of its own
            self.game.begun = True
            self._pause.visible = self._speed.visible = False
        self._keys.clear()
        with self._keys, card("Keys"), ui.grid(columns="auto 1fr").classes("gap-x-4 gap-y-1"):
            for names, effect in person.keys if self._board is None else HELP.items():
                ui.label(names).classes("text-sm font-medium")
                ui.label(effect).classes("text-sm")
            if self._board is None and (missing := keys.missing):
                quiet(
                    f"{missing} of {sum(keys.action.branches)} choices have no key. A file of keys gives them one: "
                    f"--brain '{person.place.behaviors[0]}=player:KEYS.yaml'"
                ).classes("col-span-2")

    def _begin(self) -> None:
        if self.person is not None:
            self.game.begin()

    def _pick(self, group: str, number: int) -> None:
        """Chooses the piece of a board that was clicked."""
        if self._board is not None and self._layout is not None and group in self._layout.pieces:
            self._exchange(self._board.click(number))

    def _has_piece(self, cell: int) -> bool:
        drawing = self.game.playback.drawing()
        layout = self._layout
        pieces = [one for one in drawing.solids if one.name == layout.pieces[0]] if drawing and layout else []
        return bool(pieces) and 0 <= cell < pieces[0].size.shape[1] and bool(pieces[0].size[0, cell].any())

    def _exchange(self, pair: tuple[int, int] | None) -> None:
        """Shows which piece is chosen, and makes the move of a pair."""
        layout = self._layout
        person = self.person
        playback = self.game.playback
        if self._board is None or person is None or layout is None:
            return
        self._canvas.highlight(layout.pieces, self._board.chosen if pair is None else None)
        move = None if pair is None else layout.exchange(*pair)
        if move is None:
            return
        mask = playback.steps[person.place.behaviors[0]].action_mask
        if mask is not None and not bool(mask[person.place.slot, move]):
            ui.notify("These two make no line", type="warning")
            return
        person.brains[0].order(move)
        playback.advance()

    def _hold(self, key: str, down: bool) -> None:
        if self._board is not None:
            if down and key:
                self._exchange(self._board.press(key))
        elif self.person is not None:
            if down and (key in self.person.brains[0].keys.keys or len(key) == 1 or key in ("Enter", *ARROWS)):
                self.game.begin()
            if not key:
                self.person.release_all()
            elif down:
                self.person.press(key)
            else:
                self.person.release(key)

    def _sit_on(self, behavior: str, slot: int) -> None:
        """Takes the seat of an agent that was clicked."""
        places = self.game.places()
        number = next((place.number for place in places if behavior in place.behaviors and place.slot == slot), None)
        self._seat.set_value(number)

    def _show_table(self) -> None:
        """Shows the table of agents if there is nothing to draw, below what the person's agent sees."""
        bare = self._agents.is_needed
        self._canvas.set_visibility(not bare or self.game.playback.picture() is not None)
        self._canvas.classes(**{"add" if bare else "remove": "p-cameras"})
        self._agents.whole.set_visibility(bare)
        if bare:
            self._agents.refresh()

    def _first_seat(self) -> None:
        """Sits down as the command line says, else in the first free seat."""
        free = self.game.free()
        sides = [part for part in self.game.source.people() if part.behavior is not None]
        wanted = [
            place
            for place in free
            for part in sides
            if part.behavior in place.behaviors and part.team in (None, place.team)
        ]
        place = next(iter([*wanted, *free]), None)
        self._show_seats()
        self._seat.set_value(None if place is None else place.number)

    def _show_seats(self) -> None:
        """Offers the agents that there are, and how a second person joins."""
        labels = {one.number: one.label for one in self.game.places()}
        self._shown = len(labels)
        self._seat.set_options(labels, value=self._seat.value)
        others = len(labels) > 1
        if others:
            self._show_sides()
        self._invite.visible = others

    def _show_invitation(self) -> None:
        """Shows the link for a second person: to copy, and as a QR code where other machines can reach the page."""
        path = address("/play", join=self.game.key)
        link = self._invitation_to(path)
        with dialog_of("Invite a second person") as dialog:
            field = ui.input("Link").props("dense outlined readonly data-mark=invitation").classes("w-full")
            field.set_value(link.address)
            copy = (
                f"const e = getHtmlElement({field.id}).querySelector('input'); e.select(); document.execCommand('copy')"
            )
            # works without https, too
            ui.button("Copy").props("dense no-caps").on("click", js_handler=f"() => {{ {copy} }}")
            if link.is_private:
                quiet(
                    "Only browsers on this machine can open it. For other machines start the page so, in a network "
                    "that you trust:"
                )
                ui.label("palaestra view --bind 0.0.0.0").classes("p-log")
            elif (code := qr_code(link.address)) is not None:
                ui.image(code).props('no-spinner no-transition alt="QR code of the link" data-mark=qr').classes("p-qr")
            quiet("Whoever has the link can play, and stop and change runs.")
        dialog.on("hide", dialog.delete)
        dialog.open()

    def _refresh(self) -> None:
        playback = self.game.playback
        state = playback.state
        self._notice.set_text(self.game.watched.notice)
        if state.error is not None:
            self._state.set_text(ending(self.game.watched, "played"))
            self._state.classes("text-negative")
            self._canvas.set_visibility(playback.has_shown)
            for part in (self._stage, self._details):
                part.set_visibility(bool(playback.steps))
            return
        if state.opening or not playback.steps:
            return
        if self.person is None:
            self._first_seat()
            return
        self._show_table()
        if len(self.game.places()) > self._shown:  # agents of a Unity game may come later
            self._show_seats()
        self._show_start(state)
        person = self.person
        reward = playback.tally.returns.get(person.place.behaviors[0])
        now = 0.0 if reward is None or person.place.slot >= len(reward) else reward[person.place.slot]
        timed = playback.env is None or not playback.env.traits.real_time
        when = f"{state.ticks * (state.seconds or 0.05):.0f} s" if timed else f"tick {state.ticks:,}"
        doing = (
            "Your move"
            if self._board is not None
            else "Waiting for you"
            if not self.game.begun
            else "Paused"
            if state.paused
            else "Get ready"
            if state.held > 0
            else "Playing"
        )
        self._state.set_text(f"{doing}: {when}, reward {now:.2f}")
        lines = [f"Last episode: {person.last_reward:.2f}"] if person.last_reward is not None else []
        games_played = person.won + person.drawn + person.lost
        if games_played and len({place.team for place in self.game.places()}) > 1:
            lines.append(
                f"You: {person.won} won, {person.drawn} drawn, {person.lost} lost ({person.won / games_played:.0%})"
            )
            lines += [] if person.elo is None else [f"Your Elo: {person.elo:.0f}"]
        self._score.set_text("\n".join([*lines, *score_lines(playback)]))
        kept = person.takes.kept
        self._recorded.set_text(
            f"{'Recording. ' if person.takes.recording else ''}{len(kept)} episode{'' if len(kept) == 1 else 's'}"
            + (f", rewards {', '.join(f'{take.reward:.2f}' for take in kept[-8:])}" if kept else "")
        )

    def _show_start(self, state: PlaybackState) -> None:
        """Shows how to begin, or how long the countdown still lasts."""
        self._start.visible = not self.game.begun
        self._start.set_text("Press a key, or tap here, to start")
        counts = self.game.begun and state.held > 0 and not state.paused
        self._count.visible = counts
        if counts:
            person = self.person
            outcome = "" if person is None or person.last_result is None else f"{person.last_result} Next round in "
            self._count.set_text(f"{outcome}{math.ceil(state.held)}")

    def _demonstrations(self) -> None:
        """Builds the card that records demonstrations."""
        with card("Demonstration"):
            self._recorded = ui.label("0 episodes").classes("text-sm").props("data-mark=recorded")
            with ui.row().classes("gap-1"):
                ui.button("Record", icon="fiber_manual_record", on_click=lambda: self._record(True)).props(
                    "flat dense no-caps"
                ).props("data-mark=record")
                ui.button("Stop", icon="stop", on_click=lambda: self._record(False)).props("flat dense no-caps").props(
                    "data-mark=stop-recording"
                )
                ui.button("Drop the last", icon="undo", on_click=self._drop).props("flat dense no-caps").props(
                    "data-mark=drop"
                )
            quiet("Recording begins with the next episode; 'Begin anew' starts one.")
            with ui.row().classes("w-full items-center gap-2 no-wrap"):
                self._file = ui.input("Name").props("dense outlined").classes("grow").props("data-mark=demo-name")
                ui.button("Save", on_click=self._save).props("dense no-caps").props("data-mark=save-demo")

    def _record(self, on: bool) -> None:
        if self.person is not None:
            (self.person.takes.start if on else self.person.takes.stop)()

    def _drop(self) -> None:
        if self.person is not None and not self.person.takes.drop_last():
            ui.notify("There is no episode to drop", type="warning")

    def _save(self) -> None:
        from palaestra.web.recorded.demo_files import demo_path

        env = self.game.playback.env
        if self.person is None or env is None:
            return
        if not self.person.takes.kept:
            complain("No whole episode has been recorded yet: press Record, and play until an episode has ended")
            return
        try:
            files = self.person.takes.save(
                env, demo_path(self._results, self._file.value or self.person.place.behaviors[0])
            )
        except PalaestraError as error:
            complain(str(error))
            return
        ui.notify(f"Saved {', '.join(file.name for file in files)}", type="positive")


class KeyPad(Element, component="pad.js"):
    """Calls `on_hold` with each key that is pressed (True) or released (False), and with "" when all are released."""

    def __init__(self, keys: KeyMap | None, on_hold: Callable[[str, bool], Any]) -> None:
        super().__init__()
        self._props["buttons"] = [] if keys is None else buttons(keys)
        self.on("hold", lambda event: _hold(event, on_hold))


def buttons(keys: KeyMap) -> Sequence[dict[str, str]]:
    """Returns a button for each effect of a key, labeled with its first key."""
    first: dict[object, str] = {}
    for key, effect in keys.keys.items():
        if not key.startswith("pad:"):
            first.setdefault(effect, key)
    return [
        {"key": key, "shown": SHOWN.get(key, key.upper()), "name": getattr(effect, "name", "")}
        for effect, key in first.items()
    ]


def _hold(event: GenericEventArguments, on_hold: Callable[[str, bool], Any]) -> None:
    key = event.args.get("key")
    down = event.args.get("down")
    if isinstance(key, str) and isinstance(down, bool):
        on_hold(key, down)
