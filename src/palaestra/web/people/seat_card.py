"""The card on which a person chooses an agent, invites another person, and chooses the brain of all other agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nicegui import ui

from palaestra.web.layout import card, complain, dialog_of, quiet
from palaestra.web.people.invitation import Invitation, qr_code
from palaestra.web.people.opponents import choices
from palaestra.web.people.played_game import AgentSeat, PlayedGame


class SeatCard:
    """The current agents; a Unity game may add more."""

    def __init__(
        self,
        game: PlayedGame,
        runs: list[str],
        results: Path,
        invitation_to: Callable[[str], Invitation] | None,
        sit: Callable[[AgentSeat], object],
    ) -> None:
        """`sit` is called with the seat that was chosen."""
        self._game = game
        self._runs = runs
        self._results = results
        self._invitation_to = invitation_to
        self._sit = sit
        self._shown = 0
        with card("Seat"):
            self._select = ui.select({}, label="You play").props("dense outlined data-mark=seat").classes("w-full")
            self._select.on_value_change(lambda event: self._chosen(event.value))
            self._invite = ui.button("Invite a second person", icon="person_add", on_click=self._show_invitation)
            self._invite.props("flat dense no-caps data-mark=invite").visible = False
        self._sides = ui.column().classes("w-full")

    def sit_first(self) -> None:
        """Takes the seat from the command line, else the first free seat."""
        free = self._game.free()
        sides = [part for part in self._game.source.people() if part.behavior is not None]
        wanted = [at for at in free for side in sides if side.behavior in at.behaviors and side.team in (None, at.team)]
        place = next(iter([*wanted, *free]), None)
        self.refresh()
        self._select.set_value(None if place is None else place.number)

    def sit_on(self, behavior: str, slot: int) -> None:
        """Takes the seat of an agent that was clicked."""
        places = self._game.places()
        number = next((place.number for place in places if behavior in place.behaviors and place.slot == slot), None)
        self._select.set_value(number)

    def refresh(self) -> None:
        """Offers newly appeared agents, and a link for a second person."""
        labels = {one.number: one.label for one in self._game.places()}
        if len(labels) <= self._shown:
            return
        self._shown = len(labels)
        self._select.set_options(labels, value=self._select.value)
        self._invite.visible = len(labels) > 1 and self._invitation_to is not None
        if self._invite.visible:
            self._show_sides()

    def _chosen(self, number: object) -> None:
        places = self._game.places()
        if isinstance(number, int) and 0 <= number < len(places):
            self._sit(places[number])

    def _show_sides(self) -> None:
        game = self._game
        self._sides.clear()
        with self._sides, card("All other agents are played by"):
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

    def _show_invitation(self) -> None:
        """Shows the link for a second person: to copy, and as a QR code where other machines can reach the page."""
        assert self._invitation_to is not None
        link = self._invitation_to(self._game.key)
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
            quiet("Whoever has the link can play this game, and see nothing else.")
        dialog.on("hide", dialog.delete)
        dialog.open()
