"""Reads files that other libraries wrote with `torch.save`: tensors and plain values only. Code in a file is never run.

torch's own restricted reader (`weights_only`) refuses code; sizes are checked first, since a small file can unpack to a
huge one.
"""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.core.errors import ExportError, PalaestraError
from palaestra.core.files import read_whole, regular

MOST_BYTES = 1 << 30
"""Largest size, unpacked, of a file of weights."""

Arrays = dict[str, np.ndarray]
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    struct.error,
)
"""Errors of a damaged, encrypted or forged zip file."""


def read_saved(file: Path | bytes, name: str, refusal: type[PalaestraError] = ExportError) -> Any:
    """Returns what `torch.save` wrote, with tensors on the CPU. `name` is for messages. Raises `refusal` for a file
    that cannot be read."""
    import torch

    content = _bounded(file, name, refusal)
    check_archive(io.BytesIO(content), name, "a file that torch.save wrote since torch 1.6", refusal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its old formats
        try:
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise refusal(
                f"{name} holds more than weights ({_forbidden(error)}), which would run code when it is loaded, so it "
                "is refused; save the state_dict alone: torch.save(agent.state_dict(), FILE)"
            ) from error
        except Exception as error:  # torch has many errors for damaged files
            raise refusal(f"{name} is damaged: torch cannot read it ({str(error).splitlines()[0][:200]})") from error


def check_archive(
    file: io.BytesIO | Path, name: str, expected: str, refusal: type[PalaestraError] = ExportError
) -> list[str]:
    """Returns the names in a zip file. Raises `refusal` for a file of another kind, or one that unpacks to more than
    `MOST_BYTES`."""
    try:
        with nullcontext(file) if isinstance(file, io.BytesIO) else open(file, "rb", opener=regular) as opened:
            infos = zipfile.ZipFile(opened).infolist()
    except (*ZIP_ERRORS, OSError) as error:
        raise refusal(f"{name} is no zip file ({error}); expected {expected}") from error
    size = sum(info.file_size for info in infos)
    if size > MOST_BYTES:
        raise refusal(f"{name} would unpack to {size:,} bytes; at most {MOST_BYTES:,} are read")
    return [info.filename for info in infos]


def read_npz(
    content: bytes, name: str, refusal: type[PalaestraError] = ExportError, *, most: int = MOST_BYTES
) -> Arrays:
    """Returns the arrays of an .npz file, in all at most `most` bytes. Raises `refusal` for a file that cannot be read,
    or unpacks to more.

    Both the zip file's list and each array's header declare sizes, and both must agree.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > most:
                raise refusal(f"{name} would unpack to {size:,} bytes; at most {most:,} are read")
            return {info.filename.removesuffix(".npy"): _read_npy(archive.read(info)) for info in archive.infolist()}
    except PalaestraError:
        raise
    except Exception as error:  # numpy and zipfile have many
        raise refusal(f"{name} cannot be read as .npz: {error}") from error


def _read_npy(content: bytes) -> np.ndarray:
    """Returns the array of an .npy file. Raises ValueError if its header declares more than the file holds."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} has {len(content) - file.tell():,} bytes")
    return np.load(io.BytesIO(content), allow_pickle=False)


def arrays_of(state: Any, name: str) -> Arrays:
    """Returns the tensors of a state_dict as float32 arrays (integers as they are). Raises ExportError otherwise."""
    import torch

    if not isinstance(state, Mapping) or not state:
        raise ExportError(f"{name} holds {_what(state)}; expected a state_dict: names and tensors")
    arrays: Arrays = {}
    total = 0
    for key, value in state.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise ExportError(f"{name} has '{str(key)[:80]}', {_what(value)}; expected a state_dict: names and tensors")
        total += value.numel() * 8
        if total > MOST_BYTES:
            raise ExportError(f"{name} has tensors of more than {MOST_BYTES:,} bytes")
        if value.is_sparse or value.is_quantized or value.is_complex():
            raise ExportError(
                f"{name}: '{key}' is a tensor of a kind that cannot be converted ({value.dtype}, {value.layout})"
            )
        array = value.detach().cpu()
        arrays[key] = array.float().numpy() if array.is_floating_point() else array.numpy()
        if arrays[key].dtype.kind == "f" and not np.isfinite(arrays[key]).all():
            raise ExportError(f"{name}: '{key}' holds numbers that are not finite: its training has diverged")
    return arrays


def _bounded(file: Path | bytes, name: str, refusal: type[PalaestraError]) -> bytes:
    if isinstance(file, bytes):
        return file
    try:
        return read_whole(file, MOST_BYTES)
    except OSError as error:
        raise refusal(f"{name} cannot be read: {error.strerror or error}") from error


def _forbidden(error: Exception) -> str:
    """Returns the part of torch's long message that names the refused object."""
    text = str(error)
    _, found, rest = text.partition("GLOBAL ")
    return rest.split()[0].rstrip(".,:") if found and rest.split() else text.splitlines()[0][:120]


def _what(value: Any) -> str:
    return f"a {type(value).__name__}"
