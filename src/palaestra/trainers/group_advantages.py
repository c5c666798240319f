"""Advantages and value targets of MA-POCA, and the group critic's values from which they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.row_index import Groups
from palaestra.core.timestep import Action
from palaestra.data.device_copies import to_device
from palaestra.data.group_minibatches import GroupMinibatch, GroupMinibatches
from palaestra.data.group_steps import groups_of
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.rollout_values import RolloutValues
from palaestra.data.timeline import NOBODY
from palaestra.models.actor_critic import CRITIC, ActorCritic
from palaestra.models.groups.group_critic import GroupCritic
from palaestra.models.trunk import Inputs
from palaestra.parallel.rank_group import RankGroup
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import VALUE_ROWS, goes_on, training_rows
from palaestra.trainers.stale_rollouts import actor_outputs, every_output, log_ratio


def group_targets(values: RolloutValues, gammas: Sequence[float], gae_lambda: float) -> Tensor:
    """Returns the result of `group_returns` for each reward signal, (T, S, K)."""
    goes_on = values.goes_on.flatten()
    below = torch.arange(len(goes_on), device=goes_on.device) + values.goes_on.shape[1]
    successor = torch.where(goes_on, below, NOBODY)
    reward, next_value = (x.flatten(0, 1).unbind(-1) for x in (values.reward, values.next_value))
    found = [
        group_returns(reward[k], next_value[k], successor, gamma=gamma, gae_lambda=gae_lambda)
        for k, gamma in enumerate(gammas)
    ]
    return torch.stack(found, -1).view_as(values.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows(Minibatch):
    """R decisions of whole group steps. `inputs` and `sequences` belong to the U present observations."""

    action: Action  # (U, ...) as the environment got it
    groups: Groups  # the group steps, as indices of the observations
    deciding: Tensor  # (R,) int64: which of the observations each decision was made at
    places: Tensor  # (R,) int64: its place, counted in M * P


class GroupValues:
    """Evaluates a `GroupCritic` over a rollout in large batches. In shapes: N completed decisions, V observations, K
    reward signals.

    Features of an observation are computed once, however many group mates use them. With memory, features are unrolled
    along the sequences of the batches, from the memory stored at their starts; final observations follow their agent's
    last decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, batches: GroupMinibatches) -> None:
        """`batches`: the batches of the rollout's table; the network has a `GroupCritic` for a value head."""
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
        # some mates wait for what comes of a decision
        if (batches.table.members >= len(batches.table.group_step)).any():
            obs = tuple(map(torch.cat, zip(obs, rollout.last_obs, strict=True)))
        self.inputs = network.prepare(obs)
        """Prepared observations at decisions: all observations before the decisions, (V, ...), or the agents' own, (N,
        ...)."""
        done = Action(
            torch.cat([rollout.completed(rollout.sample.continuous), last.continuous]),
            torch.cat([rollout.completed(rollout.sample.discrete), last.discrete]),
        )
        self.action = network.for_environment(done)
        """Action at each observation, (V, ...)."""
        self.recurrent_state = torch.cat([rollout.completed(rollout.recurrent_state), group_ticks.last_recurrent_state])
        """Recurrent state before each observation, (V, L)."""

    def reward(self) -> Tensor:
        """Returns the environment's reward, (T, S): the sum of the rewards of the agent, of its group mates, and of the
        group."""
        rollout = self.rollout
        own = rollout.completed(rollout.reward)
        shared = to_device(self.batches.table.shared(own.cpu().numpy()), own.device)
        return rollout.spread(shared + rollout.completed(rollout.group_reward))

    def of(self, rewards: Sequence[Tensor], signals: RewardSignals, time_horizon: int) -> RolloutValues:
        """Returns the inputs from which advantages are computed. `rewards` has the rewards of each signal, (T, S).

        A truncated episode is bootstrapped with the group's value at its final observation.
        """
        value, baseline, next_value, endless = map(self.rollout.spread, self.decisions())
        return RolloutValues(
            reward=torch.stack(list(rewards), -1),
            gamma=value.new_tensor(signals.gammas),
            value=value,
            next_value=torch.where(torch.tensor(signals.ignore_ends, device=value.device), endless, next_value),
            baseline=baseline,
            goes_on=goes_on(self.rollout, time_horizon).unsqueeze(-1),
            log_ratio=lambda: log_ratio(self.rollout, self.outputs(), self.network),
        )

    def training_rows(self, advantage: Tensor, value: Tensor, target: Tensor, group: RankGroup) -> Minibatch:
        """Returns the completed decisions without inputs; the minibatches have the inputs of whole group steps."""
        return training_rows(self.rollout, (), advantage, value, target, group)

    def outputs(self) -> Tensor:
        """Returns the actor's output for the completed decisions, (N, outputs)."""
        decisions = len(self.batches.table.group_step)
        if not self.network.memory_size:
            return every_output(self.network, self.inputs, VALUE_ROWS)[:decisions]
        batches = self.batches.in_order(VALUE_ROWS, self.device)
        parts = ((batch.chosen, batch.sequences_with(self.recurrent_state)) for batch in batches)
        return actor_outputs(self.network, self.inputs, parts)[:decisions]

    def passes(
        self, rows: Minibatch, size: int, epochs: int, generator: torch.Generator, group: RankGroup
    ) -> Iterator[Iterator[GroupRows]]:
        """Yields the minibatches of each pass over whole group steps, in a new order."""
        for batches in self.batches.shuffled(size, epochs, generator, group):
            yield (self._group_rows(batch, rows) for batch in batches)

    def _group_rows(self, batch: GroupMinibatch, rows: Minibatch) -> GroupRows:
        """Returns whole group steps: the rows of their decisions, and the inputs of the present observations."""
        chosen = rows.take(batch.decisions)
        return GroupRows(
            inputs=tuple(x.index_select(0, batch.chosen) for x in self.inputs),
            sequences=batch.sequences_with(self.recurrent_state),
            continuous=chosen.continuous,
            discrete=chosen.discrete,
            log_prob=chosen.log_prob,
            advantage=chosen.advantage,
            value=chosen.value,
            target=chosen.target,
            mask=chosen.mask,
            action=self.action.take(batch.chosen),
            groups=batch.groups,
            deciding=batch.deciding,
            places=batch.places,
        )

    def decisions(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns values, baselines, next values and next values without ends of all decisions, each (N, K).

        The next value is computed from the group's remaining agents, and from the final observation of an agent that
        has just left; it is 0 once the group's episode ended. The next value without ends, for reward signals that
        ignore ends, also counts agents whose group ended, with their final observations. With individual values, an
        agent that decides again in the rollout has the next value of its own observation instead.
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
            own[rows], value[rows], baseline[rows], together[batch.group_steps] = self.critic.estimates(
                seen, action, batch.groups, batch.deciding, batch.places
            )
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
    value of the group at the next decision; it is 0 if the group's episode ended. `successor` (N,) is the index of the
    agent's own next decision, whose return is G', or -1 if there is none; then only V' is used. Successors must not
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
