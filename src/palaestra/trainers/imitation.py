"""What a teacher did, in minibatches, and how a network comes to do the same.

Behavioral cloning beside a trainer's own objective: demonstrations pull at the policy, less and less.

Unlike ML-Agents', it compares what would be played, not what is drawn: demonstrated numbers are learned as they are, and the
noise of the policy is left to the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.data.minibatches import index_minibatches
from palaestra.data.sequences import SequenceTable, StreamTable
from palaestra.models.optimizer import Adam
from palaestra.models.trunk import Inputs
from palaestra.rewards.demonstrations import Demonstrations, load_demonstrations
from palaestra.rewards.expert_decisions import Decisions, StoredDecisions
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import PASSES

ENDLESS = 1 << 40
LAID_OUT = 256
"""Minibatches of sequences that are laid out at once."""


class Student(Protocol):
    """What imitation asks of a network."""

    spec: BehaviorSpec

    @property
    def memory_size(self) -> int:
        """L; 0 without memory."""
        ...

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Observations (N, *shape) in the order of the spec, ready for `outputs`."""
        ...

    def outputs(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """The packed output that actions are drawn from, (N, outputs)."""
        ...

    def played(self, output: Tensor) -> Tensor:
        """The continuous numbers (N, continuous) that the environment would get without noise."""
        ...

    def branch_log_probs(self, output: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Log-probabilities of each branch, (N, branch)."""
        ...

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's modules have it."""
        ...


@dataclass(frozen=True, slots=True)
class ImitationBatch:
    """A minibatch of what a teacher did."""

    decisions: Decisions
    sequences: Sequences | None = None
    """Which follow one another, where the student has memory."""


@dataclass(frozen=True, slots=True)
class ImitationBatches:
    """N decisions of a teacher."""

    decisions: Decisions | StoredDecisions
    memory: Tensor  # (N, L) of the student before each; read where sequences begin
    table: SequenceTable | None = None
    """Which follow one another, where the student has memory."""

    def __len__(self) -> int:
        return len(self.memory)

    def minibatches(self, *, size: int, count: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        """`count` of some `size` decisions, in as many passes as it takes, each in a new order; whole sequences where there are any."""
        return islice(self._whole(size, generator) if self.table is None else self._sequences(self.table, size, generator), count)

    def _whole(self, size: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        for rows in index_minibatches(len(self), size=size, epochs=ENDLESS, generator=generator):
            yield ImitationBatch(self.decisions.take(rows))

    def _sequences(self, table: SequenceTable, size: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        count = min(max(1, len(self) // size), len(table))
        while True:
            order = torch.randperm(len(table), generator=generator, device=generator.device).cpu().numpy()
            parts = np.array_split(order, count)
            for begin in range(0, count, LAID_OUT):
                for rows, sequences in table.take(parts[begin : begin + LAID_OUT], self.memory):
                    yield ImitationBatch(self.decisions.take(rows), sequences)


def imitation_batches(demonstrations: Demonstrations, student: Student, sequence_length: int | None) -> ImitationBatches:
    """Demonstrations for a student, whose memory, where it has one (`sequence_length`), is empty where a sequence begins."""
    table = None if sequence_length is None else StreamTable(demonstrations.last.cpu().numpy(), sequence_length)
    memory = torch.zeros((1, student.memory_size), device=demonstrations.last.device).expand(len(demonstrations), -1)
    return ImitationBatches(demonstrations.decisions, memory, table)


class Imitation:
    """Moves a network towards what teachers did: least squares of what would be played without noise, cross-entropy of choices."""

    def __init__(self, student: Student, parameters: Sequence[Tensor], generator: torch.Generator) -> None:
        """`parameters`: those of the student, or the one tensor that they are views of (see `models.flat`)."""
        self.student, self.optimizer, self.generator = student, Adam(parameters, 0.0), generator

    def learn(self, lessons: ImitationBatches, *, size: int, count: int, rate: float) -> tuple[Tensor, Tensor]:
        """`count` gradient steps. Means over them: the loss, (), and each continuous number's squared error, (continuous,)."""
        self.optimizer.learning_rate = rate
        losses, errors = [], []
        for batch in lessons.minibatches(size=size, count=count, generator=self.generator):
            loss, error = self.loss(batch)
            self.student.zero_grad(set_to_none=False)  # of flat parameters gradients are views, which stay
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
            errors.append(error.detach())
        return torch.stack(losses).mean(), torch.stack(errors).mean(0)

    def loss(self, batch: ImitationBatch) -> tuple[Tensor, Tensor]:
        """(), and the part of each continuous number, (continuous,)."""
        student, action, shown = self.student, self.student.spec.action, batch.decisions
        output = student.outputs(student.prepare(shown.obs), batch.sequences)
        errors = squared_errors(student.played(output), shown.action.continuous)
        loss = errors.mean() if action.continuous else output.new_zeros(())
        if action.branches:
            loss = loss + cross_entropy(student.branch_log_probs(output, shown.mask), shown.action.discrete)
        return loss, errors


def squared_errors(played: Tensor, demonstrated: Tensor) -> Tensor:
    """Mean squared error of each continuous number, (continuous,). Both (N, continuous), as the environment gets them."""
    return (played - demonstrated).square().mean(0)


def cross_entropy(log_probs: Sequence[Tensor], demonstrated: Tensor) -> Tensor:
    """Mean of -log p(what was demonstrated), (). `log_probs` of each branch, (N, branch); demonstrated (N, branches)."""
    columns = [branch.gather(1, demonstrated[:, i : i + 1]) for i, branch in enumerate(log_probs)]
    return -torch.cat(columns, 1).mean()


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
        self._lessons = imitation_batches(demonstrations, student, None if memory is None else memory.sequence_length)
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
