"""One gradient step of soft actor-critic: actor, twin critics and temperatures, then the target critics. The trainer
gives the losses.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.data.replay import ReplayBatch
from palaestra.losses.sac import entropy_excess, soft_value, value_of_taken
from palaestra.models.flat_parameters import optimized
from palaestra.models.optimizer import Adam, gradient_norm
from palaestra.models.sac_networks import SoftActorCritic, SoftCritics
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.signals import RewardSignals, title
from palaestra.trainers.settings import SACSettings
from palaestra.trainers.update_metrics import GRADIENT_NORM, explained_tag

POLICY_LOSS = "Losses/Policy Loss"
HEAT_MEMORY = 0.99
"""beta2 of Adam for temperatures. Their gradient is proportional to the temperatures; when they fall, Adam's usual
average over 1,000 steps still contains larger gradients, and no temperature would fall faster than by 0.05 % a step,
whatever the learning rate."""


@dataclass(frozen=True, slots=True)
class DrawnActions:
    """Actions that the policy draws at N observations, and the critics' values of them."""

    continuous: Tensor  # (N, continuous) within -1..1
    log_prob: Tensor  # (N, continuous) their log-densities
    branches: list[Tensor]  # each (N, branch) log-probabilities of its choices
    values: Tensor  # (2, N, K, outputs) of both critics: one output, or with branches one for each choice
    temperature: Tensor  # (1 + B, or as many as there are) weight of the entropy
    value: Tensor  # (N, K) the smaller critic's, entropy included: eq. 3


class SoftLosses(Protocol):
    """The losses of a gradient step, which a trainer decides; `trainers.sac.SAC` explains each of them."""

    def targets(self, batch: ReplayBatch, reward: Tensor, after: DrawnActions) -> Tensor:
        """Returns the critics' targets, (N, K)."""
        ...

    def critic_loss(self, taken: Tensor, target: Tensor, batch: ReplayBatch) -> Tensor:
        """Returns the loss of each critic, (2,)."""
        ...

    def actor_loss(self, now: DrawnActions, batch: ReplayBatch) -> Tensor:
        """Returns the policy's loss, ()."""
        ...

    def temperature_loss(self, excess: Tensor, counts: Tensor) -> Tensor:
        """Returns the temperatures' loss, ()."""
        ...


