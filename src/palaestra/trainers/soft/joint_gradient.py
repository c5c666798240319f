"""A gradient step of soft actor-critic with joint batches, values over bins and a delayed policy.

Kim et al. 2026, https://arxiv.org/abs/2604.04539 (FlashSAC); joint batches: Bhatt et al. 2019,
https://arxiv.org/abs/1902.05605 (CrossQ). Each part has a setting of its own: `network_settings.body: residual`,
`critic_bins`, `policy_delay`, `target_deviation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.data.replay import ReplayBatch
from palaestra.losses.categorical import (
    bin_values,
    choice_shares,
    cross_entropy,
    gaussian_entropy,
    logits_of_taken,
    mean_value,
    project,
    smaller,
)
from palaestra.losses.sac import entropy_excess, soft_value, value_of_taken
from palaestra.models.residual.residual_body import ResidualBody
from palaestra.models.sac_networks import SoftCritics
from palaestra.trainers.sac_gradient import POLICY_LOSS, DrawnActions, SoftGradient, SoftLosses


class JointGradient(SoftGradient):
    """Takes gradient steps of soft actor-critic with the additions that the settings ask for.

    Networks with batch statistics see decisions and their next states as one batch, so that a value and its target are
    normalized in the same way.
    """

    def prepare(self) -> None:
        """Makes what the settings add: bins, targets of entropy, and bodies with batch statistics."""
        network, hyper = self.network, self.hyper
        self.delay = hyper.policy_delay
        bodies = network.body, network.critics.body, network.targets.body
        self._bodies = [body for body in bodies if isinstance(body, ResidualBody)]
        self._statistics = [buffer for body in self._bodies for buffer in body.buffers()]
        for copied, own in zip(self._held_critics.buffers(), network.critics.buffers(), strict=True):
            copied.data = own.data
        self._bins = None if hyper.critic_bins is None else bin_values(hyper.critic_bins, self.generator.device)
        self._entropy = -1.0 if hyper.target_deviation is None else gaussian_entropy(hyper.target_deviation)
        self._steps = 0
        self._acts = True
        """Whether the policy learns in the step under way."""
        self._bound()
        network.targets.load_state_dict(network.critics.state_dict())

    def parts(self) -> dict[str, Any]:
        """Returns the object's state for checkpoints, by name."""
        return {**super().parts(), "gradient": self}

    def __call__(self, batch: ReplayBatch, losses: SoftLosses, metrics: Metrics) -> None:
        """Takes a gradient step on these decisions. Adds measurements before it to `metrics`."""
        self._acts = self._steps % self.delay == 0
        self._steps += 1
        idle = [] if self._acts else [*self.deciding, self.network.log_temperature]
        gradients = [parameter.grad for parameter in idle]
        super().__call__(batch, losses, metrics)
        for parameter, gradient in zip(idle, gradients, strict=True):  # views of parameters' own
            parameter.grad = gradient
        self._bound()
        if self._statistics:
            self._group.average(self._statistics, batch.reward.shape[0])

    def fill(self, batch: ReplayBatch, reward: Tensor, losses: SoftLosses, metrics: Metrics) -> None:
        """Fills the `.grad` of every parameter that is updated in this step, for `reward` (N, K)."""
        super().fill(batch, reward, losses, metrics)
        for parameter in [] if self._acts else [*self.deciding, self.network.log_temperature]:
            parameter.grad = None

    def bound_policy(self) -> None:
        """Bounds the policy's weights, if its body is residual."""
        for body in self._bodies[:1]:
            body.bound()

    @torch.no_grad()
    def _bound(self) -> None:
        """Bounds the weights that moved, of residual bodies and of the critics' heads over them."""
        for body in self._bodies[0 if self._acts else 1 : 2]:
            body.bound()
        if self._bodies:
            head = self.network.critics.head_weight
            head.div_(torch.linalg.vector_norm(head, dim=1, keepdim=True))

    def _losses(self, batch: ReplayBatch, reward: Tensor, losses: SoftLosses, metrics: Metrics) -> Tensor:
        """Returns the sum of the losses of critics and, where the policy learns, of it and the temperatures."""
        network = self.network
        (output, encoding), (next_output, next_encoding) = self._passes(batch)
        now, after = (None if batch.masks is None else batch.masks[at] for at in (batch.now, batch.after))
        with torch.no_grad():
            drawn = self._sample(next_output, after)
            numbers = batch.action.continuous, drawn[0]
            following = self._said(network.targets, next_encoding, numbers, batch.after)
        said = self._said(network.critics, encoding, numbers, batch.now)
        drawn = self._valued(drawn, following, later=True)
        twins, taken, target = self._critic_losses(said, following, drawn, (batch, reward), losses)
        loss = twins.sum()
        if self._acts:
            sample = self._sample(output, now)
            here = encoding[:, batch.now] if self._bodies else encoding
            held = self._held_critics(here.detach(), sample[0]).float() if sample[0].shape[1] else said.detach()
            drawn = self._valued(sample, held)
            policy = losses.actor_loss(drawn, batch)
            surprise = drawn.log_prob.detach(), [x.detach() for x in drawn.branches]
            loss = loss + policy + losses.temperature_loss(*entropy_excess(*surprise, now, self._entropy))
            metrics.add({POLICY_LOSS: policy.detach()})
        with torch.no_grad():
            self.measure(twins, taken - target, target, drawn, metrics)
        return loss

    def _passes(self, batch: ReplayBatch) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Gives the result of `SoftGradient`; encodings of residual bodies are computed for all rows."""
        if not self._bodies:
            return super()._passes(batch)
        network, critics = self.network, (self.network.critics, self.network.targets)
        inputs = network.prepare(batch.obs)
        encoding, following = (each.encoding(inputs) for each in critics)
        if self._acts:
            with self._bodies[0].learning():
                output = network.outputs(inputs).float()
            return (output[batch.now], encoding), (output.detach()[batch.after], following)
        with torch.no_grad():
            output = network.outputs(tuple(x[batch.after] for x in inputs)).float()
        return (output, encoding), (output, following)

    def _said(
        self, critics: SoftCritics, encoding: Tensor, numbers: tuple[Tensor, Tensor], at: slice | Tensor
    ) -> Tensor:
        """Returns the critics' values, (2, N, K, outputs), `at` these rows, of the continuous actions taken (N,
        continuous), or of drawn actions."""
        if not self._bodies:
            return critics(encoding, numbers[critics is self.network.targets]).float()
        with critics.body.learning():
            return critics(encoding, torch.cat(numbers), at).float()

    def _critic_losses(
        self, said: Tensor, following: Tensor, drawn: DrawnActions, seen: tuple[ReplayBatch, Tensor], losses: SoftLosses
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns each critic's loss, (2,), both values of the actions taken, (2, N, K), and their targets, (N, K)."""
        discrete, branches = seen[0].action.discrete, self.network.spec.action.branches
        if self._bins is None:
            with torch.no_grad():
                target = losses.targets(*seen, drawn)
            taken = value_of_taken(said, discrete, branches)
            return losses.critic_loss(taken, target, seen[0]), taken, target
        with torch.no_grad():
            probs = self._target(following, drawn, *seen, losses)
        logits = logits_of_taken(said.unflatten(-1, (-1, len(self._bins))), discrete, branches)
        taken = mean_value(logits.detach().softmax(-1), self._bins).mean(-1)
        return cross_entropy(logits, probs), taken, mean_value(probs, self._bins)

    def _target(
        self, following: Tensor, drawn: DrawnActions, batch: ReplayBatch, reward: Tensor, losses: SoftLosses
    ) -> Tensor:
        """Returns the critics' targets, (N, K, bins): the distribution of the critic with the lower value, shifted like
        a value, and spread over the bins."""
        assert self._bins is not None
        # of any value v the target is origin + slope v
        origin = losses.targets(batch, reward, replace(drawn, value=torch.zeros_like(reward)))
        slope = losses.targets(batch, reward, replace(drawn, value=torch.ones_like(reward))) - origin
        shares, bonus = choice_shares(drawn.log_prob, drawn.branches, drawn.temperature)
        atoms = self._bins + bonus[:, None, :, None]
        atoms = torch.addcmul(origin[..., None, None], slope[..., None, None], atoms)
        probs = smaller(following.unflatten(-1, (-1, len(self._bins))), self._bins)
        return (project(probs, atoms) * shares[:, None, :, None]).sum(2)

    def _sample(self, output: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Draws actions: the first three columns of `DrawnActions`."""
        return *self.network.reparametrized(output, self.generator), self.network.branch_log_probs(output, mask)

    def _valued(
        self, sample: tuple[Tensor, Tensor, list[Tensor]], said: Tensor, *, later: bool = False
    ) -> DrawnActions:
        """Returns a sample with the critics' values of it; with bins, their means."""
        values = said
        if self._bins is not None:
            values = mean_value(said.unflatten(-1, (-1, len(self._bins))).softmax(-1), self._bins)
        temperature = self.heat(later=later)
        return DrawnActions(*sample, values, temperature, soft_value(values.amin(0), *sample[1:], temperature))

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of steps taken, which tells when the policy's next step is due."""
        return {"steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._steps = state["steps"]
