"""Draws demonstrations: rewards by episode, actions, and observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from palaestra.demos.summary import BINS, DemoSummary
from palaestra.runtime.plots.chart_style import COLORS, INK, SEPARATOR, SOFT, add_grid, drawable, new_figure, ticks_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_FILES = 50
"""Most files that one picture shows."""
MOST_NUMBERS = 400
"""Largest number of observation values whose ranges are drawn; of more values, evenly spaced ones are drawn."""
MOST_NAMED = 6
"""Largest number of continuous actions or observations that are named in a panel."""
Panel: TypeAlias = "Callable[[Axes, DemoSummary, Sequence[str]], None]"
_SIZE = 8.0  # of labels
_WIDTH, _HEIGHT, _TOP, _BOTTOM = 4.0, 2.9, 0.6, 0.65  # inches: of a panel, and above and below its axes


def demo_figure(summaries: Sequence[DemoSummary]) -> Figure:
    """Draws a row of panels for each of the first MOST_FILES files: rewards, actions, ranges of observations."""
    shown = summaries[:MOST_FILES]
    kinds = [_kinds(summary) for summary in shown]
    columns = max(len(drawn) for drawn in kinds)
    height = _HEIGHT * len(shown) + 0.2
    figure = new_figure(_WIDTH * columns, height, 130 if len(shown) < 8 else 80)
    for row, (summary, drawn, color) in enumerate(zip(shown, kinds, cycle(COLORS), strict=False)):
        colors = [color, *(other for other in COLORS if other != color)]
        for column, draw in enumerate(drawn):
            axes = figure.add_subplot(len(shown), columns, columns * row + column + 1)
            draw(axes, summary, colors)
            if column == 0:
                _name(axes, summary)
    left, right = 0.6 / (_WIDTH * columns), 1 - 0.15 / (_WIDTH * columns)
    inner = _HEIGHT - _TOP - _BOTTOM
    figure.subplots_adjust(left, _BOTTOM / height, right, 1 - (_TOP + 0.2) / height, 0.2, (_TOP + _BOTTOM) / inner)
    return figure


def _kinds(summary: DemoSummary) -> list[Panel]:
    spec = summary.demo.spec.action
    continuous = [_continuous] if spec.continuous else []
    discrete = [_discrete] if spec.branches else []
    return [_rewards, *continuous, *discrete, _ranges]


def _name(axes: Axes, summary: DemoSummary) -> None:
    """Writes the file's name and a summary of it above its row of panels."""
    done = summary.ended + summary.truncated
    facts = (f"{summary.pairs:,} decisions", f"{done:,} episode{'' if done == 1 else 's'}")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "parse_math": False}
    name = axes.annotate(
        drawable(Path(summary.demo.title).name), (0, 1), (0, 29), fontsize=12, fontweight="bold", color=INK, **place
    )
    text = SEPARATOR.join(drawable(part) for part in (summary.demo.behavior, *facts))
    axes.annotate(
        text, (1, 0), (10, 1.5), xycoords=name, textcoords="offset points", fontsize=9, color=SOFT, parse_math=False
    )


def _rewards(axes: Axes, summary: DemoSummary, colors: Sequence[str]) -> None:
    """Draws the return of each episode; also its group's return, if groups were rewarded."""
    own = np.array(summary.returns)
    group = np.array(summary.group_returns)
    if not len(own):
        _say(axes, "Reward of each episode", "no episode")
        return
    lines = {"own": own, "group": group} if group.any() else {"": own}
    if group.any() and not own.any():
        lines = {"group": group}
    numbers = np.arange(1, len(own) + 1)
    for (name, values), color in zip(lines.items(), colors, strict=False):
        mark = "o" if len(values) < 60 else None
        axes.plot(numbers, values, color=color, linewidth=1.4, marker=mark, markersize=3.5, label=name)
    _dress(axes, "Reward of each episode", "episode", "of the group" if [*lines] == ["group"] else "")
    axes.set_xticks(whole_ticks(1, len(own)))
    axes.set_xlim(1 - 0.02 * len(own), len(own) * 1.02)
    if np.ptp(np.concatenate([*lines.values()])) == 0:  # else the axis shows digits of nothing
        axes.set_ylim(own[0] - 1, own[0] + 1)
    if len(lines) > 1:
        _legend(axes)


def _continuous(axes: Axes, summary: DemoSummary, colors: Sequence[str]) -> None:
    """Draws a histogram of each continuous action, as shares of all decisions."""
    if not summary.pairs:
        _say(axes, "Continuous actions", "no decisions")
        return
    edges = np.linspace(-1, 1, BINS + 1)
    for i, (counts, color) in enumerate(zip(summary.histogram, cycle(colors), strict=False)):
        axes.stairs(counts / summary.pairs, edges, color=color, linewidth=1.2, alpha=0.8, label=f"{i}")
    _dress(axes, "Continuous actions", "value", "share of decisions", shares=True)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "-0.5", "0", "0.5", "1"])
    if 1 < len(summary.histogram) <= MOST_NAMED:
        _legend(axes)


