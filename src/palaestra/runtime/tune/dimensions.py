"""One setting that is searched: its path and its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.runtime.settings.search_settings import KINDS, RangeSettings

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True, slots=True)
class Dimension:
    """A setting that is searched."""

    path: str
    """Path of the setting, as for --set."""
    range: RangeSettings

    @property
    def kind(self) -> str:
        """The kind of its range, such as `log`."""
        return next(kind for kind in KINDS if getattr(self.range, kind) is not None)

    @property
    def values(self) -> tuple[Any, ...]:
        """Its smallest and largest value, or all choices."""
        return getattr(self.range, self.kind)

    @property
    def logarithmic(self) -> bool:
        """Whether the range is logarithmic."""
        return self.kind.startswith("log")

    def suggest(self, trial: Trial) -> Any:
        """Returns the value of a trial; chooses it now if the trial has none yet."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.path, self.values)
        low, high = self.values
        if self.kind.endswith("integer"):
            return trial.suggest_int(self.path, low, high, step=self.range.step, log=self.logarithmic)
        return trial.suggest_float(self.path, low, high, log=self.logarithmic)

    def nearest(self, value: Any) -> Any:
        """Returns the value in the range that is nearest to another value; the first value if none is near."""
        if self.contains(value):
            return value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.kind == "choice":
            near = [one for one in self.values if isinstance(one, int | float) and not isinstance(one, bool)]
            return min(near, key=lambda one: abs(one - value)) if number and near else self.values[0]
        low, high = self.values
        inside = min(max(value, low), high) if number else low
        return low + round((inside - low) / self.range.step) * self.range.step if "integer" in self.kind else inside

    def contains(self, value: Any) -> bool:
        """Whether a value is in the range."""
        if self.kind == "choice":
            return any(
                value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in self.values
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        low, high = self.values
        if self.kind.endswith("integer"):
            return low <= value <= high and (value - low) % self.range.step == 0
        return low <= value <= high


def short_names(paths: list[str]) -> dict[str, str]:
    """Returns the last part of each path, or as many last parts as make it unique."""
    names: dict[str, str] = {}
    for path in paths:
        parts = path.split(".")
        size = next(
            size
            for size in range(1, len(parts) + 1)
            if size == len(parts) or sum(other.split(".")[-size:] == parts[-size:] for other in paths) == 1
        )
        names[path] = ".".join(parts[-size:])
    return names


def plain(value: Any) -> str:
    """Returns a value as a short text: whole numbers from 1,000 on with commas, other numbers with four digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
