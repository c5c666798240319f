"""The columns of a world: torch tensors that a Warp struct sees too, allocated once."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from palaestra.core.errors import EnvError

_TORCH = {
    wp.float32: torch.float32,
    wp.int32: torch.int32,
    wp.uint32: torch.int32,  # the same bits: torch can do little with unsigned ones
    wp.int64: torch.int64,
    wp.bool: torch.bool,
}


def resolve(device: str | torch.device) -> torch.device:
    """The device, with its number where it is CUDA. Raises EnvError where it is not there."""
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise EnvError(f"device '{device}' is unknown; expected cpu, cuda or cuda:N") from error
    if where.type not in ("cpu", "cuda"):
        raise EnvError(f"device '{device}': the built-in environments run on cpu and cuda")
    if where.type == "cuda":
        if not torch.cuda.is_available():
            raise EnvError(f"device '{device}': torch sees no CUDA GPU here; use cpu")
        where = torch.device("cuda", torch.cuda.current_device() if where.index is None else where.index)
    _start_warp()
    return where


def _start_warp() -> None:
    """Without the banner, and without a warning where there is no GPU."""
    before = wp.config.log_level
    wp.config.log_level = wp.LOG_ERROR
    try:
        wp.init()
    finally:
        wp.config.log_level = before


def allocate(struct: Any, rows: int, device: torch.device, **sizes: int) -> tuple[Any, dict[str, torch.Tensor]]:
    """An instance of the struct over zeros, and the tensors behind its arrays, (rows, ...) each.

    `sizes` gives the width of each column of more than one dimension, and the value of each scalar.
    """
    world, columns = struct(), {}
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(world, name, sizes[name])
            continue
        inner = getattr(var.type.dtype, "_shape_", ())
        scalar = getattr(var.type.dtype, "_wp_scalar_type_", var.type.dtype)
        width = (sizes[name],) if var.type.ndim == 2 else ()
        columns[name] = torch.zeros((rows, *width, *inner), dtype=_TORCH[scalar], device=device)
        setattr(world, name, wp.from_torch(columns[name], dtype=var.type.dtype))
    return world, columns
