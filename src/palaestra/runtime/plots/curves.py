"""Draws learning curves: metrics of one or several runs over their decisions or time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.errors import PalaestraError, RunError
from palaestra.core.metrics import ELO, GROUP_REWARD, LENGTH, REWARD, SUCCESS
from palaestra.runtime.logging.history import History, read_history, tags
from palaestra.runtime.plots import chart_style as style
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.scenario.standing import WORST_RATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = tuple[str, str]
"""Run and behavior of a curve."""

SKILL, LEARNING_RATE = "Self-play/Skill", "Policy/Learning Rate"
OVERVIEW = (
    REWARD,
    GROUP_REWARD,
    ELO,
    SKILL,
    WORST_RATE,
    SUCCESS,
    LENGTH,
    "Policy/Entropy",
    "Losses/Policy Loss",
    "Losses/Value Loss",
    LEARNING_RATE,
)
"""Panels of `curves.png`. If there are ratings and a success rate, the learning rate is left out."""
UNITS = {
    REWARD: "per episode",
    GROUP_REWARD: "per group",
    SUCCESS: "share of episodes",
    LENGTH: "decisions after the first",
    ELO: "rating",
    WORST_RATE: "of all snapshots",
    "Policy/Entropy": "nats",
}
LEGEND_COLUMNS, LEGEND_LETTERS = 5, 60
"""Number of behaviors, and total length of their names, that fit into the legend above the panels of one run."""
MOST_DRAWN, MOST_PANELS = 1000, 64
"""Most curves and panels of a picture: time and memory grow with them."""
NOISY, LEAST_NOISY, WINDOW = 6.0, 20, 25
"""A curve of at least LEAST_NOISY points that goes up and down NOISY times its range is smoothed over 1 / WINDOW."""


def learning_curves(
    runs: Mapping[str, History],
    metrics: Sequence[str],
    *,
    by_time: bool = False,
    smooth: float | None = None,
    environment: str = "",
) -> Figure:
    """Draws a line for each run and behavior, in a panel for each metric.

    `smooth` is the weight of earlier values in an exponential mean, from 0 to below 1; None: noisy curves are smoothed
    in both directions, without a lag. A line has the same color and pattern in all panels. Names stand at the ends of
    the lines; with many lines or several panels, they stand in a legend. The titles name `environment`. Raises RunError
    if there are more lines or panels than a picture can show.
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
            f"{len(metrics):,} metrics are requested; a picture shows at most {MOST_PANELS}: name fewer with --metric"
        )
    labels = _labels(keys)
    looks = style.looks_of(keys)
    columns = 2 if len(metrics) == 4 else min(len(metrics), 3)
    rows = math.ceil(len(metrics) / columns)
    figure = style.new_figure(8.0, 4.5) if len(metrics) == 1 else style.new_figure(5.6 * columns, 3.9 * rows)
    order = dict.fromkeys(keys, -math.inf)  # where lines end in the first panel
    apart = len(metrics) == 1 and 1 < len(keys) <= len(style.COLORS)
    names = _named(runs, keys, environment)
    for at, metric in enumerate(metrics):
        axes = figure.add_subplot(rows, columns, at + 1)
        curves = {(run, name): runs[run][name][metric] for run, name in keys if metric in runs[run][name]}
        seconds, unit = style.time_unit(curves.values()) if by_time else (1.0, "")
        weight = smooth or 0.0
        line = partial(smoothed, weight=weight)
        if smooth is None:
            weight = smoothing([points.value for points in curves.values()])
            line = partial(smoothed_both_ways, weight=weight)
        ends = {}
        last = 0.0
        for key, points in curves.items():
            x = points.seconds / seconds if by_time else points.step
            ends[key] = _draw(axes, x, points.value, looks[key], line if weight else None)
            last = max(last, float(x.max()))
        style.dress(axes, 9.5)
        style.dress_x(axes, last, 9.5, f"training time ({unit})" if by_time else "decisions")
        how = f"smoothed {weight:g}" if smooth else "smoothed"
        below = (UNITS.get(metric, ""), *names, how if weight else "")
        style.add_title(axes, metric.rpartition("/")[2], below)
        if apart:
            style.label_ends(axes, [(labels[key], looks[key].color, end) for key, end in ends.items()])
        order |= ends if at == 0 else {}
    if len(metrics) > 1:
        figure.subplots_adjust(wspace=0.22, hspace=0.62)
    if len(keys) > 1 and not apart:
        style.legend_beside(figure, {labels[key]: looks[key] for key in sorted(keys, key=lambda key: -order[key])})
    return figure


