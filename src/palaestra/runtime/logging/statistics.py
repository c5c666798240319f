"""Collects a run's metrics between two summaries, and sends the summaries to its trackers."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from palaestra.core.metrics import EXTRINSIC, GROUP_REWARD, LENGTH, REWARD, SUCCESS
from palaestra.runtime.logging.tracker import Summary, Tracker
from palaestra.runtime.logging.tracker_set import TrackerSet

NO_TRACKERS: Mapping[str, Tracker] = {}
FEW = 10
"""Episodes below which the mean of a period between two updates says little."""


@dataclass(frozen=True, slots=True)
class LastReward:
    """Mean returns of the newest period in which an episode ended."""

    step: int | None  # step of its summary; None: no summary had an episode yet, and these are all episodes so far
    episodes: int
    mean: float  # of their returns, as in the summary
    group: float | None  # mean of what whole groups earned; None: there are no groups
    # mean and count of the returns that runs are compared by; a group counts once, with its group return
    judged: tuple[float, int]
    success: float | None = None  # share of successful episodes, where the environment reports it


@dataclass
class _Period:
    """One behavior's values since its last summary, in plain types, so that `state_dict` is JSON."""

    means: dict[str, list[float]] = field(default_factory=dict)  # tag: [sum, count]
    totals: dict[str, float] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, list[float]] = field(default_factory=dict)  # tag: every value
    judged: list[float] = field(default_factory=lambda: [0.0, 0])  # sum and count of the returns to compare runs by
    grouped: bool = False  # whether agents of groups ended episodes


