"""A board that a person plays by clicks and keys: each exchange of two pieces is a tick."""

from __future__ import annotations

from nicegui import ui

from palaestra.envs.traits import SwapBoard
from palaestra.runtime.playback.playing import Playback
from palaestra.web.people.board import Board
from palaestra.web.people.played_game import Person
from palaestra.web.scene.canvas import SceneCanvas


class BoardPlay:
    """Shows which piece is chosen, and makes the move of a pair."""

    def __init__(self, layout: SwapBoard, playback: Playback, person: Person, canvas: SceneCanvas) -> None:
        self._layout = layout
        self._playback = playback
        self._person = person
        self._canvas = canvas
        self._board = Board(layout.columns, self._has_piece)

    def pick(self, group: str, number: int) -> None:
        """Chooses the piece that was clicked."""
        if group in self._layout.pieces:
            self._exchange(self._board.click(number))

    def press(self, key: str) -> None:
        """Goes to a piece, takes it or exchanges it."""
        self._exchange(self._board.press(key))

    def _has_piece(self, cell: int) -> bool:
        drawing = self._playback.display.drawing()
        pieces = [one for one in drawing.solids if one.name == self._layout.pieces[0]] if drawing else []
        return bool(pieces) and 0 <= cell < pieces[0].size.shape[1] and bool(pieces[0].size[0, cell].any())

    def _exchange(self, pair: tuple[int, int] | None) -> None:
        self._canvas.highlight(self._layout.pieces, self._board.chosen if pair is None else None)
        move = None if pair is None else self._layout.exchange(*pair)
        game = self._playback.game
        if move is None or game is None:
            return
        place = self._person.place
        mask = game.steps[place.behaviors[0]].action_mask
        if mask is not None and not bool(mask[place.slot, move]):
            ui.notify("These two make no line", type="warning")
            return
        self._person.brains[0].order(move)
        self._playback.advance()
