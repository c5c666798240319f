"""Sums of what an update measured; they stay on the device until someone reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Metrics:
    """Running means of named numbers. `add` never waits for the device; `read` does, once."""

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
