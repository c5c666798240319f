"""Ends behaviors that are good enough or no longer improve, according to `stop_when`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from palaestra.core.display import readable
from palaestra.core.metrics import REWARD
from palaestra.core.plugins import nearest
from palaestra.runtime.logging.tracker import Summary
from palaestra.scenario.ending_settings import StopSettings

LESSONS = "Environment/Lesson Number/"
"""Begin of the tags of lessons."""
NEVER = 3
"""Number of summaries without a metric after which a warning is shown."""
Ending = Literal["goal", "no progress"]


@dataclass
class Period:
    """The values of one summary: rewards of the newest episodes, a value of another metric, or nothing."""

    step: int
    episodes: int
    values: list[float]


@dataclass
class Course:
    """Course of a behavior's metric, in plain types for checkpoints."""

    newest: list[Period] = field(default_factory=list)
    """The newest summaries, oldest first."""
    best: float | None = None
    best_step: int = 0
    ending: str = ""
    """Why the behavior needs no more training, as an `Ending`; empty: it needs more."""
    reason: str = ""
    """The reason of `ending` as a sentence."""

    @property
    def episodes(self) -> int:
        """Episodes of these summaries."""
        return sum(one.episodes for one in self.newest)

    def value(self, settings: StopSettings, since: float = -math.inf) -> float | None:
        """Returns the mean over the newest episodes and summaries; None if there are too few, or if they lack the
        metric.

        `since`: a step; summaries after this step are enough, with however few episodes.
        """
        enough = self.episodes >= settings.episodes or self.newest[0].step <= since
        after = sum(one.step > since for one in self.newest)
        periods = self.newest[self._first(settings) :][-max(after, settings.summaries) :]
        values = [value for one in periods for value in one.values]
        if settings.metric == REWARD and not 1 < settings.summaries == len(periods):
            values = values[-settings.episodes :]
        return sum(values) / len(values) if enough and len(periods) >= settings.summaries and values else None

    def lacking(self, settings: StopSettings) -> str | None:
        """Returns a sentence if there were too few episodes for the goal; None if there were enough."""
        there = self.episodes
        if there >= settings.episodes or (settings.at_least, settings.at_most) == (None, None):
            return None
        what = "stop_when" if settings.at_least is None else f"--stop-at={settings.at_least:g}"
        return f"{what} needs {settings.episodes:,} episodes; there were {there:,.0f}"

    def forget(self, settings: StopSettings) -> None:
        """Removes summaries that are no longer needed for any value."""
        del self.newest[: self._first(settings)]

    def _first(self, settings: StopSettings) -> int:
        """Returns the number of the oldest summary that is needed."""
        episodes = 0
        for number in reversed(range(len(self.newest))):
            episodes += self.newest[number].episodes
            if episodes >= settings.episodes and len(self.newest) - number >= settings.summaries:
                return number
        return 0


