"""Values as distributions over bins: the projection of a target onto them, cross entropy, and means.

Bellemare et al. 2017, https://arxiv.org/abs/1707.06887 (the projection, eq. 7); Farebrother et al. 2024,
https://arxiv.org/abs/2403.03950 (why cross entropy instead of squared errors). Shapes: In shapes: N rows, K reward
signals, O outputs (one, or one for each choice of every branch, see `losses.sac`); the bins are the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LIMIT = 5.0
"""The bins are evenly spaced from -LIMIT to LIMIT."""
MOST_SHARES = 1 << 25
"""Most numbers in a matrix that shares distributions among bins: each atom's share in each bin."""


def bin_values(bins: int, device: torch.device | None = None) -> Tensor:
    """Returns the value that each bin stands for, (bins,)."""
    return torch.linspace(-LIMIT, LIMIT, bins, device=device)


def project(probs: Tensor, atoms: Tensor) -> Tensor:
    """Returns a distribution over the bins that has the same mean as `probs` over the values `atoms`; all are (...,
    bins).

    The probability of an atom between two bins is shared between them by nearness; beyond the last bin it goes to the
    last bin.
    """
    bins = probs.shape[-1]
    place = ((atoms + LIMIT) * ((bins - 1) / (2 * LIMIT))).clamp(0, bins - 1)
    if probs.device.type != "cpu":  # there sums into one place come in any order, whose digits differ
        return by_nearness(probs, place)
    below = place.floor().clamp(max=bins - 2)
    upper = (place - below) * probs
    at = below.long()
    return torch.zeros_like(probs).scatter_add_(-1, at, probs - upper).scatter_add_(-1, at + 1, upper)


def by_nearness(probs: Tensor, place: Tensor) -> Tensor:
    """Returns the same distribution as `project`, bin by bin, for atoms at the positions `place`, (..., bins), in units
    of bins."""
    count = probs.shape[-1]
    bins = torch.arange(count, device=place.device)
    rows = max(1, MOST_SHARES // (count * count))
    parts = zip(probs.reshape(-1, count).split(rows), place.reshape(-1, count).split(rows), strict=True)
    shares = ((part, (1 - (at.unsqueeze(-1) - bins).abs()).clamp(min=0)) for part, at in parts)
    return torch.cat([(part.unsqueeze(-1) * share).sum(-2) for part, share in shares]).view_as(probs)


def mean_value(probs: Tensor, values: Tensor) -> Tensor:
    """Returns the mean of distributions (..., bins) over `values` (bins,).

    No matrix product is used: it would be rounded to bfloat16 where networks are computed in bfloat16.
    """
    return (probs * values).sum(-1)


def smaller(logits: Tensor, values: Tensor) -> Tensor:
    """Returns the distribution of the critic with the smaller mean, (N, K, O, bins). `logits` (2, N, K, O, bins)."""
    first, second = logits.softmax(-1)
    return torch.where((mean_value(first, values) <= mean_value(second, values)).unsqueeze(-1), first, second)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Returns the mean of each critic's cross entropy, (2,). `logits` (2, N, K, B, bins), `target` (N, K, bins).

    The taken choice of each of the B branches predicts the whole target on its own.
    """
    return -(target.unsqueeze(2) * logits.log_softmax(-1)).sum(-1).mean((1, 2, 3))


def logits_of_taken(logits: Tensor, discrete: Tensor, branches: Sequence[int]) -> Tensor:
    """Returns the logits of the choices that were taken, (2, N, K, B, bins); without branches (2, N, K, 1, bins).

    `logits` (2, N, K, O, bins), `discrete` (N, B).
    """
    if not branches:
        return logits
    first = torch.tensor([0, *branches[:-1]], device=discrete.device).cumsum(0)
    at = (discrete + first).view(1, len(discrete), 1, -1, 1)
    return logits.gather(3, at.expand(*logits.shape[:3], -1, logits.shape[4]))


def choice_shares(log_prob: Tensor, branches: Sequence[Tensor], temperature: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the share of each output in an observation's distribution, and its entropy bonus, both (N, O).

    The mean over outputs, weighted by these shares and with the bonus, is `losses.sac.soft_value`: each branch has the
    same weight, divided among its choices by their probability.
    """
    rest = iter(temperature)
    bonus = -next(rest) * log_prob.sum(1, keepdim=True) if log_prob.shape[1] else log_prob.new_zeros((len(log_prob), 1))
    if not branches:
        return torch.ones_like(bonus), bonus
    pairs = list(zip(branches, rest, strict=True))
    shares = torch.cat([log_probs.exp() / len(branches) for log_probs, _ in pairs], 1)
    return shares, torch.cat([bonus - alpha * log_probs for log_probs, alpha in pairs], 1)


def gaussian_entropy(deviation: float) -> float:
    """Returns the entropy of a Gaussian with this standard deviation, ½ ln(2πe σ²)."""
    return 0.5 * math.log(2 * math.pi * math.e * deviation * deviation)
