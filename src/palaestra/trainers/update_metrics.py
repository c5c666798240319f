"""Metrics, other than losses, that the updates of PPO, MA-POCA and SAC measure. No metric makes the program wait for
the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.rewards.signals import title

KL, CLIP_FRACTION = "Policy/KL Divergence", "Policy/Clip Fraction"
GRADIENT_NORM = "Policy/Gradient Norm"
AT_BOUNDS = "Policy/Actions At Bounds"
EXPLAINED = "Explained Variance"
"""End of a tag, after a signal's title: `Policy/Extrinsic Explained Variance`."""
NEAR_A_BOUND = 0.99
"""Size from which on a continuous action counts as at its bound, which is 1."""


def policy_change(log_ratios: Sequence[Tensor], clip_range: float) -> dict[str, Tensor]:
    """Returns approximate KL divergence and clip fraction of a pass over a rollout, from each minibatch's log-ratios of
    new to old probability, (N, A); empty without minibatches."""
    if not log_ratios:
        return {}
    log_ratio = torch.cat(tuple(log_ratios))
    return {KL: approximate_kl(log_ratio), CLIP_FRACTION: clip_fraction(log_ratio, clip_range)}


def value_metrics(names: Sequence[str], rows: Minibatch, baselines: Tensor | None = None) -> dict[str, Tensor]:
    """Returns each reward signal's mean value, mean baseline (of `baselines` (N, K)), and explained variance."""
    measured: dict[str, Tensor] = {}
    for k, name in enumerate(names):
        measured[f"Policy/{title(name)} Value Estimate"] = rows.value[:, k].mean()
        if baselines is not None:
            measured[f"Policy/{title(name)} Baseline Estimate"] = baselines[:, k].mean()
    shares = explained_variance(rows.value, rows.target)
    return measured | {explained_tag(name): shares[k] for k, name in enumerate(names)}


def explained_tag(name: str) -> str:
    """Returns the tag of a reward signal's explained variance."""
    return f"Policy/{title(name)} {EXPLAINED}"


def at_bounds(rollout: Rollout, played: Action) -> dict[str, Tensor]:
    """Returns the share of continuous actions (T, S, ...), as acted, at -1 or 1; empty without any."""
    numbers = rollout.completed(played.continuous)
    return {AT_BOUNDS: share_at_bounds(numbers)} if numbers.numel() else {}


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Returns an estimate of KL(old policy || new policy) from actions of the old policy, ().

    `log_ratio` (N, A) is the new log-probability minus the old. It is the mean over rows of r - 1 - ln r, which is
    never negative, summed over action components, which are drawn independently. Schulman 2020,
    http://joschu.net/blog/kl-approx.html, the estimator k3.
    """
    return (log_ratio.expm1() - log_ratio).sum(1).mean()


def clip_fraction(log_ratio: Tensor, clip_range: float) -> Tensor:
    """Returns the share of policy ratios outside 1 ± clip_range, ().

    Schulman et al. 2017, https://arxiv.org/abs/1707.06347: where eq. 7 clips.
    """
    return (log_ratio.expm1().abs() > clip_range).to(log_ratio.dtype).mean()


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """Returns the share of the targets' variance that values explain, (K,), from (N, K): 1 - Var[target - value] /
    Var[target].

    The coefficient of determination, with centered residuals: 1 is exact, 0 is no better than a constant, below 0 is
    worse than a constant. NaN if all targets are the same, so that there is nothing to explain.
    """
    spread = target.var(0, correction=0)
    rounding = (1e-6 * target.mean(0)).square()
    share = 1 - (target - value).var(0, correction=0) / spread
    return torch.where(spread > rounding, share, torch.nan)


def share_at_bounds(numbers: Tensor) -> Tensor:
    """Returns the share of continuous actions within -1..1 that are at one of these bounds, ()."""
    return (numbers.abs() >= NEAR_A_BOUND).to(numbers.dtype).mean()
