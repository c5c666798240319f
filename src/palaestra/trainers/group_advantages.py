"""Advantages and value targets of MA-POCA, and the group critic's values that they are computed from."""

from __future__ import annotations

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.device_copies import to_device
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import groups_of
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.timeline import NOBODY
from palaestra.models.actor_critic import CRITIC, ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.models.trunk import Inputs
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import VALUE_ROWS, horizon_ends, training_rows


@torch.no_grad()
def group_advantages(
    estimates: GroupValues,
    rewards: Tensor,
    signals: RewardSignals,
    *,
    gae_lambda: float,
    time_horizon: int,
    group: RankGroup = ALONE,
) -> tuple[Minibatch, Tensor]:
    """Returns the completed decisions with advantages over a counterfactual baseline and lambda-returns for targets,
    but without inputs, and the baselines, (N, K).

    `rewards` (N, K). A truncated episode is bootstrapped with the group's value at its final observation
    (`GroupValues`).
    """
    rollout = estimates.rollout
    table = estimates.batches.table
    ended = rollout.terminated | rollout.truncated
    stops = rollout.completed(horizon_ends(ended, time_horizon) & ~ended)
    successor = to_device(table.timeline.next, stops.device).masked_fill(stops, NOBODY)
    value, baseline, next_value, next_value_endless = estimates()
    targets = []
    for k, (gamma, ignores_ends) in enumerate(zip(signals.gammas, signals.ignore_ends, strict=True)):
        after = (next_value_endless if ignores_ends else next_value)[:, k]
        targets.append(group_returns(rewards[:, k], after, successor, gamma=gamma, gae_lambda=gae_lambda))
    target = torch.stack(targets, 1)
    return training_rows(rollout, (), (target - baseline).mean(1), value, target, group), baseline


