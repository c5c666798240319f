"""A comparison of runs, which prints as its tables and draws its curves with bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.runtime.comparison.comparison_picture import comparison_figure
from palaestra.runtime.comparison.comparison_report import tables
from palaestra.runtime.comparison.scores import ComparedRuns, resampled
from palaestra.runtime.presentation.data_frames import data_frame
from palaestra.runtime.presentation.inline_curves import svg
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(Shown, ComparedRuns):
    """Scores of groups of runs, with estimates and intervals for every group and task, and between groups."""

    def frame(self) -> pandas.DataFrame:
        """Returns the scores as a data frame with a row for each run and task; with a bar, also the decisions and the
        seconds until the run reached it (infinite if it did not). Raises PluginError without pandas."""
        rows = [
            (task, group, run.run, run.score, run.step, run.bar_step, run.bar_seconds)
            for (group, task), found in self.results.items()
            for run in found.runs
        ]
        names = ["task", "group", "run", "score", "step", "steps_to_bar", "seconds_to_bar"]
        shown = names if self.measure.bar is not None else names[:5]
        return data_frame({name: [row[at] for row in rows] for at, name in enumerate(shown)})

    def plot(self, *, by_time: bool = False) -> Figure:
        """Draws the curves of all groups with bands, over decisions or training time, and their estimates."""
        return comparison_figure(self, by_time=by_time)

    def _line(self) -> str:
        parts = [
            f"{group}{f' in {task}' if len(self.tasks) > 1 else ''}: {found.score.value:.4g} of {len(found.runs)} runs"
            for (group, task), found in self.results.items()
        ]
        return f"{'; '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"

    def _tables(self) -> Sequence[ResultTable]:
        return tables(self)

    def _inline(self) -> str:
        """Returns a curve of means for each group of each task."""
        curves = {}
        for (group, task), found in self.results.items():
            steps, values = resampled([run.curve for run in found.runs], by_time=False)
            name = f"{group} in {task}" if len(self.tasks) > 1 else group
            curves[name] = (steps, np.asarray(values).mean(0))
        return svg(curves, metric_title(self))


def metric_title(found: ComparedRuns) -> str:
    """Returns the metrics of a comparison, without their groups."""
    return ", ".join(dict.fromkeys(metric.rpartition("/")[2] for metric in found.metrics.values()))
