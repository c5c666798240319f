"""Residual bodies and heads on a CPU: one network after another on rows of features, gradients by the chain rule.

oneDNN computes the products, in half the time of PyTorch's own (MKL) on processors of AMD; the rest takes few calls.
Letters in shapes: In shapes: N rows, R rows of the outputs, k networks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

MOMENTUM = 0.01
"""Weight of the newest batch in the running statistics."""
EPSILON = 1e-5
FEWEST_ROWS = 16
"""Rows below which products gain nothing by oneDNN."""
_norm = torch.ops.aten.native_batch_norm
_norm_gradient = torch.ops.aten.native_batch_norm_backward
_relu_gradient = torch.ops.aten.threshold_backward.grad_input


def fits(x: Tensor) -> bool:
    """Whether this form can be used: on a CPU with oneDNN, in single precision, with at least one row (the gradient of
    a norm over no rows would end the process)."""
    single = x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return x.numel() > 0 and single and x.device.type == "cpu" and torch.backends.mkldnn.is_available()


class NormedLayer(NamedTuple):
    """A linear layer of one network with a norm: for the first the norm before it, for others the norm after it."""

    weight: Tensor  # (out, in)
    scale: Tensor  # (width,) the norm's
    bias: Tensor
    mean: Tensor  # and its running statistics
    var: Tensor


class Trace(NamedTuple):
    """Values that the gradient of a layer needs."""

    x: Tensor  # (N, in) what weights multiply
    sums: Tensor  # (N, width) what is normalized
    statistics: list[Tensor]  # mean and 1 / deviation of these rows, each (width,); empty where running ones served
    output: Tensor  # (N, width) of the norm and its ReLU


class Pass:
    """One network's features of some rows, and the gradient of these features."""

    def __init__(self, layers: list[NormedLayer], scale: Tensor, learns: bool) -> None:
        """`scale` (hidden,) of the features. `learns`: norms take the statistics of the rows."""
        self._layers = layers
        self._scale = scale
        self._learns = learns
        self._traces: list[Trace] = []

    def forward(self, x: Tensor, at: slice) -> Tensor:
        """Maps (N, in) to the features (R, hidden) of the rows `at`."""
        first, *others = self._layers
        y, *statistics = self._normalized(x, first)
        self._traces.append(Trace(y, x, statistics, y))
        x = inner = multiplied(y, first.weight)
        for i, layer in enumerate(others):
            sums = multiplied(inner, layer.weight)
            y, *statistics = self._normalized(sums, layer)
            self._traces.append(Trace(inner, sums, statistics, y.relu_()))
            inner = y
            if i % 2:
                x = inner = x + y
        self._rows, self._at = x.shape[0], at
        x = x[at]
        self._root = x.square().mean(1, keepdim=True).add_(EPSILON).rsqrt_()
        self._unit = x * self._root
        return self._unit * self._scale

    def backward(self, grad: Tensor, moves: bool, of_input: bool) -> tuple[Tensor | None, list[tuple[Tensor, ...]]]:
        """Returns the gradient of the inputs if `of_input`, and, if `moves`, the gradients of each layer's weight,
        scale and bias and of the features' scale, from the gradient of the features (R, hidden)."""
        whole = grad * self._unit
        share = torch.mv(whole, self._scale).div_(-grad.shape[1]).unsqueeze(1)
        part = (grad * self._scale).add_(self._unit * share).mul_(self._root)
        grad = part
        if part.shape[0] < self._rows:
            grad = part.new_zeros(self._rows, part.shape[1])
            grad[self._at] = part
        found: list[tuple[Tensor, ...]] = [(whole.sum(0),)] if moves else []
        inner = grad
        for i in range(len(self._layers) - 1, 0, -1):
            layer, trace = self._layers[i], self._traces[i]
            into = inner if i % 2 else torch.empty_like(inner)
            _relu_gradient(inner, trace.output, 0, grad_input=into)
            inner, *affine = self._through_norm(i, into, moves)
            if moves:
                found.append((of_weight(trace.x, inner), *affine))
            inner = multiplied(inner, layer.weight.t())
            if i % 2:
                grad = inner = grad + inner
        of_inputs = None
        if moves or of_input:
            of_inputs, *affine = self._through_norm(0, multiplied(grad, self._layers[0].weight.t()), moves)
            if moves:
                found.append((of_weight(self._traces[0].x, grad), *affine))
        return of_inputs, found[::-1]

    def _normalized(self, x: Tensor, layer: NormedLayer) -> tuple[Tensor, Tensor, Tensor]:
        learns = self._learns and x.shape[0] > 1
        return _norm(x, layer.scale, layer.bias, layer.mean, layer.var, learns, MOMENTUM, EPSILON)

    def _through_norm(self, i: int, grad: Tensor, moves: bool) -> tuple[Tensor, ...]:
        layer, trace = self._layers[i], self._traces[i]
        learns = trace.statistics[0].numel() > 0
        given = layer.scale, layer.mean, layer.var, *trace.statistics
        return _norm_gradient(grad, trace.sums, *given, learns, EPSILON, [True, moves, moves])


