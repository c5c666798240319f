"""Draws a comparison: each group's curve as a band in every task, and the estimates on the right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from palaestra.runtime.comparison.intervals import Estimate, band
from palaestra.runtime.comparison.scores import ComparedRuns, resampled
from palaestra.runtime.plots import chart_style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDEST = 3
"""Most panels side by side."""
MOST_ABOVE = 8
"""Number of groups whose names have room above their estimates."""
NAMES_BETWEEN = 1.45
"""Inches between two panels with room for names of up to twelve letters."""


def comparison_figure(found: ComparedRuns, *, by_time: bool = False) -> Figure:
    """Draws a panel with bands for each task, and a panel with the estimates, over all tasks or for each task."""
    looks = style.looks_of([group.name for group in found.groups])
    estimates = (
        {"over all tasks": found.overall} if found.overall else {task: _scores(found, task) for task in found.tasks}
    )
    panels = len(found.tasks) + len(estimates)
    columns = 2 if panels == 4 else min(panels, WIDEST)
    rows = math.ceil(panels / columns)
    room = _room(looks) if panels == 2 else 0.0
    width = 5.6 * columns + room
    figure = style.new_figure(width, 4.1 * rows)
    grid = figure.add_gridspec(rows, columns, width_ratios=(3, 2) if panels == 2 else None)
    places = iter([figure.add_subplot(grid[at // columns, at % columns]) for at in range(panels)])
    for task in found.tasks:
        _bands(next(places), found, task, looks, by_time=by_time, single=panels == 2)
    for title, values in estimates.items():
        _estimates(next(places), title if len(estimates) > 1 else "", values, looks, found)
    drawn = width * (figure.subplotpars.right - figure.subplotpars.left)
    between = NAMES_BETWEEN + room
    figure.subplots_adjust(wspace=2 * between / (drawn - between) if panels == 2 else 0.3, hspace=0.6)
    if panels > 2:
        style.legend_beside(figure, looks)
    return figure


def _room(names: Iterable[str]) -> float:
    """Returns the additional inches that long names need between two panels."""
    longest = max(len(style.drawable(name)) for name in names)
    return min(max(0.0, 0.3 + 0.094 * longest - NAMES_BETWEEN), 3.0)


def _scores(found: ComparedRuns, task: str) -> dict[str, Estimate]:
    return {group.name: one.score for group in found.groups if (one := found.results.get((group.name, task)))}


def _bands(
    axes: Axes, found: ComparedRuns, task: str, looks: Mapping[str, style.Look], *, by_time: bool, single: bool
) -> None:
    results = {group.name: one for group in found.groups if (one := found.results.get((group.name, task)))}
    curves = [run.curve for one in results.values() for run in one.runs]
    seconds, unit = style.time_unit(curves) if by_time else (1.0, "")
    ends = []
    last = 0.0
    for name, one in results.items():
        x, values = resampled([run.curve for run in one.runs], by_time=by_time)
        middle, low, high = band(values, confidence=found.measure.confidence)
        look = looks[name]
        axes.fill_between(x / seconds, low, high, color=look.color, alpha=0.18, linewidth=0)
        options = look.options(4.5) if len(x) > 1 else {**look.options(6.0), "marker": "o"}
        axes.plot(x / seconds, middle, linewidth=1.9, markevery=max(1, len(x) // 12), **options)
        ends.append((name, look.color, float(middle[-1])))
        last = max(last, float(x[-1] / seconds))
    if found.measure.bar is not None:
        axes.axhline(found.measure.bar, color=style.SOFT, linewidth=1.0, linestyle=(0, (4, 3)))
        place = {
            "xycoords": ("axes fraction", "data"),
            "textcoords": "offset points",
            "va": "top" if found.measure.lower else "bottom",
        }
        axes.annotate(f"{found.measure.bar:g}", (0, found.measure.bar), (3, 0), fontsize=9, color=style.SOFT, **place)
    style.dress(axes, 9.5)
    style.dress_x(axes, last, 9.5, f"training time ({unit})" if by_time else "decisions")
    metric = found.metrics[task].rpartition("/")[2]
    style.add_title(axes, metric, (task, f"interquartile mean, {100 * found.measure.confidence:g} % interval"))
    if single and 1 < len(ends) <= len(style.COLORS):
        style.label_ends(axes, ends)


def _estimates(
    axes: Axes, task: str, values: Mapping[str, Estimate], looks: Mapping[str, style.Look], found: ComparedRuns
) -> None:
    for row, (name, one) in enumerate(values.items()):
        color = looks[name].color
        if one.low is not None and one.high is not None:
            axes.plot([one.low, one.high], [row, row], color=color, linewidth=7, alpha=0.3, solid_capstyle="butt")
        axes.plot([one.value], [row], color=color, marker="o", markersize=8, linestyle="")
    style.dress(axes, 9.5)
    axes.margins(x=0.06)
    beside = len(values) > MOST_ABOVE
    axes.set_yticks(range(len(values)) if beside else [], [style.drawable(name) for name in values] if beside else [])
    for label in axes.get_yticklabels():
        label.set(parse_math=False, color=style.INK)
    for row, name in enumerate([] if beside else values):
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(style.drawable(name), (0, row), (0, 8), fontsize=9.5, color=style.INK, parse_math=False, **place)
    axes.set_ylim(max(len(values), 4) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.GRID, linewidth=0.8)
    span = f"last {100 * found.measure.last:g} %" if found.measure.last else "last value"
    style.add_title(axes, "Score", (task, span, "normalized" if found.ranges else ""))
