"""One gradient step of soft actor-critic: actor, twin critics and temperatures, then the target critics."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor

from palaestra.data.replay import ReplayBatch
from palaestra.losses.sac import backup, entropy_excess, soft_value, temperature_loss, value_of_taken
from palaestra.models.flat_parameters import optimized
from palaestra.models.optimizer import Adam, gradient_norm
from palaestra.models.sac_networks import SoftActorCritic, SoftCritics
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.signals import RewardSignals, title
from palaestra.trainers.settings import SACSettings
from palaestra.trainers.update_metrics import GRADIENT_NORM, explained_tag, explained_variance

Measured = dict[str, Tensor]
HEAT_MEMORY = 0.99
"""beta2 of Adam for temperatures. Their gradient is proportional to them; as they fall, Adam's usual average over 1,000
steps still remembers larger gradients, and none would fall faster than by 0.05 % a step, whatever the learning rate.
"""


class SoftGradient:
    """Takes gradient steps on drawn decisions. All losses are computed with the same weights; then all weights move."""

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
        self._group = group
        self._gamma = torch.tensor(signals.gammas, device=generator.device)
        self._ignores_ends = torch.tensor(signals.ignore_ends, device=generator.device)
        parts = network.actor_parameters(), list(network.critics.parameters()), list(network.targets.parameters())
        actor, critics, targets = (optimized(part, flat=network.plain) for part in parts)
        # the policy's loss goes through the critics, but moves the actor alone: one backward pass does for all losses
        self._held_critics = held(network.critics)
        self.deciding = actor
        """Parameters of the actor, for other optimizers."""
        self._critics = critics
        self._targets = targets
        self._parameters = [*actor, *critics, network.log_temperature]
        self.optimizer = Adam([*actor, *critics], hyper.learning_rate)
        self.temperature_adam = Adam([network.log_temperature], hyper.learning_rate, HEAT_MEMORY)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of everything that learns, from the next step on."""
        self.optimizer.learning_rate = self.temperature_adam.learning_rate = learning_rate

    def __call__(self, batch: ReplayBatch) -> Measured:
        """Takes a gradient step on these decisions. Returns measurements before it, each (), by tag."""
        reward = self.signals.of_batch(batch.transitions())
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        with torch.autocast(reward.device.type, torch.bfloat16, enabled=self.bfloat16):
            loss, measured = self._losses(batch, reward)
        loss.backward()
        self._group.average_gradients(self._parameters, len(reward))
        measured[GRADIENT_NORM] = gradient_norm(self.optimizer.parameters)
        self.optimizer.step()
        self.temperature_adam.step()
        with torch.no_grad():
            for target, critic in zip(self._targets, self._critics, strict=True):
                target.lerp_(critic, self.tau)
        return measured

    def _losses(self, batch: ReplayBatch, reward: Tensor) -> tuple[Tensor, Measured]:
        """Returns the sum of the losses of critics, actor and temperatures: no weight has a part in two of them."""
        network = self.network
        temperature = self.network.log_temperature.detach().exp()
        (output, encoding), (next_output, next_encoding) = self._passes(batch)
        now, after = (None if batch.masks is None else batch.masks[at] for at in (batch.now, batch.after))
        with torch.no_grad():
            numbers, log_prob = network.reparametrized(next_output, self.generator)
            branches = network.branch_log_probs(next_output, after)
            next_values = network.targets(next_encoding, numbers).float().amin(0)
            next_value = soft_value(next_values, log_prob, branches, temperature)
            target = backup(reward, next_value, batch.terminated, self._gamma, self._ignores_ends)
        values = network.critics(encoding, batch.action.continuous).float()
        taken = value_of_taken(values, batch.action.discrete, network.spec.action.branches)
        twins = (taken - target).square().mean((1, 2)).mul(0.5)

        numbers, log_prob = network.reparametrized(output, self.generator)
        branches = network.branch_log_probs(output, now)
        if numbers.shape[1]:
            values = self._held_critics(encoding.detach(), numbers).float()
        else:
            values = values.detach()
        value = soft_value(values.amin(0), log_prob, branches, temperature)
        policy = -value.mean()
        excess, counts = entropy_excess(log_prob.detach(), [x.detach() for x in branches], now)
        heat = temperature_loss(network.log_temperature, excess, counts)
        measured = self._measure(twins, policy, value, (log_prob, branches))
        shares = explained_variance(taken.detach().mean(0), target)
        measured |= {explained_tag(name): shares[k] for k, name in enumerate(self.signals.names)}
        return twins.sum() + policy + heat, measured

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

    def _measure(self, twins: Tensor, policy: Tensor, value: Tensor, drawn: tuple[Tensor, list[Tensor]]) -> Measured:
        log_prob = drawn[0].detach()
        branches = [x.detach() for x in drawn[1]]
        twins = twins.detach()
        entropy = -log_prob.sum(1).mean() - sum((x.exp() * x).sum(1).mean() for x in branches)
        losses = {"Losses/Policy Loss": policy.detach(), "Losses/Value Loss": twins.mean()}
        losses |= {"Losses/Q1 Loss": twins[0], "Losses/Q2 Loss": twins[1]}
        means = value.detach().mean(0)
        values = {f"Policy/{title(name)} Value": means[k] for k, name in enumerate(self.signals.names)}
        return losses | values | {"Policy/Entropy": entropy}


def held(critics: SoftCritics) -> SoftCritics:
    """Returns the same critics, whose weights move with these but get no gradients."""
    same = copy.deepcopy(critics).requires_grad_(False)
    for copied, weight in zip(same.parameters(), critics.parameters(), strict=True):
        copied.data = weight.data
    return same
