"""Advantages and value targets of a rollout, and the critic's values from which they are computed.

A truncated episode is bootstrapped in one place, `ValueEstimates.next_values`. Shapes: see ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from palaestra.data.rollout import Minibatch, Rollout, passes
from palaestra.data.rollout_values import RolloutValues
from palaestra.data.sequences import SequenceTable, sequence_passes
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.trunk import Inputs
from palaestra.parallel.rank_group import ALONE, RankGroup, mean_and_deviation
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.stale_rollouts import actor_outputs, every_output, log_ratio

VALUE_ROWS = 8192
"""Rows that the critic evaluates at once: enough to keep the cores busy, few enough to stay in the cache."""


def goes_on(rollout: Rollout, time_horizon: int) -> Tensor:
    """Returns whether the next row of a slot belongs to the same stream of decisions, (T, S) bool.

    A stream ends with its episode, after every `time_horizon` decisions, and with the rollout.
    """
    time, _ = rollout.shape
    ended = rollout.terminated | rollout.truncated
    stops = ended if time_horizon >= time else ended | horizon_ends(ended, time_horizon)
    row = torch.arange(time, device=stops.device).unsqueeze(1)
    return ~stops & (row < (time if rollout.lengths is None else rollout.lengths) - 1)


def training_rows(
    rollout: Rollout, inputs: Inputs, advantage: Tensor, value: Tensor, target: Tensor, group: RankGroup = ALONE
) -> Minibatch:
    """Returns the completed decisions, as the table from which minibatches are drawn.

    `advantage`, `value` and `target` are (T, S, K); the advantage is then averaged over signals and normalized over all
    ranks.
    """
    return Minibatch(
        inputs=inputs,
        continuous=rollout.completed(rollout.sample.continuous),
        discrete=rollout.completed(rollout.sample.discrete),
        log_prob=rollout.completed(rollout.log_prob),
        advantage=normalized(rollout.completed(advantage.mean(-1)), group),
        value=rollout.completed(value),
        target=rollout.completed(target),
        mask=None if rollout.action_mask is None else rollout.completed(rollout.action_mask),
    )


def generalized_advantages(values: RolloutValues, gammas: Sequence[float], gae_lambda: float) -> Tensor:
    """Returns the result of `gae` for each reward signal, (T, S, K)."""
    stream_end = ~values.goes_on[..., 0]
    reward, value, next_value = (x.unbind(-1) for x in (values.reward, values.value, values.next_value))
    found = [
        gae(reward[k], value[k], next_value[k], stream_end, gamma=gamma, gae_lambda=gae_lambda)
        for k, gamma in enumerate(gammas)
    ]
    return torch.stack(found, -1)


def gae(
    reward: Tensor, value: Tensor, next_value: Tensor, stream_end: Tensor, *, gamma: float, gae_lambda: float
) -> Tensor:
    """Returns the advantage of each decision, (T, S). Schulman et al. 2015, https://arxiv.org/abs/1506.02438, eq. 16.

    `next_value` (T, S) is the value of the state after each decision: 0 if the episode terminated, the value of the
    final observation if it was truncated. `stream_end` (T, S) is True at the last decision of a stream, where the next
    row belongs to another stream: the sum of deltas stops there.
    """
    delta = torch.addcmul(reward - value, next_value, torch.full_like(value, gamma))
    decay = (~stream_end).to(value.dtype) * (gamma * gae_lambda)
    advantage = torch.empty_like(value)
    later = torch.zeros_like(value[0])
    for now, step, keep in zip(
        reversed(advantage.unbind()), reversed(delta.unbind()), reversed(decay.unbind()), strict=True
    ):
        later = torch.addcmul(step, keep, later, out=now)
    return advantage


def horizon_ends(ended: Tensor, horizon: int) -> Tensor:
    """Returns where a stream is cut because it is `horizon` decisions long, (T, S) bool.

    A stream starts at the first row and after each end of an episode. Every `horizon`th decision of the stream ends a
    piece (ML-Agents' `time_horizon`), which bootstraps from the observation that follows.
    """
    ticks = torch.arange(1, ended.shape[0] + 1, device=ended.device).unsqueeze(1)
    ends = torch.where(ended, ticks, torch.zeros_like(ticks))
    start = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]).cummax(0).values
    return (ticks - start) % horizon == 0


def normalized(advantage: Tensor, group: RankGroup = ALONE) -> Tensor:
    """Returns advantages with zero mean and unit standard deviation over the rows of all ranks of `group`."""
    mean, deviation = mean_and_deviation(advantage, group)
    return (advantage - mean) / (deviation + 1e-10)


class ValueEstimates:
    """Evaluates a network over a rollout, in large batches.

    Without memory each row is evaluated on its own. With memory the sequences are unrolled again from the memory stored
    at their starts, and an episode's final observation is evaluated with the memory after its last decision.
    """

    def __init__(self, network: ActorCritic, rollout: Rollout, table: SequenceTable | None) -> None:
        """`table`: the rollout's sequences, where the network has memory."""
        self.network = network
        self.rollout = rollout
        self.table = table
        self._inputs = network.prepare(tuple(obs.flatten(0, 1) for obs in rollout.obs))  # (T * S, ...)
        self.rows = rollout.completed_rows
        self.inputs = self._inputs if self.rows is None else tuple(x.index_select(0, self.rows) for x in self._inputs)
        """Prepared observations of the completed decisions, (N, ...)."""

    def reward(self) -> Tensor:
        """Returns the environment's reward, (T, S): an agent's own and its group's."""
        return self.rollout.reward + self.rollout.group_reward

    def of(self, rewards: Sequence[Tensor], signals: RewardSignals, time_horizon: int) -> RolloutValues:
        """Returns the inputs from which advantages are computed. `rewards` has the rewards of each signal, (T, S)."""
        value = self.values()
        counts = ~self.rollout.terminated.unsqueeze(-1) | torch.tensor(signals.ignore_ends, device=value.device)
        return RolloutValues(
            reward=torch.stack(list(rewards), -1),
            gamma=value.new_tensor(signals.gammas),
            value=value,
            next_value=self.next_values(value) * counts,
            baseline=value,
            goes_on=goes_on(self.rollout, time_horizon).unsqueeze(-1),
            log_ratio=lambda: log_ratio(self.rollout, self.outputs(), self.network),
        )

    def training_rows(self, advantage: Tensor, value: Tensor, target: Tensor, group: RankGroup) -> Minibatch:
        """Returns the table from which minibatches are drawn (`training_rows`)."""
        return training_rows(self.rollout, self.inputs, advantage, value, target, group)

    def outputs(self) -> Tensor:
        """Returns the actor's output for the completed decisions, (N, outputs)."""
        if self.table is not None:
            return actor_outputs(self.network, self.inputs, self.table.take(self.table.in_parts(VALUE_ROWS)))
        return every_output(self.network, self.inputs, VALUE_ROWS)

    def passes(
        self, rows: Minibatch, size: int, epochs: int, generator: torch.Generator, group: RankGroup
    ) -> Iterator[Iterator[Minibatch]]:
        """Yields the minibatches of each pass over the rows, in a new order."""
        if self.table is None:
            return passes(rows, size=size, epochs=epochs, generator=generator, group=group)
        return sequence_passes(rows, self.table, size=size, epochs=epochs, generator=generator, group=group)

    def values(self) -> Tensor:
        """Returns the value of each observation, (T, S, K); rows without a decision are undefined."""
        time, slots = self.rollout.shape
        if self.table is None:
            return self._values(self._inputs).view(time, slots, -1)
        value = self._in_sequence(self.table)
        if self.rows is not None:
            value = value.new_zeros((time * slots, value.shape[1])).index_copy_(0, self.rows, value)
        return value.view(time, slots, -1)

    def next_values(self, value: Tensor) -> Tensor:
        """Returns the value of the state after each decision, (T, S, K): the value of the slot's next observation, or
        of its episode's final observation.

        Truncated episodes are bootstrapped here: the row below belongs to a new episode, so the value of the final
        observation is used. The caller sets terminated episodes to 0.
        """
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
            following.view(time * slots, -1)[rollout.final_rows] = self._values_after(
                rollout.final_rows, rollout.final_obs
            )
        return following

    def _values(self, inputs: Inputs) -> Tensor:
        """Returns (N, K), each row evaluated on its own."""
        return torch.cat(
            [self.network.value(part) for part in zip(*(x.split(VALUE_ROWS) for x in inputs), strict=True)]
        )

    def _in_sequence(self, table: SequenceTable) -> Tensor:
        """Returns (N, K) of the completed decisions."""
        value = table.recurrent_state.new_zeros((len(table.recurrent_state), self.network.signals))
        for rows, sequences in table.take(table.in_parts(VALUE_ROWS)):
            value[rows] = self.network.value(tuple(x.index_select(0, rows) for x in self.inputs), sequences)
        return value

    def _values_after(self, rows: Tensor, obs: tuple[Tensor, ...]) -> Tensor:
        """Returns values (R, K) of the observations (R, *shape) that followed the decisions of these rows in T * S."""
        inputs = self.network.prepare(obs)
        if self.table is None:
            return self._values(inputs)
        before = self.rollout.recurrent_state.flatten(0, 1).index_select(0, rows)
        _, after = self.network.decide(tuple(x.index_select(0, rows) for x in self._inputs), before)
        return self.network.value_with(inputs, after)
