"""Whether a network's gradients are worked out in bfloat16."""

from __future__ import annotations

import torch

from palaestra.models.encoders import NatureVisual, ResNetVisual
from palaestra.models.trunk import Trunk

LARGE = (NatureVisual, ResNetVisual)
"""Encoders whose convolutions take most of an update: measured, bfloat16 takes 0.57 of float32's time there."""


def has_bfloat16(device: torch.device) -> bool:
    """Whether the processor has units for it. Without them it is emulated, which is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    checks = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return device.type == "cpu" and any(check is not None and check() for check in checks)


def pays(network: Trunk, device: torch.device) -> bool:
    """Whether gradients in bfloat16 were measured to be faster for a network like this one, on a processor like this one."""
    return has_bfloat16(device) and any(isinstance(module, LARGE) for module in network.modules())
