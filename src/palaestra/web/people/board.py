"""Board on which a person exchanges two neighboring pieces, by clicks or by keys."""

from __future__ import annotations

from collections.abc import Callable

ARROWS = {"ArrowLeft": (0, -1), "ArrowRight": (0, 1), "ArrowUp": (1, 0), "ArrowDown": (-1, 0)}
"""Rows and columns to go: the first row is in front."""
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
        """Whether the next neighbor is exchanged with the chosen piece."""

    def click(self, cell: int) -> tuple[int, int] | None:
        """Chooses a piece; returns the pair if the click was the second one, on a neighbor of the first."""
        if self.taken and self.chosen is not None and self._neighbors(self.chosen, cell):
            return self._pair(self.chosen, cell)
        self.chosen, self.taken = cell, not (self.taken and cell == self.chosen)
        return None

    def press(self, key: str) -> tuple[int, int] | None:
        """Goes to another piece, takes it, or returns the pair to exchange."""
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
