"""Running statistics of vector observations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LIMIT = 5.0
"""Normalized observations are clipped to ±LIMIT, as in ML-Agents."""


class Normalizer(nn.Module):
    """(x - mean) / std, clipped to ±5, with the statistics of all rows taken in so far.

    Starts as if it had seen one row with mean 0 and variance 1. It stands still while a
    rollout is collected and learned from, so that acting and learning see the same numbers.
    The sums are float64: after 10^8 rows a float32 sum no longer notices a new one.
    """

    count: Tensor
    mean: Tensor
    m2: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("m2", torch.ones(size, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(size), persistent=False)
        self.register_buffer("scale", torch.ones(size), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: module._refresh())

    def forward(self, x: Tensor) -> Tensor:
        """(N, size) to (N, size)."""
        return (x - self.shift).mul_(self.scale).clamp_(-LIMIT, LIMIT)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Takes in the rows of x (N, size). Chan et al. 1983, https://doi.org/10.1080/00031305.1983.10483115, eq. 2.1."""
        rows = x.shape[0]
        wide = x.double()
        mean = wide.mean(0)
        delta = mean - self.mean
        total = self.count + rows
        self.m2 += (wide - mean).square().sum(0) + delta.square() * self.count * rows / total
        self.mean += delta * rows / total
        self.count.copy_(total)
        self._refresh()

    def _refresh(self) -> None:
        self.shift.copy_(self.mean)
        self.scale.copy_((self.m2 / self.count).rsqrt())
