"""The style of pictures of runs: colors and patterns of lines, axes, titles, legends."""

from __future__ import annotations

import base64
import io
import math
import os
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from palaestra.core.display import escaped, shortened
from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.runtime.logging.history import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Name = TypeVar("Name", bound=Hashable)

COLORS = ("#2f6fd0", "#d1495b", "#2a9d6f", "#e08e1b", "#7b52ab", "#0f9bb0", "#8c6d46", "#c2569b")
PATTERNS = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 1.5, 1.2, 1.5)))
"""Line styles: solid, dashed, dotted, dash and dot. When colors and line styles are used up, lines get marks too."""
MARKS = (None, "o", "s", "^", "D", "v")
LONGEST = 120
"""Most letters of a name that are drawn."""
SEPARATOR = "  ·  "
SHORT, OVER = 0.012, 0.06
"""Shares of the axis by which the round number at its end may be below and above the last value."""
INK, SOFT, GRID = "#22262b", "#6d757e", "#e4e7eb"
DARK = (
    '[data-jp-theme-light="false"] .palaestra-figure, body.vscode-dark .palaestra-figure, '
    'html[theme="dark"] .palaestra-figure {filter: invert(.93) hue-rotate(180deg)}'
)
"""Style of a picture for dark themes of JupyterLab, VS Code and Colab, with the same line colors."""


@dataclass(frozen=True, slots=True)
class Look:
    """Color, pattern and mark of a line."""

    color: str
    pattern: Any = "-"
    mark: str | None = None

    def options(self, size: float) -> dict[str, Any]:
        """Returns keywords of matplotlib's lines, with about 12 marks for a line of `size` points."""
        round_ends = {"solid_capstyle": "round", "solid_joinstyle": "round"}
        solid = round_ends if self.pattern == "-" else {"dash_capstyle": "butt"}
        return {"color": self.color, "linestyle": self.pattern, "marker": self.mark, "markersize": size, **solid}


def drawable(name: str) -> str:
    """Returns a name for drawing: without characters that no font has, and cut to a picture's width."""
    return shortened(escaped(name), LONGEST)


def looks_of(names: Sequence[Name]) -> dict[Name, Look]:
    """Returns a distinct line style for each name: first all colors solid, then all dashed, and so on."""
    looks = (Look(color, pattern, mark) for mark, pattern, color in cycle(product(MARKS, PATTERNS, COLORS)))
    return dict(zip(names, looks, strict=False))


def load_matplotlib() -> Any:
    """Imports matplotlib, also if MPLBACKEND names a backend that is not installed, as in commands that a notebook
    starts; a plain import would fail."""
    if "matplotlib" not in sys.modules and (named := os.environ.pop("MPLBACKEND", None)):
        try:
            import matplotlib

            with suppress(ValueError):  # it has no such backend
                matplotlib.rcParams["backend"] = named
        finally:
            os.environ["MPLBACKEND"] = named
    import matplotlib

    return matplotlib


def load_pyplot() -> Any:
    """Returns matplotlib's pyplot; if its backend cannot be loaded, one without windows."""
    matplotlib = load_matplotlib()
    from matplotlib import pyplot

    try:
        pyplot.switch_backend(matplotlib.get_backend())
    except ImportError:
        pyplot.switch_backend("agg")
    return pyplot


def new_figure(width: float, height: float, dpi: int = 160) -> Figure:
    """Returns an empty picture of this size in inches; it needs no display and no state of pyplot."""
    load_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    # notebooks show it, also where pyplot was never imported
    setattr(figure, "_repr_mimebundle_", partial(_shown, figure))  # noqa: B010
    return figure


