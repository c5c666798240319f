"""Settings that end the training of a behavior before its max_steps."""

from __future__ import annotations

from pydantic import Field, model_validator

from palaestra.core.metrics import REWARD
from palaestra.core.settings import Settings, field_error


class StopSettings(Settings):
    """Conditions for a behavior to be good enough, or to have stopped improving. Once they hold for each behavior, or
    it has reached max_steps, the run is saved and ends.

    A mean reward covers the newest `episodes`; another metric covers the newest summaries with as many episodes.
    """

    metric: str = Field(default=REWARD, min_length=1)
    """Name of the metric, as in TensorBoard. With groups, it is the reward of whole groups."""
    at_least: float | None = None
    """The behavior is good enough at this value or above; null: no such value."""
    at_most: float | None = None
    """The behavior is good enough at this value or below, for metrics that should fall; null: no such value."""
    episodes: int = Field(default=100, gt=0)
    """Number of episodes in the mean reward. With `no_progress`, fewer count if fewer ended within that period."""
    summaries: int = Field(default=1, gt=0)
    """Smallest number of whole summaries that a mean covers; 1: a mean reward covers only `episodes`."""
    no_progress: int | None = Field(default=None, gt=0)
    """Training also ends after this many decisions without a new best value; null: never."""

    @model_validator(mode="after")
    def _can_end(self) -> StopSettings:
        if self.at_least is None and self.at_most is None and self.no_progress is None:
            raise field_error(
                StopSettings,
                "at_least",
                "expected at_least, at_most or no_progress, else training never ends by it",
                None,
            )
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            sentence = f"expected a value of at most at_most ({self.at_most:g}), got {self.at_least:g}: both must hold"
            raise field_error(StopSettings, "at_least", sentence, self.at_least)
        return self

    @property
    def falls(self) -> bool:
        """Whether smaller values are better."""
        return self.at_least is None and self.at_most is not None


class KeepBestSettings(Settings):
    """Which model of a behavior is kept as its best, `<Behavior>-best.onnx`, together with its checkpoint."""

    metric: str | None = None
    """Metric of a summary to compare by; null: the mean reward of `episodes` separate evaluation episodes."""
    every: int | None = Field(default=None, gt=0)
    """Decisions between two measurements, each of which waits for the next summary; null: checkpoint_interval, or a
    tenth of max_steps if that is less. The final policy is measured in any case."""
    episodes: int = Field(default=100, gt=0)
    """Episodes of an evaluation, in an environment of its own with the last lesson of each curriculum."""
    deterministic: bool = False
    """Whether an evaluation takes the most likely actions instead of sampling."""
    seed: int = Field(default=1_000_003, ge=0, le=2**31 - 1)
    """Seed of each evaluation, apart from the run's."""
