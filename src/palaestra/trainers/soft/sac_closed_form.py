"""SAC's gradient by the chain rule, for networks with only stacked layers between encodings and heads: autograd takes
nearly twice as long for small networks, since most of its time goes into calls, not arithmetic.

Each sum is computed in autograd's order, so that both give the same digits. Shapes: see ARCHITECTURE.md; of 2 N rows
the first N hold the observations at decisions, the others the next observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.data.replay import ReplayBatch
from palaestra.losses.sac import (
    soft_value,
    soft_value_gradient,
    temperature_gradient,
    value_of_taken,
    value_of_taken_gradient,
)
from palaestra.models import products
from palaestra.models.sac_networks import ACTOR, TWINS, SoftActorCritic, squashed_gradient, squashed_log_prob
from palaestra.models.trunk import StackedMLP, Trace, linear
from palaestra.trainers.sac_gradient import DrawnActions, SoftGradient, SoftLosses

MANY = 256
"""Rows from which on other products than PyTorch's may be faster."""


def has_closed_form(network: SoftActorCritic) -> bool:
    """Whether there are only stacked layers between encodings and heads."""
    return not (network.apart or network.critics.apart or network.memory)


@dataclass(frozen=True, slots=True)
class Encodings:
    """Inputs of the bodies, from the observations of N decisions."""

    actor: Tensor  # (2 N, width)
    critics: Tensor  # (2, N, width) at the decisions
    targets: Tensor  # (2, N, width) after them
    own: Tensor | None  # (N, width) the actor's, where encoders made them, as they did
    twins: Tensor | None  # (2, N, width) and the critics'


@dataclass(frozen=True, slots=True)
class Draw:
    """Actions drawn by the policy at 2 N observations, and the values that their gradient needs."""

    numbers: Tensor  # (2 N, continuous) within -1..1
    log_prob: Tensor  # (2 N, continuous) their log-densities
    branches: list[Tensor]  # each (2 N, branch) log-probabilities of its choices
    raw: Tensor  # (2 N, continuous) before tanh
    noise: Tensor  # (2 N, continuous)
    deviation: Tensor  # (2 N, continuous)
    bounded: Tensor  # (2 N, continuous) bool: the deviation is at a bound


