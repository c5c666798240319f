"""Multi-agent posthumous credit assignment: PPO for groups. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from palaestra.core.row_index import Groups
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.device_copies import to_device
from palaestra.data.group_minibatches import GroupMinibatch, GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.rollout import Minibatch, Rollout, RolloutNeeds
from palaestra.losses.ppo import squared_error
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.trainers.advantages import VALUE_ROWS
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.forward import Forward
from palaestra.trainers.group_advantages import GroupValues, group_advantages
from palaestra.trainers.ppo import PPO, Coefficients, Experience, Losses, surrogate_and_entropy
from palaestra.trainers.settings import POCASettings
from palaestra.trainers.stale_rollouts import actor_outputs, all_outputs, corrected
from palaestra.trainers.trainer_setup import initialized

BASELINE_SHARE = 0.5
"""Weight of the baseline's loss, as a share of the value loss's. ML-Agents'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows(Minibatch):
    """R decisions of whole group steps. `inputs` and `sequences` are of the U observations that are there."""

    action: Action  # (U, ...) as the environment got it
    groups: Groups  # the group steps, as indices of the observations
    deciding: Tensor  # (R,) int64: which of the observations each decision was made at
    places: Tensor  # (R,) int64: its place, counted in M * P


class POCA(PPO):
    """Trains a policy with a centralised critic over each group; the update itself is `PPO.update`.

    An agent's reward is its own plus that of its mates and of the group. Returns bootstrap with the value of the whole
    group. The return of an agent that leaves before its mates ends there, with the value of its final observation and
    its mates' together; the paper's continues with what the mates earn. The advantage is that return less a
    counterfactual baseline, which knows what the mates see and do but not the agent's own action. With
    `individual_values` returns bootstrap with the agent's own value instead, and with the group's only where the agent
    has left or the rollout has no later decision of it.
    """

    Settings = POCASettings

    def __init__(
        self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        super().__init__(spec, settings, device, seed, group)
        shape = settings.network_settings
        # bfloat16 is off unless asked for: where rewards are rare, two runs of three learned later with it
        self.forward = Forward(
            self.network.output_and_features, bfloat16=shape.bfloat16 or False, compiled=shape.compile
        )
        self.needs = RolloutNeeds(terminal_obs=True, group_ticks=True)

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns an actor, and a critic of groups with a value and a baseline for each reward signal."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, POCASettings)
        head = partial(GroupCritic, action=spec.action, individual=hyper.individual_values)
        network = ActorCritic(spec, settings.network_settings, len(settings.reward_signals), hyper.shared_critic, head)
        assert isinstance(network.value_head, GroupCritic)
        return initialized(network, network.value_head.own_head, settings)

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        """Returns clipped surrogate + value_coef * (own + value + baseline / 2) - entropy_coef * entropy, (), and these
        parts.

        Own values, values and baselines all regress to the returns; each part of the critic fits what the parts before
        it leave. The critic's head is never compiled.
        """
        assert isinstance(batch, GroupRows)
        critic = self.network.value_head
        assert isinstance(critic, GroupCritic)
        output, features = self.forward(batch.inputs, batch.sequences)
        with torch.autocast(features.device.type, torch.bfloat16, enabled=self.forward.bfloat16):
            own = critic.own_value(features.index_select(0, batch.deciding), batch.groups.agents_at(batch.places))
            context, difference = critic.context_and_difference(
                features, batch.action, batch.groups, batch.deciding, batch.places
            )
        own, context, difference = (x.to(features.dtype) for x in (own, context, difference))
        surrogate, entropy, log_ratio = surrogate_and_entropy(
            self.network, output.index_select(0, batch.deciding), batch, c
        )
        value = own.detach() + context
        baseline = value.detach() + difference
        own_loss, value_loss, baseline_loss = (squared_error(x, batch.target).mean() for x in (own, value, baseline))
        critic_loss = own_loss + value_loss + BASELINE_SHARE * baseline_loss
        loss = surrogate + c.value_coef * critic_loss - c.entropy_coef * entropy
        return loss, Losses(
            surrogate.detach(), value_loss.detach(), entropy.detach(), log_ratio, baseline_loss.detach()
        )

    def _experience(self, rollout: Rollout) -> Experience:
        memory = self.settings.network_settings.memory
        batches = GroupMinibatches(GroupSteps(rollout), None if memory is None else memory.sequence_length)
        estimates = GroupValues(self.network, rollout, batches)
        columns, transitions = self._rewards(rollout, self._reward(estimates))
        rewards = torch.stack([rollout.completed(column) for column in columns], 1)
        rows, baselines = self._group_rows(estimates, rewards)
        weights = None
        if self.settings.threaded:
            rows, weights = corrected(rows, self._group_outputs(estimates)[: len(rows.advantage)], self.network)
        return Experience(rows, self._group_passes(rows, estimates), transitions, weights, baselines)

    @staticmethod
    def _reward(estimates: GroupValues) -> Tensor:
        """Returns the environment's reward, (T, S): an agent's own, its mates' and its group's."""
        rollout = estimates.rollout
        own = rollout.completed(rollout.reward)
        group = rollout.completed(rollout.group_reward)
        shared = to_device(estimates.batches.table.shared(own.cpu().numpy()), own.device) + group
        if estimates.rows is None:
            return shared.view_as(rollout.reward)
        return torch.zeros_like(rollout.reward).view(-1).index_copy_(0, estimates.rows, shared).view_as(rollout.reward)

    def _group_rows(self, estimates: GroupValues, rewards: Tensor) -> tuple[Minibatch, Tensor]:
        """Returns the completed decisions with advantages and targets, and baselines. `rewards` (N, K)."""
        return group_advantages(
            estimates,
            rewards,
            self.signals,
            gae_lambda=self.hyper.lambd,
            time_horizon=self.settings.time_horizon,
            group=self.group,
        )

    def _group_outputs(self, estimates: GroupValues) -> Tensor:
        """Returns the actor's output for all observations, (V, outputs), those of the completed decisions first."""
        if not self.network.memory_size:
            return all_outputs(self.network, estimates.inputs, None)
        batches = estimates.batches.in_order(VALUE_ROWS, estimates.device)
        parts = ((batch.chosen, batch.sequences_with(estimates.recurrent_state)) for batch in batches)
        return actor_outputs(self.network, estimates.inputs, parts)

    def _group_passes(self, rows: Minibatch, estimates: GroupValues) -> Iterator[Iterator[GroupRows]]:
        passes = estimates.batches.shuffled(self.batch_size, self.hyper.num_epoch, self.shuffle_rng, self.group)
        for batches in passes:
            yield (group_rows(batch, rows, estimates) for batch in batches)


def group_rows(batch: GroupMinibatch, rows: Minibatch, estimates: GroupValues) -> GroupRows:
    """Returns whole group steps: the rows of their decisions, and the inputs of the observations that are there."""
    chosen = rows.take(batch.decisions)
    return GroupRows(
        inputs=tuple(x.index_select(0, batch.chosen) for x in estimates.inputs),
        sequences=batch.sequences_with(estimates.recurrent_state),
        continuous=chosen.continuous,
        discrete=chosen.discrete,
        log_prob=chosen.log_prob,
        advantage=chosen.advantage,
        value=chosen.value,
        target=chosen.target,
        mask=chosen.mask,
        action=estimates.action.take(batch.chosen),
        groups=batch.groups,
        deciding=batch.deciding,
        places=batch.places,
    )
