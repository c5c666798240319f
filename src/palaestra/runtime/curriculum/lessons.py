"""Curricula in a run: changes lessons, and reports each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from palaestra.core.plugins import nearest
from palaestra.core.timestep import TimeStep
from palaestra.runtime.curriculum.parameters import Parameters
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.runtime.parts.run_context import RunContext
from palaestra.scenario.curriculum import MEASURES, Curricula, Curriculum
from palaestra.scenario.samplers import sampler_of
from palaestra.scenario.settings import CurriculumSettings

if TYPE_CHECKING:
    from palaestra.runtime.collect.episodes import Episodes
    from palaestra.runtime.collect.learner import Learner
    from palaestra.runtime.control.run_requests import RunRequest
    from palaestra.runtime.logging.tracker import Summary

CHECK_EVERY = 32
"""Ticks between two checks of the criteria."""


class Lessons(RunPart):
    """Decides when lessons change, and sets environment parameters accordingly.

    Criteria are checked at fixed ticks, so that a resumed run changes lessons at the same ticks as an uninterrupted
    one.
    """

    name = "lessons"

    def __init__(
        self,
        context: RunContext,
        parameters: Parameters,
        saved: Mapping[str, Any] | None,
        began: Callable[..., None],
        shared: Callable[[], Sequence[Learner]],
    ) -> None:
        """`saved`: a resumed run's state, which holds from the first reset on. `began`: called when lessons begin.
        `shared`: returns the learners that all ranks have.
        """
        self._settings = context.settings.environment_parameters or {}
        forms = self._settings.items()
        self.curricula = Curricula({name: form for name, form in forms if isinstance(form, CurriculumSettings)})
        context.journal.passes_on("lessons", self.curricula.episodes)
        self._context = context
        self._parameters = parameters
        self._began = began
        self._shared = shared
        self._missed: Counter[str] = Counter()
        """Number of summaries that lacked a metric for which a lesson waits, by metric."""
        self._ticks = 0
        if saved is None:
            self.curricula.start_with(context.settings.env_settings.first_lesson)
        else:
            self._ticks = saved["ticks"]
            self.curricula.load_state_dict(saved["curricula"])
        parameters.set(self.numbers)

    @property
    def idle(self) -> bool:
        """Whether there are no parameters to log."""
        return not self._settings

    @property
    def numbers(self) -> dict[str, int]:
        """Number of the current lesson of every parameter; 0 for parameters without lessons."""
        return {name: self.curricula.all[name].number if name in self.curricula.all else 0 for name in self._settings}

    def joined(self, learner: Learner) -> None:
        """Adds a behavior that learns. Criteria that name no behavior apply to the first that all ranks have."""
        if not self.curricula.has_behaviors:
            choose_behavior(self.curricula, self._context.group.known(self._shared(), ()))
        elif self.curricula.default_behavior is not None and self._ticks:
            self._context.console.warning(
                f"'{learner.name}' learns too: lessons whose completion_criteria name no behavior still wait for "
                f"'{self.curricula.default_behavior}'; name the behavior to measure"
            )

    def started(self) -> None:
        """Prints the current lesson of each parameter that has a curriculum."""
        choose_behavior(self.curricula, self._shared())
        for each in self.curricula.all.values():
            self._context.console.info(announcement(each))

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Counts the ticks."""
        self._ticks += 1

    def ticks_ahead(self) -> int | None:
        """Returns the number of ticks until the next check; with several ranks, they check when they meet."""
        if self._context.inference or self.curricula.finished:
            return None
        return self._context.group.known(CHECK_EVERY - self._ticks % CHECK_EVERY, None)

    def episodes_ended(self, learner: Learner, episodes: Episodes) -> None:
        """Adds the returns by which lessons are measured; a group counts once, with its total reward."""
        counts = ~episodes.older
        returns = episodes.returns
        if episodes.in_group.any():
            counts = counts & (episodes.last_of_group | ~episodes.in_group)
            returns = returns + episodes.group_returns
        self._context.journal.note("lessons", learner.name, returns[counts].tolist())

    def collected(self) -> None:
        """Adds the numbers of the lessons to the statistics."""
        for name, number in self.numbers.items():
            for behavior in self._context.learners:
                self._context.journal.latest(behavior, f"Environment/Lesson Number/{name}", number)

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Reads the metrics of a summary. Warns once if a second summary lacks a metric that a lesson needs."""
        self.curricula.summary(summary.behavior, summary.values)
        for each in self.curricula.all.values():
            criterion = each.criterion
            if criterion is None or criterion.behavior != summary.behavior:
                continue
            metric = criterion.measure
            if metric in MEASURES or metric in summary.values:
                continue
            self._missed[metric] += 1
            if self._missed[metric] == 2:
                self._context.console.warning(
                    f"{each.parameter} waits for the metric '{metric}', which no summary of '{summary.behavior}' had "
                    f"so far{nearest(metric, summary.values)} (there are: {', '.join(summary.values)})"
                )
        for line in [] if self._context.inference else self.curricula.status(learner.name):
            self._context.console.info(line)

    def round_ended(self) -> None:
        """Advances the lessons whose criteria are met, if a check is due."""
        learners = self._shared()
        choose_behavior(self.curricula, learners)
        is_due = self._context.group.known(self._ticks % CHECK_EVERY == 0, True)
        if self._context.inference or self.curricula.finished or not is_due:
            return
        progress = {one.name: min(one.step / one.settings.max_steps, 1.0) for one in learners}
        ratings = {one.name: one.rating for one in learners if one.rating is not None}
        changed = self.curricula.update(progress, ratings)
        for each in changed:
            self._parameters.change(each.parameter, each.number)
            self._context.console.info(announcement(each))
        met = [each.lessons[each.number - 1].completion_criteria for each in changed]
        if any(criteria is not None for criteria in met):
            self._began(restarts=any(criteria is not None and criteria.require_reset for criteria in met))

    def asked(self, request: RunRequest) -> str | None:
        """Moves a curriculum to a lesson."""
        if request.kind != "lesson":
            return None
        found = self.curricula.all.get(request.name)
        if found is None:
            known = ", ".join(self.curricula.all) or "none"
            raise Refused(
                f"there is no curriculum for '{request.name}'{nearest(request.name, self.curricula.all)} "
                f"(there are: {known})"
            )
        if request.value not in range(len(found.lessons)):
            raise Refused(f"{request.name} has lessons 0 to {len(found.lessons) - 1}, not {request.value:g}")
        before = found.lesson.name
        found.number = int(request.value)
        self._parameters.change(request.name, found.number)
        return f"{request.name}: lesson '{before}' -> '{found.lesson.name}'"

    def remarks(self) -> list[str]:
        """Returns a line for each parameter that has not reached its last lesson."""
        return [] if self._context.inference else self.curricula.status()

    def progress(self) -> Mapping[str, Any]:
        """Returns the lesson number of each parameter."""
        return {"lessons": self.numbers}

    def saved(self) -> None:
        """Lists the lesson numbers in the training status."""
        for name, number in self.numbers.items():
            self._context.status.set_lesson(name, number)

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of ticks and the lessons; the lessons are restored in the constructor."""
        return {"ticks": self._ticks, "curricula": self.curricula.state_dict()}


def choose_behavior(curricula: Curricula, learners: Sequence[Learner]) -> None:
    """Makes criteria without a behavior apply to the first of these behaviors, unless one is chosen already."""
    if not curricula.has_behaviors and learners:
        curricula.set_default_behavior(learners[0].name)


def announcement(each: Curriculum) -> str:
    """Returns a line about a parameter's lesson, in ML-Agents' words."""
    value = sampler_of(each.lesson.value)
    return f"Parameter '{each.parameter}' is in lesson '{each.lesson.name}' and has value '{value}'."
