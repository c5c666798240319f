"""Pictures of areas for people: smooth shapes, drawn large and scaled down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Sequence

    Color = tuple[int, int, int]
    Points = list[tuple[float, float]]

_FINE = 3  # pixels drawn per pixel shown, along an edge
_PAPER, _INK = (246, 245, 240), (52, 58, 70)
_BLUE, _GREEN, _RED, _GOLD = (66, 122, 196), (62, 160, 98), (208, 80, 70), (238, 176, 60)


def _canvas(width: int, height: int, paper: Color = _PAPER) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (width * _FINE, height * _FINE), paper)
    return image, ImageDraw.Draw(image)


def _downscale(image: Image.Image) -> np.ndarray:
    return np.asarray(image.resize((image.width // _FINE, image.height // _FINE), Image.Resampling.LANCZOS)).copy()


class _Camera:
    """Camera that looks down on the block from the front; `at` gives pixels of the enlarged canvas."""

    def __init__(self, width: int, height: int) -> None:
        self.eye = np.array([4.0, 9.0, -13.0])
        forward = np.array([0.0, 1.2, 0.0]) - self.eye
        forward /= np.linalg.norm(forward)
        right = np.cross([0.0, 1.0, 0.0], forward)
        right /= np.linalg.norm(right)
        self._axes = np.stack([right, np.cross(forward, right), forward])
        self._middle = np.array([width, height]) * _FINE / 2
        self.focus = 1.55 * height * _FINE

    def at(self, points: np.ndarray) -> Points:
        seen = (np.atleast_2d(points) - self.eye) @ self._axes.T
        flat = self._middle + seen[:, :2] / seen[:, 2:] * self.focus * [1, -1]
        return [(float(x), float(y)) for x, y in flat]

    def size(self, length: float, point: np.ndarray) -> float:
        """Returns the number of pixels that a length takes at a point."""
        return length * self.focus / float((point - self.eye) @ self._axes[2])


def _rotate(tilt: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the points rotated by a quaternion (x, y, z, w)."""
    axis, w = tilt[:3].astype(np.float64), float(tilt[3])
    return points + 2 * np.cross(axis, np.cross(axis, points) + w * points)


_LIGHT = np.array([0.35, 0.85, -0.40])
_AROUND = ((-1, -1), (-1, 1), (1, 1), (1, -1))
# the corners of each face of a cube, in order around it
_FACES = [
    np.array([[out if k == axis else a if k == (axis + 1) % 3 else b for k in range(3)] for a, b in _AROUND])
    for axis in range(3)
    for out in (-1.0, 1.0)
]


def draw_ball_on_block(tilt: np.ndarray, position: np.ndarray, radius: float, half_edge: float = 2.5) -> np.ndarray:
    """Draws a cube turned by the quaternion `tilt` (x, y, z, w) and a ball at `position` from its center."""
    image, draw = _canvas(320, 240)
    camera, position = _Camera(320, 240), position.astype(np.float64)
    local = _rotate(tilt * [-1, -1, -1, 1], position)
    on_top = local[1] > half_edge
    behind = not on_top and float(np.linalg.norm(position - camera.eye)) > float(np.linalg.norm(camera.eye))
    if behind:
        _ball(image, camera, position, radius)
    for corners in _FACES:
        outward = _rotate(tilt, corners.mean(axis=0))
        face = _rotate(tilt, corners * half_edge)
        if (camera.eye - face.mean(axis=0)) @ outward > 0:
            light = 0.52 + 0.48 * max(float(outward @ _LIGHT), 0.0)
            draw.polygon(camera.at(face), fill=_shade(_BLUE, light))
            draw.line([*camera.at(face), *camera.at(face[:1])], fill=_shade(_BLUE, light * 0.85), width=_FINE, joint="curve")
    if on_top:
        around = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        rim = np.stack([local[0] + radius * np.cos(around), np.full(48, half_edge), local[2] + radius * np.sin(around)], axis=1)
        rim[:, [0, 2]] = rim[:, [0, 2]].clip(-half_edge, half_edge)
        draw.polygon(camera.at(_rotate(tilt, rim)), fill=_shade(_BLUE, 0.62))
    if not behind:
        _ball(image, camera, position, radius)
    return _downscale(image)


def _shade(color: Color, light: float) -> Color:
    red, green, blue = (round(min(c * light, 255)) for c in color)
    return red, green, blue


def _ball(image: Image.Image, camera: _Camera, position: np.ndarray, radius: float) -> None:
    """Draws a lit sphere: the light of each pixel follows from the normal there."""
    (x, y), size = camera.at(position)[0], camera.size(radius, position)
    reach = int(size) + 1
    v, u = np.mgrid[-reach : reach + 1, -reach : reach + 1] / size
    inside = u * u + v * v <= 1
    depth = np.sqrt(np.clip(1 - u * u - v * v, 0, 1))
    light = np.clip(-0.45 * u - 0.65 * v + 0.62 * depth, 0, 1)
    pixels = np.clip(np.array(_GOLD) * (0.45 + 0.6 * light[..., None]) + 150 * light[..., None] ** 24, 0, 255)
    patch, mask = Image.fromarray(pixels.astype(np.uint8)), Image.fromarray((inside * 255).astype(np.uint8))
    image.paste(patch, (round(x) - reach, round(y) - reach), mask)


