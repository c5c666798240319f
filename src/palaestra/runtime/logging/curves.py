"""Draws learning curves: metrics of one or several runs over their steps or time."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.display import escaped, shortened
from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.core.metrics import ELO, GROUP_REWARD, LENGTH, REWARD
from palaestra.runtime.logging.history import History, Points, read_history, tags

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = tuple[str, str]
"""Run and behavior of a line."""

SKILL, LEARNING_RATE = "Self-play/Skill", "Policy/Learning Rate"
RATINGS = {ELO, SKILL}
OVERVIEW = (
    REWARD,
    GROUP_REWARD,
    ELO,
    SKILL,
    LENGTH,
    "Policy/Entropy",
    "Losses/Policy Loss",
    "Losses/Value Loss",
    LEARNING_RATE,
)
"""Panels of `curves.png`. The learning rate is left out in self-play."""
COLORS = ("#2f6fd0", "#d1495b", "#2a9d6f", "#e08e1b", "#7b52ab", "#0f9bb0", "#8c6d46", "#c2569b")
PATTERNS = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 1.5, 1.2, 1.5)))
"""Line styles: solid, dashed, dotted, dash and dot. When colors and line styles are used up, lines get marks too."""
MARKS = (None, "o", "s", "^", "D", "v")
LEGEND_COLUMNS, LEGEND_LETTERS = 5, 30
"""Number of behaviors, and total length of their names, that fit into the legend above the panels of one run."""
MOST_DRAWN, MOST_PANELS = 1000, 64
"""Curves and panels of a picture, at most: time and memory grow with them."""
LONGEST = 120
"""Letters of a name that are drawn, at most."""
INK, SOFT, GRID = "#22262b", "#6d757e", "#e4e7eb"


def learning_curves(
    runs: Mapping[str, History], metrics: Sequence[str], *, by_time: bool = False, smooth: float = 0.0
) -> Figure:
    """Draws a line for each run and behavior, in a panel for each metric.

    `smooth` is the weight of the past in an exponential mean, from 0 to below 1. A line has the same color and pattern
    in all panels. Names stand at the ends of the lines; with many lines or several panels, in a legend. Raises RunError
    for more than a picture can show.
    """
    keys = [
        (run, name)
        for run, history in runs.items()
        for name, tagged in history.items()
        if any(tag in tagged for tag in metrics)
    ]
    if len(keys) > MOST_DRAWN:
        raise RunError(
            f"the runs have {len(keys):,} curves together; a picture shows at most {MOST_DRAWN:,}: draw fewer runs"
        )
    if len(metrics) > MOST_PANELS:
        raise RunError(
            f"{len(metrics):,} metrics are asked for; a picture shows at most {MOST_PANELS}: name fewer with --metric"
        )
    labels = _labels(keys)
    looks = dict(zip(keys, _looks(), strict=False))
    columns = 2 if len(metrics) == 4 else min(len(metrics), 3)
    rows = math.ceil(len(metrics) / columns)
    figure = new_figure(8.0, 4.5) if len(metrics) == 1 else new_figure(5.6 * columns, 3.9 * rows)
    order = dict.fromkeys(keys, -math.inf)  # where lines end in the first panel
    apart = len(metrics) == 1 and 1 < len(keys) <= len(COLORS)
    for at, metric in enumerate(metrics):
        axes = figure.add_subplot(rows, columns, at + 1)
        curves = {(run, name): runs[run][name][metric] for run, name in keys if metric in runs[run][name]}
        seconds, unit = time_unit(curves.values()) if by_time else (1.0, "")
        ends = {}
        for key, points in curves.items():
            x = points.seconds / seconds if by_time else points.step
            ends[key] = _draw(axes, x, points.value, looks[key], smooth)
        dress(axes, 9.5)
        if by_time:
            axes.set_xlabel(f"training time ({unit})", fontsize=9.5, color=SOFT, labelpad=8)
        _title(axes, metric, drawable(labels[keys[0]]) if len(keys) == 1 else "", smooth)
        if apart:
            label_ends(axes, [(labels[key], looks[key].color, end) for key, end in ends.items()])
        order |= ends if at == 0 else {}
    if len(metrics) > 1:
        figure.subplots_adjust(wspace=0.22, hspace=0.62)
    if len(keys) > 1 and not apart:
        legend_beside(figure, {labels[key]: looks[key] for key in sorted(keys, key=lambda key: -order[key])})
    return figure


def overview(history: History) -> Figure:
    """Draws the most important metrics of one run in a small grid."""
    panels = [tag for tag in OVERVIEW if any(tag in tagged for tagged in history.values())] or tags([history])[:6]
    if GROUP_REWARD in panels:
        panels.remove(REWARD)  # for agents that are rewarded as a group it is 0 or small
    if RATINGS & set(panels) and LEARNING_RATE in panels:
        panels.remove(LEARNING_RATE)  # in self-play, rewards say little about progress
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = 3.9 * columns + 0.3
    height = 2.6 * rows + 0.5
    figure = new_figure(width, height)
    looks = dict(zip(history, _looks(), strict=False))
    for at, tag in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        for name, tagged in history.items():
            if tag in tagged:
                _draw(axes, tagged[tag].step, tagged[tag].value, looks[name], 0.0)
        dress(axes, 8.0)
        title = "Elo" if tag == ELO else tag.rpartition("/")[2]
        letters = {"fontsize": 10.5, "fontweight": "bold", "color": INK}
        axes.set_title(drawable(title), loc="left", pad=9, parse_math=False, **letters)
    figure.subplots_adjust(0.75 / width, 0.6 / height, 1 - 0.25 / width, 1 - 0.85 / height, wspace=0.28, hspace=0.62)
    _legend(figure, looks)
    return figure


def save(figure: Figure, file: Path, *, crop: bool = True) -> None:
    """Writes a picture in its suffix's format; `crop` fits its edges, at twice the time. Raises RunError."""
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


