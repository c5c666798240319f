"""Copies arrays from the host to a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Returns an array as a tensor on a device; on the CPU it shares the array's memory. Does not wait until a GPU has
    its copy."""
    tensor = torch.from_numpy(array)
    # from memory that may be paged out, a copy first waits for all that the GPU still has to do
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def permutations(total: int, count: int, generator: torch.Generator) -> NDArray[np.int64]:
    """Returns random orders of `total` rows, (count, total). Waits for an accelerator once, not once for each order."""
    orders = [torch.randperm(total, generator=generator, device=generator.device) for _ in range(count)]
    return torch.stack(orders).cpu().numpy()
