"""Teachers of `trainer_type: bc`: brains that act in the environment, or label a student's observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from palaestra.core.display import shown_path
from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.files import MODEL_FILES
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.envs.base import Env
from palaestra.models.policy import NetworkPolicy, PendingDecision
from palaestra.runtime.collect.collector import BehaviorCollector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.play.brain_policy import BrainPolicy
from palaestra.runtime.settings import BehaviorSettings, RunSettings
from palaestra.runtime.settings.tree import blocks_of
from palaestra.trainers.settings import BCSettings

if TYPE_CHECKING:
    from palaestra.runtime.play.brain_assignment import BrainSpec


class TeacherPolicy:
    """A policy with which the teacher acts; rollouts contain its decisions."""

    def __init__(self, teacher: BrainPolicy, device: torch.device) -> None:
        self._teacher = teacher
        self._device = device
        self.brains = (teacher,)
        """Brains whose streams of random numbers a checkpoint holds."""

    @property
    def recurrent_state(self) -> Tensor:
        """Recurrent state (S, L) of the teacher."""
        return self._teacher.recurrent_state.to(self._device)

    @recurrent_state.setter
    def recurrent_state(self, recurrent_state: Tensor) -> None:
        self._teacher.recurrent_state = recurrent_state

    def forget(self) -> None:
        """Clears the state of all slots, because the slots now get other agents."""
        self._teacher.forget()

    def see(self, step: TimeStep) -> object:
        """Processes a table in which no agent asks for a decision."""
        return self._teacher.see(step)

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the teacher's actions."""
        self._teacher.see(step)
        action = self._teacher.answer(step)
        return PendingDecision(action, lambda: _without_probabilities(action))

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision with the shapes of all columns."""
        return _without_probabilities(self._teacher.nothing(step))


class LabelledPolicy:
    """The student acts; rollouts contain the teacher's actions and the student's recurrent state."""

    def __init__(self, student: NetworkPolicy, teacher: BrainPolicy) -> None:
        self._student = student
        self._teacher = teacher
        self.brains = (teacher,)
        """Brains whose streams of random numbers a checkpoint holds."""

    @property
    def recurrent_state(self) -> Tensor:
        """Recurrent states (S, L) of the student, then of the teacher."""
        own = self._student.recurrent_state
        return torch.cat([own, self._teacher.recurrent_state.to(own.device)], 1)

    @recurrent_state.setter
    def recurrent_state(self, recurrent_state: Tensor) -> None:
        size = self._student.network.memory_size
        self._student.recurrent_state = recurrent_state[:, :size].clone()
        self._teacher.recurrent_state = recurrent_state[:, size:]

    def forget(self) -> None:
        """Clears the state of all slots, because the slots now get other agents."""
        self._student.forget()
        self._teacher.forget()

    def see(self, step: TimeStep) -> object:
        """Processes a table in which no agent asks for a decision."""
        self._teacher.see(step)
        return self._student.see(step)

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the student's actions for the environment; the decision also holds the teacher's actions."""
        self._teacher.see(step)
        chosen = self._student.choose(step)
        right = self._teacher.answer(step)

        def finish() -> Decision:
            decision = chosen.decision()
            return Decision(decision.action, right, decision.log_prob, decision.recurrent_state)

        return PendingDecision(chosen.action, finish)

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision with the shapes of all columns."""
        return self._student.blank(step)


class Teachers:
    """The teachers of a run. A behavior that a teacher plays does not learn: its rollouts go to the students."""

    def __init__(self, settings: RunSettings, env: Env) -> None:
        """Raises ConfigError if a behavior is played by a teacher and has its own block."""
        self._env = env
        self._results = Path(settings.checkpoint_settings.results_dir)
        self._seed = settings.env_settings.seed
        self._inference = settings.checkpoint_settings.inference
        self._played: dict[str, BCSettings] = {}
        self.collectors: dict[str, BehaviorCollector] = {}
        """Collectors of the behaviors that teachers play."""
        for at, block in blocks_of(settings):
            bc = bc_settings_of(block)
            if bc is not None and bc.teacher_behavior not in (None, at[-1]):
                self._played.setdefault(str(bc.teacher_behavior), bc)
        for name in self._played:
            if name in settings.behaviors:
                raise ConfigError(
                    f"behaviors.{name}: another behavior names it as its teacher_behavior, so the teacher plays it "
                    "and it does not learn; take it out of behaviors"
                )

    def collector_of(self, name: str, spec: BehaviorSpec) -> BehaviorCollector | None:
        """Returns the collector of a behavior that a teacher plays; None if no teacher plays it."""
        if name not in self._played:
            return None
        bc = self._played[name]
        policy = TeacherPolicy(self._make_teacher(bc, name, spec), self._env.device)
        self.collectors[name] = BehaviorCollector(name, spec, policy, None if self._inference else bc.buffer_size)
        return self.collectors[name]

    def add_student(self, learner: Learner) -> str | None:
        """Gives a student its teacher. Returns a message about the teacher. Raises EnvError if the specs of student and
        teacher differ."""
        bc = bc_settings_of(learner.settings)
        name = learner.name
        if bc is None or bc.teacher is None or self._inference:
            return None
        if bc.teacher_behavior not in (None, name):
            learner.collector.rollout_size = None
            return self._watching_another(name, str(bc.teacher_behavior), bc.teacher)
        teacher = self._make_teacher(bc, name, learner.spec)
        title, more = shown_path(bc.teacher), _seen_more(learner, teacher)
        if bc.teacher_plays:
            learner.collector.policy = TeacherPolicy(teacher, self._env.device)
            return f"{title} plays '{name}', so the rewards are the teacher's; the student only watches{more}"
        learner.collector.policy = LabelledPolicy(learner.trainer.policy, teacher)
        return f"'{name}' plays, and learns what {title} would have done{more}"

    def check_specs_match(self, learners: Mapping[str, Learner]) -> None:
        """Raises EnvError if a student and the behavior of its teacher have different specs."""
        for name in self.collectors:
            for learner in self.students(name, learners):
                titles = (f"'{name}', the teacher", f"'{learner.name}', the student")
                if table := differences(self._env.behaviors[name], learner.spec, titles):
                    raise EnvError(f"'{learner.name}' cannot learn from agents of '{name}':\n{table}")

    def students(self, name: str, learners: Mapping[str, Learner]) -> list[Learner]:
        """Returns the learners that learn from a behavior's rollouts."""
        if name not in self._played:
            return [learners[name]]
        settings_of = {learner.name: bc_settings_of(learner.settings) for learner in learners.values()}
        return [learners[one] for one, bc in settings_of.items() if bc is not None and bc.teacher_behavior == name]

    def absent(self, learners: Mapping[str, Learner]) -> Iterator[tuple[str, str]]:
        """Yields each student whose teacher's behavior the environment does not have, and that behavior's name."""
        for name, learner in learners.items():
            bc = bc_settings_of(learner.settings)
            if bc is not None and bc.teacher_behavior not in (None, name, *self._env.behaviors):
                yield name, str(bc.teacher_behavior)

    def retire(self, learners: Mapping[str, Learner]) -> None:
        """Stops collecting for teachers whose students have all finished."""
        for name, collector in self.collectors.items():
            students = self.students(name, learners)
            if students and not any(student.training for student in students):
                collector.rollout_size = None
                collector.buffer = None

    def _watching_another(self, name: str, there: str, teacher: str) -> str:
        present = (
            ""
            if there in self._env.behaviors
            else f"; it is not there yet (the environment has {', '.join(self._env.behaviors)})"
        )
        return f"{shown_path(teacher)} plays '{there}', and '{name}' learns from it{present}"

    def _make_teacher(self, bc: BCSettings, behavior: str, spec: BehaviorSpec) -> BrainPolicy:
        assert bc.teacher is not None
        try:
            part = teacher_spec(bc.teacher)
        except ConfigError as error:
            raise ConfigError(f"behavior '{behavior}': {error}") from error
        # brings onnxruntime, which most runs never need
        from palaestra.runtime.play.brain_assignment import BrainAssignment

        assignment = BrainAssignment([part], self._env, seed=self._seed, deterministic=True, results=self._results)
        return BrainPolicy(assignment.brain(behavior, 0), spec.action)


