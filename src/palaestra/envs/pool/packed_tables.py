"""Tables and actions of a copy as bytes for another machine: whole columns one after another, without pickle.

Observations are sent only for agents that act, final observations only for episodes that ended. Both sides have tables
of one layout (`pool.shared_tables`), in which the other columns keep their values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.envs.pool.shared_tables import OPTIONAL, PLAIN, PRESENT, SharedTables


def pack_tables(tables: SharedTables) -> bytes:
    """Returns the tables of a tick as bytes; empty if the other side shares their memory."""
    if tables.shared:
        return b""
    parts = list[bytes]()
    for arrays in tables.arrays.values():
        flags = arrays["flags"]
        parts.append(flags.tobytes())
        if not flags[PRESENT]:
            continue
        parts.append(arrays["ends"].tobytes())
        ends = int(arrays["ends"][0])
        parts.append(arrays["end_slots"][:ends].tobytes())
        parts += [arrays[name].tobytes() for name in PLAIN]
        parts += [arrays[name].tobytes() for flag, name in OPTIONAL if flags[flag]]
        rows = np.flatnonzero(arrays["acting"])
        for i in _observations(arrays):
            parts.append(arrays[f"obs{i}"][rows].tobytes())
            parts.append(arrays[f"final{i}"][:ends].tobytes())
    return b"".join(parts)


def unpack_tables(tables: SharedTables, packed: bytes | memoryview) -> None:
    """Writes packed tables into this side's tables."""
    reader = _PackedArrays(packed)
    for arrays in tables.arrays.values():
        flags = arrays["flags"]
        reader.fill(flags)
        if not flags[PRESENT]:
            continue
        reader.fill(arrays["ends"])
        ends = int(arrays["ends"][0])
        reader.fill(arrays["end_slots"][:ends])
        for name in PLAIN:
            reader.fill(arrays[name])
        for flag, name in OPTIONAL:
            if flags[flag]:
                reader.fill(arrays[name])
        rows = np.flatnonzero(arrays["acting"])
        for i in _observations(arrays):
            obs = arrays[f"obs{i}"]
            obs[rows] = reader.take(obs, len(rows))
            reader.fill(arrays[f"final{i}"][:ends])


def pack_actions(tables: SharedTables) -> bytes:
    """Returns the actions in the tables as bytes; empty if the other side shares their memory."""
    if tables.shared:
        return b""
    return b"".join(arrays[name].tobytes() for arrays in tables.arrays.values() for name in ("continuous", "discrete"))


def unpack_actions(tables: SharedTables, packed: bytes | memoryview) -> None:
    """Writes packed actions into the tables of this side, if there are any."""
    if not packed:
        return
    reader = _PackedArrays(packed)
    for arrays in tables.arrays.values():
        reader.fill(arrays["continuous"])
        reader.fill(arrays["discrete"])


def _observations(arrays: dict[str, NDArray[Any]]) -> range:
    return range(sum(name.startswith("obs") for name in arrays))


class _PackedArrays:
    def __init__(self, packed: bytes | memoryview) -> None:
        self._packed = packed
        self._at = 0

    def take(self, like: NDArray[Any], rows: int) -> NDArray[Any]:
        """Returns an array with the type and columns of `like`."""
        count = rows * int(np.prod(like.shape[1:], dtype=np.int64))
        array = np.frombuffer(self._packed, like.dtype, count, self._at)
        self._at += array.nbytes
        return array.reshape(rows, *like.shape[1:])

    def fill(self, array: NDArray[Any]) -> None:
        """Reads all of an array."""
        array[...] = self.take(array, len(array))
