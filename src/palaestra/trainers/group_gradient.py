"""The gradient of MA-POCA's loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.groups import Groups
from palaestra.core.timestep import Action
from palaestra.data.rows import Rows
from palaestra.losses.ppo import squared_error
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.trainers.gradients import Coefficients, Forward, policy_loss_and_entropy

BASELINE_SHARE = 0.5
"""Of the value loss's weight: the baseline's. ML-Agents'."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """R decisions of whole moments, and the U views that are there."""

    rows: Rows  # their `inputs` and `sequences` are the views', (U, ...); all else (R, ...)
    action: Action  # (U, ...) as the environment got it
    groups: Groups  # the moments, as numbers of the views
    views: Tensor  # (R,) int64: which of the views decides
    places: Tensor  # (R,) int64: where it stands, in M * P counting


@dataclass(frozen=True, slots=True)
class GroupLosses:
    """Means over a minibatch, each ()."""

    policy: Tensor
    value: Tensor
    baseline: Tensor
    entropy: Tensor
    log_ratio: Tensor
    """(R, A) by how much the log-probability of each action component has changed since it was drawn."""


class GroupGradient:
    """Fills every parameter's `.grad` with the gradient over one minibatch."""

    def __init__(self, network: ActorCritic, *, bfloat16: bool, compiled: bool) -> None:
        """`network` has a `GroupCritic` for a value head; as `Forward`, but that head is never compiled."""
        self.network, self.bfloat16 = network, bfloat16
        self._forward = Forward(network.output_and_features, bfloat16=bfloat16, compiled=compiled)

    def __call__(self, batch: GroupRows, c: Coefficients) -> GroupLosses:
        """Returns the losses before the step, of policy + value_coef * (own + value + baseline / 2) - entropy_coef * entropy.

        Own values, values and baselines all regress to the returns; each part of the critic fits what the parts before it leave.
        """
        rows, critic = batch.rows, self.network.value_head
        assert isinstance(critic, GroupCritic)
        output, features = self._forward(rows.inputs, rows.sequences)
        with torch.autocast(features.device.type, torch.bfloat16, enabled=self.bfloat16):
            own = critic.own_value(features.index_select(0, batch.views), batch.groups.agents_at(batch.places))
            context, difference = critic.context_and_difference(features, batch.action, batch.groups, batch.views, batch.places)
        own, context, difference = (x.to(features.dtype) for x in (own, context, difference))
        policy_loss, entropy, log_ratio = policy_loss_and_entropy(self.network, output.index_select(0, batch.views), rows, c)
        value = own.detach() + context
        baseline = value.detach() + difference
        own_loss, value_loss, baseline_loss = (squared_error(x, rows.target).mean() for x in (own, value, baseline))
        self.network.zero_grad()
        critic_loss = own_loss + value_loss + BASELINE_SHARE * baseline_loss
        (policy_loss + c.value_coef * critic_loss - c.entropy_coef * entropy).backward()
        return GroupLosses(policy_loss.detach(), value_loss.detach(), baseline_loss.detach(), entropy.detach(), log_ratio)