def _discrete(axes: Axes, summary: DemoSummary, colors: Sequence[str]) -> None:
    """Draws how often each choice was taken, as shares of all decisions, branch beside branch."""
    if not summary.pairs:
        _say(axes, "Discrete actions", "no decisions")
        return
    at = 0.0
    ticks: list[tuple[float, str]] = []
    several = len(summary.choices) > 1
    step = max(1, math.ceil(sum(map(len, summary.choices)) / 16))
    for branch, (counts, color) in enumerate(zip(summary.choices, cycle(colors), strict=False)):
        places = at + np.arange(len(counts))
        axes.bar(places, counts / summary.pairs, color=color, width=0.8)
        ticks += [(place, f"{choice}") for choice, place in enumerate(places) if choice % step == 0]
        if several and len(summary.choices) <= MOST_NAMED:
            below = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"branch {branch}", (places.mean(), 0), (0, -26), fontsize=_SIZE, color=color, **below)
        at = places[-1] + 2.0
    _dress(axes, "Discrete actions", "" if several else "choice", "share of decisions", shares=True)
    axes.set_xticks([place for place, _ in ticks], [label for _, label in ticks])


def _ranges(axes: Axes, summary: DemoSummary, colors: Sequence[str]) -> None:
    """Draws the range and the mean of each observation value."""
    several = len(summary.obs) > 1
    width = sum(min(len(seen.least), MOST_NUMBERS // len(summary.obs)) for seen in summary.obs)
    thick = min(5.0, max(0.6, 110 / max(width, 1)))
    at = 0
    for spec, seen, color in zip(summary.demo.spec.obs, summary.obs, cycle(colors), strict=False):
        size = len(seen.least)
        chosen = np.unique(np.linspace(0, size - 1, min(size, max(1, MOST_NUMBERS // len(summary.obs)))).astype(int))
        places = at + np.arange(len(chosen)) if several else chosen
        there = seen.count[chosen] > 0
        drawn = chosen[there]
        axes.vlines(places[there], seen.least[drawn], seen.greatest[drawn], color=color, alpha=0.35, linewidth=thick)
        axes.plot(places[there], seen.mean[drawn], ".", color=color, markersize=4 if width < 60 else 2.5)
        if several and len(summary.obs) <= MOST_NAMED:
            middle = at + (len(chosen) - 1) / 2
            below = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center"}
            text = _short(spec.name, max(8, int(90 * len(chosen) / width)))
            row = 0 if len(summary.obs) < 3 else len(axes.texts) % 2
            letters = {"fontsize": _SIZE - 1, "color": color, "parse_math": False}
            axes.annotate(text, (middle, 0), (0, -12 - 11 * row), **letters, **below)
        at += len(chosen) + 2
    _dress(axes, "Observations", "" if several else "index", "minimum to maximum, dot: mean")
    size = len(summary.obs[0].least) if summary.obs else 0
    axes.set_xticks([] if several or not size else whole_ticks(0, size - 1))
    if not several:
        axes.set_xlim(-0.5, max(size, 1) - 0.5)


def whole_ticks(first: int, last: int, most: int = 7) -> list[int]:
    """Returns whole numbers from `first` to `last`, evenly spaced between them."""
    if last - first < 2:
        return list(range(first, last + 1))
    step = max(1, math.ceil(np.diff(ticks_to(last - first, most))[0]))
    inner = range(math.ceil(first / step) * step, last, step)
    return [first, *(tick for tick in inner if min(tick - first, last - tick) >= 0.6 * step), last]


def _short(name: str, most: int) -> str:
    name = drawable(name)
    return name if len(name) <= most else f"{name[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _say(axes: Axes, title: str, text: str) -> None:
    """Writes a sentence in place of a panel's axes."""
    _title(axes, title)
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=10, color=SOFT)


def _title(axes: Axes, title: str, aside: str = "") -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=INK, pad=8)
    axes.set_title(aside, loc="right", fontsize=_SIZE, color=SOFT, pad=8)


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=_SIZE, labelcolor=SOFT, handlelength=1.2, loc="best")


def _dress(axes: Axes, title: str, below: str, aside: str, *, shares: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    add_grid(axes, _SIZE, 3.5)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g}%" if shares else f"{value:,.4g}"))
    _title(axes, title, aside)
    axes.set_xlabel(below, fontsize=_SIZE, color=SOFT)
