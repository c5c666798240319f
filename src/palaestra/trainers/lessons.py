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
from palaestra.core.timestep import Action
from palaestra.data.minibatches import index_minibatches
from palaestra.data.sequences import SequenceTable
from palaestra.losses.imitation import cross_entropy, squared_errors
from palaestra.models.adam import Adam
from palaestra.models.trunk import Inputs
from palaestra.rewards.demonstrations import Demonstrations

ENDLESS = 1 << 40


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
class Lessons:
    """N decisions of a teacher."""

    obs: tuple[Tensor, ...]  # each (N, *shape)
    action: Action  # as the environment gets it
    mask: Tensor | None  # (N, choices) bool
    memory: Tensor  # (N, L) of the student before each; read where sequences begin
    table: SequenceTable | None = None
    """Which follow one another, where the student has memory."""
    sequences: Sequences | None = None
    """The same of a minibatch."""

    def __len__(self) -> int:
        return len(self.memory)

    def minibatches(self, *, size: int, count: int, generator: torch.Generator) -> Iterator[Lessons]:
        """`count` of some `size` decisions, in as many passes as it takes, each in a new order; whole sequences where there are any."""
        return islice(self._whole(size, generator) if self.table is None else self._sequences(self.table, size, generator), count)

    def _whole(self, size: int, generator: torch.Generator) -> Iterator[Lessons]:
        for rows in index_minibatches(len(self), size=size, epochs=ENDLESS, generator=generator):
            yield self._take(rows)

    def _sequences(self, table: SequenceTable, size: int, generator: torch.Generator) -> Iterator[Lessons]:
        parts = min(max(1, len(self) // size), len(table))
        while True:
            order = torch.randperm(len(table), generator=generator, device=generator.device).cpu().numpy()
            for rows, sequences in table.take(np.array_split(order, parts), self.memory):
                yield self._take(rows, sequences)

    def _take(self, rows: Tensor, sequences: Sequences | None = None) -> Lessons:
        action = Action(self.action.continuous.index_select(0, rows), self.action.discrete.index_select(0, rows))
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return Lessons(tuple(view.index_select(0, rows) for view in self.obs), action, mask, self.memory[:0], None, sequences)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Decisions in a row as a rollout of one slot."""

    terminated: Tensor  # (N, 1) bool
    lengths: None = None

    @property
    def truncated(self) -> Tensor:
        """None that would matter beside the others."""
        return self.terminated

    @property
    def shape(self) -> tuple[int, int]:
        """(N, 1)."""
        return len(self.terminated), 1


def lessons_of(demonstrations: Demonstrations, student: Student, sequence_length: int | None) -> Lessons:
    """Demonstrations for a student, whose memory, where it has one (`sequence_length`), is empty where a sequence begins."""
    d, table = demonstrations, None
    if sequence_length is not None:
        last = torch.ones_like(d.ended)
        last[:-1] = d.episode[1:] != d.episode[:-1]
        table = SequenceTable(_Stream(last.unsqueeze(1)), sequence_length)
    memory = torch.zeros((1, student.memory_size), device=d.reward.device).expand(len(d), -1)
    return Lessons(d.obs, d.action, d.mask, memory, table)


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

    def loss(self, batch: Lessons) -> tuple[Tensor, Tensor]:
        """(), and the part of each continuous number, (continuous,)."""
        student, action = self.student, self.student.spec.action
        output = student.outputs(student.prepare(batch.obs), batch.sequences)
        errors = squared_errors(student.played(output), batch.action.continuous)
        loss = errors.mean() if action.continuous else output.new_zeros(())
        if action.branches:
            loss = loss + cross_entropy(student.branch_log_probs(output, batch.mask), batch.action.discrete)
        return loss, errors
