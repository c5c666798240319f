"""The contract of trackers: the members that a class needs to receive a run's metrics.

A tracker is chosen under `trackers` in the settings, by its name among the entry points `palaestra.trackers` or as
`module:Class`. It is made once, `Class(run, **options)`, and then receives every summary. Its first exception is
reported, and training continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from palaestra.core.metrics import GROUP_REWARD, REWARD, Aggregation
from palaestra.runtime.settings import RunSettings

Outcome: TypeAlias = Literal["finished", "stopped", "failed"]
"""How a run ended: all behaviors reached max_steps; it was stopped and saved; or an error ended it."""


@dataclass(frozen=True)
class Summary:
    """The metrics of one behavior over one period."""

    behavior: str  # name of the behavior
    step: int  # decisions so far
    time: float  # unix seconds
    elapsed: float  # seconds since the run began
    training: bool  # whether the policy learns
    values: Mapping[str, float]  # mean of each metric, by tag
    totals: Mapping[str, float] = field(repr=False)  # by tag: the sum of what was recorded
    histograms: Mapping[str, np.ndarray] = field(repr=False)  # by tag, without '_hist': every value of the period
    episodes: int  # number of episodes that ended in the period
    mean: float  # mean of their returns; NaN where none ended
    std: float  # standard deviation of their returns
    times: Mapping[str, Any] | None = None  # seconds of each rank in the period, and a sentence about the session
    grouped: bool = False
    """Whether agents of groups ended episodes: a group's reward counts once the whole group has ended."""

    @property
    def judged(self) -> np.ndarray:
        """Returns by which runs are compared, one for each episode; with groups, each whole group's reward."""
        own = () if self.grouped else self.histograms.get(REWARD, ())
        return np.asarray(self.histograms.get(GROUP_REWARD, own))


@dataclass(frozen=True)
class TrackedRun:
    """The run for which a tracker is made."""

    folder: Path  # may not exist before the first summary
    settings: RunSettings
    resumed: Mapping[str, int]  # step of each behavior in the checkpoint resumed from; empty: a new run
    info: Callable[[str], object] = print  # prints a line on the run's console
    debug: Callable[[str], object] = print  # the same, shown with --debug only
    summary: Callable[[str], object] | None = None  # the same for the line of a summary; None: `info`

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.settings.checkpoint_settings.run_id


class Tracker(Protocol):
    """Receives a run's metrics, such as a file writer or a client of an experiment-tracking service."""

    def write(self, summary: Summary) -> None:
        """Records one summary. When `write` returns, a crash of the process must not lose the written data."""
        ...

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Records a note about a behavior, such as its hyperparameters."""
        ...

    def close(self) -> None:
        """Releases files and connections. Called once, at the end of the run."""
        ...


@runtime_checkable
class SeesValues(Protocol):
    """A tracker that also gets every single value, before it is summarized."""

    def record_values(self, behavior: str, tag: str, values: Sequence[float], aggregation: Aggregation) -> None:
        """Records values of one tag; `aggregation` is how a summary combines them. Called often: it must be quick."""
        ...


@runtime_checkable
class SeesModels(Protocol):
    """A tracker that also gets the models of a run."""

    def record_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Records a new ONNX file, which a later one may replace; `final`: at the end of the run."""
        ...


@runtime_checkable
class SeesEnd(Protocol):
    """A tracker that also learns how the run ended."""

    def record_end(self, outcome: Outcome, reason: str) -> None:
        """Records the end, just before `close`; `reason` is the error of a run that failed, else empty."""
        ...
