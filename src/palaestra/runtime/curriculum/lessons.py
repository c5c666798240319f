"""Curricula in a run: changes lessons, and reports each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palaestra.core.plugins import nearest
from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
from palaestra.parallel import ranks
from palaestra.runtime.curriculum.parameters import Parameters
from palaestra.runtime.settings import RunSettings
from palaestra.scenario.curriculum import MEASURES, Curricula, Curriculum
from palaestra.scenario.settings import CompletionCriteriaSettings, CurriculumSettings

if TYPE_CHECKING:
    from palaestra.runtime.collect.episodes import Episodes
    from palaestra.runtime.collect.learner import Learner
    from palaestra.runtime.logging.console import Console
    from palaestra.runtime.logging.statistics import Statistics
    from palaestra.runtime.logging.tracker import Summary

CHECK_EVERY = 32
"""Ticks between two checks of the criteria."""
NEVER = 1 << 30


class Lessons:
    """Decides when lessons change, and sets environment parameters accordingly. A `TickObserver` of the run's
    collector.

    Criteria are checked at fixed ticks, so that a resumed run changes lessons at the same ticks as an uninterrupted
    one.
    """

    def __init__(
        self, env: Env, settings: RunSettings, console: Console, saved: Mapping[str, Any] | None, games_seed: int
    ) -> None:
        """`saved`: the state of a resumed run, whose lessons apply from the first reset on. Raises EnvError as
        `Parameters` does.
        """
        self._settings = settings.environment_parameters or {}
        self.curricula = Curricula(
            {name: form for name, form in self._settings.items() if isinstance(form, CurriculumSettings)}
        )
        self.parameters = Parameters(
            env, self._settings, ranks.own_seed(settings.env_settings.seed), ranks.own_seed(games_seed)
        )
        self._missed: Counter[str] = Counter()
        """Number of summaries that lacked a metric for which a lesson waits, by metric."""
        self._default_behavior: str | None = None
        """Behavior for criteria that name none; None if there is no such criterion, or no behavior learns yet."""
        self._console = console
        self._ticks = 0
        self._inference = settings.checkpoint_settings.inference
        if saved is not None:
            self.load_state_dict(saved)
        else:
            self.curricula.start_with(settings.env_settings.first_lesson)
            self.parameters.set(self.numbers)

    @property
    def idle(self) -> bool:
        """Whether no lesson can change from now on."""
        return self._inference or self.curricula.finished

    @property
    def numbers(self) -> dict[str, int]:
        """Number of the current lesson of every parameter; 0 for parameters without lessons."""
        return {name: self.curricula.all[name].number if name in self.curricula.all else 0 for name in self._settings}

    def add_behavior(self, behavior: str) -> None:
        """Adds a behavior that learns. The first one is measured by criteria that name no behavior."""
        if not self.curricula.has_behaviors:
            self.curricula.set_default_behavior(behavior)
            self._default_behavior = behavior
        elif self._default_behavior is not None and self._ticks:
            self._console.warning(
                f"'{behavior}' learns too: lessons whose completion_criteria name no behavior still wait for "
                f"'{self._default_behavior}'; "
                f"name the behavior to measure"
            )

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the first tables after a reset."""
        self.parameters.begin(steps)

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the tables of a tick."""
        self._ticks += 1
        self.parameters.watch(steps)

    def ticks_ahead(self) -> int:
        """Returns the number of ticks until the next check."""
        return NEVER if self.idle or ranks.size() > 1 else CHECK_EVERY - self._ticks % CHECK_EVERY

    @staticmethod
    def measured_returns(ended: Episodes) -> list[float]:
        """Returns the returns by which lessons are measured; a group counts once, with what it earned as a whole."""
        counts = ~ended.older
        returns = ended.returns
        if ended.in_group.any():
            counts = counts & (ended.last_of_group | ~ended.in_group)
            returns = returns + ended.group_returns
        return returns[counts].tolist()

    def summary(self, summary: Summary) -> None:
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
                    f"'{summary.behavior}' had so far"
                    f"{nearest(criterion.measure, summary.values)} (there are: {', '.join(summary.values)})"
                )

    def log(self, statistics: Statistics, behavior: str) -> None:
        """Adds the lesson numbers to a behavior's summary."""
        for name, number in self.numbers.items():
            statistics.latest(behavior, f"Environment/Lesson Number/{name}", number)

    def advance(
        self, learners: Mapping[str, Learner], ratings: Mapping[str, float]
    ) -> list[CompletionCriteriaSettings]:
        """Advances the lessons whose criteria are met, if a check is due. Returns these criteria."""
        if self.idle or (
            self._ticks % CHECK_EVERY and ranks.size() == 1
        ):  # ranks are at different ticks when they meet
            return []
        progress = {name: min(learner.step / learner.settings.max_steps, 1.0) for name, learner in learners.items()}
        changed = self.curricula.update(progress, ratings)
        for each in changed:
            self.parameters.change(each.parameter, each.number)
            self._console.info(self._announcement(each))
        return [met for each in changed if (met := each.lessons[each.number - 1].completion_criteria) is not None]

    def print_lessons(self) -> None:
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

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in plain types and tensors."""
        return {
            "ticks": self._ticks,
            "curricula": self.curricula.state_dict(),
            "parameters": self.parameters.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state_dict` returned."""
        self._ticks = state["ticks"]
        self.curricula.load_state_dict(state["curricula"])
        self.parameters.load_state_dict(state["parameters"])
        self.parameters.set(self.numbers)
