"""What the critic says of a rollout: of every decision, and of what each led to."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import groups_of
from palaestra.data.rollout import Rollout
from palaestra.data.sequences import SequenceTable
from palaestra.data.timeline import NOBODY
from palaestra.models.actor_critic import CRITIC, ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.models.trunk import Inputs

VALUE_ROWS = 8192
"""Rows valued at once: enough to keep the cores busy, few enough to stay in the cache."""


class ValueEstimates:
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


class GroupValues:
    """Evaluates a `GroupCritic` over a rollout in large batches. N settled decisions, V observations, K reward signals.

    Features of an observation are computed once, however many mates it has. With memory they are unrolled along the
    sequences of the batches, from the memory stored at their starts; final observations follow their agent's last decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, batches: GroupMinibatches) -> None:
        """`batches` of the rollout's table; the network has a `GroupCritic` for a value head."""
        when, critic = rollout.moments, network.value_head
        assert when is not None
        assert isinstance(critic, GroupCritic)
        self.network, self.rollout, self.batches, self.critic, self.when = network, rollout, batches, critic, when
        self.device = rollout.reward.device
        self.rows = settled_rows(rollout)
        self._last, self._final = network.prepare(rollout.last_obs), network.prepare(rollout.final_obs)
        sample, last = settled(rollout, (rollout.sample.continuous, rollout.sample.discrete, rollout.memory)), when.last_sample
        obs = settled(rollout, rollout.obs)
        if (batches.table.members >= len(batches.table.moment)).any():  # some mates wait for what comes of a decision
            obs = tuple(map(torch.cat, zip(obs, rollout.last_obs, strict=True)))
        self.inputs = network.prepare(obs)
        """Prepared observations of the views that are there at decisions: of all before decisions, (V, ...), or only (N, ...)."""
        done = Action(torch.cat([sample[0], last.continuous]), torch.cat([sample[1], last.discrete]))
        self.action = network.for_environment(done)
        """(V, ...) what was done about each view."""
        self.memory = torch.cat([sample[2], when.last_memory])
        """(V, L) with what memory."""

    def __call__(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Values, baselines, next values and endless next values of all decisions, each (N, K).

        The next value is that of the agents of the group that are still there, 0 once the group's episode ended. The endless one,
        for reward signals that ignore ends, counts agents whose episode ended with their final observations. With individual values
        an agent that goes on has its own next value instead.
        """
        table = self.batches.table
        features = self._features()
        own, value, together, baseline = self._of_decisions(features)
        views, groups = groups_of(table.later, self.device)
        later = self.critic.value(features.index_select(0, views), groups)
        known = torch.cat([together, later, torch.zeros_like(together[:1])])  # the last, at index -1, where the group is gone
        following, endless = (torch.from_numpy(where % len(known)).to(self.device) for where in (table.following, table.following_endless))
        if self.critic.count_head is None:
            return value, baseline, known[following], known[endless]
        own_next = torch.from_numpy(np.where(table.timeline.terminated, NOBODY, table.successor)).to(self.device)
        goes_on, own = (own_next != NOBODY).unsqueeze(1), own.index_select(0, own_next.clamp(min=0))
        return value, baseline, torch.where(goes_on, own, known[following]), torch.where(goes_on, own, known[endless])

    def _of_decisions(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Own values and values (N, K) of all decisions, values (M, K) of the groups at all moments, and baselines (N, K)."""
        table, signals = self.batches.table, self.network.signals
        own, value, baseline = features.new_zeros((3, len(table.moment), signals)).unbind()
        together = features.new_zeros((len(table), signals))
        for batch in self.batches.in_order(VALUE_ROWS, self.device):
            action = Action(*(column.index_select(0, batch.chosen) for column in (self.action.continuous, self.action.discrete)))
            seen, rows = features.index_select(0, batch.chosen), batch.decisions
            context, difference = self.critic.context_and_difference(seen, action, batch.groups, batch.views, batch.places)
            own[rows] = self.critic.own_value(seen.index_select(0, batch.views), batch.groups.agents_at(batch.places))
            value[rows] = own[rows] + context
            baseline[rows] = value[rows] + difference
            together[batch.moments] = self.critic.value(seen, batch.groups)
        return own, value, together, baseline

    def _features(self) -> Tensor:
        """Of all views, (V + E, width)."""
        if not self.network.memory_size:
            last = [self._last] if len(self.inputs[0]) == len(self.batches.table.moment) else []
            return torch.cat([self._alone(inputs) for inputs in (self.inputs, *last, self._final)])
        own = self.memory.new_zeros((len(self.batches.table.moment), self.network.width))
        for batch in self.batches.in_order(VALUE_ROWS, self.device):
            inputs = tuple(x.index_select(0, batch.chosen) for x in self.inputs)
            features = self.network.unroll(CRITIC, self.network.features(CRITIC, inputs), batch.sequences_with(self.memory))
            here = batch.chosen < len(own)
            own[batch.chosen[here]] = features[here]
        final, _ = self.network.remember(CRITIC, self._final, self._memory_after(self.rollout.final_rows))
        last, _ = self.network.remember(CRITIC, self._last, self._last_memory())
        return torch.cat([own, last, final])

    def _alone(self, inputs: Inputs) -> Tensor:
        """(X, width), each view on its own."""
        parts = zip(*(x.split(VALUE_ROWS) for x in inputs), strict=True)
        return torch.cat([self.network.features(CRITIC, part) for part in parts])

    def _last_memory(self) -> Tensor:
        """(S, L) with which each slot sees `last_obs`: nothing is left of an episode that ended."""
        rollout, memory = self.rollout, self.when.last_memory
        time, slots = rollout.shape
        lengths = torch.full_like(rollout.area, time) if rollout.lengths is None else rollout.lengths
        rows = (lengths - 1).clamp(min=0) * slots + torch.arange(slots, device=lengths.device)
        ended = (rollout.terminated | rollout.truncated).flatten().index_select(0, rows)
        after = self._memory_after(rows).masked_fill((ended | (lengths == 0)).unsqueeze(1), 0.0)
        return torch.where(self.when.last_decided.unsqueeze(1), memory, after)

    def _memory_after(self, rows: Tensor) -> Tensor:
        """(R, L) after the decisions of these rows, in T * S counting."""
        inputs = self.network.prepare(tuple(obs.flatten(0, 1).index_select(0, rows) for obs in self.rollout.obs))
        return self.network.decide(inputs, self.rollout.memory.flatten(0, 1).index_select(0, rows))[1]
