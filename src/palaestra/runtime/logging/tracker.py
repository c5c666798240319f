"""What a run measures between two summaries, and the summaries that its sinks write."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.core.metrics import EXTRINSIC, GROUP_REWARD, LENGTH, REWARD

RECENT = 100
"""Episodes that the progress line's mean reward looks back on."""


@dataclass(frozen=True)
class Summary:
    """One behavior over one period."""

    behavior: str
    step: int
    time: float  # unix seconds
    elapsed: float  # seconds since the run began
    training: bool
    values: Mapping[str, float]  # by tag
    totals: Mapping[str, float] = field(repr=False)  # by tag: the sum of what was recorded
    histograms: Mapping[str, np.ndarray] = field(repr=False)  # by tag, without '_hist': every value of the period
    episodes: int  # that ended in the period
    mean: float  # of their returns; NaN where none ended
    std: float


@dataclass(frozen=True, slots=True)
class LastReward:
    """What the episodes of one period earned, which says how a behavior plays now better than older ones do."""

    step: int | None  # of the summary; None: there was none with an episode, and these are all so far
    episodes: int
    mean: float  # of their returns, as in the summary
    group: float | None  # mean of what whole groups earned; None: there are no groups
    judged: tuple[float, int]  # mean and count of the returns to compare runs by: a group's count once, with what it earned as one


class Sink(Protocol):
    """Where summaries go."""

    def write(self, summary: Summary) -> None:
        """Takes one summary in; what it wrote is safe from a crash of this process when it returns."""
        ...

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Takes a note about a behavior, such as its settings."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


@dataclass
class _Period:
    """One behavior's numbers since its last summary; plain types only, so that `state_dict` is JSON."""

    means: dict[str, list[float]] = field(default_factory=dict)  # tag: [sum, count]
    totals: dict[str, float] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, list[float]] = field(default_factory=dict)  # tag: every value
    judged: list[float] = field(default_factory=lambda: [0.0, 0])  # sum and count of the returns to compare runs by


