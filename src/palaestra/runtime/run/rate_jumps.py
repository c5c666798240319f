"""Hyperparameters that follow schedules: their current values, and a warning if a larger max_steps raises rates that
had decayed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.models.optimizer import scheduled
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import BehaviorSettings, RunSettings, behavior_settings
from palaestra.trainers.settings import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE

LAST = {"learning_rate": LAST_LEARNING_RATE, "beta": LAST_BETA, "epsilon": LAST_EPSILON}
"""Hyperparameters' values at the end of linear schedules."""
NOTABLE = 1.5
"""Factor by which a rate must rise for a warning."""
LOW_SHARE = 0.1
"""Share of a run's first rate that is proposed if its last rate was too low to learn anything."""


def current_value(learner: Learner, name: str) -> float | None:
    """Returns the current value of a hyperparameter that may follow a schedule; None if the trainer lacks it."""
    hyper = learner.settings.hyperparameters
    first: float | None = getattr(hyper, name, None)
    if first is None or not hasattr(learner.trainer, "hyper"):
        return None
    if name in learner.changes:
        return learner.changes[name]
    kind: Any = getattr(hyper, f"{name}_schedule", "constant")
    return scheduled(kind, first, LAST.get(name, 0.0), learner.step, learner.settings.max_steps)


@dataclass(frozen=True, slots=True)
class RateJump:
    """A learning rate that rises because a run was given more steps."""

    behavior: str
    old: float  # at this step, had max_steps stayed
    new: float
    first: float  # at step 0
    max_steps: tuple[int, int]  # before and now

    @property
    def kept(self) -> float:
        """The old rate, rounded to two digits; a tenth of the first rate if the old rate is almost 0."""
        return float(f"{max(self.old, LOW_SHARE * self.first):.1e}")


def raised(before: RunSettings, learners: Mapping[str, Learner]) -> list[RateJump]:
    """Returns the jumps of behaviors whose rate is now higher than with the run's earlier settings."""
    jumps = []
    for name, learner in learners.items():
        try:
            old = behavior_settings(before, name)
        except ConfigError:  # it had no settings of its own before
            continue
        if old.trainer_type == learner.settings.trainer_type:
            jumps.append(_jump(learner, old, learner.settings.max_steps))
    return [jump for jump in jumps if jump is not None]


def _jump(learner: Learner, before: BehaviorSettings, max_steps: int) -> RateJump | None:
    old = before.hyperparameters
    now = learner.settings.hyperparameters
    falls = all(getattr(hyper, "learning_rate_schedule", "constant") == "linear" for hyper in (old, now))
    if not falls or not 0 < before.max_steps < max_steps or not learner.step:
        return None
    first: float = now.learning_rate  # type: ignore[attr-defined]
    at = [scheduled("linear", first, LAST_LEARNING_RATE, learner.step, most) for most in (before.max_steps, max_steps)]
    jump = RateJump(learner.name, at[0], at[1], first, (before.max_steps, max_steps))
    return jump if jump.new > NOTABLE * jump.kept else None


def low_rate(jump: RateJump, behaviors: int) -> str:
    """Returns command-line arguments that keep the old rate and add the same number of steps once more, so that they
    also work after the run's end."""
    before, now = jump.max_steps
    block = f"behaviors.{'*' if behaviors == 1 else jump.behavior}"
    constant = f" --set {shlex.quote(f'{block}.hyperparameters.learning_rate_schedule=constant')}"
    if behaviors == 1:
        return f" --max-steps={2 * now - before} --learning-rate={jump.kept:g}{constant}"
    values = f"{block}.max_steps={2 * now - before}", f"{block}.hyperparameters.learning_rate={jump.kept:g}"
    return "".join(f" --set {shlex.quote(value)}" for value in values) + constant


def sentence(jump: RateJump, command: str, behaviors: int) -> str:
    """Returns a warning: what happens, why, and how to avoid it."""
    return (
        f"{jump.behavior}: the learning rate goes back up from {jump.old:.2g} to {jump.new:.2g}, because it falls to "
        "zero at max_steps; the reward may dip. For a low, constant rate instead, once this run has stopped or ended:"
        f"\n  {command}{low_rate(jump, behaviors)}"
    )
