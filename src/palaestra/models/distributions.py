"""Distributions of actions, as functions of the actor's packed output.

The output of the actor's head is (N, continuous + choices): the means of the continuous actions, then the logits of
branch 0, branch 1, ... Columns of a log-probability: one for each continuous action, then one for each branch (A in
all).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
FORBIDDEN = -1e8
"""Logit of a masked choice: its probability is exactly 0, and no infinity is multiplied by 0."""
RANGE = 3.0
"""A Gaussian policy's sample is clipped to ±RANGE and divided by RANGE for the environment, as in ML-Agents."""


def branch_log_probs(output: Tensor, mask: Tensor | None, spec: ActionSpec) -> list[Tensor]:
    """Returns normalized log-probabilities of each branch, (N, branch). `mask` (N, choices), True: allowed."""
    logits = output[:, spec.continuous :] if spec.continuous else output
    if mask is not None:
        logits = logits.masked_fill(~mask, FORBIDDEN)
    parts = (logits,) if len(spec.branches) == 1 else logits.split(spec.branches, 1)
    return [torch.log_softmax(part, 1) for part in parts]


def gaussian_log_prob(mean: Tensor, log_std: Tensor, sample: Tensor) -> Tensor:
    """Returns the log-density of each continuous action on its own, (N, continuous)."""
    return ((sample - mean) * torch.exp(-log_std)).square().mul(-0.5) - (log_std + HALF_LOG_TAU)


def draw(
    output: Tensor,
    log_std: Tensor,
    mask: Tensor | None,
    spec: ActionSpec,
    generator: torch.Generator,
    deterministic: bool,
) -> tuple[Action, list[Tensor]]:
    """Draws a sample (continuous numbers have no bounds); returns it with the branches' log-probabilities.
    `deterministic`: mean, mode."""
    continuous = output[:, : spec.continuous] if spec.branches else output
    discrete = output.new_empty((len(output), 0), dtype=torch.int64)
    if spec.continuous and not deterministic:
        noise = torch.empty_like(continuous).normal_(generator=generator)
        continuous = torch.addcmul(continuous, noise, log_std.exp())
    branches = branch_log_probs(output, mask, spec) if spec.branches else []
    if branches:
        chosen = []
        for log_probs in branches:
            # the largest of p / Exp(1) falls on each choice with its own probability, and nothing waits for the device
            score = (
                log_probs
                if deterministic
                else log_probs.exp() / torch.empty_like(log_probs).exponential_(generator=generator)
            )
            chosen.append(score.argmax(1, keepdim=True))
        discrete = chosen[0] if len(chosen) == 1 else torch.cat(chosen, 1)
    return Action(continuous, discrete), branches


def drawn_log_prob(output: Tensor, log_std: Tensor, sample: Action, branches: list[Tensor], spec: ActionSpec) -> Tensor:
    """Returns the log-probability (N, A) of a sample that `draw` returned."""
    columns = [log_probs.gather(1, sample.discrete[:, i : i + 1]) for i, log_probs in enumerate(branches)]
    if spec.continuous:
        columns.insert(0, gaussian_log_prob(output[:, : spec.continuous], log_std, sample.continuous))
    return columns[0] if len(columns) == 1 else torch.cat(columns, 1)


def for_environment(sample: Action) -> Action:
    """Returns a sample as the environment receives it: continuous actions within -1..1."""
    return Action(sample.continuous.clamp(-RANGE, RANGE).div_(RANGE), sample.discrete)


def played(output: Tensor, spec: ActionSpec) -> Tensor:
    """Returns continuous actions (N, continuous) without noise, as played but not clipped: differentiable."""
    return output[:, : spec.continuous] / RANGE


def log_prob_and_entropy(
    output: Tensor, log_std: Tensor, mask: Tensor | None, sample: Action, spec: ActionSpec
) -> tuple[Tensor, Tensor]:
    """Returns a sample's log-probability, (N, A), and the policy's entropy, (N,) or () if equal in all rows.

    The entropy is the mean over continuous numbers plus the sum over branches, as in ML-Agents.
    """
    columns = []
    entropy = output.new_zeros(())
    if spec.continuous:
        columns.append(gaussian_log_prob(output[:, : spec.continuous], log_std, sample.continuous))
        entropy = gaussian_entropy(log_std)
    if spec.branches:
        for i, log_probs in enumerate(branch_log_probs(output, mask, spec)):
            columns.append(log_probs.gather(1, sample.discrete[:, i : i + 1]))
            entropy = entropy - (log_probs.exp() * log_probs).sum(1)
    return columns[0] if len(columns) == 1 else torch.cat(columns, 1), entropy


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Returns the mean over continuous actions of ½ ln(2πe σ²), ()."""
    return (log_std + (HALF_LOG_TAU + 0.5)).mean()
