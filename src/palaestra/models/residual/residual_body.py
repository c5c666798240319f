"""Residual blocks normalized by batches, with weights of bounded length: `network_settings.body: residual`.

Kim et al. 2026, https://arxiv.org/abs/2604.04539, section 4 (FlashSAC). However long a critic learns, they bound
everything that it computes, so that its targets, which depend on its own values, cannot diverge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.models.residual import by_rows
from palaestra.models.residual.by_rows import EPSILON, MOMENTUM

WIDENING = 4
"""Units inside a block for each unit of the body's width."""
ALL = slice(None)
Views = tuple[tuple[int, int], list[tuple[list[by_rows.NormedLayer], Tensor]]]
"""Each network's layers and features' scale as views, and the places of the tensors that they are views of."""
NO_VIEWS: Views = ((0, 0), [])


class StackedBatchNorm(nn.Module):
    """Batch normalization of k networks at once. Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167."""

    mean: Tensor
    var: Tensor

    def __init__(self, networks: int, width: int) -> None:
        super().__init__()
        self.affine = nn.Parameter(torch.stack([torch.ones(networks, width), torch.zeros(networks, width)]))
        """Scale and bias, (2, k, width)."""
        self.register_buffer("mean", torch.zeros(networks * width))
        self.register_buffer("var", torch.ones(networks * width))

    def forward(self, x: Tensor, learns: bool) -> Tensor:
        """Maps (k, width, N) to the same shape; normalizes by the given rows if it `learns` their statistics, else by
        running statistics.

        Features come before rows in the shape, so that one call normalizes all networks.
        """
        scale, bias = self.affine.flatten(1).unbind()
        flat = x.flatten(0, 1).unsqueeze(0)
        learns &= x.shape[2] > 1
        return functional.batch_norm(flat, self.mean, self.var, scale, bias, learns, MOMENTUM, EPSILON).view(x.shape)

    def folded(self, index: int) -> tuple[Tensor, Tensor]:
        """Returns one network's factors and summands, (width,) each, from running statistics."""
        mean, var = (x.view(self.affine.shape[1:])[index] for x in (self.mean, self.var))
        factor = self.affine[0, index] * (var + EPSILON).rsqrt()
        return factor, self.affine[1, index] - mean * factor


