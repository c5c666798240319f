"""Collects a run's measurements for its statistics; with several ranks in one order, so that every rank's statistics
include all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from palaestra.core.metrics import Aggregation
from palaestra.runtime.logging.statistics import Statistics

Entry = list[Any]
"""Name of a method, its arguments, and its keywords: plain types, so that a checkpoint can hold them."""


class Journal:
    """Passes measurements on to the statistics at once."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self._targets: dict[str, Callable[..., object]] = {
            **{name: getattr(statistics, name) for name in ("extend", "total", "latest", "spread", "episodes")}
        }

    def passes_on(self, kind: str, take: Callable[..., object]) -> None:
        """Lets `note` also pass on a part's own kind of measurement."""
        self._targets[kind] = take

    def add(self, behavior: str, tag: str, value: float) -> None:
        """Adds a value; a summary has the mean of such values."""
        self.note("extend", behavior, tag, [float(value)])

    def extend(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """Adds many values, like `add`."""
        self.note("extend", behavior, tag, list(map(float, values)))

    def total(self, behavior: str, tag: str, value: float) -> None:
        """Adds a value; a summary has the sum of such values."""
        self.note("total", behavior, tag, float(value))

    def latest(self, behavior: str, tag: str, value: float) -> None:
        """Adds a value; a summary has the last of such values."""
        self.note("latest", behavior, tag, float(value))

    def spread(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """Adds values; a summary has their mean and a histogram."""
        self.note("spread", behavior, tag, list(map(float, values)))

    def episodes(
        self,
        behavior: str,
        returns: Sequence[float],
        lengths: Sequence[int],
        *,
        grouped: bool = False,
        **others: Sequence[float],
    ) -> None:
        """Adds episodes that ended: returns, numbers of decisions, and the other arguments of `Statistics.episodes`."""
        self.note("episodes", behavior, list(returns), list(lengths), grouped=grouped, **others)

    def measure(self, behavior: str, tag: str, value: float, kind: Aggregation) -> None:
        """Adds a value that an environment measured."""
        match kind:
            case "mean":
                self.add(behavior, tag, value)
            case "latest":
                self.latest(behavior, tag, value)
            case "total":
                self.total(behavior, tag, value)
            case "spread":
                self.spread(behavior, tag, (value,))

    def note(self, method: str, *arguments: Any, **keywords: Any) -> None:
        """Adds a call of a method of the statistics, or of a kind that `passes_on` has named."""
        self._targets[method](*arguments, **keywords)


class RankJournal(Journal):
    """Keeps the measurements of one of several ranks until the ranks exchange them."""

    def __init__(self, statistics: Statistics) -> None:
        super().__init__(statistics)
        self._entries: list[Entry] = []

    def note(self, method: str, *arguments: Any, **keywords: Any) -> None:
        """Keeps a call of a method of the statistics, or of a kind that `passes_on` has named."""
        self._entries.append([method, list(arguments), keywords])

    def take(self) -> list[Entry]:
        """Returns the measurements since the last call."""
        entries = self._entries
        self._entries = []
        return entries

    def deliver(self, journals: Iterable[list[Entry]]) -> None:
        """Passes the measurements of all ranks on, one rank after the other."""
        for entries in journals:
            for method, arguments, keywords in entries:
                self._targets[method](*arguments, **keywords)

    def state_dict(self) -> list[Entry]:
        """Returns the measurements that were not yet taken."""
        return deepcopy(self._entries)

    def load_state_dict(self, state: Sequence[Entry]) -> None:
        """Restores a saved state."""
        self._entries = [list(entry) for entry in state]
