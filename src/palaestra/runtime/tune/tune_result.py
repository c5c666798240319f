"""The result of a search, which prints as a table of its best trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.runtime.presentation.data_frames import data_frame
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Shown):
    """Results of a search."""

    folder: Path
    """The study's folder, with tables and pictures."""
    best: Path
    """Settings of the best trial, which train by themselves; of several objectives, the best by the first one."""
    number: int
    """The best trial."""
    values: dict[str, float]
    """Its value of each objective; infinity where it did not reach the bar."""
    parameters: dict[str, Any]
    """Its values, by path."""
    trials: int
    """Trials that were completed."""
    reached: bool = True
    """Whether it reached the bar, with every seed; True without a bar."""
    table: ResultTable = field(default=ResultTable((), ()), compare=False)
    """The best trials."""
    rows: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """All trials, as `frame` has them."""

    def frame(self) -> pandas.DataFrame:
        """Returns the trials as a data frame: state, value of each objective and settings. Raises PluginError without
        pandas.
        """
        names = dict.fromkeys(name for row in self.rows for name in row)
        return data_frame(
            {name: [np.nan if row.get(name) is None else row[name] for row in self.rows] for name in names}
        )

    def plot(self) -> Figure:
        """Draws the first objective of each trial, and the best so far."""
        from palaestra.runtime.plots.result_pictures import trials_figure

        name = next(iter(self.values))
        found = {row["trial"]: row[name] for row in self.rows if row.get(name) is not None}
        return trials_figure(found, name, lower=name != "reward")

    def _line(self) -> str:
        values = ", ".join(
            f"{name} {'not reached' if math.isinf(value) else f'{value:.4g}'}" for name, value in self.values.items()
        )
        return f"{self.best} (trial {self.number} of {len(self.rows)}): {values}"

    def _tables(self) -> Sequence[ResultTable]:
        return [self.table]
