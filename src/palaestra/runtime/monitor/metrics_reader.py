"""Reads `metrics.jsonl` as it grows: each call reads only the new bytes."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, signature

HEAD = frozenset(("behavior", "step", "time", "elapsed", "training", "episodes", "std", "times"))
CHUNK = 4 * 2**20
"""Bytes that are read at once. Lines that are longer are skipped."""
MOST_TAGS = 2000
"""Most tags of a behavior that are kept; further ones are ignored."""

Numbers = NDArray[np.float64]


@dataclass(slots=True)
class Columns:
    """Values of one tag, and the rows to which they belong."""

    rows: array[int] = field(default_factory=lambda: array("l"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class BehaviorMetrics:
    """Summaries of one behavior."""

    steps: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))  # of training, all sessions together
    tags: dict[str, Columns] = field(default_factory=dict)
    before: float = 0.0  # seconds of sessions whose clock began anew
    last: float = 0.0

    def add(self, step: float, elapsed: float, point: Mapping[str, Any]) -> None:
        """Adds a summary."""
        self.before += self.last if elapsed < self.last else 0.0
        self.last = elapsed
        row = len(self.steps)
        self.steps.append(step)
        self.seconds.append(self.before + elapsed)
        for tag, value in point.items():
            if tag in HEAD or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if (column := self.tags.get(tag)) is None:
                if len(self.tags) >= MOST_TAGS:
                    continue
                column = self.tags[tag] = Columns()
            column.rows.append(row)
            column.values.append(float(value))

    def points(self, tag: str) -> Points | None:
        """Returns all values of a tag; None if the tag has none."""
        column = self.tags.get(tag)
        if column is None:
            return None
        rows = np.array(column.rows, np.int64)
        return Points(np.array(self.steps)[rows], np.array(self.seconds)[rows], np.array(column.values))


class MetricsReader:
    """Content of one `metrics.jsonl` so far. Must not be used by several threads at once."""

    def __init__(self, files: ResultsFiles, path: Path) -> None:
        self._files = files
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self.version = 0
        """A number that grows with each change of the content."""
        self._clear()

    def _clear(self) -> None:
        self._offset = 0
        self._rest = b""
        self._long = False
        """Whether the line that is being read is too long to keep."""
        self.behaviors: dict[str, BehaviorMetrics] = {}

    def refresh(self) -> None:
        """Reads what is new. If the file was replaced or shortened, for example by a resumed run, reads the whole file
        again."""
        now = signature(self._path)
        if now == self._seen:
            return
        if now is None or (self._seen is not None and (now[2] != self._seen[2] or now[1] < self._offset)):
            self._clear()
            self.version += 1
        self._seen = now
        while now is not None and (data := self._files.part(self._path, self._offset, CHUNK)):
            self._offset += len(data)
            self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        if self._long and lines:
            del lines[0]
            self._long = False
        self._rest = rest  # a line that is still being written waits
        if len(rest) > CHUNK:
            self._rest = b""
            self._long = True
        for line in lines:
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            point = json.loads(line)
            behavior = str(point["behavior"])
            step = float(point["step"])
            elapsed = float(point["elapsed"])
            self.behaviors.setdefault(behavior, BehaviorMetrics()).add(step, elapsed, point)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # cut off by a crash
            return
        self.version += 1
