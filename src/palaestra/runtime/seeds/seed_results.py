"""The results of several seeds, which print as a table with an interval and draw all curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palaestra.core.errors import RunError
from palaestra.runtime.comparison.shown_comparison import Comparison, metric_title
from palaestra.runtime.logging.history import History, read_history
from palaestra.runtime.presentation.data_frames import metrics_frame
from palaestra.runtime.presentation.inline_curves import svg
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown
from palaestra.runtime.run.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False)
class SeedResults(Shown):
    """Results of a setting that was trained with several seeds."""

    results: dict[int, Result]
    """Each seed's result, without failed seeds."""
    errors: dict[int, str]
    """Error messages of the failed seeds."""
    comparison: Comparison | None = field(compare=False)
    """Scores of all seeds, with their interquartile mean and its interval; None before the first summaries."""
    tables: tuple[ResultTable, ...]
    """For each behavior a table with a row for each seed, and the interval."""

    def frame(self) -> pandas.DataFrame:
        """Returns all metrics of all seeds as a data frame: a row for each seed, behavior and summary, a column for
        each metric. Raises PluginError without pandas."""
        if not (found := self._histories()):
            raise RunError("no seed has a summary, or their folders are gone")
        return metrics_frame(found, "seed")

    def plot(self) -> Figure:
        """Draws the seeds' curves and their interquartile mean with its interval. Raises RunError without a summary."""
        if self.comparison is None:
            raise RunError("no seed has a summary yet, so there is nothing to draw")
        return self.comparison.plot()

    def _histories(self) -> dict[int, History]:
        found = {}
        for seed, result in self.results.items():
            try:
                found[seed] = read_history(result.folder)
            except RunError:  # no summary yet, or the folder is gone
                continue
        return found

    def _line(self) -> str:
        parts = [table.notes[0] for table in self.tables if table.notes]
        failed = f", {len(self.errors)} failed" if self.errors else ""
        return f"{len(self.results)} seeds{failed}{': ' if parts else ''}{'; '.join(parts[:2])}"

    def _tables(self) -> Sequence[ResultTable]:
        return self.tables

    def _inline(self) -> str:
        if self.comparison is None:
            return ""
        several = len(self.comparison.tasks) > 1
        return svg(
            {
                f"{task} {run.run}" if several else run.run: (run.curve.step, run.curve.value)
                for (_, task), found in self.comparison.results.items()
                for run in found.runs
            },
            metric_title(self.comparison),
        )
