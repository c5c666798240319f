"""Multi-agent posthumous credit assignment: PPO for groups. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.rollout import Minibatch, Rollout, RolloutNeeds
from palaestra.data.rollout_values import RolloutValues
from palaestra.losses.ppo import squared_error
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.groups.group_critic import GroupCritic
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.forward import Forward
from palaestra.trainers.group_advantages import GroupRows, GroupValues, group_targets
from palaestra.trainers.ppo import PPO, Coefficients, Losses, log_ratio_and_entropy
from palaestra.trainers.settings import POCASettings
from palaestra.trainers.trainer_setup import actor_critic_of, initialized

BASELINE_SHARE = 0.5
"""Weight of the baseline's loss, as a share of the value loss's weight, as in ML-Agents."""


class POCA(PPO):
    """Trains a policy with a centralised critic over each group; the update itself is `PPO.update`.

    An agent's reward is the sum of the rewards of the agent, of its group mates, and of the group. Returns bootstrap
    with the value of the whole group. If an agent leaves before its mates, its return ends with the joint value of its
    final observation and its mates' observations; the paper's return continues with the mates' rewards. The advantage
    is the return minus a counterfactual baseline, which sees the mates' observations and actions but not the agent's
    own action. With `individual_values` returns bootstrap with the agent's own value instead; the group's value is used
    only if the agent has left or does not decide again in the rollout.
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
        network = actor_critic_of(spec, settings, hyper.shared_critic, head)
        assert isinstance(network.value_head, GroupCritic)
        return initialized(network, network.value_head.own_head, settings)

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        """Returns policy loss + value_coef * (own + value + baseline / 2) - entropy_coef * entropy, () and its parts.

        Own values, values and baselines all regress to the returns; each part of the critic fits the residual of the
        parts before it. The critic's head is never compiled.
        """
        assert isinstance(batch, GroupRows)
        critic = self.network.value_head
        assert isinstance(critic, GroupCritic)
        output, features = self.forward(batch.inputs, batch.sequences)
        with torch.autocast(features.device.type, torch.bfloat16, enabled=self.forward.bfloat16):
            own = critic.own_value(batch.groups.at(features, batch.deciding), batch.groups.agents_at(batch.places))
            context, difference = critic.context_and_difference(
                features, batch.action, batch.groups, batch.deciding, batch.places
            )
        own, context, difference = (x.to(features.dtype) for x in (own, context, difference))
        log_ratio, entropy = log_ratio_and_entropy(self.network, batch.groups.at(output, batch.deciding), batch)
        policy = self.policy_loss(log_ratio, batch, c)
        value = own.detach() + context
        baseline = value.detach() + difference
        own_loss, value_loss, baseline_loss = (squared_error(x, batch.target).mean() for x in (own, value, baseline))
        critic_loss = own_loss + value_loss + BASELINE_SHARE * baseline_loss
        loss = policy + c.value_coef * critic_loss - c.entropy_coef * entropy
        return loss, Losses(
            policy.detach(), value_loss.detach(), entropy.detach(), log_ratio.detach(), baseline_loss.detach()
        )

    def advantages(self, rollout: Rollout, values: RolloutValues) -> tuple[Tensor, Tensor]:
        """Returns lambda-returns minus the counterfactual baseline, and the lambda-returns, each (T, S, K)."""
        target = group_targets(values, self.signals.gammas, self.hyper.lambd)
        return target - values.baseline, target

    def _estimates(self, rollout: Rollout) -> GroupValues:
        memory = self.settings.network_settings.memory
        batches = GroupMinibatches(GroupSteps(rollout), None if memory is None else memory.sequence_length)
        return GroupValues(self.network, rollout, batches)
