"""Checks the size of a YAML file before values are built from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import ConfigError

MAX_BYTES = 2 * 2**20
MAX_VALUES = 50_000
"""Largest number of keys and values, with aliases replaced by their content: enough for several hundred behaviors."""
MAX_DEPTH = 50
"""Deepest nesting of maps and lists."""


def check_limits(loader: Any, file: Path | None) -> None:
    """Reads all events of a PyYAML loader. Raises ConfigError, with the line, for content that is nested too deeply,
    contains itself, or has too many values once its aliases are expanded."""
    counter = _Counter(file)
    while loader.check_event():
        counter.add(loader.get_event())


class _Counter:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._values = 0
        self._aliases = False
        self._open: list[_Collection] = []
        self._known: dict[str, tuple[int, int]] = {}  # number of values and depth of each anchor's content

    def add(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append(_Collection(event.anchor))
            self._count(1, 1, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            if done.anchor is not None:
                self._known[done.anchor] = (done.values, done.depth)
            if self._open:
                self._open[-1].hold(done.values, done.depth)
        elif isinstance(event, yaml.AliasEvent):
            self._aliases = True
            if any(each.anchor == event.anchor for each in self._open):
                raise ConfigError(
                    f"refers to itself: the alias *{event.anchor} is inside &{event.anchor}", self._file, line
                )
            self._leaf(*self._known.get(event.anchor, (1, 0)), line)
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor is not None:
                self._known[event.anchor] = (1, 0)
            self._leaf(1, 0, line)

    def _leaf(self, values: int, depth: int, line: int) -> None:
        self._count(values, depth, line)
        if self._open:
            self._open[-1].hold(values, depth)

    def _count(self, values: int, depth: int, line: int) -> None:
        self._values += values
        within = len(self._open) + max(0, depth - 1)
        if within > MAX_DEPTH:
            raise ConfigError(
                f"is nested too deeply: more than {MAX_DEPTH} maps or lists within one another", self._file, line
            )
        if self._values > MAX_VALUES:
            followed = ", with its aliases (*) replaced by their content" if self._aliases else ""
            raise ConfigError(
                f"has more than {MAX_VALUES:,} keys and values{followed}; expected a file of settings", self._file, line
            )


class _Collection:
    """Map or list that is being read."""

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self.values = 1
        self.depth = 1

    def hold(self, values: int, depth: int) -> None:
        """Adds the size of a map, list or value in this collection."""
        self.values += values
        self.depth = max(self.depth, depth + 1)
