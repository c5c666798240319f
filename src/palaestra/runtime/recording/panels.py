"""Composes the pictures of a recording: areas in a grid, a title above them, panels side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

Picture = NDArray[np.uint8]
"""A picture, (height, width, 3)."""
GAP = 4  # pixels between areas
PANEL_GAP = 8  # pixels between panels
LEAST_LETTERS, MOST_LETTERS = 12, 24  # pixels
EDGE = 6  # pixels on both sides of what is written
INK, SOFT = (34, 38, 43), (109, 117, 126)


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a picture: a drawing and the text above it."""

    picture: Picture
    title: str = ""
    reward: str = ""
    """Text to the right of the title, or below it if there is no room."""


def tile(pictures: Sequence[Picture]) -> Picture:
    """Arranges pictures in a grid about as wide as high, on white; each cell is as large as the largest picture."""
    columns = columns_of(len(pictures))
    rows = math.ceil(len(pictures) / columns)
    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    canvas = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), 255, np.uint8)
    for i, picture in enumerate(pictures):
        y = i // columns * (height + GAP)
        x = i % columns * (width + GAP)
        canvas[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    return canvas


def columns_of(count: int) -> int:
    """Returns the number of columns in a grid of `count` pictures."""
    return math.ceil(math.sqrt(count))


def compose(panels: Sequence[Panel], width: int, *, titles: bool = True) -> Image.Image:
    """Returns a picture `width` pixels wide, with panels of equal height side by side and letters at the final size."""
    from PIL import Image

    inner = max(len(panels), width - PANEL_GAP * (len(panels) - 1))
    shapes = [panel.picture.shape[1] / panel.picture.shape[0] for panel in panels]
    height = max(1, round(inner / sum(shapes)))
    widths = [max(1, round(height * shape)) for shape in shapes]
    widths[-1] = max(1, inner - sum(widths[:-1]))
    narrow = min(widths)
    strip = strip_height(narrow) if titles else 0
    canvas = Image.new("RGB", (width, height + strip), "white")
    x = 0
    for panel, wide in zip(panels, widths, strict=True):
        canvas.paste(Image.fromarray(panel.picture).resize((wide, height), Image.Resampling.LANCZOS), (x, strip))
        if titles:
            _write(canvas, panel, x, wide, narrow)
        x += wide + PANEL_GAP
    return canvas


def strip_height(width: int) -> int:
    """Returns the height of the title above a panel of this width: two lines on a narrow panel."""
    letters = _letters(width)
    return round(letters * (1.7 if _is_wide(width) else 3.0))


def _is_wide(width: int) -> bool:
    return width >= 300


def _letters(width: int) -> int:
    return min(MOST_LETTERS, max(LEAST_LETTERS, round(width / 26)))


def _write(canvas: Image.Image, panel: Panel, x: int, width: int, narrow: int) -> None:
    """Writes the text above a panel. The narrowest panel chooses size and lines for all."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(canvas)
    letters = _letters(narrow)
    font = font_of(letters)
    if not _is_wide(narrow):
        room = width - 2 * EDGE
        draw.text((x + EDGE, 2), fitted(panel.title, room, font), font=font, fill=INK)
        draw.text((x + EDGE, 2 + round(letters * 1.35)), fitted(panel.reward, room, font), font=font, fill=SOFT)
        return
    reward = fitted(panel.reward, round(width * 0.6), font)
    beside = font.getlength(reward)
    room = round(width - beside - 2 * EDGE - letters)
    draw.text((x + EDGE, letters // 6), fitted(panel.title, room, font), font=font, fill=INK)
    draw.text((x + width - EDGE - beside, letters // 6), reward, font=font, fill=SOFT)


@cache
def font_of(size: int) -> FreeTypeFont | ImageFont:
    """Returns Pillow's own font at a size in pixels."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def fitted(text: str, width: int, font: FreeTypeFont | ImageFont) -> str:
    """Returns a text, cut to a width in pixels; three dots mark the cut."""
    if font.getlength(text) <= width:
        return text
    kept = next((n for n in range(len(text) - 1, 0, -1) if font.getlength(f"{text[:n].rstrip()}...") <= width), 0)
    return f"{text[:kept].rstrip()}..." if kept else ""