def save_curves(run: Path) -> Path:
    """Draws the overview of a run as `<run>/curves.png`. Raises RunError."""
    file = run / "curves.png"
    history = read_history(run)
    wide = len(history) > LEGEND_COLUMNS or sum(map(len, history)) > LEGEND_LETTERS
    save(overview(history), file, crop=wide)
    return file


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


def _looks() -> Iterator[Look]:
    """Yields line styles without end: first all colors solid, then all dashed, and so on."""
    return (Look(color, pattern, mark) for mark, pattern, color in cycle(product(MARKS, PATTERNS, COLORS)))


def smoothed(values: np.ndarray, weight: float) -> np.ndarray:
    """Returns the exponential mean, corrected for its start at zero."""
    total = 0.0
    norm = 0.0
    out = np.empty_like(values)
    for i, value in enumerate(values):
        total = weight * total + value
        norm = weight * norm + 1.0
        out[i] = total / norm
    return out


def drawable(name: str) -> str:
    """Returns a name as it is drawn: without characters that no font has, and no longer than a picture is wide."""
    return shortened(escaped(name), LONGEST)


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """Returns a line style of its own for each name."""
    return dict(zip(names, _looks(), strict=False))


def new_figure(width: float, height: float, dpi: int = 160) -> Figure:
    """Returns an empty picture of this size in inches; it needs no display and no state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _draw(axes: Axes, x: np.ndarray, y: np.ndarray, look: Look, smooth: float) -> float:
    """Draws one line and returns the height of its end."""
    if smooth:
        axes.plot(x, y, color=look.color, alpha=0.25, linewidth=1.0)
        y = smoothed(y, smooth)
    options = look.options(4.5) if look.mark or len(x) > 1 else {**look.options(6.0), "marker": "o"}
    axes.plot(x, y, linewidth=1.8, markevery=max(1, len(x) // 12), **options)
    return float(y[-1])


def _title(axes: Axes, metric: str, line: str, smooth: float) -> None:
    """Sets the title: the metric, and in small letters its group, the name of the only line, the smoothing."""
    group, _, title = metric.rpartition("/")
    axes.set_title(drawable(title), loc="left", fontsize=14, fontweight="bold", color=INK, pad=28, parse_math=False)
    subtitle = "  ·  ".join(part for part in (drawable(group), line, f"smoothed {smooth:g}" if smooth else "") if part)
    axes.annotate(
        subtitle,
        (0, 1),
        (0, 12),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
        color=SOFT,
        parse_math=False,
    )


def add_grid(axes: Axes, size: float, pad: float = 5) -> None:
    """Gives a panel horizontal lines in place of its frame, and labels of ticks in letters of this size."""
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, labelsize=size, labelcolor=SOFT, pad=pad)


def dress(axes: Axes, size: float, *, from_zero: bool = True) -> None:
    """Gives a panel its grid, ticks of round numbers in letters of this size, and steps from zero as its x."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    add_grid(axes, size)
    axes.margins(x=0.01, y=0.08)
    if from_zero:
        axes.set_xlim(left=0)
    ticks = 6 if size > 9 else 5
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e5 else f"{value:,.0f}")
        )
    axes.set_xlabel("agent-steps", fontsize=size, color=SOFT, labelpad=size - 2)


def label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]]) -> None:
    """Writes names beside the ends of the lines, moved apart where they would overlap."""
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


def _legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Adds a legend above all panels."""
    place = {
        "loc": "lower left",
        "bbox_to_anchor": (figure.subplotpars.left - 0.012, 1 - 0.5 / figure.get_figheight()),
        "ncols": min(len(looks), LEGEND_COLUMNS),
    }
    _entries(figure, looks, fontsize=11, handlelength=1.0 if len(looks) <= len(COLORS) else 2.6, **place)


def legend_beside(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Adds a legend to the right of all panels, with enough columns to be no higher than they are."""
    high = max(1, int(figure.get_figheight() * 72 * (figure.subplotpars.top - figure.subplotpars.bottom) / 15))
    place = {"loc": "upper left", "bbox_to_anchor": (figure.subplotpars.right + 0.015, figure.subplotpars.top + 0.02)}
    columns = math.ceil(len(looks) / high)
    _entries(figure, looks, fontsize=9.5, handlelength=3.0, ncols=columns, columnspacing=1.2, **place)


def _entries(figure: Figure, looks: Mapping[str, Look], **options: Any) -> None:
    from matplotlib.lines import Line2D

    # labels begin with a blank because one that began with "_" would be hidden
    handles = [
        Line2D([], [], linewidth=2.0, label=f" {drawable(name)}", **look.options(4.5)) for name, look in looks.items()
    ]
    legend = figure.legend(handles=handles, frameon=False, labelcolor=INK, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _labels(keys: Sequence[Key]) -> dict[Key, str]:
    """Returns labels that tell the lines apart: run, behavior, or both."""
    runs = {run for run, _ in keys}
    behaviors = {name for _, name in keys}
    if len(runs) == 1 and len(keys) > 1:
        return {key: key[1] for key in keys}
    if len(behaviors) == 1 and len(keys) > 1:
        return {key: key[0] for key in keys}
    return {key: "  ·  ".join(key) for key in keys}


def time_unit(curves: Iterable[Points]) -> tuple[float, str]:
    """Returns the time unit that suits the longest curve: its length in seconds, and its name."""
    longest = max(float(points.seconds.max()) for points in curves)
    return (1.0, "seconds") if longest < 180 else (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")