def _seen_more(student: Learner, teacher: BrainPolicy) -> str:
    """Returns a remark on observations that a student sees and its teacher does not, which a game may lack."""
    from palaestra.brains.checked import unseen  # as the teacher itself

    hidden = unseen(teacher.brain, student.spec)
    more = ", ".join(obs.name for obs in student.trainer.network.spec.obs if obs.name in hidden)
    return (
        f"; it also sees {more}, which its teacher does not (network_settings.critic_only would hide it)"
        if more
        else ""
    )


def teacher_spec(text: str) -> BrainSpec:
    """Returns the brain that `teacher` names: a text as for `--brain`, a model file, or `package.module:Class`."""
    from palaestra.runtime.play.brain_assignment import PYTHON, BrainSpec, kinds

    kind, _, argument = text.partition(":")
    if kind in kinds():
        return BrainSpec(kind, argument)
    if text.endswith(MODEL_FILES):
        return BrainSpec("model", text)
    if argument:
        return BrainSpec(PYTHON, text)
    raise ConfigError(
        f"there is no teacher '{text}'{nearest(text, kinds())}; expected heuristic, FILE.onnx, model:RUN or "
        "package.module:Class"
    )


def bc_settings_of(settings: BehaviorSettings) -> BCSettings | None:
    """Returns a behavior's settings of behavioral cloning; None if the behavior has another trainer."""
    hyper = settings.hyperparameters
    return hyper if isinstance(hyper, BCSettings) else None


def _without_probabilities(action: Action) -> Decision:
    none = torch.zeros((len(action.discrete), 0), device=action.discrete.device)
    return Decision(action, action, none, none)
