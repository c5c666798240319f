"""Encoders and bodies by name; a user's encoders and bodies are checked against their contract.

=======  ==================================  ===================================
         made with                           takes
=======  ==================================  ===================================
encoder  `(shape, hidden)`, shape (C, H, W)  images (N, C, H, W) to (N, hidden)
body     `(inputs, hidden, layers)`          encodings (N, inputs) to (N, hidden)
=======  ==================================  ===================================

Both are classes of `torch.nn.Module`. An encoder's attribute `smallest` may give the number of pixels that it needs on
each side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from palaestra.core.errors import PalaestraError, PluginError, exception_summary
from palaestra.core.plugins import find_plugin

PROBE = 2
"""Rows of the first call: with a single row, a module that mixes rows would pass the check."""


class OwnModule(nn.Module):
    """A user's module with its name, for errors, and with the sizes for which it was made, for the export."""

    def __init__(self, module: nn.Module, title: str, shape: tuple[int, ...], hidden: int) -> None:
        super().__init__()
        self.module = module
        self.title = title
        self.shape = shape
        self.hidden = hidden

    def forward(self, x: Tensor) -> Tensor:
        """Maps (N, *shape) to (N, hidden). Does not call the module without rows, as `view(len(x), -1)` would fail."""
        return self.module(x) if len(x) else x.new_zeros((0, self.hidden))


def own_body(name: str, inputs: int, hidden: int, layers: int) -> OwnModule:
    """Returns the body that the setting `body` names. Raises PluginError."""
    title = f"body '{name}'"
    return make_own(find_class("bodies", title, name), title, (inputs,), hidden, (inputs, hidden, layers))


def find_class(kind: str, title: str, name: str) -> type[nn.Module]:
    """Returns the class that `package.module:Class` or a plug-in's name stands for. Raises PluginError."""
    found = find_plugin(kind, title, name)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise PluginError(f"{title} is {found!r}; expected a class that inherits from torch.nn.Module")
    return found


def make_own(
    cls: type[nn.Module], title: str, shape: tuple[int, ...], hidden: int, arguments: tuple[Any, ...]
) -> OwnModule:
    """Returns an instance, after one call with zeros (N, *shape). Raises PluginError if it breaks the contract."""
    try:
        module = cls(*arguments)
    except PalaestraError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's class does
        raise PluginError(f"{title} could not be made with {arguments}: {exception_summary(error)}") from error
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm | _DropoutNd):
            kind = type(part).__name__
            raise PluginError(
                f"{title} holds a {kind} ('{name}'), which behaves differently in training; use nn.GroupNorm, or no "
                "such layer"
            )
    own = OwnModule(module, title, shape, hidden)
    _probe(own)
    return own


@torch.no_grad()
def _probe(own: OwnModule) -> None:
    try:
        answer = own(torch.zeros(PROBE, *own.shape))
    except (Exception, SystemExit) as error:  # whatever a user's module does
        raise PluginError(f"{own.title} cannot take {_sizes(PROBE, *own.shape)}: {exception_summary(error)}") from error
    expected = (PROBE, own.hidden)
    if not isinstance(answer, Tensor):
        raise PluginError(f"{own.title} returned a {type(answer).__name__}; expected a tensor {_sizes(*expected)}")
    if answer.shape != expected or answer.dtype != torch.float32:
        kind = "" if answer.dtype == torch.float32 else f" of {answer.dtype}"
        raise PluginError(
            f"{own.title} returned {_sizes(*answer.shape)}{kind} for {_sizes(PROBE, *own.shape)}; "
            f"expected {_sizes(*expected)} of torch.float32: a row for each row, hidden_units wide"
        )


def _sizes(*sizes: int) -> str:
    return f"({', '.join(map(str, sizes))})"
