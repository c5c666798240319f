"""Curricula: lessons of environment parameters. A lesson lasts until a behavior meets its criterion."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from palaestra.scenario.settings import ELO, CompletionCriteriaSettings, CurriculumSettings, LessonSettings

SMOOTHING = 0.25
"""Weight of the last value in a smoothed measure."""
PROGRESS, REWARD = "progress", "reward"
MEASURES = (REWARD, PROGRESS, ELO)
"""Measures that are not tags of metrics."""
_WORDS = {PROGRESS: "progress", REWARD: "mean reward", ELO: "Elo"}


class Curriculum:
    """Lessons of one parameter, and the current one."""

    def __init__(self, parameter: str, settings: CurriculumSettings) -> None:
        self.parameter = parameter
        self.lessons = settings.curriculum
        self.number = 0
        self.measured: float | None = None
        """Value of the criterion's measure, smoothed if requested; None if this lesson has no value yet."""

    @property
    def lesson(self) -> LessonSettings:
        """Current lesson."""
        return self.lessons[self.number]

    @property
    def criterion(self) -> CompletionCriteriaSettings | None:
        """Criterion that ends the current lesson; None if the lesson is the last."""
        return self.lesson.completion_criteria if self.number + 1 < len(self.lessons) else None

    def set_default_behavior(self, behavior: str) -> None:
        """Sets the behavior for criteria that name none."""
        self.lessons = tuple(_measured_by(lesson, behavior) for lesson in self.lessons)

    def measure(self, value: float) -> None:
        """Adds a new value of the measure."""
        criterion = self.criterion
        smoothed = criterion is not None and criterion.signal_smoothing and criterion.measure != PROGRESS
        self.measured = (
            SMOOTHING * self.measured + (1 - SMOOTHING) * value if smoothed and self.measured is not None else value
        )

    def met(self, episodes: int) -> bool:
        """Whether the criterion is met after that many episodes of the lesson."""
        criterion = self.criterion
        if criterion is None or self.measured is None or episodes < criterion.min_lesson_length:
            return False
        return self.measured < criterion.threshold if criterion.below else self.measured > criterion.threshold

    def status(self, episodes: int) -> str:
        """Returns a line about the current lesson and what it still needs."""
        place = f"{self.parameter} lesson {self.number + 1}/{len(self.lessons)} ({self.lesson.name})"
        criterion = self.criterion
        if criterion is None:
            return f"{place}: the last"
        what = _WORDS.get(criterion.measure, criterion.measure)
        now = "not measured yet" if self.measured is None else _shown(self.measured)
        needs = f"needs {'less' if criterion.below else 'more'} than {criterion.threshold:g}"
        length = f", {min(episodes, criterion.min_lesson_length)}/{criterion.min_lesson_length} episodes" * (
            criterion.min_lesson_length > 0
        )
        return f"{place}: {what} of {criterion.behavior} {now}, {needs}{length}"


def _measured_by(lesson: LessonSettings, behavior: str) -> LessonSettings:
    criterion = lesson.completion_criteria
    if criterion is None or criterion.behavior is not None:
        return lesson
    return lesson.model_copy(update={"completion_criteria": criterion.model_copy(update={"behavior": behavior})})


def _shown(number: float) -> str:
    """Formats a number with three digits; a rating with one decimal."""
    return f"{number:.3g}" if abs(number) < 100 else f"{number:.1f}"


