"""Measurements of an update. Shapes: N rows, A action components, K reward signals. None waits for the device."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

NEAR_A_BOUND = 0.99
"""Size at which a continuous action counts as at its bound, which is 1."""


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Returns an estimate of KL(old policy || new policy) from actions of the old one, ().

    `log_ratio` (N, A) is the new log-probability less the old. The mean over rows of r - 1 - ln r, which is never negative; summed
    over action components, which are drawn independently. Schulman 2020, http://joschu.net/blog/kl-approx.html, the estimator k3.
    """
    return (log_ratio.expm1() - log_ratio).sum(1).mean()


def clip_fraction(log_ratio: Tensor, clip_range: float) -> Tensor:
    """Returns the share of policy ratios outside 1 ± clip_range, ().

    Schulman et al. 2017, https://arxiv.org/abs/1707.06347: where eq. 7 clips.
    """
    return (log_ratio.expm1().abs() > clip_range).to(log_ratio.dtype).mean()


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """Returns the share of the targets' variance that values explain, (K,), from (N, K): 1 - Var[target - value] / Var[target].

    The coefficient of determination, its residual centered: 1 is exact, 0 is no better than a constant, below 0 is worse than one.
    NaN where the targets do not differ, so that there is nothing to explain.
    """
    spread = target.var(0, correction=0)
    rounding = (1e-6 * target.mean(0)).square()
    share = 1 - (target - value).var(0, correction=0) / spread
    return torch.where(spread > rounding, share, torch.nan)


def gradient_norm(parameters: Iterable[Tensor]) -> Tensor:
    """Returns the Euclidean norm of all gradients together, (). Parameters without one are left out."""
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters if p.grad is not None]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def share_at_bounds(numbers: Tensor) -> Tensor:
    """Returns the share of continuous actions within -1..1 that are at one of these bounds, ()."""
    return (numbers.abs() >= NEAR_A_BOUND).to(numbers.dtype).mean()