class Goals:
    """Follows the metrics of all behaviors that have a `stop_when`."""

    def __init__(self, warn: Callable[[str], object] = warnings.warn) -> None:
        """`warn` is called for metrics that never appear."""
        self.courses: dict[str, Course] = {}
        self._mixed: set[str] = set()
        """Behaviors whose open summary began in an earlier lesson."""
        self._warn = warn
        self._without: dict[str, int] = {}

    def note(self, summary: Summary, settings: StopSettings | None, *, last_lesson: bool = True) -> Course | None:
        """Adds a summary; returns the behavior's course if the behavior needs no more training from now on.

        `last_lesson`: every curriculum is in its last lesson. Before the last lesson no behavior counts as good enough,
        unless its metric is a lesson number.
        """
        mixed = summary.behavior in self._mixed
        self._mixed.discard(summary.behavior)
        if settings is None:
            return None
        course = self.courses.setdefault(summary.behavior, Course())
        if course.ending or mixed:
            return None
        course.newest.append(_period(summary, settings))
        self._look_for(summary, settings.metric)
        course.forget(settings)
        value = course.value(settings)
        counts = last_lesson or settings.metric.startswith(LESSONS)
        if counts and value is not None and _good(value, settings):
            what = f"{settings.metric} is {readable(value)}, {_bounds(settings)}"
            return self._end(course, "goal", f"{what}, over {_extent(course, settings)}")
        # of long episodes a mean of many goes on rising long after they have stopped getting better
        value = course.value(settings, summary.step - (settings.no_progress or 0))
        if settings.no_progress is None or value is None:
            return None
        if course.best is None or (value < course.best if settings.falls else value > course.best):
            course.best = value
            course.best_step = summary.step
        elif summary.step - course.best_step >= settings.no_progress:
            best = (
                f"no better than {readable(course.best)} at step {course.best_step:,}, "
                f"{summary.step - course.best_step:,} decisions ago"
            )
            return self._end(course, "no progress", f"{settings.metric} is {readable(value)}, {best}")
        return None

    def begin_lesson(self, behaviors: Iterable[str]) -> list[str]:
        """Forgets measurements of an earlier lesson, which are not comparable with later ones.

        Returns the behaviors that had stopped improving in the saved run, and are trained again.
        """
        self._mixed = set(behaviors)
        stuck = [name for name, course in self.courses.items() if course.ending == "no progress"]
        self.courses = {name: course for name, course in self.courses.items() if course.ending == "goal"}
        return stuck

    def met(self, behavior: str) -> bool:
        """Whether a behavior needs no more training."""
        return behavior in self.courses and bool(self.courses[behavior].ending)

    def _look_for(self, summary: Summary, metric: str) -> None:
        """Warns once of a metric that the first summaries did not have."""
        name = summary.behavior
        self._without[name] = NEVER + 1 if metric in summary.values else self._without.get(name, 0) + 1
        if self._without[name] == NEVER:
            hint = nearest(metric, summary.values)
            self._warn(
                f"stop_when of '{name}': there is no metric '{metric}'{hint}; unless it comes, nothing ends the "
                "training early"
            )

    @staticmethod
    def _end(course: Course, ending: Ending, reason: str) -> Course:
        course.ending = ending
        course.reason = reason
        return course

    def state_dict(self, *, ended: bool = False) -> dict[str, Any]:
        """Returns the measurements. `ended`: leave out the behaviors that ended the run, because a resumed run checks
        them again."""
        courses = {name: asdict(course) for name, course in self.courses.items() if not (ended and course.ending)}
        return {name: {**course, "mixed": name in self._mixed} for name, course in courses.items()} | {
            name: {**asdict(Course()), "mixed": True} for name in sorted(self._mixed - courses.keys())
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the courses that `state_dict` returned. Summaries in the format of another version are ignored."""
        self._mixed = {name for name, one in state.items() if one["mixed"]}
        self.courses = {}
        for name, one in state.items():
            kept = {key: value for key, value in one.items() if key != "mixed"}
            newest = [Period(**period) for period in one["newest"] if isinstance(period, Mapping)]
            self.courses[name] = Course(**{**kept, "newest": newest})


def _period(summary: Summary, settings: StopSettings) -> Period:
    if settings.metric == REWARD:
        needed = len(summary.judged) if settings.summaries > 1 else settings.episodes
        return Period(summary.step, len(summary.judged), summary.judged[-needed:].tolist())
    values = [float(summary.values[settings.metric])] if settings.metric in summary.values else []
    return Period(summary.step, summary.episodes, values)


def _good(value: float, settings: StopSettings) -> bool:
    low, high = settings.at_least, settings.at_most
    return (low, high) != (None, None) and (low is None or value >= low) and (high is None or value <= high)


def _bounds(settings: StopSettings) -> str:
    low = [] if settings.at_least is None else [f"at least {readable(settings.at_least)}"]
    return " and ".join([*low, *([] if settings.at_most is None else [f"at most {readable(settings.at_most)}"])])


def _extent(course: Course, settings: StopSettings) -> str:
    if settings.metric == REWARD and settings.summaries == 1:
        return f"the newest {settings.episodes:,} episodes"
    summaries = len(course.newest)
    return f"{course.episodes:,} episodes in {summaries} {'summary' if summaries == 1 else 'summaries'}"