class ClosedFormGradient(SoftGradient):
    """Takes the same gradient steps, for SAC's own losses; targets may be overridden by a user's subclass."""

    @torch.no_grad()
    def fill(self, batch: ReplayBatch, reward: Tensor, losses: SoftLosses, metrics: Metrics) -> None:
        """Fills every parameter's `.grad` with the gradient of all losses, for `reward` (N, K)."""
        network = self.network
        critics = network.critics
        spec = network.spec.action
        n = reward.shape[0]
        seen = self._encodings(batch)
        features, actor_trace = network.body.trace(seen.actor.unsqueeze(0))
        draw = self._draw(features[ACTOR], batch.masks, n)
        joint = seen.critics
        if spec.continuous:  # rows of the actions taken, then of those drawn
            numbers = torch.cat([batch.action.continuous, draw.numbers[:n]])
            joint = torch.cat([torch.cat([joint, joint], 1), numbers.expand(TWINS, -1, -1)], 2)
        critic_features, critic_trace = critics.body.trace(joint)
        values = linear(critics.head_bias, critic_features, critics.head_weight).unflatten(2, (critics.signals, -1))
        now, after = self._valued(draw, values[:, -n:], network.targets(seen.targets, draw.numbers[n:]))

        target = losses.targets(batch, reward, after)
        taken = value_of_taken(values[:, :n], batch.action.discrete, spec.branches)
        error = taken - target
        mask = None if batch.masks is None else batch.masks[:n]
        network.log_temperature.grad = temperature_gradient(now.log_prob, now.branches, mask, now.temperature)
        self.measure(error.square().mean((1, 2)).mul(0.5), error, target, now, metrics)

        of_taken = error.mul_(1 / target.numel())
        of_values = value_of_taken_gradient(of_taken, values.shape[3], batch.action.discrete, spec.branches)
        of_drawn, of_log_prob, of_branches = soft_value_gradient(
            now.values, now.log_prob, now.branches, now.temperature
        )
        if spec.continuous:
            of_values = torch.cat([of_values, of_drawn], 1)
        grad = of_values.flatten(2)
        write_gradients(critics.head_weight, critics.head_bias, critic_features, grad, n)
        product = torch.mul if grad.shape[2] == 1 else torch.bmm  # a batched product of single columns takes longer
        grad = product(grad, critics.head_weight.transpose(1, 2))
        grad = body_gradient(critics.body, critic_trace, grad, n)
        of_joint = input_gradient(critics.body, grad[:, n:] if seen.twins is None else grad)
        width = seen.critics.shape[2]
        of_output = self._output_gradient(draw, mask, of_joint[:, -n:, width:].sum(0), of_log_prob, of_branches)
        head = network.action_head
        torch.mm(of_output.t(), features[ACTOR, :n], out=into(head.weight))
        torch.sum(of_output, 0, out=into(head.bias))
        trace = [(x[:, :n], sums[:, :n]) for x, sums in actor_trace]
        grad = body_gradient(network.body, trace, torch.mm(of_output, head.weight).unsqueeze(0), n)
        if seen.own is not None and seen.own.requires_grad:
            seen.own.backward(input_gradient(network.body, grad)[ACTOR])
        if seen.twins is not None and seen.twins.requires_grad:
            seen.twins.backward(of_joint[:, :n, :width])

    def _encodings(self, batch: ReplayBatch) -> Encodings:
        network = self.network
        critics = network.critics
        inputs = network.prepare(batch.obs)
        here, there = (tuple(x[at] for x in inputs) for at in (batch.now, batch.after))
        for parameter in self._encoders:
            parameter.grad = None
        own = twins = None
        with torch.enable_grad():
            if network.encoded:
                own = network.encode(ACTOR, here)
            if critics.encoded:
                twins = critics.encoding(here)
        actor = network.encode(ACTOR, inputs) if own is None else torch.cat([own, network.encode(ACTOR, there)])
        seen = critics.encoding(here) if twins is None else twins.detach()
        return Encodings(actor, seen, network.targets.encoding(there), own, twins)

    def _draw(self, features: Tensor, masks: Tensor | None, n: int) -> Draw:
        """Draws actions from the actor's features (2 N, hidden), first for the next states, as `SoftGradient` does."""
        network = self.network
        head = network.action_head
        output = torch.addmm(head.bias, features, head.weight.t())
        mean, log_std = network.gaussian(output)
        noise = torch.empty_like(mean)
        noise[n:].normal_(generator=self.generator)
        noise[:n].normal_(generator=self.generator)
        deviation = log_std.exp()
        raw = mean + noise * deviation
        bounded = output[:, mean.shape[1] : 2 * mean.shape[1]] != log_std
        log_prob = squashed_log_prob(raw, noise, log_std)
        return Draw(raw.tanh(), log_prob, network.branch_log_probs(output, masks), raw, noise, deviation, bounded)

    def _valued(self, draw: Draw, values: Tensor, target_values: Tensor) -> tuple[DrawnActions, DrawnActions]:
        """Returns the actions drawn at the decisions with their `values`, and those drawn after them with theirs."""
        heat, later = self.heat(later=False), self.heat(later=True)
        low = torch.cat([values, target_values], 1).amin(0)
        value = soft_value(low, draw.log_prob, draw.branches, heat)
        n = values.shape[1]
        if not self.hyper.backup_entropy:
            value[n:] = soft_value(low[n:], draw.log_prob[n:], [x[n:] for x in draw.branches], later)
        now, after = (
            DrawnActions(draw.numbers[at], draw.log_prob[at], [x[at] for x in draw.branches], of, warmth, value[at])
            for at, of, warmth in ((slice(None, n), values, heat), (slice(n, None), target_values, later))
        )
        return now, after

    def _output_gradient(
        self, draw: Draw, mask: Tensor | None, of_numbers: Tensor, of_log_prob: Tensor | None, of_branches: list[Tensor]
    ) -> Tensor:
        """Returns the gradient of the actor's output (N, ...) from the gradient of the drawn actions."""
        n = draw.log_prob.shape[0] // 2
        parts = []
        if of_log_prob is not None:
            of_mean, of_log_std = squashed_gradient(
                draw.raw[:n], draw.numbers[:n], draw.noise[:n], draw.deviation[:n], of_numbers, of_log_prob
            )
            parts = [of_mean, of_log_std.masked_fill_(draw.bounded[:n], 0)]
        logits = [
            torch.ops.aten._log_softmax_backward_data(grad, log_probs[:n], 1, grad.dtype)
            for grad, log_probs in zip(of_branches, draw.branches, strict=True)
        ]
        if mask is not None:
            logits = [torch.cat(logits, 1).masked_fill_(~mask, 0)]
        return torch.cat([*parts, *logits], 1)


def body_gradient(body: StackedMLP, trace: Trace, grad: Tensor, n: int) -> Tensor:
    """Writes the gradients of a body's weights, from the gradient of the first n rows of its outputs (k, R, hidden).
    Returns the gradient of the first layer's sums, (k, R, hidden)."""
    for i in reversed(range(len(trace))):
        x, sums = trace[i]
        weight, bias = body.layers[i]
        grad = torch.ops.aten.silu_backward(grad, sums)
        write_gradients(weight, bias, x, grad, n)
        if i:
            grad = (torch.bmm if n < MANY else products.stacked)(grad, weight.transpose(1, 2))
    return grad


def input_gradient(body: StackedMLP, grad: Tensor) -> Tensor:
    """Returns the gradient of a body's inputs, (k, R, in), from the first layer's gradient (k, R, hidden)."""
    return (torch.bmm if grad.shape[1] < MANY else products.stacked)(grad, body.layers[0][0].transpose(1, 2))


def write_gradients(weight: Tensor, bias: Tensor, x: Tensor, grad: Tensor, n: int) -> None:
    """Writes the gradients of k layers, weights (k, in, out) and biases (k, 1, out), from the first n rows of their
    inputs (k, R, in) and of the gradient of their outputs (k, R, out)."""
    if n < x.shape[1]:
        x, grad = x[:, :n], grad[:, :n]
    (torch.bmm if n < MANY else products.stacked)(x.transpose(1, 2), grad, out=into(weight))
    torch.sum(grad, 1, keepdim=True, out=into(bias))


def into(parameter: Tensor) -> Tensor:
    """Returns the tensor into which a parameter's gradient is written."""
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    return parameter.grad