def _shown(figure: Figure, **_: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a picture for a notebook by content type, and how wide it is shown; as HTML dark in a dark theme."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(drawn := io.BytesIO(), format="png", bbox_inches="tight", pad_inches=0.2)
    width = round(72 * figure.get_figwidth())
    picture = base64.b64encode(drawn.getvalue()).decode()
    image = f'<img class="palaestra-figure" width="{width}" src="data:image/png;base64,{picture}"/>'
    return {"image/png": picture, "text/html": f"<style>{DARK}</style>{image}"}, {"image/png": {"width": width}}


def save(figure: Figure, file: Path, *, crop: bool = True) -> None:
    """Writes a picture in its suffix's format; `crop` cuts off empty edges, at twice the time. Raises RunError."""
    kinds = figure.canvas.get_supported_filetypes()
    kind = file.suffix.removeprefix(".").lower()
    if kind not in kinds:
        known = ", .".join(sorted(kinds))
        raise RunError(f"cannot write a picture named '{file}': the name must end in one of .{known}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():  # a name in letters that the font lacks shows boxes, which is harmless
            warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
            tight = {"bbox_inches": "tight", "pad_inches": 0.25} if crop else {}
            figure.savefig(drawn := io.BytesIO(), format=kind, **tight)
        write_whole(file, drawn.getvalue())  # in place of a link of that name, which may lead elsewhere
    except OSError as error:
        raise RunError(f"cannot write {file}: {explain(error)}") from error


def add_title(axes: Axes, title: str, below: Iterable[str]) -> None:
    """Sets the title of a panel, and below it the non-empty subtitles in small letters."""
    axes.set_title(drawable(title), loc="left", fontsize=14, fontweight="bold", color=INK, pad=28, parse_math=False)
    text = SEPARATOR.join(drawable(part) for part in below if part)
    letters = {"fontsize": 10, "color": SOFT, "parse_math": False}
    axes.annotate(text, (0, 1), (0, 12), xycoords="axes fraction", textcoords="offset points", **letters)


def add_grid(axes: Axes, size: float, pad: float = 5) -> None:
    """Gives a panel horizontal lines in place of its frame, and tick labels in letters of this size."""
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, labelsize=size, labelcolor=SOFT, pad=pad)


def dress(axes: Axes, size: float) -> None:
    """Gives a panel its grid, and ticks at round numbers in letters of this size."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    add_grid(axes, size)
    axes.margins(x=0.01, y=0.08)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(_most_ticks(size), steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e5 else f"{value:,.0f}")
        )


def dress_x(axes: Axes, last: float, size: float, label: str = "decisions") -> None:
    """Gives a panel an x axis from 0 to `last`, or to a round number just above it; the end always has a label."""
    ticks = ticks_to(last, _most_ticks(size))
    axes.set_xlim(0, max(ticks[-1], last) * 1.005 or 1.0)
    axes.set_xticks(ticks, [short_number(tick) for tick in ticks])
    axes.set_xlabel(label, fontsize=size, color=SOFT, labelpad=size - 2)


def _most_ticks(size: float) -> int:
    return 6 if size > 9 else 5


def ticks_to(last: float, most: int) -> list[float]:
    """Returns evenly spaced round numbers from 0 to about `last`, or to `last` itself if no round number is near.

    `most`: the largest number of intervals between ticks.
    """
    if not last > 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(last))
    steps = [part * power for part in (0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0)]
    few = [(step, spaces) for step in steps if 2 <= (spaces := math.ceil((1 - SHORT) * last / step)) <= most]
    round_ends = [(step, spaces) for step, spaces in few if step * spaces <= (1 + OVER) * last]
    step, spaces = (round_ends or few)[0]
    ticks = [step * i for i in range(spaces + 1)]
    return ticks if round_ends else [*(tick for tick in ticks if last - tick > 0.6 * step), last]


def short_number(value: float) -> str:
    """Returns a number as a short label: 500000 is 500k, 1250000 is 1.25M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]]) -> None:
    """Writes names beside the ends of the lines, moved apart if they would overlap."""
    low, high = axes.get_ylim()
    gap = 14.0 / (axes.get_window_extent().height / axes.figure.dpi * 72)  # a line of text, in parts of the height
    order = sorted(ends, key=lambda end: end[2])
    heights = np.array([(end - low) / (high - low) for _, _, end in order])
    for _ in range(200):  # neighbors push each other until all have room
        push = np.clip(gap - np.diff(heights), 0.0, None) / 2
        heights[:-1] -= push
        heights[1:] += push
    for (label, color, _), height in zip(order, heights, strict=True):
        axes.annotate(
            drawable(label),
            (1, height),
            (8, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=color,
            fontsize=10,
            fontweight="bold",
            parse_math=False,
        )


def legend_beside(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Adds a legend to the right of all panels, with enough columns to be no higher than the panels."""
    high = max(1, int(figure.get_figheight() * 72 * (figure.subplotpars.top - figure.subplotpars.bottom) / 15))
    place = {"loc": "upper left", "bbox_to_anchor": (figure.subplotpars.right + 0.015, figure.subplotpars.top + 0.02)}
    columns = math.ceil(len(looks) / high)
    add_entries(figure, looks, fontsize=9.5, handlelength=3.0, ncols=columns, columnspacing=1.2, **place)


def add_entries(figure: Figure, looks: Mapping[str, Look], **options: Any) -> None:
    """Adds a legend with these names."""
    from matplotlib.lines import Line2D

    # labels begin with a blank because one that began with "_" would be hidden
    handles = [
        Line2D([], [], linewidth=2.0, label=f" {drawable(name)}", **look.options(4.5)) for name, look in looks.items()
    ]
    legend = figure.legend(handles=handles, frameon=False, labelcolor=INK, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def time_unit(curves: Iterable[Points]) -> tuple[float, str]:
    """Returns the time unit that suits the longest curve: its length in seconds, and its name."""
    longest = max(float(points.seconds.max()) for points in curves)
    return (1.0, "seconds") if longest < 180 else (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")