def _box(middle: tuple[float, float], half: float) -> tuple[float, float, float, float]:
    x, y = middle
    return (x - half) * _FINE, (y - half) * _FINE, (x + half) * _FINE, (y + half) * _FINE


def _goal(draw: ImageDraw.ImageDraw, middle: tuple[float, float], half: float, kind: int) -> None:
    """Draws a green plus (1) or a red cross (2)."""
    (x, y), arm, width = middle, half * 0.62, round(half * 0.46 * _FINE)
    ends = [((-arm, 0), (arm, 0)), ((0, -arm), (0, arm))] if kind == 1 else [((-arm, -arm), (arm, arm)), ((-arm, arm), (arm, -arm))]
    for (a, b), (c, d) in ends:
        draw.line([((x + a) * _FINE, (y + b) * _FINE), ((x + c) * _FINE, (y + d) * _FINE)], fill=_GREEN if kind == 1 else _RED, width=width)


def draw_board(cells: np.ndarray, wanted: int) -> np.ndarray:
    """Draws a board of cells (n, n): 0 empty, 1 a green goal, 2 a red one, 3 the agent; `wanted` is the right goal's number."""
    edge, margin, top = 240, 14, 40
    side = (edge - 2 * margin) / len(cells)
    image, draw = _canvas(edge, edge + top - margin)
    draw.rounded_rectangle(_box((edge / 2, top + (edge - 2 * margin) / 2), (edge - 2 * margin) / 2 + 5), radius=8 * _FINE, fill=_INK)
    for (row, column), kind in np.ndenumerate(cells):
        middle = margin + (column + 0.5) * side, top + (row + 0.5) * side
        draw.rounded_rectangle(_box(middle, side / 2 - 1.5), radius=4 * _FINE, fill=(228, 230, 228))
        if kind in (1, 2):
            _goal(draw, middle, side / 2, int(kind))
        elif kind == 3:
            draw.rounded_rectangle(_box(middle, side * 0.34), radius=side * 0.14 * _FINE, fill=_BLUE)
    draw.rounded_rectangle(_box((edge / 2 - 16, 18), 12), radius=4 * _FINE, fill=_BLUE)
    draw.line([((edge / 2 + 1) * _FINE, 18 * _FINE), ((edge / 2 + 9) * _FINE, 18 * _FINE)], fill=_INK, width=2 * _FINE)
    _goal(draw, (edge / 2 + 24, 18), 13, wanted)
    return _downscale(image)


def draw_line(position: int, places: int, goals: Sequence[tuple[int, float]]) -> np.ndarray:
    """Draws a line of places with the agent at one and balls at the goals, each (place, radius as a share of the spacing)."""
    width, height, margin = 480, 200, 24
    image, draw = _canvas(width, height)
    spacing, ground = (width - 2 * margin) / places, 132
    draw.rounded_rectangle(
        (margin * _FINE, ground * _FINE, (width - margin) * _FINE, (ground + 14) * _FINE), radius=6 * _FINE, fill=(206, 208, 204)
    )
    for place in range(places):
        middle = margin + (place + 0.5) * spacing
        draw.ellipse(_box((middle, ground + 7), 2), fill=(160, 164, 162))
    for place, size in goals:
        radius = size * spacing
        draw.ellipse(_box((margin + (place + 0.5) * spacing, ground - radius), radius), fill=_GREEN)
    half = 0.46 * spacing
    draw.rounded_rectangle(_box((margin + (position + 0.5) * spacing, ground - half), half), radius=4 * _FINE, fill=_BLUE)
    return _downscale(image)


def draw_cart(x: float, angle: float, most_x: float, half_length: float) -> np.ndarray:
    """Draws a cart at `x` on a track of ±`most_x` meters, with a pole that leans by `angle` radians to the right."""
    width, height, margin, ground = 480, 240, 24, 190
    image, draw = _canvas(width, height)
    scale = (width - 2 * margin) / (2 * most_x)
    draw.rounded_rectangle(
        (margin * _FINE, ground * _FINE, (width - margin) * _FINE, (ground + 10) * _FINE), radius=5 * _FINE, fill=(206, 208, 204)
    )
    middle, top = width / 2 + x * scale, ground - 30
    half = 26
    draw.rounded_rectangle(
        ((middle - half) * _FINE, top * _FINE, (middle + half) * _FINE, (ground - 6) * _FINE), radius=5 * _FINE, fill=_BLUE
    )
    for wheel in (middle - 15, middle + 15):
        draw.ellipse(_box((wheel, ground - 5), 6), fill=_INK)
    length = 2 * half_length * scale * 1.3
    tip = middle + length * math.sin(angle), top + 4 - length * math.cos(angle)
    draw.line([(middle * _FINE, (top + 4) * _FINE), (tip[0] * _FINE, tip[1] * _FINE)], fill=_GOLD, width=10 * _FINE)
    draw.ellipse(_box((middle, top + 4), 5), fill=_INK)
    draw.ellipse(_box(tip, 5), fill=_GOLD)
    return _downscale(image)
