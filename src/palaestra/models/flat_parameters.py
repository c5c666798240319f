"""All parameters of a network as one tensor."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def flatten(network: nn.Module | Iterable[nn.Parameter]) -> nn.Parameter:
    """Moves every parameter, and its gradient, into one flat tensor each, of which they become views.

    One tensor is one optimizer call, one norm, one sum over ranks. Call it once the network
    is on its device: moving it afterwards would part the views from the whole.
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
    """Returns the parameters for an optimizer: all of them as one tensor (`flatten`), or each non-empty one.

    Joining many small tensors makes them one call; large tensors, of encoders and memory, gain nothing from it.
    """
    return [flatten(parameters)] if flat else [p for p in parameters if p.numel()]
