"""Pictures of Hallway and Pyramids for people, seen from above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.envs.builtin.picture_plane import FLOOR, GRAY, GREEN, INK, PAPER, RED, Plane

if TYPE_CHECKING:
    from palaestra.envs.builtin.picture_plane import Color, Place


def marked(picture: Plane, center: Place, half: Place, mark: int, color: Color) -> None:
    """A box that bears an X (0) or an O (1)."""
    picture.box(center, half, 0.0, color)
    size = 0.8 * float(np.min(half))
    if mark == 0:
        for angle in (np.pi / 4, -np.pi / 4):
            picture.box(center, (1.15 * size, 0.25 * size), angle, PAPER)
    else:
        picture.circle(center, size, PAPER)
        picture.circle(center, 0.55 * size, color)


def heap(picture: Plane, center: Place, sides: tuple[float, ...], top: Color = GRAY) -> None:
    """Layers of bricks, each with this half side, the lowest first."""
    for level, side in enumerate(sides):
        picture.box(center, (side, side), 0.0, INK)
        color = top if level == len(sides) - 1 else GRAY
        picture.box(center, (side - 0.12, side - 0.12), 0.0, color)


def rooms(picture: Plane, edge: int, half: float, door: float) -> None:
    """A square of rooms with doors in the middle of the walls between them; all lengths are halves."""
    whole = edge * half
    picture.floor((0, 0), (whole, whole))
    for k in range(1, edge):
        at = 2 * half * k - whole
        picture.box((at, 0), (0.15, whole), 0.0, INK)
        picture.box((0, at), (whole, 0.15), 0.0, INK)
    for k in range(1, edge):
        at = 2 * half * k - whole
        for other in range(edge):
            middle = 2 * half * other - whole + half
            picture.box((at, middle), (0.3, door), 0.0, FLOOR)
            picture.box((middle, at), (door, 0.3), 0.0, FLOOR)


SWITCH_COLORS = (RED, GREEN)
"""Of the switch, before and after it is pressed."""
