"""Counts how often the host waits for the device, by torch's own watch and by Warp's calls that wait."""

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import warp as wp
from torch.utils._python_dispatch import TorchDispatchMode

READS = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::_unique2",
    "aten::unique_dim",
}
"""torch's operators that read a value back, or need one to know how large their result is."""


HOST_ONLY = {
    ("tables.py", "_take_final_obs"),
    ("tables.py", "_share"),
    ("steady_buffer.py", "add"),
    ("conditioned_bodies.py", "forward"),
    ("group_critic.py", "encoded"),
}
"""Functions of ours in which values are looked at on the CPU alone, where that costs nothing: by us, or by torch's
`one_hot`.
"""


OURS = f"{os.sep}palaestra{os.sep}"


class _Reads(TorchDispatchMode):
    """Notes each of them. Stands in for torch's own watch where there is no device to wait for."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name
        masks = args[1] if name in ("aten::index", "aten::index_put", "aten::index_put_") else ()
        if name in READS or any(mask is not None and mask.dtype == torch.bool for mask in masks):
            frames = [frame for frame in traceback.extract_stack() if OURS in frame.filename]
            if not any((Path(frame.filename).name, frame.name) in HOST_ONLY for frame in frames):
                self._seen.append(
                    f"{name} in {frames[-1].filename.partition(OURS)[2]}:{frames[-1].lineno}" if frames else name
                )
        return func(*args, **(kwargs or {}))


@contextmanager
def counted(device: torch.device) -> Iterator[list[str]]:
    """What has waited, or on the CPU would have: a name each time."""
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (wp, "synchronize"),
            (wp, "synchronize_device"),
            (wp, "synchronize_stream"),
            (wp, "synchronize_event"),
        ):
            patch.setattr(owner, name, _noting(getattr(owner, name), f"warp.{name}", seen))
        for name in ("numpy", "list"):
            patch.setattr(wp.array, name, _noting(getattr(wp.array, name), f"warp.array.{name}", seen))
        if device.type != "cuda":
            with _Reads(seen):
                yield seen
            return
        torch.cuda.synchronize(device)
        with warnings.catch_warnings(record=True) as caught:
            # pytest would make errors of them; turning the watch on gives a warning itself
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            caught.clear()
            try:
                yield seen
            finally:
                torch.cuda.set_sync_debug_mode("default")
                seen += [f"{one.filename}:{one.lineno}" for one in caught if "synchroniz" in str(one.message)]


def _noting(call: Callable[..., Any], name: str, seen: list[str]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        seen.append(name)
        return call(*arguments, **options)

    return noted
