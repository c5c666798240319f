"""Behavioral cloning beside a trainer's own objective: demonstrations pull at the policy, less and less.

Unlike ML-Agents', it compares what would be played, not what is drawn: demonstrated numbers are learned as they are, and the
noise of the policy is left to the trainer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.trainers.behavior import BehaviorSettings
from palaestra.trainers.lessons import Imitation, Student, lessons_of
from palaestra.trainers.settings import PASSES

LOSS = "Losses/Pretraining Loss"


class _Hyper(Protocol):
    """What cloning takes over from a trainer."""

    @property
    def batch_size(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


class Cloning:
    """`behavioral_cloning` of a behavior."""

    def __init__(
        self, student: Student, parameters: Sequence[Tensor], settings: BehaviorSettings, hyper: _Hyper, device: torch.device, seed: int
    ) -> None:
        """`parameters`: what an optimizer of the student moves. Raises DemoError where the demonstrations do not fit."""
        assert settings.behavioral_cloning is not None
        self.settings, self._rate = settings.behavioral_cloning, hyper.learning_rate
        self._size = self.settings.batch_size or hyper.batch_size
        memory = settings.network_settings.memory
        demonstrations = load_demonstrations(self.settings.demo_path, student.spec, device)
        self._lessons = lessons_of(demonstrations, student, None if memory is None else memory.sequence_length)
        self._imitation = Imitation(student, parameters, torch.Generator(device).manual_seed(seed))

    def rate(self, step: int) -> float:
        """The step size: the policy's initial one times `strength`, on a line to 0 at `steps`."""
        left = max(0.0, 1 - step / self.settings.steps) if self.settings.steps else 1.0
        return self._rate * self.settings.strength * left

    def count(self, usual: int | None = None) -> int:
        """Gradient steps in one update: `num_epoch` passes over `samples_per_update` demonstrations.

        `usual`: no more than these where neither is set.
        """
        told = (self.settings.num_epoch, self.settings.samples_per_update) != (None, None)
        whole = (self.settings.num_epoch or PASSES) * max(1, self._samples // self._size)
        return whole if told or usual is None else min(usual, whole)

    def update(self, step: int, usual: int | None = None) -> dict[str, Tensor]:
        """Makes the gradient steps of one update of the policy. Gives the loss by its tag; nothing once `steps` have passed."""
        rate = self.rate(step)
        if rate <= 0:
            return {}
        loss, _ = self._imitation.learn(self._lessons, size=min(self._size, self._samples), count=self.count(usual), rate=rate)
        return {LOSS: loss}

    @property
    def _samples(self) -> int:
        """Demonstrated decisions in each pass."""
        return min(len(self._lessons), self.settings.samples_per_update or len(self._lessons))

    def state_dict(self) -> dict[str, Any]:
        """Optimizer and random stream; the demonstrations stay in their files."""
        return {"optimizer": self._imitation.optimizer.state_dict(), "generator": self._imitation.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self._imitation.optimizer.load_state_dict(state["optimizer"])
        self._imitation.generator.set_state(state["generator"].cpu())
