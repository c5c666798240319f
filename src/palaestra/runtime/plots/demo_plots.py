"""Draws demonstrations: rewards by episode, actions, and observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palaestra.demos.summary import BINS, DemoSummary
from palaestra.runtime.plots.chart_style import COLORS, INK, SOFT, add_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERS = 400
"""Largest number of observation values whose ranges are drawn; of more values, evenly spaced ones are drawn."""
_SIZE = 8.0  # of labels


def demo_figure(summaries: Sequence[DemoSummary]) -> Figure:
    """Draws a row of three panels for each file: rewards, actions, ranges of observations."""
    figure = new_figure(12.0, 2.9 * len(summaries), 130 if len(summaries) < 8 else 80)
    for row, (summary, color) in enumerate(zip(summaries, cycle(COLORS), strict=False)):
        panels = [figure.add_subplot(len(summaries), 3, 3 * row + column + 1) for column in range(3)]
        _rewards(panels[0], summary, color)
        _actions(panels[1], summary, color)
        _ranges(panels[2], summary, color)
    figure.subplots_adjust(wspace=0.24, hspace=0.75)
    return figure


def _rewards(axes: Axes, summary: DemoSummary, color: str) -> None:
    returns = np.array(summary.returns)
    mark = "o" if len(returns) < 60 else None
    axes.plot(np.arange(1, len(returns) + 1), returns, color=color, linewidth=1.4, marker=mark, markersize=3.5)
    _dress(axes, f"{Path(summary.demo.title).name}  ·  reward", "episode")


def _actions(axes: Axes, summary: DemoSummary, color: str) -> None:
    """Draws continuous actions as lines and discrete ones as bars, each a share of all decisions."""
    decisions = max(summary.pairs, 1)
    if len(summary.histogram):
        centers = (np.arange(BINS) + 0.5) / (BINS / 2) - 1
        for counts, own in zip(summary.histogram, cycle((color, *COLORS)), strict=False):
            axes.step(centers, counts / decisions, where="mid", color=own, linewidth=1.2, alpha=0.8)
        _dress(axes, "continuous actions", "share of decisions by value")
        return
    at = 0.0
    ticks = []
    for branch, (counts, own) in enumerate(zip(summary.choices, cycle((color, *COLORS)), strict=False)):
        places = at + np.arange(len(counts))
        axes.bar(places, counts / decisions, color=own, width=0.8)
        ticks += [(place, f"{branch}:{i}" if len(summary.choices) > 1 else f"{i}") for i, place in enumerate(places)]
        at = places[-1] + 2.0
    _dress(axes, "discrete actions", "share of decisions by choice")
    step = math.ceil(len(ticks) / 14)
    axes.set_xticks([place for place, _ in ticks[::step]], [label for _, label in ticks[::step]])


def _ranges(axes: Axes, summary: DemoSummary, color: str) -> None:
    """Draws the range and the mean of each observation value."""
    at = 0
    for seen, own in zip(summary.obs, cycle((color, *COLORS)), strict=False):
        size = len(seen.least)
        chosen = np.unique(np.linspace(0, size - 1, min(size, max(1, MOST_NUMBERS // len(summary.obs)))).astype(int))
        chosen = chosen[seen.count[chosen] > 0]
        places = at + np.arange(len(chosen))
        axes.vlines(places, seen.least[chosen], seen.greatest[chosen], color=own, alpha=0.35, linewidth=0.6)
        axes.plot(places, seen.mean[chosen], ".", color=own, markersize=3)
        at += len(chosen) + 2
    _dress(axes, "observations", "number: least to greatest, mean")


def _dress(axes: Axes, title: str, below: str) -> None:
    from matplotlib.ticker import MaxNLocator

    add_grid(axes, _SIZE, 3.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=below == "episode"))
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=8, parse_math=False)
    axes.set_xlabel(below, fontsize=_SIZE, color=SOFT)
