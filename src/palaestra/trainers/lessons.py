"""What a teacher did, in minibatches, and how a network comes to do the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from palaestra.core.sequences import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.data.minibatches import index_minibatches
from palaestra.data.sequences import SequenceTable, StreamTable
from palaestra.losses.imitation import cross_entropy, squared_errors
from palaestra.models.adam import Adam
from palaestra.models.trunk import Inputs
from palaestra.rewards.decisions import Decisions, StoredDecisions
from palaestra.rewards.demonstrations import Demonstrations

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
class Lesson:
    """A minibatch of what a teacher did."""

    decisions: Decisions
    sequences: Sequences | None = None
    """Which follow one another, where the student has memory."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """N decisions of a teacher."""

    decisions: Decisions | StoredDecisions
    memory: Tensor  # (N, L) of the student before each; read where sequences begin
    table: SequenceTable | None = None
    """Which follow one another, where the student has memory."""

    def __len__(self) -> int:
        return len(self.memory)

    def minibatches(self, *, size: int, count: int, generator: torch.Generator) -> Iterator[Lesson]:
        """`count` of some `size` decisions, in as many passes as it takes, each in a new order; whole sequences where there are any."""
        return islice(self._whole(size, generator) if self.table is None else self._sequences(self.table, size, generator), count)

    def _whole(self, size: int, generator: torch.Generator) -> Iterator[Lesson]:
        for rows in index_minibatches(len(self), size=size, epochs=ENDLESS, generator=generator):
            yield Lesson(self.decisions.take(rows))

    def _sequences(self, table: SequenceTable, size: int, generator: torch.Generator) -> Iterator[Lesson]:
        count = min(max(1, len(self) // size), len(table))
        while True:
            order = torch.randperm(len(table), generator=generator, device=generator.device).cpu().numpy()
            parts = np.array_split(order, count)
            for begin in range(0, count, LAID_OUT):
                for rows, sequences in table.take(parts[begin : begin + LAID_OUT], self.memory):
                    yield Lesson(self.decisions.take(rows), sequences)


def lessons_of(demonstrations: Demonstrations, student: Student, sequence_length: int | None) -> Lessons:
    """Demonstrations for a student, whose memory, where it has one (`sequence_length`), is empty where a sequence begins."""
    table = None if sequence_length is None else StreamTable(demonstrations.last.cpu().numpy(), sequence_length)
    memory = torch.zeros((1, student.memory_size), device=demonstrations.last.device).expand(len(demonstrations), -1)
    return Lessons(demonstrations.decisions, memory, table)


class Imitation:
    """Moves a network towards what teachers did: least squares of what would be played without noise, cross-entropy of choices."""

    def __init__(self, student: Student, parameters: Sequence[Tensor], generator: torch.Generator) -> None:
        """`parameters`: those of the student, or the one tensor that they are views of (see `models.flat`)."""
        self.student, self.optimizer, self.generator = student, Adam(parameters, 0.0), generator

    def learn(self, lessons: Lessons, *, size: int, count: int, rate: float) -> tuple[Tensor, Tensor]:
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

    def loss(self, batch: Lesson) -> tuple[Tensor, Tensor]:
        """(), and the part of each continuous number, (continuous,)."""
        student, action, shown = self.student, self.student.spec.action, batch.decisions
        output = student.outputs(student.prepare(shown.obs), batch.sequences)
        errors = squared_errors(student.played(output), shown.action.continuous)
        loss = errors.mean() if action.continuous else output.new_zeros(())
        if action.branches:
            loss = loss + cross_entropy(student.branch_log_probs(output, shown.mask), shown.action.discrete)
        return loss, errors
