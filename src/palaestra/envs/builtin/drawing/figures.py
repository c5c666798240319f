"""Figures that several games show: agents with an arrow, rooms with walls, and boxes marked with a letter.

All functions take one row per area: places are (areas, figures, 2), in the plane of the game.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palaestra.envs.solids import BLUE, FLOOR, GRAY, PAPER, Color, Shape, Solids, on_plane, solids, upright

THICK = 0.2
"""Thickness of a floor, whose top is at height 0."""
QUARTER = np.sqrt(0.5, dtype=np.float32)


def turned(first: ArrayLike, then: ArrayLike) -> NDArray[np.float32]:
    """Returns the quaternions (..., 4) that turn by `first` within the frame that `then` turns."""
    a = np.asarray(then, np.float32)
    b = np.asarray(first, np.float32)
    axis = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    return np.concatenate(
        [axis, a[..., 3:] * b[..., 3:] - (a[..., :3] * b[..., :3]).sum(-1, keepdims=True)], -1, dtype=np.float32
    )


def turned_by(turn: NDArray[np.float32], place: ArrayLike) -> NDArray[np.float32]:
    """Returns positions (..., 3) turned by quaternions (..., 4)."""
    axis = turn[..., :3]
    at = np.asarray(place, np.float32)
    moved = 2 * np.cross(axis, np.cross(axis, at) + turn[..., 3:] * at)
    return at + moved.astype(np.float32)


def lying(angle: ArrayLike) -> NDArray[np.float32]:
    """Returns the quaternions (..., 4) that lay a cone down so that it points in these directions of the plane."""
    return turned((0.0, 0.0, -QUARTER, QUARTER), upright(angle))


def ahead(place: NDArray[np.float32], angle: NDArray[np.float32], far: ArrayLike) -> NDArray[np.float32]:
    """Returns the positions (..., 2) at a distance straight ahead."""
    return place + np.asarray(far, np.float32)[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)


def agent(
    place: NDArray[np.float32],
    angle: NDArray[np.float32],
    radius: ArrayLike,
    agents: tuple[str, ArrayLike],
    *,
    color: ArrayLike = BLUE,
    height: ArrayLike = 0.0,
    shape: Shape = "cylinder",
    name: str = "agent",
) -> tuple[Solids, ...]:
    """Returns agents with an arrow on top that shows their heading. A radius of 0 hides a figure; `height`: height
    of the feet."""
    size = np.broadcast_to(np.asarray(radius, np.float32), place.shape[:2])
    feet = np.broadcast_to(np.asarray(height, np.float32), place.shape[:2])
    body = np.stack([2 * size, 1.6 * size, 2 * size], -1)
    arrow = np.stack([0.5 * size, 1.7 * size, 1.2 * size], -1)
    top = on_plane(ahead(place, angle, 0.08 * size), feet + 1.8 * size)
    turn = upright(angle)
    return (
        solids(name, shape, on_plane(place, feet + 0.8 * size), body, color, rotation=turn, agents=agents),
        solids(f"{name}'s arrow", "cone", top, arrow, PAPER, rotation=lying(angle), agents=agents),
    )


def fixed(
    areas: int,
    name: str,
    shape: Shape,
    places: ArrayLike,
    size: ArrayLike,
    color: ArrayLike,
    rotation: ArrayLike = (0.0, 0.0, 0.0, 1.0),
) -> Solids:
    """Returns solids that never move, at the same places (n, 3) in every area."""
    at = np.asarray(places, np.float32)
    return solids(name, shape, np.broadcast_to(at, (areas, *at.shape)), size, color, rotation=rotation, fixed=True)


@cache
def floor(areas: int, half: tuple[float, float], color: Color = FLOOR) -> Solids:
    """Returns a floor with these half sides, centered on the origin."""
    return plate("floor", areas, (0.0, 0.0), half, color, top=0.0, thick=THICK)


@cache
def plate(
    name: str,
    areas: int,
    middle: tuple[float, float],
    half: tuple[float, float],
    color: Color,
    top: float = 0.02,
    thick: float = 0.02,
) -> Solids:
    """Returns a flat box that never moves, such as a goal on the floor; it is drawn between walls and figures."""
    return boxes(name, areas, (((middle[0], middle[1]), half),), color, top, thick)


@cache
def boxes(
    name: str,
    areas: int,
    places: tuple[tuple[tuple[float, float], tuple[float, float]], ...],
    color: Color,
    top: float,
    thick: float,
) -> Solids:
    """Returns boxes that never move, each given by middle and half sides, extending from `top` down by `thick`."""
    middle = on_plane(np.array([place for place, _ in places], np.float32), top - thick / 2)
    size = np.array([[2 * half[0], thick, 2 * half[1]] for _, half in places], np.float32)
    return fixed(areas, name, "box", middle, size, color)


@cache
def room(
    areas: int, half: tuple[float, float], wall: float = 1.0, thick: float = 0.4, color: Color = FLOOR
) -> tuple[Solids, ...]:
    """Returns a floor and the walls around it, of this height and thickness."""
    x, y = half
    out = thick / 2
    sides = (
        ((0.0, y + out), (x + thick, out)),
        ((0.0, -y - out), (x + thick, out)),
        ((x + out, 0.0), (out, y)),
        ((-x - out, 0.0), (out, y)),
    )
    return floor(areas, (x + thick, y + thick), color), boxes("walls", areas, sides, GRAY, wall, wall)


def hidden_unless(shown: ArrayLike, size: ArrayLike) -> NDArray[np.float32]:
    """Returns the sizes (..., 3) of solids; the size is 0 for solids that are not shown."""
    return np.asarray(shown, bool)[..., None] * np.asarray(size, np.float32)


def marked(
    name: str,
    place: NDArray[np.float32],
    half: tuple[float, float],
    tall: float,
    mark: NDArray[np.int32],
    color: ArrayLike,
) -> tuple[Solids, ...]:
    """Returns boxes with an X (mark 0) or an O (1) on top; `mark` is (areas, boxes)."""
    small = 0.85 * min(half)
    beam = hidden_unless(mark == 0, (2.2 * small, 0.1, 0.45 * small))
    ring, hole = (hidden_unless(mark == 1, (2 * share * small, 0.1, 2 * share * small)) for share in (1.0, 0.55))
    top = on_plane(place, tall + 0.05)
    return (
        solids(name, "box", on_plane(place, tall / 2), (2 * half[0], tall, 2 * half[1]), color),
        solids(f"{name}'s first beam", "box", top, beam, PAPER, rotation=upright(np.pi / 4)),
        solids(f"{name}'s second beam", "box", top, beam, PAPER, rotation=upright(-np.pi / 4)),
        solids(f"{name}'s ring", "cylinder", top, ring, PAPER),
        solids(f"{name}'s hole", "cylinder", top + np.float32([0.0, 0.01, 0.0]), hole, color),
    )
