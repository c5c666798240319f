"""A picture of a Match3 board for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.envs.builtin.picture_plane import BLUE, GOLD, GREEN, PAPER, RED, VIOLET, Plane

if TYPE_CHECKING:
    from palaestra.envs.builtin.picture_plane import Color

TEAL: Color = (72, 170, 178)
COLORS = (RED, GREEN, BLUE, GOLD, VIOLET, TEAL)


def gems(kind: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """A board of colors (rows, columns), row 0 at the bottom, with one or two dots on pieces that are worth more."""
    rows, columns = kind.shape
    picture = Plane(columns / 2 + 0.3, rows / 2 + 0.3)
    picture.floor((0, 0), (columns / 2, rows / 2))
    for (row, column), color in np.ndenumerate(kind):
        center = np.array([column - (columns - 1) / 2, row - (rows - 1) / 2])
        picture.circle(center, 0.4, COLORS[color])
        for dot in range(int(worth[row, column])):
            aside = 0.0 if worth[row, column] == 1 else (-0.14, 0.14)[dot]
            picture.circle(center + np.array([aside, 0.0]), 0.1, PAPER)
    return picture.shown()
