"""Learning curves, drawn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.errors import RunError
from palaestra.runtime.files import explain
from palaestra.runtime.history import History, Points, read_history, tags
from palaestra.runtime.tracker import GROUP_REWARD, LENGTH, REWARD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVERVIEW = (REWARD, GROUP_REWARD, LENGTH, "Policy/Entropy", "Losses/Policy Loss", "Losses/Value Loss", "Policy/Learning Rate")
"""Panels of the picture that a run ends with."""
COLORS = ("#2f6fd0", "#d1495b", "#2a9d6f", "#e08e1b", "#7b52ab", "#0f9bb0", "#8c6d46", "#c2569b")
INK, SOFT, GRID = "#22262b", "#6d757e", "#e4e7eb"


def learning_curves(runs: Mapping[str, History], metric: str, *, by_time: bool = False, smooth: float = 0.0) -> Figure:
    """One metric, a line a run and behavior. `smooth` is the weight of the past in an exponential mean, 0 to below 1."""
    figure = _figure(8.0, 4.5)
    axes = figure.add_subplot()
    curves = {(run, name): tagged[metric] for run, history in runs.items() for name, tagged in history.items() if metric in tagged}
    labels = _labels(list(curves))
    seconds, unit = _unit(curves.values()) if by_time else (1.0, "")
    ends = []
    for label, points, color in zip(labels, curves.values(), cycle(COLORS), strict=False):
        ends.append((label, color, _draw(axes, points.seconds / seconds if by_time else points.step, points.value, color, smooth)))
    _dress(axes, 9.5)
    if by_time:
        axes.set_xlabel(f"training time ({unit})", fontsize=9.5, color=SOFT, labelpad=8)
    group, _, title = metric.rpartition("/")
    axes.set_title(title, loc="left", fontsize=14, fontweight="bold", color=INK, pad=28, parse_math=False)
    said = (group, labels[0] if len(labels) == 1 else "", f"smoothed {smooth:g}" if smooth else "")
    axes.annotate(
        "  ·  ".join(part for part in said if part),
        (0, 1),
        (0, 12),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
        color=SOFT,
        parse_math=False,
    )
    if len(ends) > 1:
        _label_ends(axes, ends)
    return figure


def overview(history: History) -> Figure:
    """The most telling metrics of one run in a small grid."""
    panels = [tag for tag in OVERVIEW if any(tag in tagged for tagged in history.values())] or tags([history])[:6]
    if GROUP_REWARD in panels:
        panels.remove(REWARD)  # of agents that are rewarded as a group it is 0 all along, or little
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = _figure(3.9 * columns, 2.6 * rows)
    for at, tag in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        for tagged, color in zip(history.values(), cycle(COLORS), strict=False):
            if tag in tagged:
                _draw(axes, tagged[tag].step, tagged[tag].value, color, 0.0)
        _dress(axes, 8.0)
        axes.set_title(tag.rpartition("/")[2], loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=9, parse_math=False)
    figure.subplots_adjust(wspace=0.28, hspace=0.62)
    _legend(figure, history)
    return figure


def save(figure: Figure, file: Path) -> None:
    """Writes a picture; the ending says which kind. Raises RunError."""
    kinds = figure.canvas.get_supported_filetypes()
    if file.suffix.removeprefix(".").lower() not in kinds:
        raise RunError(f"cannot write a picture named '{file}': the name must end in one of .{', .'.join(sorted(kinds))}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():  # a name in letters that the font lacks shows boxes; that is all there is to it
            warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
            figure.savefig(file, bbox_inches="tight", pad_inches=0.25)
    except OSError as error:
        raise RunError(f"cannot write {file}: {explain(error)}") from error


def save_curves(run: Path) -> Path:
    """The overview of a run, as `<run>/curves.png`. Raises RunError."""
    file = run / "curves.png"
    save(overview(read_history(run)), file)
    return file


def smoothed(values: np.ndarray, weight: float) -> np.ndarray:
    """Exponential mean, without the pull of its start toward zero."""
    total, norm, out = 0.0, 0.0, np.empty_like(values)
    for i, value in enumerate(values):
        total, norm = weight * total + value, weight * norm + 1.0
        out[i] = total / norm
    return out


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)  # no display, no state of pyplot's
    return figure


def _draw(axes: Axes, x: np.ndarray, y: np.ndarray, color: str, smooth: float) -> float:
    """One line; gives the height it ends at."""
    if smooth:
        axes.plot(x, y, color=color, alpha=0.25, linewidth=1.0)
        y = smoothed(y, smooth)
    axes.plot(x, y, color=color, linewidth=1.8, solid_capstyle="round", solid_joinstyle="round", marker="o" if len(x) == 1 else None)
    return float(y[-1])


def _dress(axes: Axes, size: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, labelsize=size, labelcolor=SOFT, pad=5)
    axes.margins(x=0.01, y=0.08)
    axes.set_xlim(left=0)
    ticks = 6 if size > 9 else 5
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e5 else f"{value:,.0f}"))
    axes.set_xlabel("agent-steps", fontsize=size, color=SOFT, labelpad=size - 2)


def _label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]]) -> None:
    """Names beside the lines' ends, moved apart where they would touch."""
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
            label,
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


def _legend(figure: Figure, behaviors: Iterable[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color, linewidth=2.4, label=f" {name}") for name, color in zip(behaviors, cycle(COLORS), strict=False)]
    legend = figure.legend(  # labels begin with a blank because one that began with "_" would be hidden
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(figure.subplotpars.left - 0.012, 0.95),
        ncols=min(len(handles), 5),
        frameon=False,
        fontsize=11,
        labelcolor=INK,
        handlelength=1.0,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _labels(keys: Sequence[tuple[str, str]]) -> list[str]:
    """What tells the lines apart: run, behavior, or both."""
    runs, behaviors = {run for run, _ in keys}, {name for _, name in keys}
    if len(runs) == 1 and len(keys) > 1:
        return [name for _, name in keys]
    if len(behaviors) == 1 and len(keys) > 1:
        return [run for run, _ in keys]
    return [f"{run}  ·  {name}" for run, name in keys]


def _unit(curves: Iterable[Points]) -> tuple[float, str]:
    """Seconds in the unit that fits, and its name."""
    longest = max(float(points.seconds.max()) for points in curves)
    return (1.0, "seconds") if longest < 180 else (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")
