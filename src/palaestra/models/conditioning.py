"""Goal conditioning: the goal signal writes the weights of a body's last layer."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.models.mlp import kaiming

FEW_GOALS = 4
"""Rows to a goal from which on it pays to make each goal's weights once and apply them to all rows.

Goals are mostly one of a few. Looking for the different ones is only done on the CPU: an accelerator would have to be
waited for."""


class HyperLinear(nn.Module):
    """A linear layer whose weight matrix is made from a goal, one for each row.

    Ha et al. 2016, https://arxiv.org/abs/1609.09106, in the shape ML-Agents gives it:
    goal -> Linear, Swish -> Linear, Swish -> LayerNorm -> Linear -> (in, out) weights.
    """

    def __init__(self, inputs: int, outputs: int, goal: int, hidden: int) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.first, self.second = nn.Linear(goal, hidden), nn.Linear(hidden, hidden)
        for layer in (self.first, self.second):
            nn.init.normal_(layer.weight, std=1 / math.sqrt(layer.in_features))
            nn.init.zeros_(layer.bias)
        self.weights = nn.Linear(hidden, inputs * outputs)
        bound = math.sqrt(1 / (hidden * inputs))
        nn.init.uniform_(self.weights.weight, -bound, bound)
        nn.init.zeros_(self.weights.bias)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """x (N, in) and goal (N, goal) to (N, out)."""
        if goal.device.type == "cpu":
            goals, which = torch.unique(goal.detach(), dim=0, return_inverse=True)
            if len(goals) * FEW_GOALS <= len(goal):
                rows = torch.arange(len(goal))
                first = which.new_zeros(len(goals)).scatter_(0, which, rows)  # any row of each goal: they are all alike
                return torch.matmul(x, self._weights_for(goal[first]))[which, rows] + self.bias
        return torch.bmm(x.unsqueeze(1), self._weights_for(goal)).squeeze(1) + self.bias

    def _weights_for(self, goal: Tensor) -> Tensor:
        """(N, in, out)."""
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
            layer.weight.data = kaiming(1, layer.in_features, layer.out_features)[0].t().contiguous()
            nn.init.zeros_(layer.bias)
        self.hyper = HyperLinear(sizes[-1], hidden, goal, hidden)
        self.outputs = hidden

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """(N, in) and (N, goal) to (N, hidden)."""
        for layer in self.linears:
            x = functional.silu(layer(x))
        return functional.silu(self.hyper(x, goal))