class SoftGradient:
    """Takes gradient steps on drawn decisions. All losses are computed with the same weights; then all are updated."""

    def __init__(
        self,
        network: SoftActorCritic,
        hyper: SACSettings,
        signals: RewardSignals,
        generator: torch.Generator,
        *,
        bfloat16: bool,
        group: RankGroup = ALONE,
    ) -> None:
        """`generator` draws the policy's actions. `bfloat16`: forward passes are computed in it."""
        self.network = network
        self.tau = hyper.tau
        self.signals = signals
        self.generator = generator
        self.bfloat16 = bfloat16
        self.hyper = hyper
        self._group = group
        parts = network.actor_parameters(), list(network.critics.parameters()), list(network.targets.parameters())
        actor, critics, targets = (optimized(part, flat=network.plain) for part in parts)
        # the policy's loss goes through the critics, but moves the actor alone: one backward pass does for all losses
        self._held_critics = held(network.critics)
        self.deciding = actor
        """Parameters of the actor, for custom optimizers."""
        self._critics = critics
        self._targets = targets
        self._parameters = [*actor, *critics, network.log_temperature]
        self._encoders = [
            parameter
            for name, parameter in network.named_parameters()
            if parameter.requires_grad and name.removeprefix("critics.").startswith(("encoders.", "attentions."))
        ]
        self.optimizer = Adam([*actor, *critics], hyper.learning_rate)
        self.temperature_adam = Adam([network.log_temperature], hyper.learning_rate, HEAT_MEMORY)
        self.prepare()

    def prepare(self) -> None:
        """Makes a subclass's additional objects, at the end of the constructor."""

    def bound_policy(self) -> None:
        """Bounds the policy's weights after another optimizer's step. Does nothing: in plain soft actor-critic,
        encodings may have any length."""

    def parts(self) -> dict[str, Any]:
        """Returns the object's state for checkpoints, by name."""
        return {"optimizer": self.optimizer, "temperature_adam": self.temperature_adam}

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of all networks and temperatures, from the next step on."""
        self.optimizer.learning_rate = self.temperature_adam.learning_rate = learning_rate

    def __call__(self, batch: ReplayBatch, losses: SoftLosses, metrics: Metrics) -> None:
        """Takes a gradient step on these decisions. Adds measurements before it to `metrics`."""
        reward = self.signals.of_batch(batch.transitions())
        self.fill(batch, reward, losses, metrics)
        self._group.average_gradients(self._parameters, reward.shape[0])
        metrics.add({GRADIENT_NORM: gradient_norm(self.optimizer.parameters)})
        self.optimizer.step()
        if self.network.log_temperature.grad is not None:  # a trainer may leave it where it is
            self.temperature_adam.step()
        with torch.no_grad():
            for target, critic in zip(self._targets, self._critics, strict=True):
                target.lerp_(critic, self.tau)

    def fill(self, batch: ReplayBatch, reward: Tensor, losses: SoftLosses, metrics: Metrics) -> None:
        """Fills every parameter's `.grad` with the gradient of all losses, for `reward` (N, K)."""
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        with torch.autocast(reward.device.type, torch.bfloat16, enabled=self.bfloat16):
            loss = self._losses(batch, reward, losses, metrics)
        loss.backward()

    def _losses(self, batch: ReplayBatch, reward: Tensor, losses: SoftLosses, metrics: Metrics) -> Tensor:
        """Returns the sum of the losses of critics, actor and temperatures: no weight has a part in two of them."""
        network = self.network
        (output, encoding), (next_output, next_encoding) = self._passes(batch)
        now, after = (None if batch.masks is None else batch.masks[at] for at in (batch.now, batch.after))
        with torch.no_grad():
            drawn = self._drawn(next_output, next_encoding, after, network.targets)
            target = losses.targets(batch, reward, drawn)
        values = network.critics(encoding, batch.action.continuous).float()
        taken = value_of_taken(values, batch.action.discrete, network.spec.action.branches)
        twins = losses.critic_loss(taken, target, batch)

        if network.spec.action.continuous:
            drawn = self._drawn(output, encoding.detach(), now, self._held_critics)
        else:
            drawn = self._drawn(output, values.detach(), now)
        policy = losses.actor_loss(drawn, batch)
        excess, counts = entropy_excess(drawn.log_prob.detach(), [x.detach() for x in drawn.branches], now)
        heat = losses.temperature_loss(excess, counts)
        metrics.add({POLICY_LOSS: policy.detach()})
        with torch.no_grad():
            self.measure(twins, taken - target, target, drawn, metrics)
        return twins.sum() + policy + heat

    def _drawn(
        self, output: Tensor, encoding: Tensor, mask: Tensor | None, critics: SoftCritics | None = None
    ) -> DrawnActions:
        """Draws actions, and values them by `critics`. Without continuous actions, `encoding` is each choice's
        value."""
        network = self.network
        numbers, log_prob = network.reparametrized(output, self.generator)
        branches = network.branch_log_probs(output, mask)
        values = encoding if critics is None else critics(encoding, numbers).float()
        temperature = self.heat(later=critics is network.targets)
        value = soft_value(values.amin(0), log_prob, branches, temperature)
        return DrawnActions(numbers, log_prob, branches, values, temperature, value)

    def heat(self, *, later: bool) -> Tensor:
        """Returns the temperatures, (temperatures,), with which entropy is added to values; zeros for `later` decisions
        with `backup_entropy: false`."""
        heat = self.network.log_temperature.detach().exp()
        return torch.zeros_like(heat) if later and not self.hyper.backup_entropy else heat

    def _passes(self, batch: ReplayBatch) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Returns output and encoding at each decision, and, without gradients, output and the targets' after it."""
        network = self.network
        inputs = self.network.prepare(batch.obs)
        if batch.sequences is not None:
            output = network.outputs(inputs, batch.sequences).float()
            of_critics = replace(batch.sequences, recurrent_state=network.of_critics(batch.sequences.recurrent_state))
            encoding = network.critics.encoding(inputs, of_critics)
            with torch.no_grad():
                after = network.targets.encoding(inputs, of_critics)[:, batch.after]
            return (output[batch.now], encoding[:, batch.now]), (output.detach()[batch.after], after)
        here, there = (tuple(x[at] for x in inputs) for at in (batch.now, batch.after))
        with torch.no_grad():
            following = network.outputs(there).float(), network.targets.encoding(there)
        return (network.outputs(here).float(), network.critics.encoding(here)), following

    def measure(self, twins: Tensor, error: Tensor, target: Tensor, drawn: DrawnActions, metrics: Metrics) -> None:
        """Adds measurements of the critics' losses (2,), of errors (2, N, K) of their values, of targets (N, K) and of
        drawn actions."""
        surprise = drawn.log_prob.sum(1, keepdim=True)
        for log_probs in drawn.branches:
            surprise = surprise + (log_probs.exp() * log_probs).sum(1, keepdim=True)
        columns = torch.cat([target, error.mean(0), drawn.value, surprise], 1)
        metrics.add_row(torch.cat([twins, *torch.var_mean(columns, 0, correction=0)]), self.named)

    def named(self, row: list[float]) -> dict[str, float]:
        """Returns the measurements of `measure` by tag."""
        names = self.signals.names
        first, second, *moments = row
        half = len(moments) // 2
        spread, rest = moments[: len(names)], moments[len(names) : 2 * len(names)]
        offset = moments[half : half + len(names)]
        values = moments[-1 - len(names) : -1]
        found = {"Losses/Value Loss": (first + second) / 2, "Losses/Q1 Loss": first, "Losses/Q2 Loss": second}
        found |= {POLICY_LOSS: -sum(values) / len(values), "Policy/Entropy": -moments[-1]}
        for k, name in enumerate(names):
            found[f"Policy/{title(name)} Value"] = values[k]
            found[explained_tag(name)] = explained_share(spread[k], rest[k], offset[k])
        return found


def temperatures(network: SoftActorCritic) -> dict[str, Tensor]:
    """Returns the temperature of continuous actions, and the mean temperature of the branches, by tag."""
    temperature = network.log_temperature.detach().exp()
    numbers = bool(network.spec.action.continuous)
    measured = {"Policy/Continuous Entropy Coeff": temperature[0]} if numbers else {}
    if len(temperature) == numbers:
        return measured
    return measured | {"Policy/Discrete Entropy Coeff": temperature[numbers:].mean()}


def held(critics: SoftCritics) -> SoftCritics:
    """Returns critics with the same weights, through which gradients pass but which get none themselves."""
    same = copy.deepcopy(critics).requires_grad_(False)
    for copied, weight in zip(same.parameters(), critics.parameters(), strict=True):
        copied.data = weight.data
    return same


def explained_share(spread: float, residual: float, mean: float) -> float:
    """Returns a signal's `explained_variance` from variance and mean of the targets, and variance of the residuals."""
    return 1 - residual / spread if spread > (1e-6 * mean) ** 2 else math.nan
