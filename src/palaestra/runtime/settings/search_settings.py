"""Settings of `palaestra tune`: which settings it searches, between which values, and how."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, field_validator, model_validator

from palaestra.core.metrics import REWARD
from palaestra.core.settings import Settings, field_error

TRIALS = 30
"""Number of trials if the settings do not say."""
KINDS = ("uniform", "log", "integer", "log_integer", "choice")
Objective = Literal["reward", "decisions", "cpu_seconds"]
Method = Literal["tpe", "random"]


class RangeSettings(Settings):
    """Values that one setting may take: exactly one of uniform, log, integer, log_integer and choice."""

    uniform: tuple[float, float] | None = None
    """Least and largest value of a number."""
    log: tuple[float, float] | None = None
    """Range of a number on a logarithmic scale, such as a learning rate."""
    integer: tuple[int, int] | None = None
    """Least and largest value of a whole number."""
    log_integer: tuple[int, int] | None = None
    """Range of a whole number on a logarithmic scale."""
    step: int = Field(default=1, gt=0)
    """Distance between two whole numbers of `integer`."""
    choice: tuple[bool | int | float | str | None, ...] | None = None
    """The allowed values, in their order if they have one."""

    @model_validator(mode="after")
    def _is_one_range(self) -> RangeSettings:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            what = f"expected exactly one of {', '.join(KINDS)}, got {' and '.join(given) or 'none'}"
            raise field_error(RangeSettings, given[-1] if given else "uniform", what, given)
        kind = given[0]
        values = getattr(self, given[0])
        if kind == "choice":
            if len(values) < 2 or len({repr(value) for value in values}) < len(values):
                raise field_error(
                    RangeSettings, "choice", f"expected at least two different values, got {list(values)}", values
                )
            return self
        low, high = values
        if not low < high:
            raise field_error(
                RangeSettings, kind, f"expected the smaller number first, got {low:g} and {high:g}", values
            )
        if kind.startswith("log") and low <= 0:
            raise field_error(RangeSettings, kind, f"expected numbers greater than 0, got {low:g}", values)
        if self.step != 1 and kind != "integer":
            raise field_error(RangeSettings, "step", f"is only for integer, not for {kind}", self.step)
        if kind == "integer" and (high - low) % self.step:
            what = f"expected the distance from {low} to {high} to be a multiple of it, got {self.step}"
            raise field_error(RangeSettings, "step", what, self.step)
        return self


class SearchSettings(Settings):
    """The search of `palaestra tune`. `palaestra learn` does not read it."""

    method: Method = "tpe"
    """How values are chosen: tpe (from the results of earlier trials) or random."""
    space: dict[str, RangeSettings] = Field(default={})
    """Range of each setting by its path, as for --set: `hyperparameters.learning_rate`; empty: the trainer's own
    space."""
    trials: int | None = Field(default=None, gt=0, le=1_000_000)
    """Trials of the study, of all processes together; null: 30."""
    jobs: int = Field(default=1, gt=0, le=10_000)
    """Trials that this command runs at the same time, each in its own process."""
    seeds: int = Field(default=1, gt=0, le=1000)
    """Trainings of each trial, with different seeds; the trial's value is their mean. Later trainings run only if the
    pruner did not end the first."""
    seed: int = Field(default=1, ge=0, le=2**31 - 1000)
    """Seed of the search, and the first seed of the trainings unless env_settings.seed is set."""
    objectives: tuple[Objective, ...] | None = None
    """Values to compare by: reward (at the end), decisions, cpu_seconds (both to the bar); null: decisions with a bar,
    else reward."""
    bar: float | None = None
    """Mean reward at which a training is good enough, for decisions and cpu_seconds."""
    metric: str = Field(default=REWARD, min_length=1)
    """TensorBoard name of the metric that counts as the reward here; larger is better. With groups, it is the reward of
    whole groups."""
    behavior: str | None = None
    """Behavior whose metric counts; null: the mean of all behaviors, and the time when the last of them reaches the
    bar."""
    episodes: int = Field(default=100, gt=0)
    """Smallest number of episodes in a mean reward; all episodes count, if fewer have ended."""
    pruner: Literal["median", "hyperband", "none"] | None = None
    """The rule that ends bad trials early, by the reward with the first seed; null: median with one objective, none
    otherwise."""
    report_every: int | None = Field(default=None, gt=0)
    """Decisions between two checks by the pruner; null: a tenth of max_steps."""
    prune_after: int | None = Field(default=None, gt=0)
    """Decisions before which no trial is pruned; null: twice report_every."""
    start_values: bool = True
    """Try the file's own values first, even values outside the ranges."""
    storage: Literal["sqlite", "journal"] = "sqlite"
    """File of the study: study.db, or study.journal, which also works on network file systems."""

    @field_validator("objectives")
    @classmethod
    def _are_different(cls, value: tuple[Objective, ...] | None) -> tuple[Objective, ...] | None:
        if value is not None and (not value or len(set(value)) < len(value)):
            raise ValueError("expected at least one objective, and each once")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> SearchSettings:
        wanted = self.wanted
        to_bar = [name for name in wanted if name != "reward"]
        if to_bar and self.bar is None:
            raise field_error(SearchSettings, "bar", f"is missing, but required for the objective {to_bar[0]}", None)
        if self.bar is not None and not to_bar:
            raise field_error(
                SearchSettings, "bar", "is given, but no objective needs one (decisions, cpu_seconds)", self.bar
            )
        if len(wanted) > 1 and self.pruner not in (None, "none"):
            what = f"expected none with {len(wanted)} objectives: trials are pruned by one only; got {self.pruner}"
            raise field_error(SearchSettings, "pruner", what, self.pruner)
        if self.pruning == "none":
            for key in ("report_every", "prune_after"):
                if getattr(self, key) is not None:
                    raise field_error(SearchSettings, key, "has no effect without a pruner", getattr(self, key))
        return self

    @property
    def wanted(self) -> tuple[Objective, ...]:
        """Objectives of the search: the given ones, else the decisions to the bar, or the reward if there is no bar."""
        return self.objectives or (("decisions",) if self.bar is not None else ("reward",))

    @property
    def pruning(self) -> str:
        """Pruner of the search: the given one, else `median`, or none with several objectives."""
        return self.pruner or ("none" if len(self.wanted) > 1 else "median")

    @property
    def total(self) -> int:
        """Number of trials of the whole study."""
        return self.trials or TRIALS

    def marks(self, max_steps: int) -> tuple[list[int], int]:
        """Returns the decisions at which the pruner checks a trial, and the number of checks before it may prune."""
        every = self.report_every or max(1, max_steps // 10)
        after = self.prune_after or 2 * every
        at = [every * number for number in range(1, math.ceil(max_steps / every) + 1)]
        return at, sum(mark < after for mark in at)
