"""Keeps the curves of the runs that were viewed last, and reads only their new values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from palaestra.runtime.logging.history import Points
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.event_reader import EventsReader
from palaestra.runtime.monitor.metrics_reader import MetricsReader
from palaestra.runtime.monitor.thinning import CurveView, shown

KEPT = 24
"""Runs whose curves are kept in memory."""


class RunCurves:
    """Curves of one run, from `metrics.jsonl` or from event files."""

    def __init__(self, files: ResultsFiles, run: Path) -> None:
        self._metrics = MetricsReader(files, run / METRICS)
        self._events = EventsReader(files, run)
        self._lock = threading.Lock()

    def refresh(self) -> int:
        """Reads what is new. Returns the version of the content, which changes when the content changes."""
        with self._lock:
            self._metrics.refresh()
            if not self._metrics.behaviors:
                self._events.refresh()
            return self._metrics.version + self._events.version

    @property
    def tags(self) -> dict[str, list[str]]:
        """Tags by behavior."""
        with self._lock:
            if self._metrics.behaviors:
                return {name: list(metrics.tags) for name, metrics in self._metrics.behaviors.items()}
            return self._events.tags

    def points(self, behavior: str, tag: str) -> Points | None:
        """Returns all values of a tag of a behavior; None if it has none."""
        with self._lock:
            if self._metrics.behaviors:
                metrics = self._metrics.behaviors.get(behavior)
                return None if metrics is None else metrics.points(tag)
            return self._events.points(behavior, tag)

    def curve(self, behavior: str, tag: str, view: CurveView) -> list[list[float]] | None:
        """Returns a curve in the form in which it is shown; None if there are no values."""
        points = self.points(behavior, tag)
        return None if points is None or not len(points.value) else shown(points, view)


class CurveCache:
    """Curves by run's folder. The least recently requested curves are forgotten. For any thread."""

    def __init__(self, files: ResultsFiles, kept: int = KEPT) -> None:
        self._files = files
        self._kept = kept
        self._runs: OrderedDict[Path, RunCurves] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run: Path) -> RunCurves:
        """Returns the curves of a run; call their `refresh` before use."""
        with self._lock:
            curves = self._runs.pop(run, None) or RunCurves(self._files, run)
            self._runs[run] = curves
            while len(self._runs) > self._kept:
                self._runs.popitem(last=False)
            return curves

    def __len__(self) -> int:
        """Returns the number of runs that are kept."""
        return len(self._runs)
