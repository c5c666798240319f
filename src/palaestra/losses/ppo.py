"""PPO's losses. Shapes: N rows, A action components, K reward signals."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, *, clip_range: float, joint: bool = False) -> Tensor:
    """Policy loss of each row and component, (N, A). Schulman et al. 2017, https://arxiv.org/abs/1707.06347, eq. 7.

    `log_ratio` (N, A) is the new log-probability less the old. The minimum makes the bound pessimistic: leaving the clip range never pays,
    coming back into it always does. As in ML-Agents, the ratio is that of each action
    component on its own; `joint` takes that of the whole action, as the paper does, and gives (N, 1). `advantage` is (N,).
    """
    ratio = (log_ratio.sum(1, keepdim=True) if joint else log_ratio).exp()
    gain = advantage.unsqueeze(1)
    return -torch.minimum(ratio * gain, ratio.clamp(1 - clip_range, 1 + clip_range) * gain)


def squared_error(value: Tensor, target: Tensor) -> Tensor:
    """Value loss of each row and signal, (N, K)."""
    return (target - value).square()


def clipped_value(value: Tensor, old_value: Tensor, target: Tensor, *, clip_range: float) -> Tensor:
    """Value loss of each row and signal, (N, K): the larger of the error now and that of a value kept near the old one.

    From the implementation of Schulman et al. 2017 (OpenAI Baselines, ppo2); not in the paper.
    """
    near = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.maximum((target - value).square(), (target - near).square())
