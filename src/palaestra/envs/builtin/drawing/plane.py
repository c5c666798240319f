"""Pictures of areas in the plane for people, seen from above: floors, boxes, circles, agents and rays.

picture = Plane(13.0, 13.0)
picture.floor((0, 0), (12.5, 12.5))
picture.box(block, (1, 1), angle, GOLD)
picture.agent(position, angle, 0.5)
return picture.to_array()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Sequence

    Color = tuple[int, int, int]
    Place = Sequence[float] | np.ndarray

FINE = 3  # pixels drawn per pixel shown, along an edge
PAPER, FLOOR, INK, GRAY = (246, 245, 240), (228, 230, 228), (52, 58, 70), (176, 180, 178)
BLUE, GREEN, RED, GOLD, VIOLET = (66, 122, 196), (62, 160, 98), (208, 80, 70), (238, 176, 60), (138, 104, 186)
RAY = (206, 208, 206)
SWITCH_COLORS = (RED, GREEN)  # before and after the switch is pressed


class Plane:
    """Drawing of the plane about the origin, x to the right, y up; lengths in meters, angles counterclockwise from x."""

    def __init__(self, half_width: float, half_height: float, pixels: int = 320) -> None:
        """Shows this far from the origin each way; `pixels` is the longer side of the picture."""
        self._scale = pixels * FINE / 2 / max(half_width, half_height)
        self._middle = np.array([half_width, half_height]) * self._scale
        width, height = (max(round(float(side) * 2 / FINE), 1) for side in self._middle)
        self._image = Image.new("RGB", (width * FINE, height * FINE), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def floor(self, center: Place, half: Place, color: Color = FLOOR) -> None:
        """Draws a room: its floor and its walls."""
        self.box(center, np.asarray(half, dtype=np.float64) + 4 / self._scale * FINE, 0.0, INK)
        self.box(center, half, 0.0, color)

    def box(self, center: Place, half: Place, angle: float, color: Color) -> None:
        """Draws a box with these half sides, turned by the angle."""
        corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * np.asarray(half, dtype=np.float64)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        self._draw.polygon([self._at(corner) for corner in corners @ turn + np.asarray(center, dtype=np.float64)], fill=color)

    def circle(self, center: Place, radius: float, color: Color) -> None:
        """Draws a disc."""
        (x, y), size = self._at(center), radius * self._scale
        self._draw.ellipse((x - size, y - size, x + size, y + size), fill=color)

    def agent(self, center: Place, angle: float, radius: float, color: Color = BLUE) -> None:
        """Draws a disc with a nose that shows its heading."""
        self.circle(center, radius, color)
        ahead = np.array([np.cos(angle), np.sin(angle)]) * radius
        self.circle(np.asarray(center, dtype=np.float64) + 0.55 * ahead, 0.25 * radius, PAPER)

    def ray(self, start: Place, angle: float, length: float, color: Color = RAY) -> None:
        """Draws a thin line with a dot at its end."""
        end = np.asarray(start, dtype=np.float64) + length * np.array([np.cos(angle), np.sin(angle)])
        self._draw.line([self._at(start), self._at(end)], fill=color, width=FINE)
        self.circle(end, 1.5 * FINE / self._scale, color)

    def to_array(self) -> np.ndarray:
        """Returns the picture, (H, W, 3) uint8."""
        size = self._image.width // FINE, self._image.height // FINE
        return np.asarray(self._image.resize(size, Image.Resampling.LANCZOS)).copy()

    def _at(self, place: Place) -> tuple[float, float]:
        """Returns a point's position on the enlarged picture."""
        x, y = self._middle + np.asarray(place, dtype=np.float64)[:2] * self._scale * [1, -1]
        return float(x), float(y)


def draw_marked_box(picture: Plane, center: Place, half: Place, mark: int, color: Color) -> None:
    """Draws a box marked with an X (0) or an O (1)."""
    picture.box(center, half, 0.0, color)
    size = 0.8 * float(np.min(half))
    if mark == 0:
        for angle in (np.pi / 4, -np.pi / 4):
            picture.box(center, (1.15 * size, 0.25 * size), angle, PAPER)
    else:
        picture.circle(center, size, PAPER)
        picture.circle(center, 0.55 * size, color)


def draw_heap(picture: Plane, center: Place, sides: tuple[float, ...], top: Color = GRAY) -> None:
    """Draws layers of bricks with these half sides, the lowest first."""
    for level, side in enumerate(sides):
        picture.box(center, (side, side), 0.0, INK)
        color = top if level == len(sides) - 1 else GRAY
        picture.box(center, (side - 0.12, side - 0.12), 0.0, color)


def draw_rooms(picture: Plane, edge: int, half: float, door: float) -> None:
    """Draws a square of rooms with doors in the middle of the walls between them; all lengths are halves."""
    half_side = edge * half
    picture.floor((0, 0), (half_side, half_side))
    for k in range(1, edge):
        at = 2 * half * k - half_side
        picture.box((at, 0), (0.15, half_side), 0.0, INK)
        picture.box((0, at), (half_side, 0.15), 0.0, INK)
    for k in range(1, edge):
        at = 2 * half * k - half_side
        for other in range(edge):
            middle = 2 * half * other - half_side + half
            picture.box((at, middle), (0.3, door), 0.0, FLOOR)
            picture.box((middle, at), (door, 0.3), 0.0, FLOOR)
