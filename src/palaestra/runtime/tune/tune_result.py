"""The result of a search, which prints as a table of its best trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Shown):
    """Results of a search."""

    folder: Path
    """The study's folder, with pictures, and all trials as trials.csv."""
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

    def _line(self) -> str:
        values = ", ".join(
            f"{name} {'not reached' if math.isinf(value) else f'{value:.4g}'}" for name, value in self.values.items()
        )
        return f"{self.best} (trial {self.number}): {values}"

    def _tables(self) -> Sequence[ResultTable]:
        return [self.table]
