"""Bodies that depend on a goal: the weights of their last layer are computed from the goal."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.specs import BehaviorSpec

FEW_GOALS = 4
"""Rows for each goal from which it is faster to make each goal's weights once and apply them to all its rows. Goals are
mostly one of a few. Equal goals are only looked for on the CPU, as the search waits for an accelerator."""


class HyperLinear(nn.Module):
    """A linear layer whose weight matrix is computed from a goal, separately for each row.

    Ha et al. 2016, https://arxiv.org/abs/1609.09106, in the shape ML-Agents gives it:
    goal -> Linear, Swish -> Linear, Swish -> LayerNorm -> Linear -> (in, out) weights.
    """

    def __init__(self, inputs: int, outputs: int, goal: int, hidden: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.outputs = outputs
        self.first = nn.Linear(goal, hidden)
        self.second = nn.Linear(hidden, hidden)
        for layer in (self.first, self.second):
            nn.init.normal_(layer.weight, std=1 / math.sqrt(layer.in_features))
            nn.init.zeros_(layer.bias)
        self.weights = nn.Linear(hidden, inputs * outputs)
        bound = math.sqrt(1 / (hidden * inputs))
        nn.init.uniform_(self.weights.weight, -bound, bound)
        nn.init.zeros_(self.weights.bias)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Maps x (N, in) and goal (N, goal) to (N, out)."""
        if goal.device.type == "cpu" and not goal.requires_grad:  # else each row's goal gets a gradient of its own
            goals, which, rows = torch.unique(goal, dim=0, return_inverse=True, return_counts=True)
            if 0 < len(goals) * FEW_GOALS <= len(goal):
                order = which.argsort()
                parts = zip(x.index_select(0, order).split(rows.tolist()), self._weights_for(goals), strict=True)
                together = torch.cat([torch.mm(part, weights) for part, weights in parts])
                return together.index_select(0, order.argsort()) + self.bias
        return torch.bmm(x.unsqueeze(1), self._weights_for(goal)).squeeze(1) + self.bias

    def _weights_for(self, goal: Tensor) -> Tensor:
        """Returns weights for each goal, (N, in, out)."""
        code = functional.silu(self.second(functional.silu(self.first(goal))))
        code = functional.layer_norm(code, code.shape[-1:])
        return self.weights(code).view(-1, self.inputs, self.outputs)


class ConditionedMLP(nn.Module):
    """A body whose last layer is a HyperLinear of the goal; the goal is part of the usual input too."""

    def __init__(self, inputs: int, goal: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [inputs] + [hidden] * (layers - 1)
        self.linears = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(sizes))
        for layer in self.linears:
            assert isinstance(layer, nn.Linear)
            drawn = torch.randn(layer.in_features, layer.out_features) * (1 / math.sqrt(layer.in_features))
            layer.weight.data = drawn.t().contiguous()
            nn.init.zeros_(layer.bias)
        self.hyper = HyperLinear(sizes[-1], hidden, goal, hidden)
        self.outputs = hidden

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Maps (N, in) and (N, goal) to (N, hidden)."""
        for layer in self.linears:
            x = functional.silu(layer(x))
        return functional.silu(self.hyper(x, goal))


def goal_columns(spec: BehaviorSpec, hidden: int) -> list[int]:
    """Returns the encoding's columns that come from goal signals: vectors lie first, then `hidden` for each image."""
    columns = []
    at = 0
    vectors = [obs for obs in spec.obs if obs.is_vector]
    for obs in vectors + [obs for obs in spec.obs if obs.is_visual]:
        size = obs.shape[0] if obs.is_vector else hidden
        if obs.goal:
            columns += range(at, at + size)
        at += size
    return columns
