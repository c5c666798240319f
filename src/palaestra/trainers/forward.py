"""A trainer's forward pass, in bfloat16 or compiled if settings ask for it or if this was measured to be faster."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.row_index import Sequences
from palaestra.models.encoders import NatureEncoder, ResNetEncoder
from palaestra.models.trunk import Inputs, Trunk

LARGE = (NatureEncoder, ResNetEncoder)
"""Encoders whose convolutions take most of an update: with them an update in bfloat16 took 0.57 of the time in
float32."""


class Forward:
    """A forward pass, in bfloat16 or compiled if settings ask for it; its result has the weights' precision."""

    def __init__(
        self, forward: Callable[[Inputs, Sequences | None], tuple[Tensor, Tensor]], *, bfloat16: bool, compiled: bool
    ) -> None:
        """`bfloat16`: the pass is computed in it; weights, losses and the optimizer stay in float32."""
        self._forward = torch.compile(forward, dynamic=True) if compiled else forward
        self._compiles = compiled
        self.bfloat16 = bfloat16

    def __call__(self, inputs: Inputs, sequences: Sequences | None) -> tuple[Tensor, Tensor]:
        """Returns the wrapped function's result. Raises ConfigError where the network cannot be compiled here."""
        try:
            with torch.autocast(inputs[0].device.type, torch.bfloat16, enabled=self.bfloat16):
                first, second = self._forward(inputs, sequences)
        except RuntimeError as error:
            if not self._compiles:
                raise
            raise ConfigError(
                "network_settings.compile: torch.compile cannot compile this network here "
                f"({str(error).strip().splitlines()[0]}); it needs a C++ compiler on the machine; or set compile: false"
            ) from error
        return first.to(inputs[0].dtype), second.to(inputs[0].dtype)


def bfloat16_pays(network: Trunk, device: torch.device) -> bool:
    """Whether gradients in bfloat16 were measured to be faster for this kind of network on this kind of processor."""
    return has_bfloat16(device) and any(isinstance(module, LARGE) for module in network.modules())


def has_bfloat16(device: torch.device) -> bool:
    """Whether the processor has units for bfloat16. Without them bfloat16 is emulated, which is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    checks = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return device.type == "cpu" and any(check is not None and check() for check in checks)
