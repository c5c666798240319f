"""Teachers of `trainer_type: bc`: brains that act in the environment, or label what a student met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.envs.base import Env
from palaestra.models.policy import NetworkPolicy, PendingDecision
from palaestra.runtime.collect.collector import BehaviorCollector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.play.brain_policy import BrainPolicy
from palaestra.runtime.settings import BehaviorSettings, RunSettings
from palaestra.trainers.settings import BCSettings

if TYPE_CHECKING:
    from palaestra.runtime.play.brain_assignment import BrainSpec


class TeacherPolicy:
    """A policy by which the teacher acts; rollouts hold its decisions."""

    def __init__(self, asked: BrainPolicy, device: torch.device) -> None:
        self._asked, self._device = asked, device
        self.brains = (asked,)
        """Brains whose streams of random numbers a checkpoint holds."""

    @property
    def memory(self) -> Tensor:
        """Memory (S, L) of the teacher."""
        return self._asked.memory.to(self._device)

    @memory.setter
    def memory(self, memory: Tensor) -> None:
        self._asked.memory = memory

    def forget(self) -> None:
        """Forgets the agents of all slots: others follow."""
        self._asked.forget()

    def see(self, step: TimeStep) -> object:
        """Takes in a table in which no agent asks for a decision."""
        return self._asked.see(step)

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the teacher's actions."""
        self._asked.see(step)
        action = self._asked.answer(step)
        return PendingDecision(action, lambda: _drawn_nowhere(action))

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision that shows the shapes of its columns."""
        return _drawn_nowhere(self._asked.nothing(step))


class LabelledPolicy:
    """A policy by which the student acts; rollouts hold the teacher's actions, and the student's memory."""

    def __init__(self, student: NetworkPolicy, asked: BrainPolicy) -> None:
        self._student, self._asked = student, asked
        self.brains = (asked,)
        """Brains whose streams of random numbers a checkpoint holds."""

    @property
    def memory(self) -> Tensor:
        """Memory (S, L) of the student, then of the teacher."""
        own = self._student.memory
        return torch.cat([own, self._asked.memory.to(own.device)], 1)

    @memory.setter
    def memory(self, memory: Tensor) -> None:
        size = self._student.network.memory_size
        self._student.memory, self._asked.memory = memory[:, :size].clone(), memory[:, size:]

    def forget(self) -> None:
        """Forgets the agents of all slots: others follow."""
        self._student.forget()
        self._asked.forget()

    def see(self, step: TimeStep) -> object:
        """Takes in a table in which no agent asks for a decision."""
        self._asked.see(step)
        return self._student.see(step)

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the student's actions for the environment; the decision holds the teacher's as well."""
        self._asked.see(step)
        chosen, right = self._student.choose(step), self._asked.answer(step)

        def finish() -> Decision:
            decision = chosen.decision()
            return Decision(decision.action, right, decision.log_prob, decision.recurrent_state)

        return PendingDecision(chosen.action, finish)

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision that shows the shapes of its columns."""
        return self._student.blank(step)


class Teachers:
    """The teachers of a run. A behavior that a teacher plays does not learn: its rollouts go to its students."""

    def __init__(self, settings: RunSettings, env: Env) -> None:
        """Raises ConfigError if a behavior is played by a teacher and has a block of its own."""
        self._env, self._results = env, Path(settings.checkpoint_settings.results_dir)
        self._seed, self._inference = settings.env_settings.seed, settings.checkpoint_settings.inference
        self._played: dict[str, BCSettings] = {}
        self.collectors: dict[str, BehaviorCollector] = {}
        """Collectors of the behaviors that teachers play."""
        for name, block in _blocks(settings):
            lesson = lesson_of(block)
            if lesson is not None and lesson.teacher_behavior not in (None, name):
                self._played.setdefault(str(lesson.teacher_behavior), lesson)
        for name in self._played:
            if name in settings.behaviors:
                raise ConfigError(
                    f"behaviors.{name}: another behavior has it for its teacher_behavior, so that it is played by the teacher and does not "
                    f"learn; take it out of behaviors"
                )

    def collector_of(self, name: str, spec: BehaviorSpec) -> BehaviorCollector | None:
        """Returns the collector of a behavior that a teacher plays; None if none does."""
        if name not in self._played:
            return None
        lesson = self._played[name]
        policy = TeacherPolicy(self._asked(lesson, name, spec), self._env.device)
        self.collectors[name] = BehaviorCollector(name, spec, policy, None if self._inference else lesson.buffer_size)
        return self.collectors[name]

    def attend(self, learner: Learner) -> str | None:
        """Gives a student its teacher, and returns a line about it; None without one. Raises EnvError if they do not fit."""
        lesson, name = lesson_of(learner.settings), learner.name
        if lesson is None or lesson.teacher is None or self._inference:
            return None
        if lesson.teacher_behavior not in (None, name):
            learner.collector.rollout_size = None
            return self._of_another(name, str(lesson.teacher_behavior), lesson.teacher)
        asked = self._asked(lesson, name, learner.spec)
        if lesson.teacher_plays:
            learner.collector.policy = TeacherPolicy(asked, self._env.device)
            return f"{lesson.teacher} plays '{name}', whose rewards are therefore the teacher's; the student watches"
        learner.collector.policy = LabelledPolicy(learner.trainer.policy, asked)
        return f"'{name}' plays, and learns what {lesson.teacher} would have done"

    def must_fit(self, learners: Mapping[str, Learner]) -> None:
        """Raises EnvError, with both side by side, if a student and the behavior of its teacher have different specs."""
        for name in self.collectors:
            for learner in self.students(name, learners):
                titles = (f"'{name}', the teacher", f"'{learner.name}', the student")
                if table := differences(self._env.behaviors[name], learner.spec, titles):
                    raise EnvError(f"'{learner.name}' cannot learn from the agents of '{name}':\n{table}")

    def students(self, name: str, learners: Mapping[str, Learner]) -> list[Learner]:
        """Returns the learners that learn from a behavior's rollouts."""
        if name not in self._played:
            return [learners[name]]
        lessons = {learner.name: lesson_of(learner.settings) for learner in learners.values()}
        return [learners[student] for student, lesson in lessons.items() if lesson is not None and lesson.teacher_behavior == name]

    def absent(self, learners: Mapping[str, Learner]) -> Iterator[tuple[str, str]]:
        """Returns students whose teacher's behavior the environment does not have, and its name."""
        for name, learner in learners.items():
            lesson = lesson_of(learner.settings)
            if lesson is not None and lesson.teacher_behavior not in (None, name, *self._env.behaviors):
                yield name, str(lesson.teacher_behavior)

    def retire(self, learners: Mapping[str, Learner]) -> None:
        """Stops collecting for teachers whose students have all finished."""
        for name, collector in self.collectors.items():
            students = self.students(name, learners)
            if students and not any(student.training for student in students):
                collector.rollout_size, collector.buffer = None, None

    def _of_another(self, name: str, there: str, teacher: str) -> str:
        present = "" if there in self._env.behaviors else f"; it is not there yet (the environment has {', '.join(self._env.behaviors)})"
        return f"{teacher} plays '{there}', from which '{name}' learns{present}"

    def _asked(self, lesson: BCSettings, behavior: str, spec: BehaviorSpec) -> BrainPolicy:
        assert lesson.teacher is not None
        try:
            part = teacher_part(lesson.teacher)
        except ConfigError as error:
            raise ConfigError(f"behavior '{behavior}': {error}") from error
        from palaestra.runtime.play.brain_assignment import BrainAssignment  # brings onnxruntime, which most runs never need

        assignment = BrainAssignment([part], self._env, seed=self._seed, deterministic=True, results=self._results)
        return BrainPolicy(assignment.brain(behavior, 0), spec.action)


