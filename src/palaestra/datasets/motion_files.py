"""Reads motions from tables: `.csv` files with a column for each number, `.npz` files with named arrays."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.core.plugins import nearest

TABLES = (".csv", ".npz")
"""Endings of the names of these files."""
LISTED = 6
"""Number of columns that a message lists."""
UNEVEN = 0.1
"""Largest difference between two row intervals that counts as even, as a share of the interval in seconds."""


@dataclass(frozen=True)
class MotionFile:
    """A table of states, one row for each state, one episode after another. Unused columns may hold anything."""

    path: Path
    columns: Mapping[str, NDArray[Any]]  # as they were read: texts (N,) of a CSV file, or arrays (N, *shape)
    episode: NDArray[np.int64]  # (N,) rising from 0
    seconds: float | None
    """Seconds from one row to the next; None: the file has no column `time`."""

    def __len__(self) -> int:
        return len(self.episode)

    def numbers(self, sensor: str, size: int, chosen: tuple[int, ...]) -> NDArray[np.float32]:
        """Returns the chosen numbers, (N, numbers), of a sensor with `size` numbers. Raises DemoError if they are
        missing."""
        whole = self.columns.get(sensor)
        if whole is not None and (whole.ndim == 2 or size == 1):
            whole = values_of(self.path, self.columns, sensor).reshape(len(self), -1)
            if whole.shape[1] != size:
                raise DemoError(
                    f"{self.path}: '{sensor}' has {whole.shape[1]} numbers in a row; the behavior's has {size}"
                )
            return whole[:, list(chosen)].astype(np.float32)
        return np.stack([self._column(f"{sensor}[{i}]", sensor) for i in chosen], 1).astype(np.float32)

    def _column(self, name: str, sensor: str) -> NDArray[np.float64]:
        if name in self.columns and self.columns[name].ndim == 1:
            return values_of(self.path, self.columns, name)
        line, what = (":1", "column") if self.path.suffix == ".csv" else ("", "array")
        more = f", ... ({len(self.columns)} in all)" if len(self.columns) > LISTED else ""
        there = f"{', '.join(list(self.columns)[:LISTED])}{more}"
        whole = "" if line else f", or one array '{sensor}' of (rows, numbers)"
        raise DemoError(
            f"{self.path}{line}: there is no {what} '{name}'{nearest(name, self.columns)}; expected a {what} for each "
            f"number that is compared{whole}. It has: {there}"
        )


def read_motion(path: Path) -> MotionFile:
    """Reads a `.csv` or `.npz` file. Raises DemoError."""
    columns = _read_csv(path) if path.suffix == ".csv" else _read_npz(path)
    rows = max(map(len, columns.values()))
    changes = np.zeros(rows, np.bool_)
    if "episode" in columns:
        given = values_of(path, columns, "episode")
        changes = np.diff(given, prepend=given[:1]) != 0
    episode = np.cumsum(changes, dtype=np.int64)
    timed = "time" in columns and columns["time"].ndim == 1
    seconds = _seconds(path, values_of(path, columns, "time"), episode) if timed else None
    return MotionFile(path, columns, episode, seconds)


def values_of(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.float64]:
    """Returns a column as numbers, (N, *shape). Raises DemoError for text, numbers that are not finite, and rows that
    are missing."""
    given, longest = columns[name], max(columns, key=lambda each: len(columns[each]))
    if len(given) < len(columns[longest]):
        raise DemoError(
            f"{path}: '{name}' has {len(given)} rows and '{longest}' {len(columns[longest])}; expected the same "
            "number of rows in all"
        )
    try:
        values = given.astype(np.float64)
    except ValueError:
        row = next(i for i, text in enumerate(given.tolist()) if not _is_number(text))
        raise DemoError(f"{place(path, row)}: column '{name}' is {str(given[row])!r}; expected a number") from None
    if not np.isfinite(values).all():
        row, *number = np.argwhere(~np.isfinite(values))[0].tolist()
        what = f"column '{name}'" if path.suffix == ".csv" else f"{name}{number or ''}"
        raise DemoError(f"{place(path, row)}: {what} is {values[(row, *number)]}; expected finite numbers")
    return values


def _seconds(path: Path, time: NDArray[np.float64], episode: NDArray[np.int64]) -> float | None:
    """Returns the seconds between rows. Raises DemoError where they are not even."""
    rows = np.flatnonzero(np.diff(episode) == 0) + 1
    if not len(rows):
        return None
    steps = time[rows] - time[rows - 1]
    usual = float(np.median(steps))
    uneven = np.flatnonzero(~(np.abs(steps - usual) <= UNEVEN * usual)) if usual > 0 else np.flatnonzero(steps <= 0)
    if len(uneven):
        at = int(rows[uneven[0]])
        raise DemoError(
            f"{place(path, at)}: time goes from {time[at - 1]:g} to {time[at]:g}; expected even steps, of {usual:g} s "
            "as in most rows: let another episode begin where a motion was cut"
        )
    return usual


def place(path: Path, row: int) -> str:
    """Returns the position of a row in a file, such as 'walk.csv:17'."""
    return f"{path}:{row + 2}" if path.suffix == ".csv" else f"{path}, row {row}"


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            names = [name.strip() for name in next(rows, [])]
            _must_be_header(path, names)
            table = list[list[str]]()
            for row in rows:
                if len(row) != len(names):
                    raise DemoError(
                        f"{path}:{rows.line_num}: {len(row)} columns; expected {len(names)}, as in the first line"
                    )
                table.append(row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DemoError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not table:
        raise DemoError(f"{path}: it has a header and no rows; expected a state in each row")
    return dict(zip(names, map(np.array, zip(*table, strict=True)), strict=True))


def _must_be_header(path: Path, names: list[str]) -> None:
    if not any(names):
        raise DemoError(f"{path} is empty; expected a line with the columns' names, then a state in each line")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise DemoError(f"{path}:1: two columns are named '{twice}'")
    if all(_is_number(name) for name in names):
        raise DemoError(f"{path}:1: expected the columns' names, such as Body[0]; got numbers ({', '.join(names[:3])})")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DemoError(f"{path} holds one array; expected an .npz file with arrays by name")
            columns = {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile, EOFError) as error:
        raise DemoError(f"{path} cannot be read as an .npz file: {error}") from error
    found: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        if values.dtype.kind in "fiub" and values.ndim:  # others are remarks of whoever wrote it
            found[name] = values.reshape(len(values), math.prod(values.shape[1:])) if values.ndim > 2 else values
    if not found:
        raise DemoError(f"{path} holds no array of numbers")
    if not any(map(len, found.values())):
        raise DemoError(f"{path}: its arrays have no rows; expected a state in each row")
    return found
