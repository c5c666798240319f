"""Decisions of teachers in rows: in tensors, or in a file on disk if they are too large for memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import DemoError
from palaestra.core.files import scratch_file
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.demos import Pairs

PART = 4 << 20
"""Bytes that are read or written at once."""
WHITE = np.float32(255)


@dataclass(frozen=True, slots=True)
class Decisions:
    """N decisions in tensors."""

    obs: tuple[Tensor, ...]  # each (N, *shape) float32
    action: Action  # as an environment gets it: (N, continuous) within -1..1, (N, B)
    mask: Tensor | None  # (N, choices) bool, True: allowed, as what was done always is; None: nothing was forbidden

    def __len__(self) -> int:
        return len(self.action.continuous)

    def take(self, rows: Tensor) -> Decisions:
        """Returns the decisions of these rows, (n,)."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return Decisions(tuple(x.index_select(0, rows) for x in self.obs), self.action.take(rows), mask)

    def parts(self) -> Iterator[Decisions]:
        """Yields all decisions in order, in a single piece."""
        yield self


class StoredDecisions:
    """N decisions in a file, a row each. Only the rows that are used are held in memory."""

    def __init__(self, file: IO[bytes], row: np.dtype[Any], count: int, masked: bool, device: torch.device) -> None:
        """Owns the file, which is closed with this object."""
        self._file = file
        self.row = row
        self._count = count
        self._masked = masked
        self._device = device
        self._end = weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return self._count

    def take(self, rows: Tensor) -> Decisions:
        """Returns the decisions of these rows, (n,), read from the file and moved to the device. Raises DemoError."""
        return self._decisions(read_rows(self._file, self.row, rows.cpu().numpy()))

    def parts(self) -> Iterator[Decisions]:
        """Yields all decisions in order, in pieces of a bounded size."""
        step = max(1, PART // self.row.itemsize)
        for begin in range(0, self._count, step):
            yield self._decisions(read_span(self._file, self.row, begin, min(begin + step, self._count)))

    def _decisions(self, table: NDArray[Any]) -> Decisions:
        def column(name: str) -> Tensor:
            values = np.array(table[name])  # rows of it lie apart
            return torch.from_numpy(
                values.astype(np.float32) / WHITE if name in images and values.dtype == np.uint8 else values
            ).to(self._device)

        images = [name for name in self.row.names or () if name.startswith("obs")]
        action = Action(column("continuous"), column("discrete"))
        return Decisions(tuple(column(name) for name in images), action, column("mask") if self._masked else None)


class MemoryWriter:
    """Collects at most `most` decisions as tensors."""

    def __init__(self, spec: BehaviorSpec, most: int) -> None:
        row = row_of(spec, images_as_bytes=False)
        self._spec = spec
        self._count = 0
        self._masked = False
        self._columns = {name: np.empty((most, *row[name].shape), row[name].base) for name in row.names or ()}

    def add(self, pairs: Pairs) -> None:
        """Adds decisions."""
        rows = slice(self._count, self._count + len(pairs))
        for name, values in _columns(pairs, self._spec).items():
            self._columns[name][rows] = values
        self._masked |= pairs.mask is not None
        self._count += len(pairs)

    def finish(self, device: torch.device) -> Decisions:
        """Returns all decisions that were added."""
        columns = {name: torch.from_numpy(values[: self._count]).to(device) for name, values in self._columns.items()}
        obs = tuple(columns[f"obs{i}"] for i in range(len(self._spec.obs)))
        return Decisions(
            obs, Action(columns["continuous"], columns["discrete"]), columns["mask"] if self._masked else None
        )


class FileWriter:
    """Collects decisions in a scratch file. Images take one byte a number while all numbers are multiples of 1 / 255,
    as in PNGs.

    Raises DemoError, also in its methods, if the file cannot be written.
    """

    def __init__(self, spec: BehaviorSpec) -> None:
        self._spec = spec
        self._count = 0
        self._masked = False
        self._row = row_of(spec, images_as_bytes=True)
        self._file = _opened()

    def add(self, pairs: Pairs) -> None:
        """Adds decisions."""
        columns = _columns(pairs, self._spec)
        if any(
            self._row[name].base == np.uint8 and not _in_bytes(values)
            for name, values in columns.items()
            if name != "mask"
        ):
            self._widen()
        self._write(_table(self._row, columns))
        self._masked |= pairs.mask is not None
        self._count += len(pairs)

    def finish(self, device: torch.device) -> StoredDecisions:
        """Returns all decisions that were added."""
        try:
            self._file.flush()
        except OSError as error:
            raise _unwritten(error) from error
        return StoredDecisions(self._file, self._row, self._count, self._masked, device)

    def close(self) -> None:
        """Closes and deletes the file."""
        self._file.close()

    def _write(self, table: NDArray[Any]) -> None:
        try:
            self._file.write(table.tobytes())
        except OSError as error:
            raise _unwritten(error) from error

    def _widen(self) -> None:
        """Rewrites the file with images as float32."""
        self._file.flush()
        old = self._file
        narrow = self._row
        self._file = _opened()
        self._row = row_of(self._spec, images_as_bytes=False)
        step = max(1, PART // self._row.itemsize)
        for begin in range(0, self._count, step):
            table = read_span(old, narrow, begin, min(begin + step, self._count))
            columns = {name: table[name] for name in narrow.names or ()}
            wide = {
                n: c.astype(np.float32) / WHITE if c.dtype == np.uint8 and n.startswith("obs") else c
                for n, c in columns.items()
            }
            self._write(_table(self._row, wide))
        old.close()


def row_of(spec: BehaviorSpec, *, images_as_bytes: bool) -> np.dtype[Any]:
    """Returns the type of a row: a decision's columns side by side, without gaps."""
    obs = [
        (f"obs{i}", np.uint8 if images_as_bytes and one.is_visual else np.float32, one.shape)
        for i, one in enumerate(spec.obs)
    ]
    action = spec.action
    numbers = [("continuous", np.float32, (action.continuous,)), ("discrete", np.int64, (len(action.branches),))]
    return np.dtype([*obs, *numbers, ("mask", np.bool_, (action.choices,))])


def read_rows(file: IO[bytes], row: np.dtype[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Returns the rows with these indices, in this order, as an array (n,) of type `row`."""
    size = row.itemsize
    places = (rows * size).tolist()
    if hasattr(os, "pread"):
        descriptor = file.fileno()
        data = b"".join([os.pread(descriptor, size, at) for at in places])
    else:
        data = b"".join([_read_at(file, size, at) for at in places])
    return _rows(data, row, len(rows))


def read_span(file: IO[bytes], row: np.dtype[Any], begin: int, end: int) -> NDArray[Any]:
    """Returns the rows from `begin` to before `end`, as an array (end - begin,) of type `row`."""
    return _rows(_read_at(file, (end - begin) * row.itemsize, begin * row.itemsize), row, end - begin)


def _rows(data: bytes, row: np.dtype[Any], count: int) -> NDArray[Any]:
    if len(data) != count * row.itemsize:
        raise DemoError(
            "the decisions of demonstrations that were put on disk cannot be read back; is the disk full or gone?"
        )
    return np.frombuffer(data, row)


def _read_at(file: IO[bytes], size: int, at: int) -> bytes:
    file.seek(at)
    data = file.read(size)
    file.seek(0, os.SEEK_END)
    return data


def _opened() -> IO[bytes]:
    try:
        return scratch_file()
    except OSError as error:
        raise _unwritten(error) from error


def _unwritten(error: OSError) -> DemoError:
    return DemoError(
        f"decisions of demonstrations, which are too large for memory, cannot be put on disk: {error.strerror or error}"
    )


def _table(row: np.dtype[Any], columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    table = np.empty(len(columns["continuous"]), row)
    for name, values in columns.items():
        narrow = row[name].base == np.uint8 and values.dtype != np.uint8
        table[name] = np.rint(values * WHITE).astype(np.uint8) if narrow else values
    return table


def _in_bytes(values: NDArray[np.float32]) -> bool:
    """Whether one byte a number stores the values without loss."""
    if not ((values >= 0) & (values <= 1)).all():
        return False
    return bool((np.rint(values * WHITE).astype(np.uint8).astype(np.float32) / WHITE == values).all())


def _columns(pairs: Pairs, spec: BehaviorSpec) -> dict[str, NDArray[Any]]:
    """Returns the columns by name, each (N, ...)."""
    columns: dict[str, NDArray[Any]] = {f"obs{i}": obs for i, obs in enumerate(pairs.obs)}
    return columns | {
        "continuous": pairs.continuous.clip(-1, 1),
        "discrete": pairs.discrete,
        "mask": _mask(pairs, spec.action.branches),
    }


def _mask(pairs: Pairs, branches: Sequence[int]) -> NDArray[np.bool_]:
    """Returns allowed choices. A recorded choice counts as allowed even if a mask forbids it."""
    if pairs.mask is None or not branches:
        return np.ones((len(pairs), sum(branches)), np.bool_)
    mask = pairs.mask.copy()
    np.put_along_axis(mask, pairs.discrete + np.cumsum((0, *branches[:-1])), True, 1)
    return mask
