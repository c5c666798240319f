"""Saves nested state as JSON and one safetensors file.

This module writes the file itself, without the package safetensors, so that a replay of gigabytes is neither copied nor
read again for its hash, tensors may share memory, and a full disk raises OSError. The package safetensors reads the
file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import load_file
from torch import Tensor

from palaestra.core.files import regular

State: TypeAlias = Any
"""Dicts (keys str or int), lists and tuples of tensors, None, bool, int, float and str."""

Share: TypeAlias = Callable[[State], "tuple[str, int] | None"]
"""Function that may store a value in a shared file. Returns the file's hash and size, or None for a value that it does
not store."""

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def _none_shared(digest: object, size: object) -> State:
    raise ValueError(f"it refers to a shared file {digest!r}, which is not allowed here")


def flatten(value: State, tensors: dict[str, Tensor], share: Share = lambda value: None, path: str = "") -> Any:
    """Returns `value` as JSON; its tensors go into `tensors`, except tensors that `share` stores. Raises TypeError."""
    if (reference := share(value)) is not None:
        return {"$shared": list(reference)}
    match value:
        case None | bool() | str():
            return value
        case Tensor():
            return {"$tensor": _keep(value, tensors, path)}
        case int():
            return int(value) if -(1 << 63) <= value < 1 << 63 else {"$int": hex(value)}
        case float():
            return float(value) if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
        case list():
            return [flatten(item, tensors, share, f"{path}.{i}") for i, item in enumerate(value)]
        case tuple():
            return {"$tuple": [flatten(item, tensors, share, f"{path}.{i}") for i, item in enumerate(value)]}
        case Mapping():
            if odd := [key for key in value if not isinstance(key, (str, int))]:
                raise TypeError(f"{path or 'state'} has the key {odd[0]!r}; only keys of type str and int can be saved")
            items = [(key, flatten(item, tensors, share, f"{path}.{key}")) for key, item in value.items()]
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return dict(items)
            return {"$map": [[flatten(key, tensors, share), item] for key, item in items]}
    raise TypeError(
        f"{path or 'state'} is a {type(value).__name__}; only tensors, dicts, lists, tuples and plain values can be "
        "saved"
    )


def restore(
    value: Any, tensors: Mapping[str, Tensor], shared: Callable[[object, object], State] = _none_shared
) -> State:
    """Reverses `flatten`. `shared` loads the value that `share` stored under a hash and size."""
    if isinstance(value, list):
        return [restore(item, tensors, shared) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$tensor": name}:
            return tensors[name]
        case {"$shared": [digest, size]}:
            return shared(digest, size)
        case {"$int": digits}:
            return int(digits, 16)
        case {"$float": digits}:
            return struct.unpack(">d", bytes.fromhex(digits))[0]
        case {"$tuple": items}:
            return tuple(restore(item, tensors, shared) for item in items)
        case {"$map": items}:
            return {restore(key, tensors, shared): restore(item, tensors, shared) for key, item in items}
    return {key: restore(item, tensors, shared) for key, item in value.items()}


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> tuple[str, int]:
    """Writes a safetensors file, synced to disk; returns its SHA-256 and size in bytes. Raises OSError."""
    header = {}
    end = 0
    names = sorted(tensors, key=lambda name: -tensors[name].element_size())  # so that every tensor is aligned
    for name in names:
        tensor = tensors[name]
        begin = end
        end = end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[_short(tensor)], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    digest = hashlib.sha256()
    with file.open("xb") as out:
        for chunk in (struct.pack("<Q", len(head)) + head, *map(_bytes, (tensors[name] for name in names))):
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest(), 8 + len(head) + end


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Reads the tensors of a verified file as copies on the CPU: the file may be removed while it is mapped."""
    return {name: tensor.clone() for name, tensor in load_file(file).items()}


def digest_of(file: Path) -> tuple[str, int]:
    """Returns SHA-256 and size in bytes. Raises OSError."""
    digest = hashlib.sha256()
    size = 0
    with open(file, "rb", opener=regular) as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _keep(tensor: Tensor, tensors: dict[str, Tensor], path: str) -> str:
    if tensor.layout != torch.strided or _short(tensor) not in _DTYPES:
        raise TypeError(f"{path or 'state'} is a tensor of {tensor.dtype}, {tensor.layout}, which cannot be saved")
    name = path.lstrip(".") or "tensor"
    while name in tensors or name == "__metadata__":
        name += "_"
    tensors[name] = tensor.detach()
    return name


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes(tensor: Tensor) -> memoryview:
    if not tensor.numel():  # torch may give it a stride of 0, which no view of bytes can have
        return memoryview(b"")
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
