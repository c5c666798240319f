"""A small picture of curves as SVG, drawn into the output of a notebook in the colors of its theme."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from palaestra.core.display import escaped, readable

COLORS = ("#3f7fe0", "#d8566a", "#2fa877", "#e08e1b", "#8d63c4", "#1aa3b8", "#9a7b4f", "#cc62a8")
"""Colors that are visible on white and on black."""
POINTS = 160
"""Most points of a curve."""
WIDTH, HEIGHT = 460, 130
LEFT, BOTTOM, TOP = 58, 20, 8
"""Margins of the picture in pixels."""
SHORT_NAME, NAME = 16, 34
"""Letters of a name above which common first words of all names are left out, and most letters of a shown name."""

NEAR_ZERO = 0.3
"""If all values are positive and the lowest is at most this share of the highest, the vertical axis begins at zero."""

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Steps and values of a curve."""


def svg(curves: Mapping[str, Curve], title: str = "", x_name: str = "decisions") -> str:
    """Returns the curves as HTML: an SVG below its title, and the names of the curves, without the start that all
    share; '' without a curve of two finite points."""
    finite = {name: _finite(*curve) for name, curve in curves.items()}
    drawn = {name: curve for name, curve in finite.items() if len(curve[0])}
    shown = dict(list(drawn.items())[: len(COLORS)])
    if all(len(x) < 2 for x, _ in drawn.values()):
        return ""
    most = max(float(x.max()) for x, _ in shown.values())
    least = min(0.0, *(float(x.min()) for x, _ in shown.values()))
    low = min(float(y.min()) for _, y in shown.values())
    high = max(float(y.max()) for _, y in shown.values())
    if 0 < low <= NEAR_ZERO * high:
        low = 0.0
    low, high = _round_ends(low, high)
    span = high - low or abs(high) or 1.0
    width = WIDTH - LEFT - 10
    height = HEIGHT - BOTTOM - TOP
    lines = []
    for color, (x, y) in zip(COLORS, shown.values(), strict=False):
        across = LEFT + width * (x - least) / ((most - least) or 1.0)
        down = TOP + height * (1 - (y - low) / span)
        if len(x) == 1:
            lines.append(f'<circle cx="{across[0]:.1f}" cy="{down[0]:.1f}" r="3" fill="{color}"/>')
            continue
        points = " ".join(f"{one:.1f},{other:.1f}" for one, other in zip(across, down, strict=True))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.8" stroke-linejoin="round"/>'
        )
    floor = TOP + height
    axis = f'<path d="M{LEFT} {TOP}V{floor}H{LEFT + width}" fill="none" stroke="currentColor" stroke-opacity=".3"/>'
    places = [(LEFT - 6, TOP + 8, "end", high), (LEFT - 6, floor, "end", low), (LEFT, HEIGHT - 5, "start", least)]
    labels = [_label(x, y, anchor, readable(value)) for x, y, anchor, value in places]
    labels.append(_label(LEFT + width, HEIGHT - 5, "end", f"{readable(most)} {html.escape(x_name)}"))
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" style="display:block;max-width:100%">{axis}{"".join(lines)}{"".join(labels)}</svg>'
    )
    above = f'<div style="opacity:.75">{html.escape(escaped(title))}</div>' if title else ""
    return above + picture + (_names(list(shown), len(drawn) - len(shown)) if len(curves) > 1 else "")


def _label(x: float, y: float, anchor: str, text: str) -> str:
    style = 'font-size="11" fill="currentColor" fill-opacity=".7"'
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {style}>{text}</text>'


def _names(names: list[str], more: int) -> str:
    entries = [
        f'<span style="margin-right:14px;white-space:nowrap"><span style="color:{color}">&#9632;</span> '
        f"{html.escape(_cut(escaped(name)))}</span>"
        for color, name in zip(COLORS, _ends(names), strict=False)
    ]
    rest = [f"and {more} more"] * bool(more)
    return f'<div style="font-size:90%;max-width:{WIDTH}px">{" ".join([*entries, *rest])}</div>'


def _ends(names: list[str]) -> list[str]:
    """Returns long names without the words that all begin with: "seed-1" of "Walker-20260131-094500-seed-1"."""
    if len(names) < 2:
        return names
    words = [re.split(r"(?<=[-_/])", name)[:-2] for name in names]
    common = takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))
    cut = sum(len(column[0]) for column in common) if max(map(len, names)) > SHORT_NAME else 0
    return [name[cut:] for name in names]


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME // 2]}...{name[-NAME // 3 :]}"


def _round_ends(low: float, high: float) -> tuple[float, float]:
    """Returns the ends of an axis: round numbers around the values, such as 500 above 497.9."""
    if not low < high:
        return low, high
    unit = 10.0 ** math.floor(math.log10(high - low)) / 5
    return math.floor(low / unit + 1e-9) * unit, math.ceil(high / unit - 1e-9) * unit


def _finite(x: NDArray[np.float64], y: NDArray[np.float64]) -> Curve:
    """Returns the points with finite values; of many, the means of neighbors."""
    known = np.isfinite(y) & np.isfinite(x)
    x = np.asarray(x, float)[known]
    y = np.asarray(y, float)[known]
    if len(x) <= POINTS:
        return x, y
    starts = np.linspace(0, len(x), POINTS, endpoint=False).astype(int)
    counts = np.diff([*starts, len(x)])
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts
