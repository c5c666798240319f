"""Bodies of fully connected layers: several of one shape in one batched product, and conditioned on goals."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

FEW_GOALS = 4
"""Rows to a goal from which on it pays to make each goal's weights once and apply them to all its rows.

Goals are mostly one of a few. The different ones are only looked for on the CPU, as that waits for an accelerator.
"""


MANY_ROWS = 4096
"""Rows from which on an accelerator multiplies the networks one after another. CUDA's batched product shares a sum over
rows among few processors: with 262,144 rows the gradient of 128 x 128 weights took 8.5 ms on an H200, 0.8 of the whole
update.
"""


Trace = list[tuple[Tensor, Tensor]]
"""Values that a backward pass needs of each layer: its input (k, N, in) and its sum before Swish (k, N, out)."""


class StackedMLP(nn.Module):
    """k networks of one shape: `layers` times Linear and Swish, all k in one batched product.

    Actor and critic have the same body in ML-Agents, so one product of twice the size does for both: small minibatches
    are bound by the number of calls, not by arithmetic. Index 0 is the actor's. Weights are (k, in, out), biases (k, 1,
    out).
    """

    def __init__(self, networks: int, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [inputs] + [hidden] * layers
        self.outputs = sizes[-1]
        self.weights = nn.ParameterList(kaiming(networks, i, o) for i, o in pairwise(sizes))
        self.biases = nn.ParameterList(torch.zeros(networks, 1, o) for o in sizes[1:])
        # a ParameterList takes longer to give an item than a small product takes
        self._layers = list(zip(self.weights, self.biases, strict=True))
        self._views: dict[int, tuple[int, list[tuple[Tensor, Tensor]]]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Maps (k, N, in) to (k, N, hidden)."""
        for weight, bias in self._layers:
            x = functional.silu(linear(bias, x, weight))
        return x

    def one(self, index: int, x: Tensor) -> Tensor:
        """Runs one network alone: (N, in) to (N, hidden)."""
        for weight, bias in self._one(index):
            x = functional.silu(torch.addmm(bias, x, weight))
        return x

    def _one(self, index: int) -> list[tuple[Tensor, Tensor]]:
        """Returns one network's layers: without gradients views made once, since making one costs as a product does."""
        if torch.is_grad_enabled() or not self._layers:
            return [(weight[index], bias[index]) for weight, bias in self._layers]
        place, views = self._views.get(index, (0, []))
        if place != self._layers[0][0].data_ptr():  # new, or moved to another device
            views = [(weight.detach()[index], bias.detach()[index]) for weight, bias in self._layers]
            self._views[index] = self._layers[0][0].data_ptr(), views
        return views

    def trace(self, x: Tensor) -> tuple[Tensor, Trace]:
        """Runs `forward`, and returns what `backward` needs too; keeps no autograd graph."""
        trace: Trace = []
        for weight, bias in self._layers:
            sums = linear(bias, x, weight)
            trace.append((x, sums))
            x = functional.silu(sums)
        return x, trace

    def backward(self, trace: Trace, grad: Tensor) -> None:
        """Writes every parameter's `.grad` from the gradient of the outputs, (k, N, hidden): the chain rule by hand."""
        for i in reversed(range(len(trace))):
            x, sums = trace[i]
            weight, bias = self._layers[i]
            grad = torch.ops.aten.silu_backward(grad, sums)
            assert weight.grad is not None
            if one_by_one(x):
                for network, into in enumerate(weight.grad):
                    torch.mm(x[network].t(), grad[network], out=into)
            else:
                torch.bmm(x.transpose(1, 2), grad, out=weight.grad)
            torch.sum(grad, 1, keepdim=True, out=bias.grad)
            if i:
                grad = torch.bmm(grad, weight.transpose(1, 2))


def linear(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Returns k linear layers (k, N, out) of inputs (k, N, in), weights (k, in, out) and biases (k, 1, out)."""
    if one_by_one(x):  # for the gradient's sake, which autograd makes as the product was made
        return torch.stack([torch.addmm(*layer) for layer in zip(bias, x, weight, strict=True)])
    return torch.baddbmm(bias, x, weight)


def one_by_one(x: Tensor) -> bool:
    """Whether the networks multiply their rows (k, N, in) one after another."""
    return x.device.type != "cpu" and x.shape[1] >= MANY_ROWS


def kaiming(networks: int, inputs: int, outputs: int, gain: float = 1.0) -> Tensor:
    """Draws normal weights (networks, in, out), std gain / sqrt(in). He et al. 2015,
    https://arxiv.org/abs/1502.01852.
    """
    return torch.randn(networks, inputs, outputs) * (gain / math.sqrt(inputs))


class HyperLinear(nn.Module):
    """A linear layer whose weight matrix is made from a goal, one for each row.

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
            layer.weight.data = kaiming(1, layer.in_features, layer.out_features)[0].t().contiguous()
            nn.init.zeros_(layer.bias)
        self.hyper = HyperLinear(sizes[-1], hidden, goal, hidden)
        self.outputs = hidden

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Maps (N, in) and (N, goal) to (N, hidden)."""
        for layer in self.linears:
            x = functional.silu(layer(x))
        return functional.silu(self.hyper(x, goal))
