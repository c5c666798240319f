"""Board on which a person exchanges two neighboring pieces, by clicks or by keys."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from palaestra.envs.traits import SwapBoard
from palaestra.runtime.playback.playing import Playback
from palaestra.web.people.played_game import Person
from palaestra.web.scene.canvas import SceneCanvas

ARROWS = {"ArrowLeft": (0, -1), "ArrowRight": (0, 1), "ArrowUp": (1, 0), "ArrowDown": (-1, 0)}
"""Rows and columns that an arrow key moves by: the first row is in front."""
LETTERS = {"a": "ArrowLeft", "d": "ArrowRight", "w": "ArrowUp", "s": "ArrowDown"}
HELP = {
    "Click": "a piece, then the neighbor to exchange it with",
    "Arrows or WASD": "go to a piece",
    "Space or Enter": "take it; the next arrow exchanges it",
}
"""Ways to play."""


class Board:
    """Piece that a person has chosen, and pairs to exchange."""

    def __init__(self, columns: int, there: Callable[[int], bool]) -> None:
        """`there` says whether a cell has a piece."""
        self._columns = columns
        self._there = there
        self.chosen: int | None = None
        self.taken = False
        """Whether the next chosen neighbor is exchanged with the chosen piece."""

    def click(self, cell: int) -> tuple[int, int] | None:
        """Chooses a piece; returns both pieces if the click was the second one and on a neighbor of the first."""
        if self.taken and self.chosen is not None and self._neighbors(self.chosen, cell):
            return self._pair(self.chosen, cell)
        self.chosen, self.taken = cell, not (self.taken and cell == self.chosen)
        return None

    def press(self, key: str) -> tuple[int, int] | None:
        """Moves to another piece, chooses it, or returns the pair to exchange."""
        step = ARROWS.get(LETTERS.get(key, key))
        if step is None:
            if key in (" ", "Enter") and self.chosen is not None:
                self.taken = not self.taken
            return None
        if self.chosen is None:
            self.chosen = 0
            return None
        column = self.chosen % self._columns + step[1]
        cell = self.chosen + step[0] * self._columns + step[1]
        if not 0 <= column < self._columns or not self._there(cell):
            return None
        if self.taken:
            return self._pair(self.chosen, cell)
        self.chosen = cell
        return None

    def _pair(self, first: int, second: int) -> tuple[int, int]:
        self.chosen = second
        self.taken = False
        return first, second

    def _neighbors(self, first: int, second: int) -> bool:
        rows = abs(first // self._columns - second // self._columns)
        columns = abs(first % self._columns - second % self._columns)
        return rows + columns == 1


class BoardPlay:
    """A board that a person plays: each exchange of two pieces is a tick."""

    def __init__(self, layout: SwapBoard, playback: Playback, person: Person, canvas: SceneCanvas) -> None:
        self._layout = layout
        self._playback = playback
        self._person = person
        self._canvas = canvas
        self._board = Board(layout.columns, self._has_piece)

    def pick(self, group: str, number: int) -> None:
        """Chooses a piece that was clicked."""
        if group in self._layout.pieces:
            self._exchange(self._board.click(number))

    def press(self, key: str) -> None:
        """Moves to a piece, chooses it or exchanges it."""
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