class GroupValues:
    """Evaluates a `GroupCritic` over a rollout in large batches. N completed decisions, V observations, K reward
    signals.

    Features of an observation are computed once, however many mates it has. With memory they are unrolled along the
    sequences of the batches, from the memory stored at their starts; final observations follow their agent's last
    decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, batches: GroupMinibatches) -> None:
        """`batches` are those of the rollout's table; the network has a `GroupCritic` for a value head."""
        group_ticks = rollout.group_ticks
        critic = network.value_head
        assert group_ticks is not None
        assert isinstance(critic, GroupCritic)
        self.network = network
        self.rollout = rollout
        self.batches = batches
        self.critic = critic
        self.group_ticks = group_ticks
        self.device = rollout.reward.device
        self.rows = rollout.completed_rows
        self._last = network.prepare(rollout.last_obs)
        self._final = network.prepare(rollout.final_obs)
        last = group_ticks.last_sample
        obs = tuple(map(rollout.completed, rollout.obs))
        if (
            batches.table.members >= len(batches.table.group_step)
        ).any():  # some mates wait for what comes of a decision
            obs = tuple(map(torch.cat, zip(obs, rollout.last_obs, strict=True)))
        self.inputs = network.prepare(obs)
        """Prepared observations that are there at decisions: all before them, (V, ...), or their own, (N, ...)."""
        done = Action(
            torch.cat([rollout.completed(rollout.sample.continuous), last.continuous]),
            torch.cat([rollout.completed(rollout.sample.discrete), last.discrete]),
        )
        self.action = network.for_environment(done)
        """Action at each observation, (V, ...)."""
        self.recurrent_state = torch.cat([rollout.completed(rollout.recurrent_state), group_ticks.last_recurrent_state])
        """Recurrent state before each observation, (V, L)."""

    def __call__(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns values, baselines, next values and endless next values of all decisions, each (N, K).

        The next value is that of the agents of the group that are still there, and of an agent that has just left them
        with its final observation; 0 once the group's episode ended. The endless one, for reward signals that ignore
        ends, also counts agents whose group ended with their final observations. With individual values an agent that
        decides again in the rollout has its own next value instead.
        """
        table = self.batches.table
        features = self._features()
        own, value, together, baseline = self._of_decisions(features)
        rows, groups = groups_of(table.later, self.device)
        later = self.critic.value(features.index_select(0, rows), groups)
        # the last, at index -1, is where the group is gone
        known = torch.cat([together, later, torch.zeros_like(together[:1])])
        following, endless = (
            to_device(where % len(known), self.device) for where in (table.following, table.following_endless)
        )
        if self.critic.count_head is None:
            return value, baseline, known[following], known[endless]
        own_next = to_device(table.timeline.next, self.device)
        goes_on = (own_next != NOBODY).unsqueeze(1)
        own = own.index_select(0, own_next.clamp(min=0))
        return value, baseline, torch.where(goes_on, own, known[following]), torch.where(goes_on, own, known[endless])

    def _of_decisions(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns own values and values (N, K) of decisions, values (M, K) of groups, and baselines (N, K)."""
        table = self.batches.table
        signals = self.network.signals
        own, value, baseline = features.new_zeros((3, len(table.group_step), signals)).unbind()
        together = features.new_zeros((len(table), signals))
        for batch in self.batches.in_order(VALUE_ROWS, self.device):
            action = self.action.take(batch.chosen)
            seen = features.index_select(0, batch.chosen)
            rows = batch.decisions
            context, difference = self.critic.context_and_difference(
                seen, action, batch.groups, batch.deciding, batch.places
            )
            own[rows] = self.critic.own_value(
                seen.index_select(0, batch.deciding), batch.groups.agents_at(batch.places)
            )
            value[rows] = own[rows] + context
            baseline[rows] = value[rows] + difference
            together[batch.group_steps] = self.critic.value(seen, batch.groups)
        return own, value, together, baseline

    def _features(self) -> Tensor:
        """Returns features of all observations, (V + E, width)."""
        if not self.network.memory_size:
            last = [self._last] if len(self.inputs[0]) == len(self.batches.table.group_step) else []
            return torch.cat([self._alone(inputs) for inputs in (self.inputs, *last, self._final)])
        own = self.recurrent_state.new_zeros((len(self.batches.table.group_step), self.network.width))
        for batch in self.batches.in_order(VALUE_ROWS, self.device):
            inputs = tuple(x.index_select(0, batch.chosen) for x in self.inputs)
            features = self.network.unroll(
                CRITIC, self.network.features(CRITIC, inputs), batch.sequences_with(self.recurrent_state)
            )
            here = batch.chosen < len(own)
            own[batch.chosen[here]] = features[here]
        final, _ = self.network.remember(CRITIC, self._final, self._state_after(self.rollout.final_rows))
        last, _ = self.network.remember(CRITIC, self._last, self._last_state())
        return torch.cat([own, last, final])

    def _alone(self, inputs: Inputs) -> Tensor:
        """Returns features (X, width), each observation on its own."""
        parts = zip(*(x.split(VALUE_ROWS) for x in inputs), strict=True)
        return torch.cat([self.network.features(CRITIC, part) for part in parts])

    def _last_state(self) -> Tensor:
        """Returns the recurrent state (S, L) with which each slot sees `last_obs`: zeros where an episode ended."""
        rollout = self.rollout
        recurrent_state = self.group_ticks.last_recurrent_state
        time, slots = rollout.shape
        lengths = torch.full_like(rollout.area, time) if rollout.lengths is None else rollout.lengths
        rows = (lengths - 1).clamp(min=0) * slots + torch.arange(slots, device=lengths.device)
        ended = (rollout.terminated | rollout.truncated).flatten().index_select(0, rows)
        after = self._state_after(rows).masked_fill((ended | (lengths == 0)).unsqueeze(1), 0.0)
        return torch.where(self.group_ticks.last_decided.unsqueeze(1), recurrent_state, after)

    def _state_after(self, rows: Tensor) -> Tensor:
        """Returns the recurrent state (R, L) after the decisions of these rows, which are counted in T * S."""
        inputs = self.network.prepare(tuple(obs.flatten(0, 1).index_select(0, rows) for obs in self.rollout.obs))
        return self.network.decide(inputs, self.rollout.recurrent_state.flatten(0, 1).index_select(0, rows))[1]


def group_returns(reward: Tensor, next_value: Tensor, successor: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Returns lambda-returns of N decisions, (N,): G = r + gamma ((1 - lambda) V' + lambda G').

    Cohen et al. 2022, https://arxiv.org/abs/2111.05992, TD(lambda) on the group's value. `next_value` (N,) is V', the
    value of the group at the next decision, 0 where the group's episode ended. `successor` (N,) is the index of the
    agent's own next decision, whose return is G', or -1 where there is none and V' is used alone. Successors must not
    form a cycle.
    """
    goes_on = successor >= 0
    step = goes_on * (gamma * gae_lambda)
    total = reward + gamma * next_value - step * next_value
    ahead = torch.where(goes_on, successor, 0)
    for _ in range(len(reward).bit_length()):  # each pass doubles how far a decision looks ahead
        total = total + step * total.index_select(0, ahead)
        step = step * step.index_select(0, ahead)
        ahead = ahead.index_select(0, ahead)
    return total
