"""The gradients of PPO's and MA-POCA's losses over one minibatch.

PPO's comes in two ways to the same numbers: by torch's autograd for any network, in closed form for plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from palaestra.core.errors import ConfigError
from palaestra.core.row_index import Groups, Sequences
from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch
from palaestra.losses.ppo import (
    HeadGradient,
    branch_part,
    clipped_surrogate,
    clipped_value,
    gaussian_part,
    squared_error,
    value_part,
)
from palaestra.models.actor_critic import ACTOR, CRITIC, ActorCritic
from palaestra.models.distributions import branch_log_probs, log_prob_and_entropy
from palaestra.models.encoders import NatureEncoder, ResNetEncoder
from palaestra.models.group_critic import GroupCritic
from palaestra.models.trunk import Inputs, Trunk

LARGE = (NatureEncoder, ResNetEncoder)
"""Encoders whose convolutions take most of an update: there bfloat16 was measured to take 0.57 of float32's time."""
BASELINE_SHARE = 0.5
"""Weight of the baseline's loss, as a share of the value loss's. ML-Agents'."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Coefficients of the loss in one update."""

    clip_range: float
    entropy_coef: float
    value_coef: float
    clip_value: bool
    joint_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over a minibatch, each ()."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor
    """(N, A) change of each action component's log-probability since it was drawn."""
    baseline: Tensor | None = None
    """Loss of MA-POCA's counterfactual baseline."""

    def tagged(self) -> dict[str, Tensor]:
        """Returns the losses by their TensorBoard tags."""
        baseline = {} if self.baseline is None else {"Losses/Baseline Loss": self.baseline}
        return {
            "Losses/Policy Loss": self.policy.abs(),
            "Losses/Value Loss": self.value,
            **baseline,
            "Policy/Entropy": self.entropy,
        }


class Gradient(Protocol):
    """Fills every parameter's `.grad` with the gradient over one minibatch."""

    def __call__(self, rows: Minibatch, c: Coefficients) -> Losses:
        """Returns the losses over the minibatch, before the optimizer's step."""
        ...


class Autograd:
    """Computes the gradient by autograd, for any network."""

    def __init__(self, network: ActorCritic, *, bfloat16: bool = False, compiled: bool = False) -> None:
        """`bfloat16` and `compiled` as in `Forward`."""
        self.network = network
        self.bfloat16 = bfloat16
        self._forward = Forward(network.forward, bfloat16=bfloat16, compiled=compiled)

    def __call__(self, rows: Minibatch, c: Coefficients) -> Losses:
        """Differentiates policy loss + value_coef * value loss - entropy_coef * entropy; returns these losses."""
        output, value = self._forward(rows.inputs, rows.sequences)
        policy_loss, entropy, log_ratio = policy_loss_and_entropy(self.network, output, rows, c)
        if c.clip_value:
            value_loss = clipped_value(value, rows.value, rows.target, clip_range=c.clip_range).mean()
        else:
            value_loss = squared_error(value, rows.target).mean()
        self.network.zero_grad()
        (policy_loss + c.value_coef * value_loss - c.entropy_coef * entropy).backward()
        return Losses(policy_loss.detach(), value_loss.detach(), entropy.detach(), log_ratio)


