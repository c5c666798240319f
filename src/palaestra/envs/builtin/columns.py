"""The columns of a world: torch tensors that a Warp struct sees too, allocated once, and what every environment does with them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
import warp as wp

from palaestra.core.errors import EnvError
from palaestra.envs.builtin.kernel_cache import start_warp

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

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
    with quiet():
        start_warp()
    tell_kernel_cache()
    return where


@cache
def tell_kernel_cache() -> None:
    """Logs, once, that compiled kernels are kept elsewhere than usual."""
    if sentence := start_warp():
        logging.getLogger("palaestra").warning(sentence)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps Warp's start-up and compiler lines off the terminal."""
    name, value = ("log_level", 30) if hasattr(wp.config, "log_level") else ("quiet", True)
    before = getattr(wp.config, name)
    setattr(wp.config, name, value)
    try:
        with nullcontext() if torch.cuda.is_available() else _no_driver_warning():
            yield
    finally:
        setattr(wp.config, name, before)


@contextmanager
def _no_driver_warning() -> Iterator[None]:
    """Warp's native side writes to the terminal itself that there is no GPU driver, which is no fault here."""
    if sys.stderr is None:  # closed, and its number perhaps another file's
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def allocate(
    struct: Any, slots: int, device: torch.device, rows: Mapping[str, int], **sizes: int | tuple[int, ...]
) -> tuple[Any, dict[str, torch.Tensor]]:
    """An instance of the struct over zeros, and the tensors behind its arrays, (slots, ...) each, or as many as `rows` says.

    `sizes` gives the inner shape of each column of more than one dimension, and the value of each scalar.
    """
    world, columns = struct(), {}
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(world, name, sizes[name])
            continue
        inner = getattr(var.type.dtype, "_shape_", ())
        scalar = getattr(var.type.dtype, "_wp_scalar_type_", var.type.dtype)
        size = sizes[name] if var.type.ndim > 1 else ()
        outer = (size,) if isinstance(size, int) else size
        columns[name] = torch.zeros((rows.get(name, slots), *outer, *inner), dtype=_TORCH[scalar], device=device)
        setattr(world, name, wp.from_torch(columns[name], dtype=var.type.dtype))
    return world, columns


@wp.kernel
def seed_streams(streams: wp.array(dtype=wp.uint32), seed: int):
    """A stream of random numbers for each row, by the seed and the row's own number."""
    i = wp.tid()
    streams[i] = wp.rand_init(seed, i)


@wp.func
def set_aside(seen: wp.array2d(dtype=wp.float32), last: wp.array2d(dtype=wp.float32), i: int):
    """Copies a row of an observation to that of last views, as an episode ends."""
    for k in range(seen.shape[1]):
        last[i, k] = seen[i, k]


@wp.func
def pending(world: Any, i: int, k: int):
    """What the area's k-th parameter is in the episode that begins now."""
    return world.pending[i, world.episodes[i] % world.pending.shape[1], k]
