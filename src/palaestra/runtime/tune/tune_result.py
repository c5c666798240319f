"""The result of a search, which prints as a table of its best trials."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from palaestra.core.errors import RunError
from palaestra.core.files import explain
from palaestra.runtime.presentation.data_frames import frame_of_file
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TRIALS = "trials.csv"
"""Name of the file with all trials."""


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Shown):
    """Results of a search."""

    folder: Path
    """The study's folder, which has pictures, and all trials in trials.csv."""
    best: Path
    """Complete settings of the best trial; with several objectives, the best by the first objective."""
    number: int
    """Number of the best trial."""
    values: dict[str, float]
    """The best trial's value of each objective; infinity if it did not reach the bar."""
    parameters: dict[str, Any]
    """The best trial's values of the searched settings, by path."""
    trials: int
    """Number of completed trials."""
    reached: bool = True
    """Whether the best trial reached the bar with every seed; True without a bar."""
    table: ResultTable = field(default=ResultTable((), ()), compare=False)
    """Table of the best trials."""

    def frame(self) -> pandas.DataFrame:
        """Returns all trials as a data frame: state, objectives, seconds, and a column for each setting. Raises
        PluginError without pandas."""
        return frame_of_file(self.folder / TRIALS)

    def plot(self) -> Figure:
        """Draws the first objective of each trial, and the best value up to each trial."""
        from palaestra.runtime.plots.chart_style import COLORS, dress, new_figure

        objective = next(iter(self.values))
        try:
            with (self.folder / TRIALS).open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["state"] == "complete" and row[objective]]
        except OSError as error:
            raise RunError(f"cannot read {self.folder / TRIALS}: {explain(error)}") from error
        trials = [int(row["trial"]) for row in rows]
        values = [float(row[objective]) for row in rows]
        better = max if objective == "reward" else min
        axes = new_figure(7.0, 4.2).add_subplot(xlabel="trial", ylabel=objective.replace("_", " "))
        from matplotlib.ticker import MaxNLocator

        dress(axes, 10)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.plot(trials, values, "o", color=COLORS[0], label="trials")
        best = [*accumulate(values, better)]
        axes.plot(trials, best, color=COLORS[1], drawstyle="steps-post", label="best so far")
        axes.legend(frameon=False)
        return cast("Figure", axes.figure)

    def _line(self) -> str:
        values = ", ".join(
            f"{name} {'not reached' if math.isinf(value) else f'{value:.4g}'}" for name, value in self.values.items()
        )
        return f"{self.best} (trial {self.number}): {values}"

    def _tables(self) -> Sequence[ResultTable]:
        return [replace(self.table, title=self._line())]
