"""What MA-POCA's critic should have said. N decisions."""

from __future__ import annotations

import torch
from torch import Tensor


def group_returns(reward: Tensor, next_value: Tensor, heir: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Lambda-returns (N,) along chains of decisions: G = r + gamma ((1 - lambda) V' + lambda G').

    Cohen et al. 2022, https://arxiv.org/abs/2111.05992, TD(lambda) on the group's value. `next_value` (N,): V', what
    followed is worth, 0 where nothing did. `heir` (N,): which decision's return G' goes on from there, -1 where the
    chain stops and V' stands for all. An agent that dies has a mate for an heir: what the group earns later is credited to
    the dead. No chain may close.
    """
    goes_on = heir >= 0
    step = goes_on * (gamma * gae_lambda)
    total = reward + gamma * next_value - step * next_value
    ahead = torch.where(goes_on, heir, 0)
    for _ in range(len(reward).bit_length()):  # each pass doubles how far a decision looks ahead
        total = total + step * total.index_select(0, ahead)
        step = step * step.index_select(0, ahead)
        ahead = ahead.index_select(0, ahead)
    return total


def share_explained(left: Tensor, part: Tensor) -> Tensor:
    """How much of `part` is best taken away from `left`, (K,), both (N, K): the slope of least squares, kept within 0 and 1.

    Of a control variate that is noise that is nothing, of one that is right it is all. 0 where there are no rows.
    """
    centered = part - part.mean(0)
    return ((left * centered).sum(0) / centered.square().sum(0).clamp(min=1e-12)).nan_to_num().clamp(0.0, 1.0)
