"""Returns and advantages. Shapes: T rows of time, S slots; one call a reward signal."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(reward: Tensor, value: Tensor, next_value: Tensor, cut: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Advantage of each decision, (T, S). Schulman et al. 2015, https://arxiv.org/abs/1506.02438, eq. 16.

    `next_value` (T, S) is the value of what followed each decision: 0 where nothing did (terminated), that
    of the last view where the episode was truncated. `cut` (T, S) is True at the last decision of a stream,
    where the next row belongs to another: the sum of deltas stops there.
    """
    delta = torch.addcmul(reward - value, next_value, torch.full_like(value, gamma))
    decay = (~cut).to(value.dtype) * (gamma * gae_lambda)
    advantage = torch.empty_like(value)
    later = torch.zeros_like(value[0])
    for now, step, keep in zip(reversed(advantage.unbind()), reversed(delta.unbind()), reversed(decay.unbind()), strict=True):
        later = torch.addcmul(step, keep, later, out=now)
    return advantage


def horizon_cuts(ended: Tensor, horizon: int) -> Tensor:
    """Where a stream is cut because it is `horizon` decisions long, (T, S) bool.

    A stream starts at the first row and after each end. Its decisions number 1, 2, ...; every
    `horizon`th closes a piece (ML-Agents' `time_horizon`), which bootstraps from the view that follows.
    """
    ticks = torch.arange(1, ended.shape[0] + 1, device=ended.device).unsqueeze(1)
    ends = torch.where(ended, ticks, torch.zeros_like(ticks))
    start = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]).cummax(0).values
    return (ticks - start) % horizon == 0


def normalized(advantage: Tensor) -> Tensor:
    """Zero mean and unit standard deviation over all rows."""
    return (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-10)