class ClosedForm:
    """Computes the gradient in closed form, for plain networks (`ActorCritic.plain`): a small minibatch takes half the
    time.

    Only for a policy ratio of each component.
    """

    def __init__(self, network: ActorCritic) -> None:
        self.network = network
        self._components = network.spec.action.components

    @torch.no_grad()
    def __call__(self, rows: Minibatch, c: Coefficients) -> Losses:
        """Writes the gradient of the same loss as `Autograd`; returns its parts."""
        network = self.network
        features, trace = network.body.trace(network.stacked(rows.inputs))
        actor = network.action_head
        critic = network.value_head
        assert isinstance(critic, nn.Linear)
        output = torch.addmm(actor.bias, features[ACTOR], actor.weight.t())
        value = torch.addmm(critic.bias, features[CRITIC], critic.weight.t())

        policy = self._policy_parts(output, rows, c)
        value_loss, value_grad = value_part(
            value, rows.value, rows.target, value_coef=c.value_coef, clip_range=c.clip_range if c.clip_value else None
        )

        features_grad = torch.empty_like(features)
        torch.mm(policy.grad, actor.weight, out=features_grad[ACTOR])
        if network.networks == 1:
            features_grad[CRITIC].addmm_(value_grad, critic.weight)
        else:
            torch.mm(value_grad, critic.weight, out=features_grad[CRITIC])
        for head, x, grad in ((actor, features[ACTOR], policy.grad), (critic, features[CRITIC], value_grad)):
            torch.mm(grad.t(), x, out=head.weight.grad)
            torch.sum(grad, 0, out=head.bias.grad)
        network.body.backward(trace, features_grad)
        return Losses(policy.loss, value_loss, policy.entropy, policy.log_ratio)

    def _policy_parts(self, output: Tensor, rows: Minibatch, c: Coefficients) -> HeadGradient:
        """Computes all action components; the gradient is that of the packed output."""
        action = self.network.spec.action
        log_std = self.network.log_std
        parts = []
        shared = {"clip_range": c.clip_range, "entropy_coef": c.entropy_coef, "components": self._components}
        n = action.continuous
        if n:
            parts.append(
                gaussian_part(output[:, :n], log_std, rows.continuous, rows.log_prob[:, :n], rows.advantage, **shared)
            )
        for i, log_probs in enumerate(branch_log_probs(output, rows.mask, action) if action.branches else ()):
            choice = rows.discrete[:, i : i + 1]
            old_log_prob = rows.log_prob[:, n + i : n + i + 1]
            parts.append(branch_part(log_probs, choice, old_log_prob, rows.advantage, **shared))
        if len(parts) == 1:
            return parts[0]
        loss = parts[0].loss
        entropy = parts[0].entropy
        for part in parts[1:]:
            loss = loss + part.loss
            entropy = entropy + part.entropy
        return HeadGradient(
            loss, entropy, torch.cat([part.grad for part in parts], 1), torch.cat([part.log_ratio for part in parts], 1)
        )


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Minibatch of MA-POCA: R decisions of whole group steps, and the U observations that are there."""

    rows: Minibatch  # their `inputs` and `sequences` are of the observations, (U, ...); all else (R, ...)
    action: Action  # (U, ...) as the environment got it
    groups: Groups  # the group steps, as indices of the observations
    deciding: Tensor  # (R,) int64: which of the observations each decision was made at
    places: Tensor  # (R,) int64: its place, counted in M * P


class GroupGradient:
    """Computes MA-POCA's gradient by autograd."""

    def __init__(self, network: ActorCritic, *, bfloat16: bool, compiled: bool) -> None:
        """`network` has a `GroupCritic` for a value head, which is never compiled; `bfloat16` and `compiled` as in
        `Forward`.
        """
        self.network = network
        self.bfloat16 = bfloat16
        self._forward = Forward(network.output_and_features, bfloat16=bfloat16, compiled=compiled)

    def __call__(self, batch: GroupRows, c: Coefficients) -> Losses:
        """Returns the losses before the step, of policy + value_coef * (own + value + baseline / 2) - entropy_coef *
        entropy.

        Own values, values and baselines all regress to the returns; each part of the critic fits what the parts before
        it leave.
        """
        rows = batch.rows
        critic = self.network.value_head
        assert isinstance(critic, GroupCritic)
        output, features = self._forward(rows.inputs, rows.sequences)
        with torch.autocast(features.device.type, torch.bfloat16, enabled=self.bfloat16):
            own = critic.own_value(features.index_select(0, batch.deciding), batch.groups.agents_at(batch.places))
            context, difference = critic.context_and_difference(
                features, batch.action, batch.groups, batch.deciding, batch.places
            )
        own, context, difference = (x.to(features.dtype) for x in (own, context, difference))
        policy_loss, entropy, log_ratio = policy_loss_and_entropy(
            self.network, output.index_select(0, batch.deciding), rows, c
        )
        value = own.detach() + context
        baseline = value.detach() + difference
        own_loss, value_loss, baseline_loss = (squared_error(x, rows.target).mean() for x in (own, value, baseline))
        self.network.zero_grad()
        critic_loss = own_loss + value_loss + BASELINE_SHARE * baseline_loss
        (policy_loss + c.value_coef * critic_loss - c.entropy_coef * entropy).backward()
        return Losses(policy_loss.detach(), value_loss.detach(), entropy.detach(), log_ratio, baseline_loss.detach())


def policy_loss_and_entropy(
    network: ActorCritic, output: Tensor, rows: Minibatch, c: Coefficients
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns means over rows of the packed actor output (N, ...), each (), and log-ratios, (N, A), without
    gradient.
    """
    sample = Action(rows.continuous, rows.discrete)
    log_prob, entropy = log_prob_and_entropy(output, network.log_std, rows.mask, sample, network.spec.action)
    log_ratio = log_prob - rows.log_prob
    surrogate = clipped_surrogate(log_ratio, rows.advantage, clip_range=c.clip_range, joint=c.joint_ratio)
    return surrogate.mean(), entropy.mean(), log_ratio.detach()


class Forward:
    """A forward pass, in bfloat16 or compiled where that is asked for; its result is as precise as the weights."""

    def __init__(
        self, forward: Callable[[Inputs, Sequences | None], tuple[Tensor, Tensor]], *, bfloat16: bool, compiled: bool
    ) -> None:
        """`bfloat16`: the pass is computed in it; weights, losses and the optimizer stay in float32."""
        self._forward = torch.compile(forward, dynamic=True) if compiled else forward
        self._compiles = compiled
        self._bfloat16 = bfloat16

    def __call__(self, inputs: Inputs, sequences: Sequences | None) -> tuple[Tensor, Tensor]:
        """Returns what the wrapped function returns. Raises ConfigError where the network cannot be compiled here."""
        try:
            with torch.autocast(inputs[0].device.type, torch.bfloat16, enabled=self._bfloat16):
                first, second = self._forward(inputs, sequences)
        except RuntimeError as error:
            if not self._compiles:
                raise
            raise ConfigError(
                "network_settings.compile: torch.compile cannot compile this network here "
                f"({str(error).strip().splitlines()[0]}); "
                f"it needs a C++ compiler on the machine; or set compile: false"
            ) from error
        return first.to(inputs[0].dtype), second.to(inputs[0].dtype)


def bfloat16_pays(network: Trunk, device: torch.device) -> bool:
    """Whether gradients in bfloat16 were measured to be faster for such a network on such a processor."""
    return has_bfloat16(device) and any(isinstance(module, LARGE) for module in network.modules())


def has_bfloat16(device: torch.device) -> bool:
    """Whether the processor has units for bfloat16. Without them it is emulated, which is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    checks = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return device.type == "cpu" and any(check is not None and check() for check in checks)
