"""What is measured while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
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
"""What a summary shows of the values of its period: their mean, the last, their sum, or their mean and a histogram."""


class Measurement(NamedTuple):
    """A number that an environment measured itself."""

    name: str  # its tag, such as 'Game/Score'
    value: float
    kind: Aggregation


class Metrics:
    """Running means of what an update measured. Sums stay on the device: `add` never waits for it; `read` does, once."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor | float] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: Mapping[str, Tensor | float]) -> None:
        """One more measurement of each."""
        for name, value in values.items():
            if name in self._sums:
                self._sums[name] = self._sums[name] + value
                self._counts[name] += 1
            else:
                self._sums[name], self._counts[name] = value, 1

    def read(self) -> dict[str, float]:
        """The mean of each."""
        return {name: float(total) / self._counts[name] for name, total in self._sums.items()}
