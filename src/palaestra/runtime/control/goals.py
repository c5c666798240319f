"""Ends behaviors that are good enough or no longer improve, as `stop_when` says."""

from __future__ import annotations

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
"""Beginning of the tags of lessons."""
NEVER = 3
"""Summaries without a metric after which a warning says so."""
Ending = Literal["goal", "no progress"]


@dataclass
class Course:
    """Course of a behavior's metric, in plain types for checkpoints."""

    newest: list[list[float]] = field(default_factory=list)
    """Sum of the values, how many they are, and episodes, of each of the newest summaries, oldest first."""
    best: float | None = None
    best_step: int = 0
    ending: str = ""
    """Why the behavior needs no more training, as an `Ending`; empty: it does."""
    reason: str = ""
    """The same as a sentence."""

    def value(self, settings: StopSettings) -> float | None:
        """Returns the mean over the newest summaries; None if they are too few, or none has the metric."""
        total = count = 0.0
        for number, (sums, weight, _) in enumerate(self.newest):
            total, count = (total + sums, count + weight) if number >= self._first(settings) else (total, count)
        episodes = sum(episodes for _, _, episodes in self.newest)
        enough = len(self.newest) >= settings.summaries and episodes >= settings.episodes
        return total / count if enough and count else None

    def lacking(self, settings: StopSettings) -> str | None:
        """Returns a sentence if there were too few episodes for a value; None if there were enough."""
        there = sum(episodes for _, _, episodes in self.newest)
        if there >= settings.episodes:
            return None
        what = "stop_when" if settings.at_least is None else f"--stop-at={settings.at_least:g}"
        return f"{what} needs {settings.episodes:,} episodes; there were {there:,.0f}"

    def forget(self, settings: StopSettings) -> None:
        """Removes summaries that no value needs any more."""
        del self.newest[: self._first(settings)]

    def _first(self, settings: StopSettings) -> int:
        """Returns the number of the oldest summary that is needed."""
        episodes = 0.0
        for number in reversed(range(len(self.newest))):
            episodes += self.newest[number][2]
            if episodes >= settings.episodes and len(self.newest) - number >= settings.summaries:
                return number
        return 0


class Goals:
    """Follows the metrics of all behaviors that have a `stop_when`."""

    def __init__(self, warn: Callable[[str], object] = warnings.warn) -> None:
        """`warn` is told of metrics that never come."""
        self.courses: dict[str, Course] = {}
        self._mixed: set[str] = set()
        """Behaviors whose open summary began in an earlier lesson."""
        self._warn = warn
        self._without: dict[str, int] = {}

    def note(self, summary: Summary, settings: StopSettings | None, *, last_lesson: bool = True) -> Course | None:
        """Takes a summary; returns the behavior's course if it needs no more training as of now.

        `last_lesson`: no curriculum has a lesson to come. Before that no behavior is good enough, unless it is measured
        by lessons.
        """
        mixed = summary.behavior in self._mixed
        self._mixed.discard(summary.behavior)
        if settings is None:
            return None
        course = self.courses.setdefault(summary.behavior, Course())
        if course.ending or mixed:
            return None
        course.newest.append(_entry(summary, settings.metric))
        self._look_for(summary, settings.metric)
        course.forget(settings)
        value = course.value(settings)
        if value is None:
            return None
        what = f"{settings.metric} is {readable(value)}"
        high = settings.at_least is None or value >= settings.at_least
        low = settings.at_most is None or value <= settings.at_most
        counts = last_lesson or settings.metric.startswith(LESSONS)
        if counts and high and low and (settings.at_least, settings.at_most) != (None, None):
            return self._end(course, "goal", f"{what}, {_bounds(settings)}, over {_extent(course)}")
        if course.best is None or (value < course.best if settings.falls else value > course.best):
            course.best = value
            course.best_step = summary.step
        elif settings.no_progress is not None and summary.step - course.best_step >= settings.no_progress:
            best = (
                f"no better than {readable(course.best)} at step {course.best_step:,}, "
                f"{summary.step - course.best_step:,} decisions ago"
            )
            return self._end(course, "no progress", f"{what}, {best}")
        return None

    def begin_lesson(self, behaviors: Iterable[str]) -> list[str]:
        """Forgets what was measured in an earlier lesson, with which what comes cannot be compared.

        Returns the behaviors that had made no progress there, and are to be trained again.
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
        """Returns the courses. `ended`: without those that ended the run, which watches anew when it is resumed."""
        courses = {name: asdict(course) for name, course in self.courses.items() if not (ended and course.ending)}
        return {name: {**course, "mixed": name in self._mixed} for name, course in courses.items()} | {
            name: {**asdict(Course()), "mixed": True} for name in sorted(self._mixed - courses.keys())
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the courses that `state_dict` returned."""
        self._mixed = {name for name, one in state.items() if one["mixed"]}
        self.courses = {
            name: Course(
                [list(entry) for entry in one["newest"]],
                one["best"],
                one["best_step"],
                one["ending"],
                one["reason"],
            )
            for name, one in state.items()
        }


def _entry(summary: Summary, metric: str) -> list[float]:
    """Returns sum, count and episodes of a summary; rewards count by episode, other metrics once."""
    if metric == REWARD:
        returns = summary.judged
        return [float(returns.sum()), float(len(returns)), float(len(returns))]
    value = summary.values.get(metric)
    return [0.0, 0.0, float(summary.episodes)] if value is None else [float(value), 1.0, float(summary.episodes)]


def _bounds(settings: StopSettings) -> str:
    low = [] if settings.at_least is None else [f"at least {readable(settings.at_least)}"]
    return " and ".join([*low, *([] if settings.at_most is None else [f"at most {readable(settings.at_most)}"])])


def _extent(course: Course) -> str:
    episodes = int(sum(entry[2] for entry in course.newest))
    summaries = len(course.newest)
    return f"{episodes:,} episodes in {summaries} {'summary' if summaries == 1 else 'summaries'}"
