"""Curricula in a run: when lessons change, and what is said about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palaestra.core.plugins import nearest
from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
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

LOOK_EVERY = 32
"""Ticks between two checks of the criteria."""
NEVER = 1 << 30


class Lessons:
    """Decides when lessons change, and sets environment parameters accordingly. A `TickObserver` of the run's collector.

    It looks every so many ticks, whatever else goes on: a run that was interrupted changes lessons where one that was not does.
    """

    def __init__(self, env: Env, settings: RunSettings, console: Console, saved: Mapping[str, Any] | None, games_seed: int) -> None:
        """`saved`: the state of a resumed run, whose lessons hold from the first reset on. Raises EnvError as `Parameters` does."""
        self._forms = settings.environment_parameters or {}
        self.curricula = Curricula({name: form for name, form in self._forms.items() if isinstance(form, CurriculumSettings)})
        self.parameters = Parameters(env, self._forms, settings.env_settings.seed, games_seed)
        self._missed: Counter[str] = Counter()
        """Number of summaries without a metric that a lesson waits for."""
        self._by_default: str | None = None
        """Behavior for criteria that name none; None if there is no such criterion, or nobody learns yet."""
        self._console, self._ticks, self._still = console, 0, settings.checkpoint_settings.inference
        if saved is not None:
            self.load_state_dict(saved)
        else:
            self.parameters.set({})

    @property
    def idle(self) -> bool:
        """Whether no lesson can change any more."""
        return self._still or self.curricula.over

    @property
    def numbers(self) -> dict[str, int]:
        """Lesson of every parameter; 0 for parameters without lessons."""
        return {name: self.curricula.all[name].number if name in self.curricula.all else 0 for name in self._forms}

    def joins(self, behavior: str) -> None:
        """Adds a behavior that learns; the first one is used for criteria that name none."""
        if not self.curricula.settled:
            self.curricula.settle(behavior)
            self._by_default = behavior
        elif self._by_default is not None and self._ticks:
            self._console.warning(
                f"'{behavior}' learns too: lessons whose completion_criteria name no behavior still wait for '{self._by_default}'; "
                f"name the behavior that is meant"
            )

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Takes in the first tables after a reset."""
        self.parameters.begin(steps)

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Takes in a tick's tables."""
        self._ticks += 1
        self.parameters.watch(steps)

    def ticks_ahead(self) -> int:
        """Returns the ticks until the next check."""
        return NEVER if self.idle else LOOK_EVERY - self._ticks % LOOK_EVERY

    def episodes(self, behavior: str, ended: Episodes) -> None:
        """Takes in episodes that ended; for a group, what it earned as a whole."""
        counts = ~ended.older
        returns = ended.returns
        if ended.in_group.any():
            counts, returns = counts & (ended.last_of_group | ~ended.in_group), returns + ended.group_returns
        self.curricula.episodes(behavior, returns[counts].tolist())

    def summary(self, summary: Summary) -> None:
        """Reads the metrics of a summary; warns once of one that two summaries lack."""
        self.curricula.summary(summary.behavior, summary.values)
        for each in self.curricula.all.values():
            criterion = each.criterion
            if criterion is None or criterion.behavior != summary.behavior or criterion.measure in (*MEASURES, *summary.values):
                continue
            self._missed[criterion.measure] += 1
            if self._missed[criterion.measure] == 2:
                self._console.warning(
                    f"{each.parameter} waits for the metric '{criterion.measure}', which nobody has written for '{summary.behavior}' so far"
                    f"{nearest(criterion.measure, summary.values)} (there are: {', '.join(summary.values)})"
                )

    def note(self, statistics: Statistics, behavior: str) -> None:
        """Adds the lessons to a summary."""
        for name, number in self.numbers.items():
            statistics.latest(behavior, f"Environment/Lesson Number/{name}", number)

    def look(self, learners: Mapping[str, Learner], ratings: Mapping[str, float]) -> list[CompletionCriteriaSettings]:
        """Changes the lessons whose criteria are met, if a check is due. Returns these criteria."""
        if self.idle or self._ticks % LOOK_EVERY:
            return []
        progress = {name: min(learner.step / learner.settings.max_steps, 1.0) for name, learner in learners.items()}
        changed = self.curricula.look(progress, ratings)
        for each in changed:
            self.parameters.change(each.parameter, each.number)
            self._console.info(self._announcement(each))
        return [met for each in changed if (met := each.lessons[each.number - 1].completion_criteria) is not None]

    def announce(self) -> None:
        """Describes parameters that change during a run."""
        for each in self.curricula.all.values():
            self._console.info(self._announcement(each))

    def _announcement(self, each: Curriculum) -> str:
        sampler = self.parameters.sampler(each.parameter, each.number)
        return f"Parameter '{each.parameter}' is in lesson '{each.lesson.name}' and has value '{sampler}'."

    def status(self, behavior: str | None = None) -> list[str]:
        """Says what the next lessons need, for those that depend on a behavior; None: for all."""
        return [] if self._still else self.curricula.status(behavior)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state between checks."""
        return {"ticks": self._ticks, "curricula": self.curricula.state_dict(), "parameters": self.parameters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state."""
        self._ticks = state["ticks"]
        self.curricula.load_state_dict(state["curricula"])
        self.parameters.load_state_dict(state["parameters"])
        self.parameters.set(self.numbers)