class Tracker:
    """Collects numbers by behavior and tag. NaN is no number and is passed over; a tag without any is left out of the summary."""

    def __init__(self, sinks: Sequence[Sink], warn: Callable[[str], object] = warnings.warn) -> None:
        """`warn` is told, once for each sink, that it failed: whatever a sink raises, the training goes on."""
        self._sinks, self._warn = tuple(sinks), warn
        self._failed: set[int] = set()
        self._periods: defaultdict[str, _Period] = defaultdict(_Period)
        self._since_update: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0])  # sum and count of returns
        self._before_update: dict[str, list[float]] = {}  # the same between the two updates before, where episodes ended
        self._last: dict[str, LastReward] = {}  # of the newest summary with an episode
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))

    def add(self, behavior: str, tag: str, value: float) -> None:
        """The summary has the mean over the period."""
        self.extend(behavior, tag, (value,))

    def extend(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """Many at once, as `add`."""
        if numbers := _numbers(values):
            sum_and_count = self._periods[behavior].means.setdefault(tag, [0.0, 0])
            _add(sum_and_count, numbers)

    def total(self, behavior: str, tag: str, value: float) -> None:
        """The summary has the sum over the period."""
        for number in _numbers((value,)):
            totals = self._periods[behavior].totals
            totals[tag] = totals.get(tag, 0.0) + number

    def latest(self, behavior: str, tag: str, value: float) -> None:
        """The summary has the value recorded last."""
        for number in _numbers((value,)):
            self._periods[behavior].latest[tag] = number

    def spread(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """The summary has the mean and a histogram."""
        if numbers := _numbers(values):
            self._periods[behavior].spreads.setdefault(tag, []).extend(numbers)

    def episodes(
        self,
        behavior: str,
        returns: Sequence[float],
        lengths: Sequence[int],
        *,
        extrinsic: Sequence[float] | None = None,
        judged: Sequence[float] | None = None,
    ) -> None:
        """Episodes that ended: each one's sum of rewards and count of decisions.

        `extrinsic` is the return as learned from (strength and group reward in it), where that differs; `judged` are the returns by which
        `recent_reward`, `mean_reward` and `last_reward` go, where they are others, as those of whole groups.
        The length recorded is one less than the decisions, as ML-Agents counts: docs/reference/metrics.md says why that is kept.
        """
        self.spread(behavior, REWARD, returns)
        self.extend(behavior, LENGTH, [length - 1 for length in lengths])
        self.extend(behavior, EXTRINSIC, returns if extrinsic is None else extrinsic)
        numbers = _numbers(returns if judged is None else judged)
        _add(self._since_update[behavior], numbers)
        _add(self._periods[behavior].judged, numbers)
        self._recent[behavior].extend(numbers)

    def recent_reward(self, behavior: str) -> float | None:
        """Mean return of the episodes since the last policy update, which a checkpoint is listed with.

        Where none has ended since: of those before it. None where none ever has.
        """
        total, count = self._since_update[behavior]
        if not count:
            total, count = self._before_update.get(behavior, (0.0, 0))
        return total / count if count else None

    def policy_updated(self, behavior: str) -> None:
        """`recent_reward` begins anew."""
        past = self._since_update.pop(behavior, None)
        if past is not None and past[1]:
            self._before_update[behavior] = past

    def mean_reward(self, behavior: str) -> float | None:
        """Mean return of the last hundred episodes."""
        recent = self._recent[behavior]
        return sum(recent) / len(recent) if recent else None

    def last_reward(self, behavior: str) -> LastReward | None:
        """That of the newest summary in which an episode ended, or before there is one, of the episodes so far. None: none ended."""
        if behavior in self._last:
            return self._last[behavior]
        return _last_reward(self._periods[behavior], None) if behavior in self._periods else None

    def summarize(self, behavior: str, step: int, *, elapsed: float, training: bool) -> Summary:
        """Closes the period: sends its summary to every sink and begins the next."""
        period = self._periods.pop(behavior, _Period())
        if (last := _last_reward(period, step)) is not None:
            self._last[behavior] = last
        returns = np.asarray(period.spreads.get(REWARD, ()))
        mean = std = math.nan
        if len(returns):
            with np.errstate(over="ignore", invalid="ignore"):  # huge and infinite returns
                mean, std = float(returns.mean()), float(returns.std())
        sums = {
            **{tag: total for tag, (total, _) in period.means.items()},
            **{tag: sum(values) for tag, values in period.spreads.items()},
            **period.totals,
        }
        counts = {tag: count for tag, (_, count) in period.means.items()} | {tag: len(values) for tag, values in period.spreads.items()}
        summary = Summary(
            behavior=behavior,
            step=step,
            time=time.time(),
            elapsed=elapsed,
            training=training,
            values={**{tag: sums[tag] / count for tag, count in counts.items()}, **period.totals, **period.latest},
            totals={**sums, **period.latest},
            histograms={tag: np.asarray(values) for tag, values in period.spreads.items()},
            episodes=len(returns),
            mean=mean,
            std=std,
        )
        self._each(lambda sink: sink.write(summary), f"the summary of '{behavior}' at step {step:,}")
        return summary

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Sends a note to every sink."""
        self._each(lambda sink: sink.text(behavior, tag, body), f"the {tag.lower()} of '{behavior}'")

    def close(self) -> None:
        """Closes every sink."""
        self._each(lambda sink: sink.close(), "the end of the run")

    def _each(self, send: Callable[[Sink], None], what: str) -> None:
        """Sends something to every sink; one that fails is tried again the next time."""
        for number, sink in enumerate(self._sinks):
            try:
                send(sink)
            except Exception as error:
                if number not in self._failed:
                    self._failed.add(number)
                    reason = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
                    self._warn(
                        f"{type(sink).__name__} could not take {what}: {reason}; training goes on without it, and further failures "
                        "of this sink are not reported"
                    )

    def state_dict(self) -> dict[str, Any]:
        """The open periods and the episodes looked back on, in plain types."""
        return {
            "periods": {name: asdict(period) for name, period in self._periods.items()},
            "since_update": {name: list(pair) for name, pair in self._since_update.items()},
            "before_update": {name: list(pair) for name, pair in self._before_update.items()},
            "last": {name: asdict(last) for name, last in self._last.items()},
            "recent": {name: list(returns) for name, returns in self._recent.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if never interrupted."""
        for kept in (self._periods, self._since_update, self._before_update, self._last, self._recent):
            kept.clear()
        self._periods.update((name, _Period(**deepcopy(period))) for name, period in state["periods"].items())
        self._since_update.update((name, list(pair)) for name, pair in state["since_update"].items())
        # not in checkpoints of earlier versions
        self._before_update.update((name, list(pair)) for name, pair in state.get("before_update", {}).items())
        for name, last in state.get("last", {}).items():
            self._last[name] = LastReward(**{**last, "judged": tuple(last["judged"])})
        self._recent.update((name, deque(returns, maxlen=RECENT)) for name, returns in state["recent"].items())


def _last_reward(period: _Period, step: int | None) -> LastReward | None:
    returns, groups, (total, count) = period.spreads.get(REWARD, []), period.spreads.get(GROUP_REWARD), period.judged
    if not returns:
        return None
    mean = sum(returns) / len(returns)
    group = sum(groups) / len(groups) if groups else None
    return LastReward(step, len(returns), mean, group, (total / count, int(count)) if count else (mean, len(returns)))


def _add(sum_and_count: list[float], numbers: Sequence[float]) -> None:
    """One by one: a sum must not depend on how many came at once, or a run that was interrupted would differ in its last bit."""
    for number in numbers:
        sum_and_count[0] += number
    sum_and_count[1] += len(numbers)


def _numbers(values: Iterable[float]) -> list[float]:
    return [number for number in map(float, values) if not math.isnan(number)]