class Curricula:
    """Curricula of a run, and what was measured since a lesson last began.

    As in ML-Agents, a change of any lesson restarts all measurements: what agents earned before says little about the
    environment now.
    """

    def __init__(self, curricula: Mapping[str, CurriculumSettings]) -> None:
        self.all = {name: Curriculum(name, settings) for name, settings in curricula.items()}
        self.default_behavior: str | None = None
        """Behavior for criteria that name none; None if there is no such criterion, or no behavior learns yet."""
        self._returns: dict[str, deque[float]] = {}
        self._episodes: dict[str, int] = {}
        self._loaded: Mapping[str, Any] | None = None
        """Loaded state, kept until `set_default_behavior` is called."""
        self._new: set[str] = set()
        """Behaviors with episodes that have ended since the last update."""
        self._metrics: dict[str, Mapping[str, float]] = {}
        """Values of each behavior's newest summary, until they are used."""
        self._mixed: set[str] = set()
        """Behaviors whose open summary began in an earlier lesson."""
        self._allocate_returns()

    def _allocate_returns(self) -> None:
        lengths: defaultdict[str, int] = defaultdict(lambda: 1)
        for criterion in self._criteria():
            if criterion.behavior is not None:
                lengths[criterion.behavior] = max(lengths[criterion.behavior], criterion.min_lesson_length)
        self._returns = {behavior: deque[float](maxlen=length) for behavior, length in lengths.items()}
        self._episodes = dict.fromkeys(lengths, 0)

    def _criteria(self) -> list[CompletionCriteriaSettings]:
        lessons = [lesson for each in self.all.values() for lesson in each.lessons[:-1]]
        return [lesson.completion_criteria for lesson in lessons if lesson.completion_criteria is not None]

    @property
    def has_behaviors(self) -> bool:
        """Whether every criterion has a behavior."""
        return all(criterion.behavior is not None for criterion in self._criteria())

    def start_with(self, lesson: int) -> None:
        """Moves every curriculum to a lesson, or to its last if it has fewer."""
        for each in self.all.values():
            each.number = min(lesson, len(each.lessons) - 1)

    def set_default_behavior(self, behavior: str) -> None:
        """Sets the behavior for criteria that name none."""
        self.default_behavior = behavior
        for each in self.all.values():
            each.set_default_behavior(behavior)
        self._allocate_returns()
        if self._loaded is not None:
            self.load_state_dict(self._loaded)

    @property
    def finished(self) -> bool:
        """Whether all parameters are in their last lesson."""
        return all(each.criterion is None for each in self.all.values())

    def episodes(self, behavior: str, returns: Iterable[float]) -> None:
        """Adds returns of episodes that began in the current lessons, in the order of their ends."""
        if behavior in self._returns and (numbers := list(returns)):
            self._returns[behavior].extend(numbers)
            self._episodes[behavior] += len(numbers)
            self._new.add(behavior)

    def summary(self, behavior: str, values: Mapping[str, float]) -> None:
        """Adds the values of a summary, by tag. A summary that began in an earlier lesson is ignored."""
        if behavior in self._mixed:
            self._mixed.discard(behavior)
        elif behavior in self._returns:
            self._metrics[behavior] = values

    def update(self, progress: Mapping[str, float], ratings: Mapping[str, float]) -> list[Curriculum]:
        """Advances every parameter whose criterion is met, and returns the curricula that advanced.

        `progress` maps behaviors to their share of max_steps, from 0 to 1; `ratings` maps behaviors in self-play to
        their Elo.
        """
        for each in self.all.values():
            value = self._value(each.criterion, progress, ratings)
            if value is not None:
                each.measure(value)
        self._new.clear()
        self._metrics.clear()
        changed = [
            each
            for each in self.all.values()
            if each.criterion is not None and each.met(self._episodes_of(each.criterion))
        ]
        for each in changed:
            each.number += 1
        if changed:
            self._begin(progress)
        return changed

    def _value(
        self, criterion: CompletionCriteriaSettings | None, progress: Mapping[str, float], ratings: Mapping[str, float]
    ) -> float | None:
        if criterion is None or criterion.behavior is None:
            return None
        behavior = criterion.behavior
        if criterion.measure == PROGRESS:
            return progress.get(behavior)
        if criterion.measure == REWARD:
            returns = self._returns[behavior]
            return sum(returns) / len(returns) if behavior in self._new else None
        if criterion.measure == ELO:
            return ratings.get(behavior) if behavior in self._new else None
        return self._metrics.get(behavior, {}).get(criterion.measure)

    def _episodes_of(self, criterion: CompletionCriteriaSettings) -> int:
        return 0 if criterion.behavior is None else self._episodes[criterion.behavior]

    def _begin(self, behaviors: Iterable[str]) -> None:
        for each in self.all.values():
            each.measured = None
        for behavior, returns in self._returns.items():
            returns.clear()
            self._episodes[behavior] = 0
        self._mixed = set(behaviors)

    def status(self, behavior: str | None = None) -> list[str]:
        """Returns a line for each parameter with lessons left; `behavior`: only for criteria that measure it."""
        waiting = [(each, each.criterion) for each in self.all.values() if each.criterion is not None]
        return [
            each.status(self._episodes_of(criterion))
            for each, criterion in waiting
            if behavior in (None, criterion.behavior)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in plain types. Call between updates."""
        return {
            "lessons": {name: each.number for name, each in self.all.items()},
            "measured_by": [criterion.behavior for criterion in self._criteria()],
            "measured": {name: each.measured for name, each in self.all.items()},
            "returns": {behavior: list(returns) for behavior, returns in self._returns.items()},
            "episodes": dict(self._episodes),
            "new": sorted(self._new),
            "metrics": {behavior: dict(values) for behavior, values in self._metrics.items()},
            "mixed": sorted(self._mixed),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`. Curricula that the state does not have start again; a lesson beyond the last becomes
        the last."""
        for criterion, behavior in zip(self._criteria(), state["measured_by"], strict=False):
            if criterion.behavior is None and behavior is not None:
                self.set_default_behavior(behavior)
        self._loaded = None if self.has_behaviors else state
        for name, each in self.all.items():
            if name in state["lessons"]:
                each.number = min(state["lessons"][name], len(each.lessons) - 1)
                each.measured = state["measured"].get(name)
        for behavior, returns in self._returns.items():
            returns.clear()
            returns.extend(state["returns"].get(behavior, ()))
            self._episodes[behavior] = state["episodes"].get(behavior, 0)
        self._new = set(state["new"])
        self._mixed = set(state["mixed"])
        self._metrics = dict(state["metrics"])
