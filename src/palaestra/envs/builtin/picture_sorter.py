"""Sorter from above, for people."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

EDGE, FINE = 320, 3
"""Pixels along an edge, and pixels drawn for each along it."""
PAPER, FLOOR, INK = (246, 245, 240), (228, 230, 228), (52, 58, 70)
BLUE, GREEN, GOLD = (66, 122, 196), (62, 160, 98), (238, 176, 60)


def numbered_room(numbers: np.ndarray, angles: np.ndarray, touched: int, position: np.ndarray, heading: float) -> np.ndarray:
    """A round room with numbered tiles on a circle, the first `touched` of them green, and the agent, (H, W, 3) uint8.

    Angles count from the north (up) through the east; lengths are those of the environment.
    """
    image = Image.new("RGB", (EDGE * FINE, EDGE * FINE), PAPER)
    draw, unit = ImageDraw.Draw(image), EDGE * FINE / 38

    def at(east: float, north: float) -> tuple[float, float]:
        return EDGE * FINE / 2 + east * unit, EDGE * FINE / 2 - north * unit

    draw.circle(at(0, 0), 17.75 * unit, fill=FLOOR, outline=INK, width=2 * FINE)
    font = ImageFont.load_default(size=1.5 * unit)
    for row, (number, angle) in enumerate(zip(numbers, angles, strict=True)):
        middle = at(16 * np.sin(angle), 16 * np.cos(angle))
        draw.circle(middle, 1.25 * unit, fill=GREEN if row < touched else GOLD)
        draw.text(middle, str(number), fill=INK, font=font, anchor="mm")
    x, y = float(position[0]), float(position[1])
    draw.circle(at(x, y), 0.75 * unit, fill=BLUE)
    draw.line([at(x, y), at(x + 1.3 * np.sin(heading), y + 1.3 * np.cos(heading))], fill=INK, width=2 * FINE)
    return np.asarray(image.resize((EDGE, EDGE), Image.Resampling.LANCZOS)).copy()