def overview(history: History, run: str = "", environment: str = "") -> Figure:
    """Draws the most important metrics of one run in a small grid, under its name."""
    panels = [tag for tag in OVERVIEW if any(tag in tagged for tagged in history.values())] or tags([history])[:6]
    if GROUP_REWARD in panels:
        panels.remove(REWARD)  # for agents that are rewarded as a group it is 0 or small
    if {ELO, SKILL, SUCCESS} & set(panels) and LEARNING_RATE in panels:
        panels.remove(LEARNING_RATE)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = 3.9 * columns + 0.3
    header = 1.1 + 0.2 * math.ceil(len(history) / LEGEND_COLUMNS) if len(history) > 1 else 1.0
    height = 2.6 * rows - 0.3 + header
    figure = style.new_figure(width, height)
    looks = style.looks_of([*history])
    last = max(float(points.step.max()) for tagged in history.values() for points in tagged.values())
    for at, tag in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        shown = {name: tagged[tag] for name, tagged in history.items() if tag in tagged}
        weight = smoothing([points.value for points in shown.values()])
        line = partial(smoothed_both_ways, weight=weight) if weight else None
        for name, points in shown.items():
            _draw(axes, points.step, points.value, looks[name], line)
        style.dress(axes, 8.0)
        style.dress_x(axes, last, 8.0)
        title = "Elo" if tag == ELO else tag.rpartition("/")[2]
        letters = {"fontsize": 10.5, "fontweight": "bold", "color": style.INK}
        axes.set_title(style.drawable(title), loc="left", pad=9, parse_math=False, **letters)
        axes.set_title(UNITS.get(tag, ""), loc="right", pad=9, fontsize=8, color=style.SOFT)
    space = {"wspace": 0.28, "hspace": 0.62}
    figure.subplots_adjust(0.75 / width, 0.6 / height, 1 - 0.25 / width, 1 - (header + 0.05) / height, **space)
    below = (*_named({run: history}, [(run, name) for name in history], environment)[1:], f"{last:,.0f} decisions")
    left = figure.subplotpars.left
    letters = {"ha": "left", "va": "baseline", "parse_math": False}
    figure.text(
        left, 1 - 0.34 / height, style.drawable(run), fontsize=14, fontweight="bold", color=style.INK, **letters
    )
    text = style.SEPARATOR.join(style.drawable(part) for part in below if part)
    figure.text(left, 1 - 0.56 / height, text, fontsize=9.5, color=style.SOFT, **letters)
    if len(history) > 1:
        _legend(figure, looks)
    return figure


def save_curves(run: Path) -> Path:
    """Draws the overview of a run as `<run>/curves.png`. Raises RunError."""
    file = run / "curves.png"
    history = read_history(run)
    wide = len(history) > LEGEND_COLUMNS or sum(map(len, history)) > LEGEND_LETTERS or len(run.name) > LEGEND_LETTERS
    style.save(overview(history, run.resolve().name, environment_name([run])), file, crop=wide)
    return file


def environment_name(runs: Iterable[Path]) -> str:
    """Returns the name of the environment of all these runs; '' if it is unknown, or if they differ."""
    found = set()
    for run in runs:
        try:
            tree = yaml_file.read(run / CONFIGURATION).tree
        except (PalaestraError, OSError):
            return ""
        given = tree.get("env_settings")
        place = given.get("env_path") if isinstance(given, dict) else None
        name = str(place or "").rstrip("/\\")
        if not name.startswith("python:"):
            name = name.rpartition(":")[2].replace("\\", "/").rpartition("/")[2]
        found.add(name.removeprefix("python:"))
    return found.pop() if len(found) == 1 else ""


def smoothing(curves: Iterable[np.ndarray]) -> float:
    """Returns the weight of earlier values that makes the noisiest of these curves readable; 0 if no curve is noisy."""
    longest = max((len(values) for values in curves if is_noisy(values)), default=0)
    return 1 - 1 / max(3.0, longest / WINDOW) if longest else 0.0


def is_noisy(values: np.ndarray) -> bool:
    """Whether the total up and down movement of a curve is many times its range."""
    values = values[np.isfinite(values)]
    if len(values) < LEAST_NOISY:
        return False
    return bool(np.abs(np.diff(values)).sum() > NOISY * np.ptp(values))


def smoothed(values: np.ndarray, weight: float) -> np.ndarray:
    """Returns the exponential mean, corrected for its start at zero. Values that are NaN are left out."""
    total = 0.0
    norm = 0.0
    out = np.empty_like(values)
    for i, value in enumerate(values):
        if np.isfinite(value):
            total = weight * total + value
            norm = weight * norm + 1.0
        out[i] = total / norm if norm else value
    return out


def smoothed_both_ways(values: np.ndarray, weight: float) -> np.ndarray:
    """Returns the exponential mean of the past and the future together, which does not lag behind the values."""
    return smoothed(smoothed(values, weight)[::-1], weight)[::-1]


def _draw(
    axes: Axes, x: np.ndarray, y: np.ndarray, look: style.Look, smooth: Callable[[np.ndarray], np.ndarray] | None
) -> float:
    """Draws one line and returns the height of its end."""
    if smooth is not None:
        axes.plot(x, y, color=look.color, alpha=0.25, linewidth=0.8)
        y = smooth(y)
    options = look.options(4.5) if look.mark or len(x) > 1 else {**look.options(6.0), "marker": "o"}
    axes.plot(x, y, linewidth=1.6, markevery=max(1, len(x) // 12), **options)
    return float(y[-1])


def _legend(figure: Figure, looks: Mapping[str, style.Look]) -> None:
    """Adds a legend above all panels."""
    place = {
        "loc": "upper left",
        "bbox_to_anchor": (figure.subplotpars.left - 0.012, 1 - 0.62 / figure.get_figheight()),
        "ncols": min(len(looks), LEGEND_COLUMNS),
    }
    style.add_entries(figure, looks, fontsize=10, handlelength=1.0 if len(looks) <= len(style.COLORS) else 2.6, **place)


def _named(runs: Mapping[str, History], keys: Sequence[Key], environment: str) -> list[str]:
    """Returns the names for titles: the run and the behavior if there is only one, and the environment."""
    behaviors = {name for _, name in keys}
    behavior = behaviors.pop() if len(behaviors) == 1 else ""
    return [next(iter(runs)) if len(runs) == 1 else "", environment, behavior if behavior != environment else ""]


def _labels(keys: Sequence[Key]) -> dict[Key, str]:
    """Returns labels that tell the lines apart: run, behavior, or both."""
    runs = {run for run, _ in keys}
    behaviors = {name for _, name in keys}
    if len(runs) == 1 and len(keys) > 1:
        return {key: key[1] for key in keys}
    if len(behaviors) == 1 and len(keys) > 1:
        return {key: key[0] for key in keys}
    return {key: style.SEPARATOR.join(key) for key in keys}
