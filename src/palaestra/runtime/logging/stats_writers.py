"""Trackers written for ML-Agents: plug-ins of the entry point group `mlagents.stats_writer`.

Each entry point is a function of the run's options that returns a list of `StatsWriter`. ML-Agents need not be
installed: while such a plug-in is loaded, the few classes below stand in for the modules that it imports from
ML-Agents.
"""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from palaestra.core.errors import PluginError, exception_summary
from palaestra.core.metrics import Aggregation
from palaestra.core.plugins import installed
from palaestra.runtime.logging.tracker import Summary, TrackedRun
from palaestra.runtime.settings import RunSettings, behavior_settings

GROUP = "mlagents.stats_writer"
STATS, SETTINGS, AGGREGATION = (
    "mlagents.trainers.stats",
    "mlagents.trainers.settings",
    "mlagents_envs.side_channel.stats_side_channel",
)
"""Modules of ML-Agents that these plug-ins import."""

AggregationMethod = Enum("StatsAggregationMethod", {"AVERAGE": 0, "MOST_RECENT": 1, "SUM": 2, "HISTOGRAM": 3})
"""Method that combines the values of a period."""
_METHODS: dict[Aggregation, str] = {"mean": "AVERAGE", "latest": "MOST_RECENT", "total": "SUM", "spread": "HISTOGRAM"}


class StatsPropertyType(Enum):
    """Properties of a behavior that `StatsWriter.add_property` receives."""

    HYPERPARAMETERS = "hyperparameters"
    SELF_PLAY = "selfplay"


class StatsSummary(NamedTuple):
    """All values of one metric in a period."""

    full_dist: list[float]
    aggregation_method: Any

    @staticmethod
    def empty() -> StatsSummary:
        """Returns the summary of no values."""
        return StatsSummary([], AggregationMethod["AVERAGE"])

    @property
    def aggregated_value(self) -> Any:
        """Sum or mean, according to the aggregation method."""
        return self.sum if self.aggregation_method.name == "SUM" else self.mean

    @property
    def mean(self) -> Any:
        """Mean of the values."""
        return np.mean(self.full_dist)

    @property
    def std(self) -> Any:
        """Standard deviation of the values."""
        return np.std(self.full_dist)

    @property
    def num(self) -> int:
        """Number of values."""
        return len(self.full_dist)

    @property
    def sum(self) -> Any:
        """Sum of the values."""
        return np.sum(self.full_dist)


class StatsWriter(ABC):
    """Base class of ML-Agents' writers, for plug-ins on machines without ML-Agents."""

    def on_add_stat(  # noqa: B027
        self, category: str, key: str, value: float, aggregation: Any = AggregationMethod["AVERAGE"]
    ) -> None:
        """Called with each single value; does nothing unless overridden."""

    @abstractmethod
    def write_stats(self, category: str, values: dict[str, StatsSummary], step: int) -> None:
        """Called with the summaries of a period; `category` is the behavior's name."""

    def add_property(self, category: str, property_type: Any, value: Any) -> None:  # noqa: B027
        """Called with a behavior's hyperparameters, and for behaviors in self-play; does nothing unless overridden."""


