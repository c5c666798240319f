"""Measurements taken during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

REWARD = "Environment/Cumulative Reward"
GROUP_REWARD = "Environment/Group Cumulative Reward"
LENGTH = "Environment/Episode Length"
SUCCESS = "Environment/Success Rate"
EXTRINSIC = "Policy/Extrinsic Reward"
ELO = "Self-play/ELO"

Aggregation = Literal["mean", "latest", "total", "spread"]
"""How a summary combines the values of its period: the mean, the last value, the sum, or the mean with a histogram."""


class Measurement(NamedTuple):
    """A metric that an environment reports, such as a game's score."""

    name: str  # its tag, such as 'Game/Score'
    value: float
    kind: Aggregation


@dataclass
class Metrics:
    """Running means of an update's measurements. Sums stay on the device: only `read` waits for it."""

    _sums: dict[str, Tensor | float] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _rows: dict[Callable[[list[float]], dict[str, float]], tuple[Tensor, int]] = field(default_factory=dict)

    def add(self, values: Mapping[str, Tensor | float]) -> None:
        """Adds one measurement of each name."""
        for name, value in values.items():
            if name in self._sums:
                self._sums[name] = self._sums[name] + value
                self._counts[name] += 1
            else:
                self._sums[name] = value
                self._counts[name] = 1

    def add_row(self, row: Tensor, named: Callable[[list[float]], dict[str, float]]) -> None:
        """Adds a measurement of several numbers, (M,): `named` returns values by name from their means."""
        total, count = self._rows.get(named, (None, 0))
        self._rows[named] = (row if total is None else total + row, count + 1)

    def read(self) -> dict[str, float]:
        """Returns the mean of each name's measurements."""
        found: dict[str, float] = {}
        for named, (total, count) in self._rows.items():
            found |= named([number / count for number in total.tolist()])
        return found | {name: float(total) / self._counts[name] for name, total in self._sums.items()}
