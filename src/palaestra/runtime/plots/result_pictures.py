"""Draws the results of evaluations and searches: the rewards of single episodes, the values of single trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palaestra.runtime.plots.chart_style import COLORS, INK, SOFT, add_grid, drawable, looks_of, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 0.28
"""How far dots lie beside the middle of their column, at most."""


def episodes_figure(returns: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Draws a column of dots for each name, with the mean as a line and its standard error as a band."""
    looks = looks_of(list(returns))
    figure = new_figure(max(3.2, 1.7 * len(returns) + 1.4), 4.5)
    axes = figure.add_subplot()
    rng = np.random.default_rng(0)  # the same picture for the same episodes
    for at, (name, values) in enumerate(returns.items()):
        color = looks[name].color
        finite = values[np.isfinite(values)]
        axes.scatter(
            at + rng.uniform(-SPREAD, SPREAD, len(finite)), finite, s=14, color=color, alpha=0.45, linewidths=0
        )
        if not len(finite):
            continue
        mean = float(finite.mean())
        error = float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else 0.0
        axes.fill_between([at - 0.4, at + 0.4], mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
        axes.plot([at - 0.4, at + 0.4], [mean, mean], color=color, linewidth=2.2)
        axes.annotate(
            f"{mean:.4g}", (at, mean), (0, 5), textcoords="offset points", ha="center", color=INK, fontsize=9.5
        )
    add_grid(axes, 9.5)
    axes.set_xlim(-0.6, max(0.6, len(returns) - 0.4))
    axes.set_xticks(range(len(returns)), [drawable(name) for name in returns], color=INK)
    for label in axes.get_xticklabels():
        label.set_parse_math(False)
    axes.set_ylabel("reward of an episode", fontsize=9.5, color=SOFT)
    return figure


def trials_figure(values: Mapping[int, float], name: str, *, lower: bool) -> Figure:
    """Draws the value of each trial by its number, and the best so far as a line; `lower`: less is better."""
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    finite = {number: value for number, value in sorted(values.items()) if np.isfinite(value)}
    if finite:
        numbers: Sequence[int] = list(finite)
        best = (np.minimum if lower else np.maximum).accumulate(np.array(list(finite.values())))
        axes.scatter(numbers, list(finite.values()), s=26, color=COLORS[0], alpha=0.55, linewidths=0)
        axes.plot(numbers, best, color=COLORS[0], linewidth=1.8, drawstyle="steps-post")
    add_grid(axes, 9.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("trial", fontsize=9.5, color=SOFT)
    axes.set_ylabel(drawable(name), fontsize=9.5, color=SOFT, parse_math=False)
    return figure
