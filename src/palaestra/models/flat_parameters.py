"""All parameters of a network as one tensor."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def flatten(network: nn.Module | Iterable[nn.Parameter]) -> nn.Parameter:
    """Moves all parameters into one flat tensor, and all gradients into another; they become views of these tensors.

    One tensor needs one optimizer call, one norm, and one sum over ranks. Call it when the network is on its device:
    moving the network afterwards would separate the views from the flat tensor.
    """
    parameters = list(network.parameters() if isinstance(network, nn.Module) else network)
    whole = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    whole.grad = torch.zeros_like(whole)
    at = 0
    for parameter in parameters:
        view = slice(at, at + parameter.numel())
        parameter.data = whole.data[view].view(parameter.shape)
        parameter.grad = whole.grad[view].view(parameter.shape)
        at = view.stop
    return whole


def optimized(parameters: Iterable[nn.Parameter], *, flat: bool) -> list[nn.Parameter]:
    """Returns the parameters for an optimizer: joined to one tensor (`flatten`), or each non-empty parameter.

    Joining many small tensors makes one call of many; large tensors, of encoders and memory, gain nothing from it.
    """
    return [flatten(parameters)] if flat else [p for p in parameters if p.numel()]
