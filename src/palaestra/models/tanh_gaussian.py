"""Distributions of soft actor-critic's actions, as functions of the actor's packed output: tanh of a Gaussian, and
branches.

The output is (N, 2 continuous + choices): means, logarithms of standard deviations, then the logits of branch 0, branch
1, ... A sample's continuous actions are those before tanh. Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905,
appendix C.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models import distributions
from palaestra.models.distributions import HALF_LOG_TAU

LEAST_LOG_STD, MOST_LOG_STD = -20.0, 2.0
"""Bounds of the logarithm of a standard deviation, as in ML-Agents."""


def gaussian(output: Tensor, spec: ActionSpec) -> tuple[Tensor, Tensor]:
    """Returns means and logarithms of standard deviations before tanh, each (N, continuous)."""
    mean, log_std = output[:, : 2 * spec.continuous].chunk(2, 1)
    return mean, log_std.clamp(LEAST_LOG_STD, MOST_LOG_STD)


def branch_log_probs(output: Tensor, mask: Tensor | None, spec: ActionSpec) -> list[Tensor]:
    """Returns normalized log-probabilities of each branch, (N, branch). `mask` (N, choices), True: allowed."""
    return distributions.branch_log_probs(output[:, spec.continuous :], mask, spec) if spec.branches else []


def squashed_log_prob(raw: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Returns the log-density of tanh(raw) for each continuous action, (N, continuous), where raw = mean + std * noise.

    ln(1 - tanh²(x)) = 2 (ln 2 - x - softplus(-2x)), which is exact where tanh has long rounded to 1.
    """
    stretch = 2 * (math.log(2) - raw - softplus(-2 * raw))
    return noise.square().mul(-0.5) - (log_std + HALF_LOG_TAU) - stretch


def reparametrized(output: Tensor, spec: ActionSpec, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws continuous actions within -1..1; returns them and log-densities, (N, continuous), differentiable."""
    mean, log_std = gaussian(output, spec)
    noise = torch.empty_like(mean).normal_(generator=generator)
    raw = mean + noise * log_std.exp()
    return raw.tanh(), squashed_log_prob(raw, noise, log_std)


def draw(
    output: Tensor, mask: Tensor | None, spec: ActionSpec, generator: torch.Generator, deterministic: bool
) -> tuple[Action, list[Tensor]]:
    """Draws a sample, before tanh; returns it and branches' log-probabilities. `deterministic`: mean and mode."""
    mean, log_std = gaussian(output, spec)
    plain = torch.cat([mean, output[:, 2 * spec.continuous :]], 1) if spec.branches else mean
    return distributions.draw(plain, log_std, mask, spec, generator, deterministic)


def drawn_log_prob(output: Tensor, sample: Action, branches: list[Tensor], spec: ActionSpec) -> Tensor:
    """Returns the log-probability (N, A) of what `draw` returned: for a continuous action the density after tanh."""
    columns = [log_probs.gather(1, sample.discrete[:, i : i + 1]) for i, log_probs in enumerate(branches)]
    if spec.continuous:
        mean, log_std = gaussian(output, spec)
        noise = (sample.continuous - mean) * torch.exp(-log_std)
        columns.insert(0, squashed_log_prob(sample.continuous, noise, log_std))
    return columns[0] if len(columns) == 1 else torch.cat(columns, 1)
