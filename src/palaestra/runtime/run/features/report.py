"""Shows the state of a run: its progress line, signs that a behavior does not learn, and what slows the run down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.bottleneck import bottleneck
from palaestra.runtime.logging.console import ProgressRow
from palaestra.runtime.logging.symptoms import Symptoms, seekers
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import RunPart, endings_of
from palaestra.runtime.run.training_run import Run, setup_of
from palaestra.runtime.settings import whose_reward

LONG = 60.0
"""Seconds of a session after which a run reports once what slows it down."""


class Report(RunPart):
    """Shows the state of a run: its progress line, signs that a behavior does not learn, and what slows it down."""

    name = "symptoms"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._symptoms = Symptoms()
        self._has_named_bottleneck = False

    def joined(self, learner: Learner) -> None:
        """Starts reporting on a behavior that appears late."""
        if learner.starts_trained:
            self._symptoms.started_trained(learner.name)
        if self._run.begun:
            self._begin(learner)

    def started(self) -> None:
        """Starts reporting on the first behaviors."""
        for learner in self._run.learners.values():
            self._begin(learner)

    def _begin(self, learner: Learner) -> None:
        """Writes a new behavior's settings to TensorBoard, as text; warns if the session is too short for them."""
        learner.messages.begin(learner.step, self._run.console.warning)
        saved = self._run.saved.checkpoint
        if not learner.inference and (saved is None or learner.name not in saved.state):
            self._run.statistics.trackers.text(learner.name, "Hyperparameters", as_text(learner.settings.model_dump()))

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Warns of signs that a behavior does not learn."""
        for symptom in self._symptoms.note(summary, learner.settings, learner.spec.action):
            self._run.console.warning(symptom)

    def paused(self) -> None:
        """Prints once what slows down a long run, and updates the progress line."""
        run = self._run
        uses = run.meetings.times
        if not self._has_named_bottleneck and not run.inference and uses and uses[0].total > LONG:
            self._has_named_bottleneck = True
            run.console.info(f"So far, {bottleneck(uses, setup_of(run))}")
        if not run.console.due():
            return
        rows = [
            ProgressRow(
                name,
                learner.step,
                None if run.inference else learner.settings.max_steps,
                run.statistics.reward(name),
                whose_reward(run.settings, name),
            )
            for name, learner in run.learners.items()
        ]
        session = run.clock.session
        shares = {name: seconds / session for name, seconds in run.clock.spent().items()}
        run.console.progress(rows, shares, [remark for part in run.parts for remark in part.remarks()])

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields the behaviors without any sign of learning."""
        unrisen = {name: sentence for name, (sentence, _) in self._unrisen().items()}
        for name, sentence in (self._unrewarded() | unrisen).items():
            yield "note", sentence if len(self._run.learners) == 1 else f"{name}: {sentence}"

    def _unrewarded(self) -> dict[str, str]:
        """Returns by behavior a sentence where all episodes have earned the same."""
        run, found = self._run, dict[str, str]()
        env = None if run.kind == "own" else run.settings.env_settings.env_path
        for name, learner in run.learners.items():
            since = run.statistics.returns_so_far(name)
            if (sentence := self._symptoms.unrewarded(name, learner.settings, since, env)) is not None:
                found[name] = sentence
        return {} if run.inference else found

    def _unrisen(self) -> dict[str, tuple[str, bool]]:
        """Returns by behavior a sentence where the reward has not risen until the end, and whether more steps promise
        little."""
        good = any(course.ending == "goal" for course in endings_of(self._run.parts).values())
        learners = {} if self._run.inference or good else self._run.learners
        found = {name: self._symptoms.lasting(name, learner.settings) for name, learner in learners.items()}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def hopeless(self) -> bool:
        """Whether more steps alone will not help: no behavior's reward has risen, and behaviors without a reward have
        no other signal from which to learn."""
        learners = self._run.learners
        lost = {name for name, (_, is_lost) in self._unrisen().items() if is_lost}
        alone = {name for name in self._unrewarded() if not seekers(learners[name].settings)}
        return alone | lost == learners.keys()

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state from which these signs are computed."""
        return self._symptoms.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores `state_dict`."""
        self._symptoms.load_state_dict(state)


def as_text(tree: Mapping[str, Any], depth: int = 1) -> str:
    """Returns settings as an indented list."""
    lines = []
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        lines.append("\t" * depth + f"{key}:" + ("" if nested else f"\t{value}"))
        if nested:
            lines.append(as_text(value, depth + 1))
    return "\n".join(lines)
