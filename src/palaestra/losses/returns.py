"""Returns and advantages. Shapes: T rows of time, S slots; one call a reward signal."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(reward: Tensor, value: Tensor, next_value: Tensor, cut: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Returns the advantage of each decision, (T, S). Schulman et al. 2015, https://arxiv.org/abs/1506.02438, eq. 16.

    `next_value` (T, S) is the value of what followed each decision: 0 where the episode terminated, that of the final observation where
    it was truncated. `cut` (T, S) is True at the last decision of a stream, where the next row belongs to another: the sum of deltas
    stops there.
    """
    delta = torch.addcmul(reward - value, next_value, torch.full_like(value, gamma))
    decay = (~cut).to(value.dtype) * (gamma * gae_lambda)
    advantage = torch.empty_like(value)
    later = torch.zeros_like(value[0])
    for now, step, keep in zip(reversed(advantage.unbind()), reversed(delta.unbind()), reversed(decay.unbind()), strict=True):
        later = torch.addcmul(step, keep, later, out=now)
    return advantage


def horizon_cuts(ended: Tensor, horizon: int) -> Tensor:
    """Returns where a stream is cut because it is `horizon` decisions long, (T, S) bool.

    A stream starts at the first row and after each end of an episode. Its decisions number 1, 2, ...; every `horizon`th closes a
    piece (ML-Agents' `time_horizon`), which bootstraps from the observation that follows.
    """
    ticks = torch.arange(1, ended.shape[0] + 1, device=ended.device).unsqueeze(1)
    ends = torch.where(ended, ticks, torch.zeros_like(ticks))
    start = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]).cummax(0).values
    return (ticks - start) % horizon == 0


def normalized(advantage: Tensor) -> Tensor:
    """Returns advantages with zero mean and unit standard deviation over all rows."""
    return (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-10)


def group_returns(reward: Tensor, next_value: Tensor, successor: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Returns lambda-returns of N decisions, (N,): G = r + gamma ((1 - lambda) V' + lambda G').

    Cohen et al. 2022, https://arxiv.org/abs/2111.05992, TD(lambda) on the group's value. `next_value` (N,) is V', the
    value of the group at the next decision, 0 where the group's episode ended. `successor` (N,) is the index of the
    decision whose return is G', or -1 where there is none and V' is used alone: the agent's own next decision, or a
    surviving mate's after it has died, which credits the dead with what the group earns later. Successors must not form a cycle.
    """
    goes_on = successor >= 0
    step = goes_on * (gamma * gae_lambda)
    total = reward + gamma * next_value - step * next_value
    ahead = torch.where(goes_on, successor, 0)
    for _ in range(len(reward).bit_length()):  # each pass doubles how far a decision looks ahead
        total = total + step * total.index_select(0, ahead)
        step = step * step.index_select(0, ahead)
        ahead = ahead.index_select(0, ahead)
    return total
