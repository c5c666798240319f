"""Curricula in a run: what is measured for them, and what is said of them."""

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
"""Ticks between two looks at what was measured."""
NEVER = 1 << 30


class Lessons:
    """Decides when lessons change, and has environment parameters follow. A `Watcher` of the run's collector.

    It looks every so many ticks, whatever else goes on: a run that was interrupted changes lessons where one that was not does.
    """

    def __init__(self, env: Env, settings: RunSettings, console: Console, saved: Mapping[str, Any] | None, games_seed: int) -> None:
        """`saved` is the state gone on from: the first reset is then in its lessons already. Raises EnvError as `Parameters` does."""
        self._forms = settings.environment_parameters or {}
        self.curricula = Curricula({name: form for name, form in self._forms.items() if isinstance(form, CurriculumSettings)})
        self.parameters = Parameters(env, self._forms, settings.env_settings.seed, games_seed)
        self._missed: Counter[str] = Counter()
        """Summaries without a metric that a lesson waits for."""
        self._by_default: str | None = None
        """The behavior that criteria go by which name none; None: there is no such criterion, or nobody learns yet."""
        self._console, self._ticks, self._still = console, 0, settings.checkpoint_settings.inference
        if saved is not None:
            self.load_state_dict(saved)
        else:
            self.parameters.set({})

    @property
    def idle(self) -> bool:
        """No lesson can change."""
        return self._still or self.curricula.over

    @property
    def numbers(self) -> dict[str, int]:
        """The lesson of every parameter; 0 for those that have none."""
        return {name: self.curricula.all[name].number if name in self.curricula.all else 0 for name in self._forms}

    def joins(self, behavior: str) -> None:
        """A behavior that learns is there: the first is what criteria go by that name none."""
        if not self.curricula.settled:
            self.curricula.settle(behavior)
            self._by_default = behavior
        elif self._by_default is not None and self._ticks:
            self._console.warning(
                f"'{behavior}' learns too: lessons whose completion_criteria name no behavior still wait for '{self._by_default}'; "
                f"name the behavior that is meant"
            )

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """The first tables after a reset."""
        self.parameters.begin(steps)

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """A tick's tables."""
        self._ticks += 1
        self.parameters.watch(steps)

    def ticks_ahead(self) -> int:
        """Ticks until the next look."""
        return NEVER if self.idle else LOOK_EVERY - self._ticks % LOOK_EVERY

    def episodes(self, behavior: str, ended: Episodes) -> None:
        """Those that ended; of a group, what it earned as one."""
        counts = ~ended.older
        returns = ended.returns
        if ended.mates.any():
            counts, returns = counts & (ended.last | ~ended.mates), returns + ended.group_returns
        self.curricula.episodes(behavior, returns[counts].tolist())

    def summary(self, summary: Summary) -> None:
        """Metrics are read where they are written; one that two summaries lack is warned of, once."""
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
        """Has a summary hold the lessons."""
        for name, number in self.numbers.items():
            statistics.latest(behavior, f"Environment/Lesson Number/{name}", number)

    def look(self, learners: Mapping[str, Learner], ratings: Mapping[str, float]) -> list[CompletionCriteriaSettings]:
        """Changes the lessons that have been learned, where a look is due; gives what they had to meet."""
        if self.idle or self._ticks % LOOK_EVERY:
            return []
        progress = {name: min(learner.step / learner.settings.max_steps, 1.0) for name, learner in learners.items()}
        changed = self.curricula.look(progress, ratings)
        for each in changed:
            self.parameters.change(each.parameter, each.number)
            self._console.info(self._announcement(each))
        return [met for each in changed if (met := each.lessons[each.number - 1].completion_criteria) is not None]

    def announce(self) -> None:
        """What the parameters are that are not the same throughout."""
        for each in self.curricula.all.values():
            self._console.info(self._announcement(each))

    def _announcement(self, each: Curriculum) -> str:
        sampler = self.parameters.sampler(each.parameter, each.number)
        return f"Parameter '{each.parameter}' is in lesson '{each.lesson.name}' and has value '{sampler}'."

    def status(self, behavior: str | None = None) -> list[str]:
        """What the next lessons need, of those that depend on a behavior; None: of all."""
        return [] if self._still else self.curricula.status(behavior)

    def state_dict(self) -> dict[str, Any]:
        """Between looks."""
        return {"ticks": self._ticks, "curricula": self.curricula.state_dict(), "parameters": self.parameters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self._ticks = state["ticks"]
        self.curricula.load_state_dict(state["curricula"])
        self.parameters.load_state_dict(state["parameters"])
        self.parameters.set(self.numbers)
