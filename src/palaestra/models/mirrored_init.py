"""Value heads that start at zero without stopping gradients: for every weight there is another of the opposite sign.

The second half of the last layer starts as a copy of the first half, and the head's weights are +w for the first half
and -w for the second, so that all values start at exactly 0. Unlike with weights of 0, each unit before the head has a
different gradient from the first step on: with weights of 0, all units of an encoder first learn the same thing, and
networks with attention or images learn late or never. With plain random weights values start at random, and a policy
with rare rewards follows these random values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from palaestra.models.conditioned_bodies import ConditionedMLP
from palaestra.models.custom import OwnModule
from palaestra.models.lstm import LSTMLayer, weights
from palaestra.models.residual.residual_body import ResidualBody, orthogonal
from palaestra.models.trunk import StackedMLP

GAIN = 2.0
"""Factor on Xavier's weights: a unit and its mirrored unit start out as one unit of half the effect."""
ROWS = 8
"""Random inputs on which a user's body is tested for equal halves."""


@torch.no_grad()
def mirrored_heads(last: nn.Module, width: int, outputs: Sequence[int]) -> Tensor:
    """Mirrors the layer in place; returns weights (networks, width, sum of outputs) for heads with these numbers of
    outputs.

    `last`: the module that computes the `width` features of each network: a linear layer, a StackedMLP, an LSTMLayer,
    or a ModuleList of bodies. If a user's body cannot be mirrored, its head starts with weights of 0. If the width is
    odd, one unit starts without a weight. Xavier's distribution: Glorot and Bengio 2010, eq. 16.
    """
    if isinstance(last, ResidualBody):  # which bounds the heads' size, so that random values are small
        return torch.cat([orthogonal(last.networks, count, width) for count in outputs], 1).transpose(1, 2).contiguous()
    half = width // 2
    made = [_mirror(one, half) for one in _networks(last)]
    heads = torch.zeros(len(made), width, sum(outputs))
    for head, mirrored in zip(heads, made, strict=True):
        if mirrored:
            first = torch.cat([nn.init.xavier_uniform_(torch.empty(count, width)) for count in outputs]).t()[:half]
            head[:half] = GAIN * first
            head[half : 2 * half] = -GAIN * first
    return heads


def _networks(last: nn.Module) -> list[Tensor | nn.Module]:
    """Returns the last part of each network: a layer's weights (in, out), or a module."""
    if isinstance(last, nn.Linear):
        return [last.weight.t()]
    if isinstance(last, StackedMLP):
        return list(last.weights[-1].unbind(0))
    return list(last.lstms if isinstance(last, LSTMLayer) else last.children())


def _mirror(one: Tensor | nn.Module, half: int) -> bool:
    """Initializes the second half of a network's features like the first. Returns False if that is impossible."""
    if isinstance(one, Tensor):
        one[:, half : 2 * half] = one[:, :half]
    elif isinstance(one, nn.LSTM):
        for parameter in weights(one):
            _copy_rows(parameter.chunk(4), half)  # of each gate
    elif isinstance(one, ConditionedMLP):
        hyper = one.hyper
        made = hyper.weights.weight.view(hyper.inputs, hyper.outputs, -1)
        made[:, half : 2 * half] = made[:, :half]
    else:
        assert isinstance(one, OwnModule)
        return _mirror_own(one, half)
    return True


def _mirror_own(body: OwnModule, half: int) -> bool:
    """Tries the last linear layer as wide as the body, then all of them, as bodies with shortcuts need it."""
    layers = [
        module for module in body.modules() if isinstance(module, nn.Linear) and module.out_features == body.hidden
    ]
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    x = torch.randn(ROWS, *body.shape)
    for some in (layers[-1:], layers):
        for layer in some:
            _copy_rows([p for p in (layer.weight, layer.bias) if p is not None], half)
        features = body(x)
        if some and torch.allclose(features[:, :half], features[:, half : 2 * half], rtol=1e-4, atol=1e-5):
            return True
    body.load_state_dict(before)
    return False


def _copy_rows(parameters: Iterable[Tensor], half: int) -> None:
    for parameter in parameters:
        parameter[half : 2 * half] = parameter[:half]
