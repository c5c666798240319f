"""Curricula in a run: changes lessons, and reports each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.core.timestep import TimeStep
from palaestra.runtime.curriculum.parameters import Parameters
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.runtime.parts.run_context import RunContext
from palaestra.scenario.curriculum import MEASURES, Curricula, Curriculum
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
        self, context: RunContext, saved: Mapping[str, Any] | None, step: int, began: Callable[..., None]
    ) -> None:
        """`saved`: the state of a resumed run, whose lessons apply from the first reset on, and `step` its step.
        `began` is called when lessons have begun. Raises EnvError as `Parameters` does.
        """
        settings = context.settings
        group = context.group
        self._settings = settings.environment_parameters or {}
        self.curricula = Curricula(
            {name: form for name, form in self._settings.items() if isinstance(form, CurriculumSettings)}
        )
        context.journal.passes_on("lessons", self.curricula.episodes)
        seed = group.own_seed(settings.env_settings.seed)
        self.parameters = Parameters(
            context.env, self._settings, seed, group.own_seed(settings.env_settings.seed + step)
        )
        self._env = context.env
        self._learners = context.learners
        self._journal = context.journal
        self._console = context.console
        self._group = group
        self._status = context.status
        self._began = began
        self._missed: Counter[str] = Counter()
        """Number of summaries that lacked a metric for which a lesson waits, by metric."""
        self._default_behavior: str | None = None
        """Behavior for criteria that name none; None if there is no such criterion, or no behavior learns yet."""
        self._ticks = 0
        self._inference = context.inference
        if saved is not None:
            self._restore(saved)
        else:
            self.curricula.start_with(settings.env_settings.first_lesson)
            self.parameters.set(self.numbers)

    @property
    def _settled(self) -> bool:
        """Whether no lesson can change from now on."""
        return self._inference or self.curricula.finished

    @property
    def idle(self) -> bool:
        """Whether there are no parameters to set, to draw or to log."""
        return not self._settings and not self.parameters.draws

    @property
    def numbers(self) -> dict[str, int]:
        """Number of the current lesson of every parameter; 0 for parameters without lessons."""
        return {name: self.curricula.all[name].number if name in self.curricula.all else 0 for name in self._settings}

    def joined(self, learner: Learner) -> None:
        """Adds a behavior that learns. The first one is measured by criteria that name no behavior."""
        if not self.curricula.has_behaviors:
            self.curricula.set_default_behavior(learner.name)
            self._default_behavior = learner.name
        elif self._default_behavior is not None and self._ticks:
            self._console.warning(
                f"'{learner.name}' learns too: lessons whose completion_criteria name no behavior still wait for "
                f"'{self._default_behavior}'; name the behavior to measure"
            )

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the first tables after a reset."""
        self.parameters.begin(steps)

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the tables of a tick."""
        self._ticks += 1
        self.parameters.tick(steps)

    def ticks_ahead(self) -> int | None:
        """Returns the number of ticks until the next check; ranks check where they meet."""
        return None if self._settled else self._group.known(CHECK_EVERY - self._ticks % CHECK_EVERY, None)

    def ended(self, learner: Learner, episodes: Episodes) -> None:
        """Takes the returns by which lessons are measured; a group counts once, with what it earned as a whole."""
        counts = ~episodes.older
        returns = episodes.returns
        if episodes.in_group.any():
            counts = counts & (episodes.last_of_group | ~episodes.in_group)
            returns = returns + episodes.group_returns
        self._journal.note("lessons", learner.name, returns[counts].tolist())

    def collected(self) -> None:
        """Adds the numbers of the lessons to the statistics."""
        for name, number in self.numbers.items():
            for behavior in self._learners:
                self._journal.latest(behavior, f"Environment/Lesson Number/{name}", number)

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Reads the metrics of a summary. Warns once if a second summary lacks a metric for which a lesson waits."""
        self.curricula.summary(summary.behavior, summary.values)
        for each in self.curricula.all.values():
            criterion = each.criterion
            if (
                criterion is None
                or criterion.behavior != summary.behavior
                or criterion.measure in (*MEASURES, *summary.values)
            ):
                continue
            self._missed[criterion.measure] += 1
            if self._missed[criterion.measure] == 2:
                self._console.warning(
                    f"{each.parameter} waits for the metric '{criterion.measure}', which no summary of "
                    f"'{summary.behavior}' had so far{nearest(criterion.measure, summary.values)} "
                    f"(there are: {', '.join(summary.values)})"
                )
        for line in self.status(learner.name):
            self._console.info(line)

    def round_ended(self) -> None:
        """Advances the lessons whose criteria are met, if a check is due."""
        if self._settled or self._group.known(CHECK_EVERY - self._ticks % CHECK_EVERY, None) not in (None, CHECK_EVERY):
            return
        learners = self._learners.values()
        progress = {one.name: min(one.step / one.settings.max_steps, 1.0) for one in learners}
        ratings = {one.name: one.rating for one in learners if one.rating is not None}
        changed = self.curricula.update(progress, ratings)
        for each in changed:
            self.parameters.change(each.parameter, each.number)
            self._console.info(self._announcement(each))
        met = [each.lessons[each.number - 1].completion_criteria for each in changed]
        if any(criteria is not None for criteria in met):
            self._began(restarts=any(criteria is not None and criteria.require_reset for criteria in met))

    def asked(self, request: RunRequest) -> str | None:
        """Moves a curriculum to a lesson, or gives a parameter a constant value."""
        if request.kind == "lesson":
            return self._move(request)
        return self._fix(request) if request.kind == "parameter" else None

    def _move(self, request: RunRequest) -> str:
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
        self.parameters.change(request.name, found.number)
        return f"{request.name}: lesson '{before}' -> '{found.lesson.name}'"

    def _fix(self, request: RunRequest) -> str:
        env = self._env
        if env.parameters and request.name not in env.parameters:
            raise Refused(f"the environment has no parameter '{request.name}'{nearest(request.name, env.parameters)}")
        try:
            env.set_parameters({request.name: torch.full((env.num_areas,), float(request.value))})
        except EnvError as error:
            raise Refused(str(error)) from error
        self.parameters.fix(request.name, float(request.value))
        return f"parameter {request.name} = {request.value:g}, from each area's next episode on"

    def started(self) -> None:
        """Prints the current lesson of each parameter that has a curriculum."""
        for each in self.curricula.all.values():
            self._console.info(self._announcement(each))

    def _announcement(self, each: Curriculum) -> str:
        sampler = self.parameters.sampler(each.parameter, each.number)
        return f"Parameter '{each.parameter}' is in lesson '{each.lesson.name}' and has value '{sampler}'."

    def status(self, behavior: str | None = None) -> list[str]:
        """Returns a line for each parameter that still has a lesson to reach; with `behavior`, only for criteria that
        measure it.
        """
        return [] if self._inference else self.curricula.status(behavior)

    def remarks(self) -> list[str]:
        """Returns `status` for the progress line."""
        return self.status()

    def progress(self) -> Mapping[str, Any]:
        """Returns the number of each lesson, and the values that were given while the run learned."""
        return {"lessons": self.numbers, "fixed": self.parameters.fixed}

    def saved(self) -> None:
        """Lists the numbers of the lessons."""
        for name, number in self.numbers.items():
            self._status.set_lesson(name, number)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in plain types and tensors."""
        return {
            "ticks": self._ticks,
            "curricula": self.curricula.state_dict(),
            "parameters": self.parameters.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores the state that `state_dict` returned; where new episodes have begun, it held from the first reset
        on.
        """
        if restored:
            self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._ticks = state["ticks"]
        self.curricula.load_state_dict(state["curricula"])
        self.parameters.load_state_dict(state["parameters"])
        self.parameters.set(self.numbers)
