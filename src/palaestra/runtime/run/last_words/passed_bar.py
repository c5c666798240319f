"""Finds out from the summaries in `metrics.jsonl` whether a run was good enough long before its end."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palaestra.core.files import read_lines
from palaestra.core.metrics import GROUP_REWARD, LENGTH, REWARD
from palaestra.runtime.control.goals import Course, Period
from palaestra.runtime.logging.trackers import METRICS
from palaestra.scenario.ending_settings import StopSettings

EARLY = 0.75
"""Share of a run: a known bar that was passed before this is reported as early."""
LEVEL, FLAT = 0.5, 0.05
"""Share of a run before which a reward that has stopped rising is reported as early, and share of its rise by which it
may still change."""
EPISODES = 100
"""Number of episodes whose mean --stop-at compares."""
LONG = 0.25
"""Share of the steps until a bar above which its episodes are so long that summaries seem to pass it sooner."""
ENOUGH = 20
"""Least number of values that show that a reward has stopped rising."""


@dataclass(frozen=True, slots=True)
class PassedBar:
    """A reward that a run reached long before its end."""

    reward: float
    step: int
    share: float  # of the run's steps
    known: bool  # False: a level at which the reward has stood still since
    length: int = 0  # decisions of an episode there

    def sentence(self, name: str) -> str:
        """Returns a sentence about this reward, and the flag that ends such a run early. `name`: the environment."""
        bar = f"{self.reward:g}"
        what = f"the reward has hardly changed since it passed {bar}"
        why = ""
        if self.known:
            what = f"the mean of the newest {EPISODES} episodes passed {bar}, the benchmark of {name},"
            if (all_long := EPISODES * self.length) > LONG * self.step:
                why = f"; {EPISODES} episodes of {self.length:,} decisions take {all_long:,}"
        where = f"at step {self.step:,} ({100 * self.share:.0f} % of the run{why})"
        return f"{what} {where}: `--stop-at={bar}` ends there"


class _Value(NamedTuple):
    step: int
    reward: float  # as --stop-at measures it
    length: int  # decisions of an episode


def passed_bar(folder: Path, behavior: str, benchmark: float | None) -> PassedBar | None:
    """Returns the reward that a behavior reached early: the environment's benchmark if it is known, else the level at
    which the reward then stayed; None if there is no such level. Raises OSError."""
    values = _values(folder, behavior)
    if not values:
        return None
    known = benchmark is not None and math.isfinite(benchmark)
    bar = benchmark if known else _level(values)
    if bar is None:
        return None
    passed = next((value for value in values if value.reward >= bar), None)
    last = values[-1].step
    if passed is None or passed.step > (EARLY if known else LEVEL) * last:
        return None
    return PassedBar(bar, passed.step, passed.step / last, known, passed.length)


def _values(folder: Path, behavior: str) -> list[_Value]:
    """Returns the reward that --stop-at would have compared at each summary."""
    settings = StopSettings(at_least=0.0, episodes=EPISODES)
    course = Course()
    values = []
    for line in read_lines(folder / METRICS):
        try:
            summary = json.loads(line)
            step, episodes = int(summary["step"]), int(summary["episodes"])
            if summary["behavior"] != behavior:
                continue
            reward = summary.get(GROUP_REWARD, summary.get(REWARD))
        except (ValueError, KeyError, TypeError, AttributeError):  # cut off, or of another program
            continue
        counted = isinstance(reward, int | float) and episodes > 0
        course.newest.append(Period(step, episodes, [reward] * episodes) if counted else Period(step, 0, []))
        course.forget(settings)
        if (value := course.value(settings)) is not None:
            length = summary.get(LENGTH)  # less one
            values.append(_Value(step, value, round(length) + 1 if isinstance(length, int | float) else 0))
    return values


def _level(values: Sequence[_Value]) -> float | None:
    """Returns a level a little below that of the end if the reward has risen to it early and stayed; else None."""
    if len(values) < ENOUGH:
        return None
    rewards = np.array([value.reward for value in values])
    end = rewards[-len(rewards) // 5 :].mean()
    rise = end - rewards[0]
    bar = _rounded_down(end - FLAT * rise)
    reached = (rewards >= bar).nonzero()[0]
    if rise <= 0 or not len(reached):
        return None
    since = rewards[reached[0] :]
    return bar if since.min() >= end - 2 * FLAT * rise and since.max() <= end + FLAT * rise else None


def _rounded_down(value: float) -> float:
    """Returns a number with two digits that is not larger."""
    if not value:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(f"{math.floor(value / unit) * unit:.6g}")
