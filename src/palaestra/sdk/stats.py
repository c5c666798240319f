"""Numbers of a game's own for the trainer's curves."""

from __future__ import annotations

from enum import IntEnum
from math import isfinite
from typing import NamedTuple

from palaestra.core.errors import EnvError


class StatAggregationMethod(IntEnum):
    """What a curve shows of the values of a summary period. The numbers are those on the wire."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


class Stat(NamedTuple):
    """One value."""

    key: str
    value: float
    method: StatAggregationMethod


class StatsRecorder:
    """Unity's: what is added goes to the trainer with the next exchange."""

    def __init__(self) -> None:
        self._stats: list[Stat] = []

    def add(self, key: str, value: float, method: StatAggregationMethod = StatAggregationMethod.AVERAGE) -> None:
        """A value of the curve named `key`, such as 'Game/Score'. Raises EnvError for NaN and infinity."""
        if not isfinite(value):
            raise EnvError(f"stat '{key}' is {value}; expected a finite number")
        self._stats.append(Stat(key, float(value), StatAggregationMethod(method)))

    def take(self) -> list[Stat]:
        """All since the last call."""
        stats, self._stats = self._stats, []
        return stats
