"""Imitation of demonstrated decisions: their minibatches, the loss, and cloning in addition to a trainer's own
objective.

Unlike in ML-Agents, the loss compares the action without noise to the demonstrated action, and leaves the policy's
noise to the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.data.rollout import index_minibatches
from palaestra.data.sequences import SequenceTable, StreamTable
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.optimizer import Adam
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.demonstrations import Demonstrations, load_demonstrations
from palaestra.rewards.expert_decisions import Decisions, StoredDecisions
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import PASSES, POCASettings, PPOSettings, SACSettings
from palaestra.trainers.trainer_setup import Parts, seeded_generator

Student = ActorCritic | SoftActorCritic
"""Networks that can be trained by imitation."""

LOSS = "Losses/Pretraining Loss"
ENDLESS = 1 << 40
LAID_OUT = 256
"""Minibatches of sequences that are laid out at once."""


class Cloning:
    """Behavioral cloning in addition to a trainer (`behavioral_cloning`), with a learning rate that falls to zero."""

    def __init__(
        self,
        student: Student,
        parameters: Sequence[Tensor],
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
        group: RankGroup = ALONE,
    ) -> None:
        """`parameters`: the student's parameters for the optimizer. Raises DemoError if they do not fit."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, PPOSettings | POCASettings | SACSettings)
        assert settings.behavioral_cloning is not None
        self.settings = settings.behavioral_cloning
        self._group = group
        self._learning_rate = hyper.learning_rate
        self._size = self.settings.batch_size or hyper.batch_size
        memory = settings.network_settings.memory
        demonstrations = load_demonstrations(self.settings.demo_path, student.spec, device)
        self._batches = imitation_batches(demonstrations, student, None if memory is None else memory.sequence_length)
        self._imitation = Imitation(student, parameters, seeded_generator(device, seed, group), group)
        self._parts = Parts(optimizer=self._imitation.optimizer, sample_rng=self._imitation.generator)

    def rate(self, step: int) -> float:
        """Returns the learning rate: the policy's initial rate times `strength`, falling linearly to 0 at `steps`."""
        left = max(0.0, 1 - step / self.settings.steps) if self.settings.steps else 1.0
        return self._learning_rate * self.settings.strength * left

    def count(self, usual: int | None = None) -> int:
        """Returns the gradient steps of one update: `num_epoch` passes over `samples_per_update` demonstrations.

        `usual`: upper limit if neither of these settings is given.
        """
        given = (self.settings.num_epoch, self.settings.samples_per_update) != (None, None)
        whole = (self.settings.num_epoch or PASSES) * max(1, self._samples // self._size)
        return whole if given or usual is None else min(usual, whole)

    def update(self, step: int, usual: int | None = None) -> dict[str, Tensor]:
        """Takes the gradient steps of one update. Returns the loss by its tag; empty after `steps`."""
        rate = self.rate(step)
        if rate <= 0:
            return {}
        loss, _ = self._imitation.learn(
            self._batches,
            size=self._group.share(min(self._size, self._samples)),
            count=self.count(usual),
            learning_rate=rate,
        )
        return {LOSS: loss}

    @property
    def _samples(self) -> int:
        """Demonstrated decisions in each pass."""
        return min(len(self._batches), self.settings.samples_per_update or len(self._batches))

    def state_dict(self) -> dict[str, Any]:
        """Returns optimizer and random stream; the demonstrations stay in their files."""
        return self._parts.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._parts.load_state_dict(state)


class Imitation:
    """Trains a network to act as teachers did, with the squared error of the action without noise and the cross-entropy
    of choices."""

    def __init__(
        self, student: Student, parameters: Sequence[Tensor], generator: torch.Generator, group: RankGroup = ALONE
    ) -> None:
        """`parameters`: the student's, or the flat tensor behind them (`models.flat_parameters.flatten`)."""
        self.student = student
        self.optimizer = Adam(parameters, 0.0)
        self.generator = generator
        self._group = group

    def learn(self, batches: ImitationBatches, *, size: int, count: int, learning_rate: float) -> tuple[Tensor, Tensor]:
        """Takes `count` gradient steps; returns the mean loss, (), and the mean squared error of each continuous
        action, (continuous,)."""
        self.optimizer.learning_rate = learning_rate
        losses = []
        errors = []
        for batch in batches.minibatches(size=size, count=count, generator=self.generator):
            loss, error = self.loss(batch)
            self.student.zero_grad(set_to_none=False)  # of flat parameters gradients are views, which stay
            loss.backward()
            self._group.average_gradients(self.optimizer.parameters, len(batch.decisions))
            self.optimizer.step()
            losses.append(loss.detach())
            errors.append(error.detach())
        return torch.stack(losses).mean(), torch.stack(errors).mean(0)

    def loss(self, batch: ImitationBatch) -> tuple[Tensor, Tensor]:
        """Returns the loss, (), and the squared error of each continuous action, (continuous,)."""
        student = self.student
        action = self.student.spec.action
        shown = batch.decisions
        output = student.outputs(student.prepare(shown.obs), batch.sequences)
        errors = (student.played(output) - shown.action.continuous).square().mean(0)
        loss = errors.mean() if action.continuous else output.new_zeros(())
        if action.branches:
            loss = loss + cross_entropy(student.branch_log_probs(output, shown.mask), shown.action.discrete)
        return loss, errors


@dataclass(frozen=True, slots=True)
class ImitationBatch:
    """A minibatch of a teacher's decisions."""

    decisions: Decisions
    sequences: Sequences | None = None
    """Sequences of decisions that follow one another, where the student has memory."""


@dataclass(frozen=True, slots=True)
class ImitationBatches:
    """N decisions of a teacher, from which minibatches are drawn."""

    decisions: Decisions | StoredDecisions
    table: SequenceTable | None = None
    """Sequences of decisions that follow one another, where the student has memory."""

    def __len__(self) -> int:
        return len(self.decisions)

    def minibatches(self, *, size: int, count: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        """Yields `count` minibatches of about `size` decisions, each pass in a new order; of whole sequences if there
        are sequences."""
        return islice(
            self._whole(size, generator) if self.table is None else self._sequences(self.table, size, generator), count
        )

    def _whole(self, size: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        for rows in index_minibatches(len(self), size=size, epochs=ENDLESS, generator=generator):
            yield ImitationBatch(self.decisions.take(rows))

    def _sequences(self, table: SequenceTable, size: int, generator: torch.Generator) -> Iterator[ImitationBatch]:
        count = min(max(1, len(self) // size), len(table))
        while True:
            order = torch.randperm(len(table), generator=generator, device=generator.device).cpu().numpy()
            parts = np.array_split(order, count)
            for begin in range(0, count, LAID_OUT):
                for rows, sequences in table.take(parts[begin : begin + LAID_OUT]):
                    yield ImitationBatch(self.decisions.take(rows), sequences)


def imitation_batches(
    demonstrations: Demonstrations, student: Student, sequence_length: int | None
) -> ImitationBatches:
    """Returns demonstrations ready for a student, with empty memory where sequences (of `sequence_length`) begin."""
    if sequence_length is None:
        return ImitationBatches(demonstrations.decisions)
    last = demonstrations.last
    empty = torch.zeros((1, student.memory_size), device=last.device).expand(len(last), -1)
    return ImitationBatches(demonstrations.decisions, StreamTable(last.cpu().numpy(), sequence_length, empty))


def cross_entropy(log_probs: Sequence[Tensor], demonstrated: Tensor) -> Tensor:
    """Returns the mean of -log p(demonstrated choice), (). `log_probs`: (N, branch) each; `demonstrated` (N, B)."""
    columns = [branch.gather(1, demonstrated[:, i : i + 1]) for i, branch in enumerate(log_probs)]
    return -torch.cat(columns, 1).mean()