class Statistics:
    """Collects values by behavior and tag. NaN is ignored; a tag without values is left out of the summary."""

    def __init__(
        self, trackers: Mapping[str, Tracker] = NO_TRACKERS, warn: Callable[[str], object] = warnings.warn
    ) -> None:
        """`trackers`, by name, get the summaries. `warn` is called once for each that fails; training continues."""
        self.trackers = TrackerSet(trackers, warn)
        self._periods: defaultdict[str, _Period] = defaultdict(_Period)
        self._since_update: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0])  # sum and count of returns
        # the same between the two updates before, where episodes ended
        self._before_update: dict[str, list[float]] = {}
        self._last: dict[str, LastReward] = {}  # of the newest summary with an episode
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=FEW))

    def add(self, behavior: str, tag: str, value: float) -> None:
        """Adds a value; the summary has the mean of the period's values."""
        self.extend(behavior, tag, (value,))

    def extend(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """Adds many values, like `add`."""
        if numbers := _numbers(values):
            sum_and_count = self._periods[behavior].means.setdefault(tag, [0.0, 0])
            _add(sum_and_count, numbers)
            self.trackers.values(behavior, tag, numbers, "mean")

    def total(self, behavior: str, tag: str, value: float) -> None:
        """Adds a value; the summary has the sum of the period's values."""
        for number in _numbers((value,)):
            totals = self._periods[behavior].totals
            totals[tag] = totals.get(tag, 0.0) + number
            self.trackers.values(behavior, tag, [number], "total")

    def latest(self, behavior: str, tag: str, value: float) -> None:
        """Sets a value; the summary has the last value."""
        for number in _numbers((value,)):
            self._periods[behavior].latest[tag] = number
            self.trackers.values(behavior, tag, [number], "latest")

    def spread(self, behavior: str, tag: str, values: Iterable[float]) -> None:
        """Adds values; the summary has their mean and a histogram."""
        if numbers := _numbers(values):
            self._periods[behavior].spreads.setdefault(tag, []).extend(numbers)
            self.trackers.values(behavior, tag, numbers, "spread")

    def episodes(
        self,
        behavior: str,
        returns: Sequence[float],
        lengths: Sequence[int],
        *,
        extrinsic: Sequence[float] | None = None,
        judged: Sequence[float] | None = None,
        grouped: bool = False,
    ) -> None:
        """Adds episodes that ended: the return and the number of decisions of each.

        `extrinsic` are the returns used for learning (with strength and group reward), if they differ. `judged` are the
        returns for `recent_reward` and `last_reward`, if they differ, as for groups; `grouped`: whether some agents
        were in groups. The recorded length is the number of decisions minus one, as in ML-Agents;
        docs/reference/metrics.md gives the reason.
        """
        self.spread(behavior, REWARD, returns)
        self.extend(behavior, LENGTH, [length - 1 for length in lengths])
        self.extend(behavior, EXTRINSIC, returns if extrinsic is None else extrinsic)
        numbers = _numbers(returns if judged is None else judged)
        _add(self._since_update[behavior], numbers)
        _add(self._periods[behavior].judged, numbers)
        self._periods[behavior].grouped |= grouped
        self._recent[behavior].extend(numbers)

    def recent_reward(self, behavior: str) -> float | None:
        """Returns the mean return of the episodes since the last policy update, which is listed with each checkpoint.

        If no episode has ended since the update, returns the mean of the period before it, or of the newest `FEW`
        episodes if that period had fewer (as with SAC, which updates after every tick); None before the first episode
        has ended.
        """
        total, count = self._since_update[behavior]
        if not count:
            total, count = self._before_update.get(behavior, (0.0, 0))
            if count < FEW:
                newest = self._recent[behavior]
                total = sum(newest)
                count = len(newest)
        return total / count if count else None

    def policy_updated(self, behavior: str) -> None:
        """Starts a new period for `recent_reward`."""
        past = self._since_update.pop(behavior, None)
        if past is not None and past[1]:
            self._before_update[behavior] = past

    def reward(self, behavior: str) -> float | None:
        """Returns the mean reward of `last_reward`; with groups, of whole groups."""
        last = self.last_reward(behavior)
        return None if last is None else last.mean if last.group is None else last.group

    def last_reward(self, behavior: str) -> LastReward | None:
        """Returns the rewards of the newest summary with an episode; before it, of all episodes, or None."""
        if behavior in self._last:
            return self._last[behavior]
        return _last_reward(self._periods[behavior], None) if behavior in self._periods else None

    def returns_so_far(self, behavior: str) -> dict[str, Sequence[float]]:
        """Returns the returns since the last summary, of episodes and groups, by tag."""
        spreads = self._periods.get(behavior, _Period()).spreads
        return {tag: spreads[tag] for tag in (REWARD, GROUP_REWARD) if tag in spreads}

    def so_far(self, behavior: str, tag: str) -> float | None:
        """Returns the value that a summary would have now; None if too little was measured since the last summary."""
        period = self._periods.get(behavior, _Period())
        if tag in period.totals or tag in period.latest:
            return period.totals.get(tag, period.latest.get(tag))
        values = period.spreads.get(tag, [])
        total, count = period.judged if tag == REWARD else period.means.get(tag, (sum(values), len(values)))
        return total / count if count >= FEW else None

    def summarize(
        self, behavior: str, step: int, *, elapsed: float, training: bool, times: Mapping[str, Any] | None = None
    ) -> Summary:
        """Ends the period, sends its summary to every tracker and begins the next period."""
        period = self._periods.pop(behavior, _Period())
        if (last := _last_reward(period, step)) is not None:
            self._last[behavior] = last
        returns = np.asarray(period.spreads.get(REWARD, ()))
        mean = std = math.nan
        if len(returns):
            with np.errstate(over="ignore", invalid="ignore"):  # huge and infinite returns
                mean = float(returns.mean())
                std = float(returns.std())
        sums = {
            **{tag: total for tag, (total, _) in period.means.items()},
            **{tag: sum(values) for tag, values in period.spreads.items()},
            **period.totals,
        }
        counts = {tag: count for tag, (_, count) in period.means.items()} | {
            tag: len(values) for tag, values in period.spreads.items()
        }
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
            times=times,
            grouped=period.grouped,
        )
        self.trackers.each(lambda tracker: tracker.write(summary), f"the summary of '{behavior}' at step {step:,}")
        return summary

    def state_dict(self) -> dict[str, Any]:
        """Returns the open periods and the recent returns, in plain types."""
        return {
            "periods": {name: asdict(period) for name, period in self._periods.items()},
            "since_update": {name: list(pair) for name, pair in self._since_update.items()},
            "before_update": {name: list(pair) for name, pair in self._before_update.items()},
            "last": {name: asdict(last) for name, last in self._last.items()},
            "recent": {name: list(returns) for name, returns in self._recent.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state_dict` returned."""
        for kept in (self._periods, self._since_update, self._before_update, self._last, self._recent):
            kept.clear()
        self._periods.update((name, _Period(**deepcopy(period))) for name, period in state["periods"].items())
        self._since_update.update((name, list(pair)) for name, pair in state["since_update"].items())
        self._before_update.update((name, list(pair)) for name, pair in state["before_update"].items())
        for name, last in state["last"].items():
            self._last[name] = LastReward(**{**last, "judged": tuple(last["judged"])})
        self._recent.update((name, deque(returns, maxlen=FEW)) for name, returns in state["recent"].items())


def _last_reward(period: _Period, step: int | None) -> LastReward | None:
    returns, groups, (total, count) = period.spreads.get(REWARD, []), period.spreads.get(GROUP_REWARD), period.judged
    if not returns:
        return None
    mean = sum(returns) / len(returns)
    group = sum(groups) / len(groups) if groups else None
    judged = (total / count, int(count)) if count else (mean, len(returns))
    successes, known = period.means.get(SUCCESS, (0.0, 0))
    return LastReward(step, len(returns), mean, group, judged, successes / known if known else None)


def _add(sum_and_count: list[float], numbers: Sequence[float]) -> None:
    """Adds numbers one by one: were the sum to depend on how they are batched, a resumed run would differ."""
    for number in numbers:
        sum_and_count[0] += number
    sum_and_count[1] += len(numbers)


def _numbers(values: Iterable[float]) -> list[float]:
    return [number for number in map(float, values) if not math.isnan(number)]
