"""Measures one run in one task: its score, its curve, and when it reached a bar; and the results of groups of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.runtime.comparison.intervals import Estimate, Floats
from palaestra.runtime.comparison.selection import RunGroup
from palaestra.runtime.logging.history import Points

GRID = 200
"""Points of a curve's band."""
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Measure:
    """Quantity by which runs are compared. A task is a behavior, by name."""

    metric: str | None = None
    """Tag of the metric, or its last part; None: the reward, which is the groups' reward if the task has groups."""
    behaviors: Sequence[str] = ()
    """Behaviors to compare; none: all."""
    bar: float | None = None
    """Reward to reach: the first summary at or above it counts."""
    at: float | None = None
    """Step at which runs are compared; None: the end of each."""
    last: float = 0.1
    """The score is the mean over this share of the steps that end at the step of comparison."""
    normalize: Sequence[str] = ()
    """LOW,HIGH or TASK=LOW,HIGH, which become 0 and 1; or 'minmax': the least and the greatest value of each task."""
    lower: bool = False
    """Whether lower is better."""
    confidence: float = 0.95
    """Share of the bootstrap samples in an interval."""

    def __post_init__(self) -> None:
        for name, value, least, most in (("last", self.last, 0.0, 1.0), ("confidence", self.confidence, 0.5, 0.9999)):
            if not least <= value <= most:
                raise ConfigError(f"--{name} is {value:g}; expected {least:g} to {most:g}")
        if self.at is not None and not 0 < self.at < math.inf:
            raise ConfigError(f"--at is {self.at:g}; expected a number of decisions, such as 1e6")
        if self.bar is not None and not math.isfinite(self.bar):
            raise ConfigError(f"--bar is {self.bar:g}; expected a number")


@dataclass(frozen=True, slots=True)
class RunScore:
    """One run in one task."""

    run: str
    score: float
    step: float
    """Step at which the score ends."""
    bar_step: float
    """Agent-steps until the bar (the target reward); infinite if it was not reached or is not set."""
    bar_seconds: float
    curve: Points


def cleaned(points: Points, bounds: Range | None) -> Points | None:
    """Returns a curve's finite values by step (the last value of each step), normalized; None if there are none."""
    good = np.isfinite(points.value) & np.isfinite(points.step)
    step = points.step[good]
    seconds = points.seconds[good]
    value = points.value[good]
    if not len(step):
        return None
    _, last = np.unique(step[::-1], return_index=True)
    keep = len(step) - 1 - last
    if bounds is not None:
        value = (value - bounds[0]) / (bounds[1] - bounds[0])
    return Points(step[keep], seconds[keep], value[keep])


def score(run: str, curve: Points, measure: Measure) -> RunScore | None:
    """Measures a run by its cleaned curve; None if it ends before the step at which runs are compared."""
    end = curve.step[-1]
    if measure.at is not None:
        apart = np.median(np.diff(curve.step)) if len(curve.step) > 1 else 0.0
        if end + apart < measure.at or curve.step[0] > measure.at:
            return None
        end = min(end, measure.at)
    until = curve.step <= end
    late = until & (curve.step > end * (1 - measure.last))
    value = float(curve.value[late].mean() if late.any() else curve.value[until][-1])
    step = seconds = math.inf
    if measure.bar is not None:
        reached = (curve.value <= measure.bar if measure.lower else curve.value >= measure.bar).nonzero()[0]
        if len(reached):
            step = float(curve.step[reached[0]])
            seconds = float(curve.seconds[reached[0]])
    return RunScore(run, value, float(curve.step[until][-1]), step, seconds, curve)


def resampled(curves: Sequence[Points], *, by_time: bool) -> tuple[Floats, Floats]:
    """Returns x (points,) and the curves at x (runs, points), linear between summaries, over the range of all runs."""
    places = [curve.seconds if by_time else curve.step for curve in curves]
    first = max(x[0] for x in places)
    last = min(x[-1] for x in places)
    grid = (
        np.unique(np.concatenate([x[(x >= first) & (x <= last)] for x in places])) if last > first else np.array([last])
    )
    if len(grid) > GRID:
        grid = np.linspace(first, last, GRID)
    return grid, np.array([np.interp(grid, x, curve.value) for x, curve in zip(places, curves, strict=True)])


def ranges(words: Sequence[str], curves: Mapping[str, Sequence[Points]]) -> dict[str, Range]:
    """Returns for each task the values that become 0 and 1. `curves`: all runs' curves by task. Raises ConfigError."""
    found: dict[str, Range] = {}
    for word in words:
        task, equal, text = word.rpartition("=")
        if word == "minmax":
            values = {
                name: np.concatenate([points.value[np.isfinite(points.value)] for points in some])
                for name, some in curves.items()
            }
            found |= {name: (float(some.min()), float(some.max())) for name, some in values.items() if len(some)}
        elif equal and task not in curves:
            raise ConfigError(
                f"--normalize: there is no task '{task}'{nearest(task, curves)} (there are: {', '.join(curves)})"
            )
        else:
            bounds = _bounds(text, word)
            found |= dict.fromkeys([task] if equal else curves, bounds)
    for task, (low, high) in found.items():
        if low == high:
            raise ConfigError(f"--normalize: both ends of the range of '{task}' are {low:g}")
    return found


def _bounds(text: str, word: str) -> Range:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not math.isfinite(low) or not math.isfinite(high):
        raise ConfigError(f"--normalize is '{word}'; expected LOW,HIGH such as 0,100, or TASK=LOW,HIGH, or minmax")
    return low, high


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Runs of one group in one task, and their scores."""

    runs: tuple[RunScore, ...]
    score: Estimate
    to_bar: Estimate | None = None
    """Agent-steps to the bar; infinite if too many runs did not reach it. None if no bar is set."""
    seconds_to_bar: Estimate | None = None
    """Training time to the bar."""

    @property
    def scores(self) -> Floats:
        """Scores of the runs."""
        return np.array([run.score for run in self.runs])

    @property
    def reached(self) -> int:
        """Number of runs that reached the bar."""
        return sum(run.bar_step < np.inf for run in self.runs)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRuns:
    """Estimates for every group and task, and between groups."""

    measure: Measure
    """How runs were scored."""
    groups: tuple[RunGroup, ...]
    """Which runs belong together."""
    metrics: Mapping[str, str]
    """Metric of each task."""
    ranges: Mapping[str, tuple[float, float]]
    """For each task, the two values that were normalized to 0 and 1."""
    results: Mapping[tuple[str, str], TaskScores]
    """Scores by group and task."""
    overall: Mapping[str, Estimate]
    """By group, the estimate over all tasks, if several tasks have normalized scores."""
    improvements: Mapping[tuple[str, str], Estimate]
    """How probably a run of the first group scores better than a run of the second group, over the tasks of both."""
    settings: Mapping[str, Sequence[Any]]
    """Settings in which the groups differ, with each group's value."""
    notes: tuple[str, ...] = field(default=())
    """Remarks on how reliable these numbers are."""

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return list(self.metrics)
