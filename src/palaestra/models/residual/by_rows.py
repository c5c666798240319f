"""Residual bodies and heads over them on a CPU: one network after another on rows of features, gradients by the chain
rule.

Products are oneDNN's, which take half the time of PyTorch's own (MKL's) on processors of AMD; for the rest there are
few calls, each over rows that stay in a core's cache. Letters in shapes: N rows, R those of the outputs, k networks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

MOMENTUM = 0.01
"""Share of the newest batch in the running statistics."""
EPSILON = 1e-5
FEWEST_ROWS, FEWEST_TERMS = 16, 32
"""Smaller products gain nothing by oneDNN."""
_norm = torch.ops.aten.native_batch_norm
_norm_gradient = torch.ops.aten.native_batch_norm_backward
_relu_gradient = torch.ops.aten.threshold_backward


def fits(x: Tensor) -> bool:
    """Whether this form is taken: on a CPU with oneDNN, in full precision."""
    return x.device.type == "cpu" and torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu")


class NormedLayer(NamedTuple):
    """A linear layer of one network, and the norm before the first or after another."""

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
    """One network's features of some rows, and their gradient."""

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
        self._rows, self._at = len(x), at
        x = x[at]
        self._root = x.square().mean(1, keepdim=True).add_(EPSILON).rsqrt_()
        self._unit = x * self._root
        return self._unit * self._scale

    def backward(self, grad: Tensor, into: list[tuple[Tensor, Tensor, Tensor]], of_input: bool) -> list[Tensor | None]:
        """Returns the gradients of what went in, where asked for, and of the features' scale, from that of the features
        (R, hidden). Writes those of weights, scales and biases `into` these, layer by layer, where there are any.
        """
        whole = grad * self._unit
        share = torch.mv(whole, self._scale).div_(-grad.shape[1]).unsqueeze(1)
        part = (grad * self._scale).add_(self._unit * share).mul_(self._root)
        grad = part
        if len(part) < self._rows:
            grad = part.new_zeros(self._rows, part.shape[1])
            grad[self._at] = part
        inner = grad
        for i in range(len(self._layers) - 1, 0, -1):
            inner = _relu_gradient(inner, self._traces[i].output, 0)
            inner = self._through_norm(i, inner, into)
            self._weigh(i, inner, into)
            inner = multiplied(inner, self._layers[i].weight.t())
            if i % 2:
                grad = inner = grad + inner
        self._weigh(0, grad, into)
        of_inputs = None
        if into or of_input:
            of_inputs = self._through_norm(0, multiplied(grad, self._layers[0].weight.t()), into)
        return [of_inputs, whole.sum(0)]

    def _normalized(self, x: Tensor, layer: NormedLayer) -> tuple[Tensor, Tensor, Tensor]:
        learns = self._learns and len(x) > 1
        return _norm(x, layer.scale, layer.bias, layer.mean, layer.var, learns, MOMENTUM, EPSILON)

    def _through_norm(self, i: int, grad: Tensor, into: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        layer, trace = self._layers[i], self._traces[i]
        learns = trace.statistics[0].numel() > 0
        asked = [True, bool(into), bool(into)]
        grad, *affine = _norm_gradient(
            grad, trace.sums, layer.scale, layer.mean, layer.var, *trace.statistics, learns, EPSILON, asked
        )
        if into:
            for place, value in zip(into[i][1:], affine, strict=True):
                place.copy_(value)
        return grad

    def _weigh(self, i: int, grad: Tensor, into: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        if into:
            into[i][0].copy_(of_weight(self._traces[i].x, grad))


class Features(torch.autograd.Function):
    """Features (k, R, hidden) of rows (k, N, in) of k networks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, at: slice, passes: list[Pass], *parameters: Tensor) -> Tensor:
        """`parameters`: the scale, weights and affines of all networks, which the passes have views of."""
        ctx.passes, ctx.parameters = passes, parameters
        return torch.stack([each.forward(rows, at) for each, rows in zip(passes, x.unbind(), strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        """Returns the gradient of the rows and of the parameters, from that of the features."""
        of_input, needed = ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:])
        parameters = [torch.empty_like(x) for x in ctx.parameters] if needed else []
        scale, count = parameters[:1], len(parameters) // 2
        found = []
        for i, (each, part) in enumerate(zip(ctx.passes, grad.unbind(), strict=True)):
            layers = zip(parameters[1 : 1 + count], parameters[1 + count :], strict=True)
            into = [(weight[i], affine[0, i], affine[1, i]) for weight, affine in layers]
            of_input_rows, of_scale = each.backward(part, into, of_input)
            found.append(of_input_rows)
            for x in scale:
                x[i, :, 0] = of_scale
        of_x = torch.stack(found) if of_input else None
        return of_x, None, None, *(parameters or [None] * len(ctx.parameters))


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
        """Returns the gradient of biases, features and weights, from that of the outputs."""
        x, weight = ctx.saved_tensors
        rows = list(zip(grad.unbind(), x.unbind(), weight.unbind(), strict=True))
        of_x = torch.stack([multiplied(grad, weight) for grad, _, weight in rows]) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, of_x, None
        of_weights = torch.stack([multiplied(x.t(), grad.t()) for grad, x, _ in rows])
        return grad.sum(1, keepdim=True), of_x, of_weights


def of_weight(x: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient of weights (out, in) from their inputs (N, in) and that of their outputs (N, out)."""
    # of the two the narrower one is copied
    return multiplied(grad.t(), x.t()) if x.shape[1] > grad.shape[1] else multiplied(x.t(), grad.t()).t()


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x (N, in) times `weight` (out, in), plus `bias` (out,): (N, out). Without a gradient."""
    if len(x) < FEWEST_ROWS or x.shape[1] < FEWEST_TERMS:
        return functional.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
