"""What the critic says of a rollout: of every decision, and of what each led to."""

from __future__ import annotations

import torch
from torch import Tensor

from palaestra.data.rollout import Rollout
from palaestra.data.sequences import SequenceTable
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.trunk import Inputs

VALUE_ROWS = 8192
"""Rows valued at once: enough to keep the cores busy, few enough to stay in the cache."""


class Critique:
    """Values of a rollout by one critic, each in large batches. K: reward signals.

    Without memory every row is valued on its own. With memory the sequences are run through again from what was
    remembered at their starts; what the episode's last view is worth is asked with the memory after its last decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, table: SequenceTable | None) -> None:
        """`table`: the rollout's sequences, where the network has memory."""
        self.network, self.rollout, self.table = network, rollout, table
        self._inputs = network.prepare(tuple(obs.flatten(0, 1) for obs in rollout.obs))  # (T * S, ...)
        self.rows = settled_rows(rollout)
        self.inputs = self._inputs if self.rows is None else tuple(x.index_select(0, self.rows) for x in self._inputs)
        """Prepared observations of the settled decisions, (N, ...)."""

    def value(self) -> Tensor:
        """(T, S, K); those of rows that hold no decision mean nothing."""
        time, slots = self.rollout.shape
        if self.table is None:
            return self._values(self._inputs).view(time, slots, -1)
        value = self._in_sequence(self.table)
        if self.rows is not None:
            value = value.new_zeros((time * slots, value.shape[1])).index_copy_(0, self.rows, value)
        return value.view(time, slots, -1)

    def following(self, value: Tensor) -> Tensor:
        """Value of what each decision led to, (T, S, K): the slot's next view, or the last one of an episode that was cut."""
        rollout = self.rollout
        time, slots = rollout.shape
        lengths = rollout.lengths
        if lengths is None:
            at = torch.arange((time - 1) * slots, time * slots, device=value.device)
            following = torch.cat([value[1:], self._values_after(at, rollout.last_obs).unsqueeze(0)])
        else:
            following = torch.cat([value[1:], value[:1]])
            here = lengths.nonzero().squeeze(1)
            at = (lengths[here] - 1) * slots + here
            following.view(time * slots, -1)[at] = self._values_after(at, tuple(obs[here] for obs in rollout.last_obs))
        if len(rollout.final_rows):
            following.view(time * slots, -1)[rollout.final_rows] = self._values_after(rollout.final_rows, rollout.final_obs)
        return following

    def _values(self, inputs: Inputs) -> Tensor:
        """(N, K), each row on its own."""
        return torch.cat([self.network.value(part) for part in zip(*(x.split(VALUE_ROWS) for x in inputs), strict=True)])

    def _in_sequence(self, table: SequenceTable) -> Tensor:
        """(N, K) of the settled decisions."""
        memory = settled(self.rollout, (self.rollout.memory,))[0]
        value = memory.new_zeros((len(memory), self.network.signals))
        for rows, sequences in table.take(table.in_parts(VALUE_ROWS), memory):
            value[rows] = self.network.value(tuple(x.index_select(0, rows) for x in self.inputs), sequences)
        return value

    def _values_after(self, rows: Tensor, obs: tuple[Tensor, ...]) -> Tensor:
        """Values (R, K) of views (R, *shape) that followed these decisions, counted in T * S."""
        inputs = self.network.prepare(obs)
        if self.table is None:
            return self._values(inputs)
        before = self.rollout.memory.flatten(0, 1).index_select(0, rows)
        _, after = self.network.decide(tuple(x.index_select(0, rows) for x in self._inputs), before)
        return self.network.value_with(inputs, after)


def settled_rows(rollout: Rollout) -> Tensor | None:
    """The rows, in T * S counting, in which a decision settled, (N,) rising; None: all."""
    if rollout.lengths is None:
        return None
    time, _ = rollout.shape
    return (torch.arange(time, device=rollout.lengths.device).unsqueeze(1) < rollout.lengths).flatten().nonzero().squeeze(1)


def settled(rollout: Rollout, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The rows of (T, S, ...) columns in which a decision settled, (N, ...)."""
    columns, rows = tuple(x.flatten(0, 1) for x in columns), settled_rows(rollout)
    return columns if rows is None else tuple(x.index_select(0, rows) for x in columns)
