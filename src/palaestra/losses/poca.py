"""Lambda-returns of groups whose members come and go."""

from __future__ import annotations

import torch
from torch import Tensor


def group_returns(reward: Tensor, next_value: Tensor, successor: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Lambda-returns of N decisions, (N,): G = r + gamma ((1 - lambda) V' + lambda G').

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