def teacher_part(text: str) -> BrainSpec:
    """Returns the brain that `teacher` means: as in `--brain`, a model file, or `package.module:Class`. Raises ConfigError."""
    from palaestra.runtime.play.brain_assignment import PYTHON, BrainSpec, kinds

    kind, _, argument = text.partition(":")
    if kind in kinds():
        return BrainSpec(kind, argument)
    if text.endswith(".onnx"):
        return BrainSpec("model", text)
    if argument:
        return BrainSpec(PYTHON, text)
    raise ConfigError(
        f"there is no teacher '{text}'{nearest(text, kinds())}; expected heuristic, FILE.onnx, model:RUN or package.module:Class"
    )


def lesson_of(settings: BehaviorSettings) -> BCSettings | None:
    """Returns how a behavior imitates; None if it does not."""
    hyper = settings.hyperparameters
    return hyper if isinstance(hyper, BCSettings) else None


def _blocks(settings: RunSettings) -> Iterator[tuple[str, BehaviorSettings]]:
    yield from settings.behaviors.items()
    if settings.default_settings:
        yield "", settings.default_settings


def _drawn_nowhere(action: Action) -> Decision:
    """Returns a decision without probabilities, and without memory for a student."""
    none = torch.zeros((len(action.discrete), 0), device=action.discrete.device)
    return Decision(action, action, none, none)