class Features(torch.autograd.Function):
    """Features (k, R, hidden) of rows (k, N, in) of k networks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, at: slice, passes: list[Pass], *parameters: Tensor) -> Tensor:
        """`parameters`: the scale, weights and affines of all networks, of which the passes have views."""
        ctx.passes = passes
        return torch.stack([each.forward(rows, at) for each, rows in zip(passes, x.unbind(), strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        """Returns the gradient of the rows and of the parameters, from the gradient of the features."""
        of_input, *moves = ctx.needs_input_grad
        passes = zip(ctx.passes, grad.unbind(), strict=True)
        inputs, found = zip(*(each.backward(part, any(moves), of_input) for each, part in passes), strict=True)
        of_x = torch.stack(inputs) if of_input else None
        if not any(moves):
            return of_x, None, None, *[None] * (len(moves) - 2)
        *layers, scales = zip(*found, strict=True)
        weights = [torch.stack([network[0] for network in layer]) for layer in layers]
        affines = [torch.stack([network[j] for j in (1, 2) for network in layer]) for layer in layers]
        scale = torch.stack([network[0] for network in scales]).unsqueeze(2)
        return of_x, None, None, scale, *weights, *(x.view(2, -1, x.shape[1]) for x in affines)


def heads(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Returns k linear layers (k, N, out) of features (k, N, in), weights (k, in, out) and biases (k, 1, out)."""
    return Heads.apply(bias, x, weight) if fits(x) else torch.baddbmm(bias, x, weight)


class Heads(torch.autograd.Function):
    """Linear layers (k, N, out) of features (k, N, in), weights (k, in, out) and biases (k, 1, out)."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """Keeps features and weights."""
        ctx.save_for_backward(x, weight)
        rows = zip(x.unbind(), weight.unbind(), bias.unbind(), strict=True)
        return torch.stack([multiplied(x, weight.t(), bias[0]) for x, weight, bias in rows])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Returns the gradient of biases, features and weights, from the gradient of the outputs."""
        x, weight = ctx.saved_tensors
        rows = list(zip(grad.unbind(), x.unbind(), weight.unbind(), strict=True))
        of_x = torch.stack([multiplied(grad, weight) for grad, _, weight in rows]) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, of_x, None
        of_weights = torch.stack([multiplied(x.t(), grad.t()) for grad, x, _ in rows])
        return grad.sum(1, keepdim=True), of_x, of_weights


def of_weight(x: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient of weights (out, in) from their inputs (N, in) and their outputs' gradient (N, out)."""
    # of the two the narrower one is copied
    return multiplied(grad.t(), x.t()) if x.shape[1] > grad.shape[1] else multiplied(x.t(), grad.t()).t()


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x (N, in) times `weight` (out, in), plus `bias` (out,): (N, out). Without a gradient."""
    if x.shape[0] < FEWEST_ROWS:
        return functional.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