class ResidualBody(nn.Module):
    """k networks of one shape, computed in batched products: a linear layer over normalized inputs, then `blocks` times
    a wide and a narrow layer, each followed by a norm and ReLU, added to the block's input; at the end features of
    length sqrt(hidden).

    Weights are (k, out, in); there are no biases, since normalization would remove them. Activations are (k, features,
    N).
    """

    def __init__(self, networks: int, inputs: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.networks = networks
        self.outputs = hidden
        wide = WIDENING * hidden
        shapes = [(hidden, inputs), *[(wide, hidden), (hidden, wide)] * blocks]
        self.weights = nn.ParameterList(orthogonal(networks, *shape) for shape in shapes)
        norms = [StackedBatchNorm(networks, width) for width in [inputs, *[wide, hidden] * blocks]]
        self.norms = nn.ModuleList(norms)
        self.scale = nn.Parameter(torch.ones(networks, hidden, 1))
        # lists of modules take longer to give an item than a small product takes
        self._layers = list(zip(self.weights, norms, strict=True))
        self._views: Views = NO_VIEWS
        self._learns = False

    def __getstate__(self) -> dict[str, Any]:
        """Copies make views of their own."""
        return {**self.__dict__, "_views": NO_VIEWS}

    def forward(self, x: Tensor, at: slice = ALL) -> Tensor:
        """Maps (k, N, in) to (k, R, hidden): features of the rows `at`."""
        if by_rows.fits(x):
            return self._by_rows(x, at)
        (weight, norm), *layers = self._layers
        x = torch.bmm(weight, norm(x.transpose(1, 2), self._learns))
        for i in range(0, len(layers), 2):
            inner = x
            for weight, norm in layers[i : i + 2]:
                inner = norm(torch.bmm(weight, inner), self._learns).relu_()
            x = x + inner
        return rms_normalized(x[:, :, at], 1).mul(self.scale).transpose(1, 2)

    def one(self, index: int, x: Tensor) -> Tensor:
        """Runs one network alone: (N, in) to (N, hidden)."""
        return self(x.unsqueeze(0).expand(self.networks, -1, -1))[index]

    def _by_rows(self, x: Tensor, at: slice) -> Tensor:
        weight, norm = self._layers[0]
        key = weight.data_ptr(), norm.mean.data_ptr()
        if self._views[0] != key:  # new, or moved elsewhere
            self._views = key, self._views_of_networks()
        passes = [by_rows.Pass(*views, self._learns) for views in self._views[1]]
        if not torch.is_grad_enabled():
            return torch.stack([each.forward(rows, at) for each, rows in zip(passes, x.unbind(), strict=True)])
        affines = [norm.affine for _, norm in self._layers]
        return by_rows.Features.apply(x, at, passes, self.scale, *self.weights, *affines)

    @torch.no_grad()
    def _views_of_networks(self) -> list[tuple[list[by_rows.NormedLayer], Tensor]]:
        """Returns each network's layers and features' scale: views that are made once, since one costs as much as a
        small product."""
        shape = self.networks, -1
        columns = []
        for weight, norm in self._layers:
            statistics = norm.mean.view(shape), norm.var.view(shape)
            columns.append(
                [by_rows.NormedLayer(*parts) for parts in zip(weight, *norm.affine, *statistics, strict=True)]
            )
        return [(list(layers), scale) for *layers, scale in zip(*columns, self.scale.squeeze(2), strict=True)]

    def folded(self, index: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Returns the mean that one network subtracts from its inputs (in,), and its layers with the rest of their
        norms' running statistics folded in: weights (out, in), biases (out,).

        The first layer is alone; the others are two per block. The mean is not folded into the first layer's bias:
        precision would be lost if inputs vary little about a large number.
        """
        (first, *norms), (entry, *weights) = self.norms, self.weights
        assert isinstance(first, StackedBatchNorm)
        factor, _ = first.folded(index)
        layers = [(entry[index] * factor, entry[index] @ first.affine[1, index])]
        for norm, weight in zip(norms, weights, strict=True):
            assert isinstance(norm, StackedBatchNorm)
            factor, summand = norm.folded(index)
            layers.append((weight[index] * factor.unsqueeze(1), summand))
        return first.mean.view(self.networks, -1)[index], layers

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Within the block (gradient steps only), normalizes by the given rows, and learns their statistics."""
        self._learns = True
        try:
            yield
        finally:
            self._learns = False

    @torch.no_grad()
    def bound(self) -> None:
        """Scales each row of weights to length 1, and each norm's scale and bias together to the length of all ones."""
        for weight, norm in self._layers:
            weight.div_(torch.linalg.vector_norm(weight, dim=2, keepdim=True))
            affine = norm.affine
            length = torch.linalg.vector_norm(affine, dim=(0, 2), keepdim=True)
            affine.mul_(math.sqrt(affine.shape[2]) / length)
        self.scale.mul_(math.sqrt(self.outputs) / torch.linalg.vector_norm(self.scale, dim=1, keepdim=True))


def rms_normalized(x: Tensor, dim: int) -> Tensor:
    """Returns x divided by its root mean square along a dimension. Zhang and Sennrich 2019,
    https://arxiv.org/abs/1910.07467."""
    return x * torch.rsqrt(x.square().mean(dim, keepdim=True) + EPSILON)


def orthogonal(networks: int, outputs: int, inputs: int) -> Tensor:
    """Draws orthogonal weights (networks, outputs, inputs) with rows of length 1. Saxe et al. 2013,
    https://arxiv.org/abs/1312.6120."""
    drawn = torch.stack([nn.init.orthogonal_(torch.empty(outputs, inputs)) for _ in range(networks)])
    return drawn / torch.linalg.vector_norm(drawn, dim=2, keepdim=True)
