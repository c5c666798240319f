"""Estimates for groups of runs, in one or several tasks, and between the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palaestra.runtime.comparison.intervals import Estimate, Floats
from palaestra.runtime.comparison.scores import Measure, RunScore
from palaestra.runtime.comparison.selection import RunGroup


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Runs of one group in one task, and their scores."""

    runs: tuple[RunScore, ...]
    score: Estimate
    to_bar: Estimate | None = None
    """Agent-steps to the bar; infinite where too many runs did not reach it. None if no bar is set."""
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


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Estimates for every group and task, and between groups."""

    measure: Measure
    groups: tuple[RunGroup, ...]
    metrics: Mapping[str, str]
    """Metric of each task."""
    ranges: Mapping[str, tuple[float, float]]
    """Values that were normalized to 0 and 1, of each task."""
    results: Mapping[tuple[str, str], TaskScores]
    """By group and task."""
    overall: Mapping[str, Estimate]
    """Over all tasks, by group, where there are several normalized ones."""
    improvements: Mapping[tuple[str, str], Estimate]
    """How probably a run of the first group scores better than one of the second, over the tasks of both."""
    settings: Mapping[str, Sequence[Any]]
    """Settings in which the groups differ, with a value for each."""
    notes: tuple[str, ...] = field(default=())
    """Remarks on how far these figures can be trusted."""

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return list(self.metrics)