class StatsWriterTracker:
    """Passes a run's metrics to one `StatsWriter`, with the same arguments as ML-Agents.

    If a run resumes in the middle of a period, the first summary has only the values after the resume. A tag without
    values is passed on as one value: the mean, sum or last of its earlier values.
    """

    def __init__(self, writer: Any, run: TrackedRun) -> None:
        self._writer = writer
        self._settings = run.settings
        self._stats, self._methods = _classes_in_use()
        self._values: defaultdict[str, dict[str, tuple[list[float], Any]]] = defaultdict(dict)

    def record_values(self, behavior: str, tag: str, values: Sequence[float], aggregation: Aggregation) -> None:
        """Passes each value to `on_add_stat`."""
        method = self._methods[_METHODS[aggregation]]
        kept, _ = self._values[behavior].get(tag, ([], method))
        self._values[behavior][tag] = ([values[-1]] if aggregation == "latest" else [*kept, *values], method)
        for value in values:
            self._writer.on_add_stat(behavior, tag, value, method)

    def write(self, summary: Summary) -> None:
        """Passes the period's summaries to `write_stats`."""
        self.record_values(summary.behavior, "Is Training", [float(summary.training)], "mean")
        self.record_values(summary.behavior, "Step", [float(summary.step)], "latest")
        seen = self._values.pop(summary.behavior)
        average = self._methods["AVERAGE"]
        missing = {tag: ([value], average) for tag, value in summary.values.items() if tag not in seen}
        stats = {tag: self._stats.StatsSummary(values, method) for tag, (values, method) in {**seen, **missing}.items()}
        self._writer.write_stats(summary.behavior, stats, summary.step)

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Passes a behavior's hyperparameters, and whether it uses self-play, to `add_property`."""
        if tag != "Hyperparameters":
            return
        settings = behavior_settings(self._settings, behavior)
        kinds = self._stats.StatsPropertyType
        self._writer.add_property(behavior, kinds.HYPERPARAMETERS, settings.model_dump())
        if settings.self_play is not None:
            self._writer.add_property(behavior, kinds.SELF_PLAY, True)

    def close(self) -> None:
        """Does nothing: Does nothing: ML-Agents never closes its writers."""


def find_stats_writers(run: TrackedRun, warn: Callable[[str], object]) -> dict[str, StatsWriterTracker]:
    """Makes a tracker for each writer that a plug-in returns; failing writers are reported to `warn`."""
    points = [point for point in installed(GROUP) if not point.value.startswith("mlagents.")]  # without ML-Agents' own
    if not points:
        return {}
    found: dict[str, StatsWriterTracker] = {}
    with _replaced_modules():
        for point in points:
            try:
                writers = [StatsWriterTracker(writer, run) for writer in _written(point, run.settings)]
            except (Exception, SystemExit) as error:  # a user's code may raise anything
                warn(f"the plug-in '{point.name}' ({point.value}) of {GROUP} is not used: {exception_summary(error)}")
                continue
            names = [f"{point.name} ({GROUP})", *(f"{point.name} {i} ({GROUP})" for i in range(2, len(writers) + 1))]
            found |= zip(names, writers, strict=False)
    return found


def _written(point: EntryPoint, settings: RunSettings) -> Sequence[Any]:
    writers = point.load()(settings)
    if not isinstance(writers, list | tuple) or not all(
        callable(getattr(writer, "write_stats", None)) for writer in writers
    ):
        raise PluginError(f"it returned {writers!r}; expected a list of StatsWriter")
    return writers


def _classes_in_use() -> tuple[Any, Any]:
    """Returns the summaries' module and the aggregation enum: ML-Agents' own where they are imported."""
    stats = sys.modules.get(STATS)
    aggregation = sys.modules.get(AGGREGATION)
    return stats or sys.modules[
        __name__
    ], AggregationMethod if aggregation is None else aggregation.StatsAggregationMethod


@contextmanager
def _replaced_modules() -> Iterator[None]:
    """Lets `import mlagents...` find the classes of this module, where ML-Agents is not installed."""
    absent = {name: module for name, module in _replacements().items() if find_spec(name.partition(".")[0]) is None}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@cache
def _replacements() -> Mapping[str, ModuleType]:
    contents: dict[str, dict[str, Any]] = {
        STATS: {
            "StatsWriter": StatsWriter,
            "StatsSummary": StatsSummary,
            "StatsPropertyType": StatsPropertyType,
            "StatsAggregationMethod": AggregationMethod,
        },
        SETTINGS: {"RunOptions": RunSettings},
        AGGREGATION: {"StatsAggregationMethod": AggregationMethod},
        "mlagents_envs.logging_util": {"get_logger": logging.getLogger},
    }
    modules: dict[str, ModuleType] = {}
    for place, names in contents.items():
        parts = place.split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            if name not in modules:
                modules[name] = ModuleType(name, "Stands in for ML-Agents, which is not installed.")
                if depth > 1:
                    setattr(modules[".".join(parts[: depth - 1])], parts[depth - 1], modules[name])
        vars(modules[place]).update(names)
    return modules
