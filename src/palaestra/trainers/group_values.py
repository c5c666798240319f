"""What a critic of groups says of a rollout: of every moment, of every decision, and of what each led to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.moment_batches import MomentBatches
from palaestra.data.rollout import Rollout
from palaestra.data.timeline import NOBODY, Numbers
from palaestra.models.actor_critic import CRITIC, ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.models.trunk import Inputs
from palaestra.trainers.values import VALUE_ROWS, settled, settled_rows


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of N decisions and K reward signals, each (N, K)."""

    value: Tensor
    """What the view of who makes the decision is worth."""
    context: Tensor
    """What its mates' views change about that."""
    change: Tensor
    """What its mates' actions change about both."""
    following: Tensor
    """What followed is worth: to the agent itself, or to its mates where it ended."""
    following_endless: Tensor
    """The same for rewards that do not end with an episode."""


class GroupCritique:
    """Values and baselines of a rollout, each in large batches. N settled decisions, V views before decisions, K reward signals.

    The critic's body sees each view once, whoever's mate it is. With memory that is along the sequences of the batches,
    from what was remembered at their starts; last views come after their agent's last decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, batches: MomentBatches) -> None:
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

    def __call__(self) -> Judgement:
        """Of all decisions."""
        table, device = self.batches.table, self.device
        features = self._features()
        value = self.critic(features)
        together = [mean_of(value, members) for members in (table.members, table.later)]
        known = torch.cat([*together, torch.zeros_like(value[:1])])  # the last, at -1, is that of nothing
        own_next = np.where(table.timeline.terminated, NOBODY, table.heir)
        place, goes_on = torch.from_numpy(np.maximum(own_next, 0)).to(device), torch.from_numpy(own_next != NOBODY).to(device)
        own = value.index_select(0, place)
        following, endless = (
            torch.where(goes_on.unsqueeze(1), own, known[torch.from_numpy(where % len(known)).to(device)])
            for where in (table.following, table.following_endless)
        )
        return Judgement(value[: len(table.moment)], *self._told(features), following, endless)

    def _told(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts and changes, (N, K)."""
        context, change = features.new_zeros((2, len(self.batches.table.moment), self.network.signals))
        for batch in self.batches.in_order(VALUE_ROWS, self.device):
            action = Action(*(column.index_select(0, batch.chosen) for column in (self.action.continuous, self.action.discrete)))
            seen, rows = features.index_select(0, batch.chosen), batch.decisions
            context[rows], change[rows] = self.critic.context_and_change(seen, action, batch.groups, batch.views, batch.places)
        return context, change

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


def mean_of(value: Tensor, members: Numbers) -> Tensor:
    """(M, K) of the views that are there at each moment, of the values of all (X, K); 0 where nobody is."""
    views, here = (torch.from_numpy(column).to(value.device) for column in (np.maximum(members, 0), members != NOBODY))
    share = here.to(value.dtype) / here.sum(1, keepdim=True).clamp(min=1)
    return (share.unsqueeze(1) @ value[views]).squeeze(1)
