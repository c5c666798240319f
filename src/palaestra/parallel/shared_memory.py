"""Passes objects with tensors to another process through shared memory: only the objects' structure is pickled, tensors
are copied once.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

RAM_DISK = Path("/dev/shm")
ALIGNMENT = 64
"""Bytes to whose multiples tensors are aligned."""
FIRST_SIZE = 1 << 20


class LocalBlock:
    """A piece of memory of this process alone."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = np.zeros(size, np.uint8)

    def array(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Returns the array at an offset; it shares the block's memory."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._bytes[offset : offset + count].view(dtype).reshape(shape)


class SharedBlock(LocalBlock):
    """A piece of memory that two processes have mapped. It is a file on Linux's RAM disk if that has room, else a
    temporary file."""

    def __init__(self, size: int, path: Path | None = None) -> None:
        """Creates a block of `size` bytes, or opens the one at `path`. Raises OSError if there is no room."""
        self.path = _reserve(size) if path is None else path
        with open(self.path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self.size = size
        self._bytes = np.frombuffer(self._map, np.uint8)

    def unlink(self) -> None:
        """Removes the name of the block; its memory stays until both processes have released it."""
        with suppress(OSError):  # Windows keeps the names of open files
            self.path.unlink()


def _reserve(size: int) -> Path:
    folders = [RAM_DISK] if RAM_DISK.is_dir() else []
    for folder in (*folders, Path(tempfile.gettempdir())):
        handle, name = tempfile.mkstemp(prefix="palaestra-", dir=folder)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size)
            else:
                os.truncate(handle, size)
        except OSError:
            os.unlink(name)
            if folder != RAM_DISK:
                raise
        else:
            return Path(name)
        finally:
            os.close(handle)
    raise AssertionError("the temporary folder either has room or raises OSError")


class SharedSender:
    """The sending side. Two pieces of memory take turns: the receiver must have unpacked an object before the next but
    one is packed."""

    def __init__(self) -> None:
        self._blocks: list[SharedBlock | None] = [None, None]

    def pack(self, value: object) -> bytes:
        """Copies the tensors of an object into shared memory. Returns a message for `unpack`; raises OSError if there
        is no room."""
        stream = io.BytesIO()
        pickler = _Pickler(stream)
        pickler.dump(value)
        self._blocks.reverse()
        block = self._blocks[0]
        if block is None or block.size < pickler.size:
            if block is not None:
                block.unlink()
            block = self._blocks[0] = SharedBlock(max(FIRST_SIZE, 2 * pickler.size))
        for array, offset in zip(pickler.arrays, pickler.offsets, strict=True):
            block.array(offset, array.dtype, array.shape)[...] = array
        in_use = [str(one.path) for one in self._blocks if one is not None]
        return pickle.dumps((in_use, block.size, stream.getvalue()))

    def close(self) -> None:
        """Frees the shared memory."""
        for block in self._blocks:
            if block is not None:
                block.unlink()
        self._blocks = [None, None]


class SharedReceiver:
    """The receiving side. The returned tensors are copies."""

    def __init__(self) -> None:
        self._blocks: dict[str, SharedBlock] = {}

    def unpack(self, message: bytes) -> Any:
        """Returns the object of `SharedSender.pack`. Tensors are on the device on which they were."""
        (path, *others), size, structure = pickle.loads(message)
        if path not in self._blocks:
            self._blocks[path] = SharedBlock(size, Path(path))
            self._blocks[path].unlink()  # both have it open now: it vanishes with them, however they end
        self._blocks = {name: block for name, block in self._blocks.items() if name in (path, *others)}
        return _Unpickler(io.BytesIO(structure), self._blocks[path]).load()


class _Pickler(pickle.Pickler):
    """Leaves the numbers of tensors and arrays out of the pickle."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.offsets: list[int] = []
        self.size = 0

    def persistent_id(self, obj: object) -> tuple[str, int, str, tuple[int, ...], str] | None:
        """Returns the position of a tensor or array in shared memory; None for other objects, which are pickled."""
        if isinstance(obj, Tensor):
            device = str(obj.device)
            plain = obj.detach().cpu()
            kind = "bfloat16" if plain.dtype == torch.bfloat16 else "tensor"
            array = (plain.view(torch.int16) if kind == "bfloat16" else plain).numpy()  # numpy has no bfloat16
        elif type(obj) is np.ndarray and obj.dtype.kind in "biufc":
            array = obj
            kind = "array"
            device = "cpu"
        else:
            return None
        offset = self.size
        self.arrays.append(array)
        self.offsets.append(offset)
        self.size = -(-(offset + array.nbytes) // ALIGNMENT) * ALIGNMENT
        return kind, offset, array.dtype.str, array.shape, device


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, block: SharedBlock) -> None:
        super().__init__(stream)
        self._block = block

    def persistent_load(self, pid: tuple[str, int, str, tuple[int, ...], str]) -> Tensor | np.ndarray[Any, Any]:
        """Returns a copy of the tensor or array at a position."""
        kind, offset, dtype, shape, device = pid
        array = self._block.array(offset, np.dtype(dtype), shape).copy()
        if kind == "array":
            return array
        tensor = torch.from_numpy(array)
        return (tensor.view(torch.bfloat16) if kind == "bfloat16" else tensor).to(device)
