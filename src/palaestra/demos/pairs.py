"""Converts records to transitions: observation, the action taken, and the reward and episode end that followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.demos.format import ReadTiming
from palaestra.demos.record_columns import DemoColumns, join, join_masks


@dataclass(frozen=True, slots=True)
class Pairs:
    """N consecutive decisions of a demonstration, in the same form for all versions of files."""

    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: all were allowed
    continuous: NDArray[np.float32]  # (N, numbers) the action taken for the observation
    discrete: NDArray[np.int64]  # (N, branches)
    reward: NDArray[np.float32]  # (N,) that followed the action
    group_reward: NDArray[np.float32]  # (N,)
    terminated: NDArray[np.bool_]  # (N,) the episode ended after it
    truncated: NDArray[np.bool_]  # (N,) the episode ended by a limit after it
    episode: NDArray[np.int64]  # (N,) number of the episode in the file, from 0 on
    id: NDArray[np.int64]  # (N,)

    def __len__(self) -> int:
        return len(self.reward)

    def rows(self, begin: int, end: int) -> Pairs:
        """Returns a slice of the decisions."""
        columns: dict[str, Any] = {f.name: getattr(self, f.name)[begin:end] for f in fields(self)[2:]}
        return Pairs(
            tuple(column[begin:end] for column in self.obs),
            None if self.mask is None else self.mask[begin:end],
            **columns,
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode of a demonstration."""

    pairs: Pairs
    # each (*shape), after the last decision; None: not stored by old versions
    final_obs: tuple[NDArray[np.float32], ...] | None
    ended: bool  # False: the recording stopped before the episode ended


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Observations in order, and whether each follows the previous observation in the same episode."""

    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    first: NDArray[np.int64]  # (P,) rows whose next row is what the same agent observed next
    episode: NDArray[np.int64]  # (P,) number of the episode in the file


def pairs_of(chunks: Iterable[DemoColumns], timing: ReadTiming, where: str) -> Iterator[Pairs]:
    """Converts records to pairs. Raises DemoError for a number that is NaN or infinite."""
    for pairs, _, _ in paired(_finite(chunks, where), timing):
        if len(pairs):
            yield pairs


def episodes_of(chunks: Iterable[DemoColumns], timing: ReadTiming, where: str) -> Iterator[Episode]:
    """Converts records to episodes. Raises DemoError for a number that is NaN or infinite."""
    parts: list[Pairs] = []
    final: tuple[NDArray[np.float32], ...] | None = None
    for pairs, columns, rows in paired(_finite(chunks, where), timing):
        if not len(pairs):
            continue
        borders = (np.flatnonzero(np.diff(pairs.episode)) + 1).tolist()
        for begin, end in zip([0, *borders], [*borders, len(pairs)], strict=True):
            if parts and parts[-1].episode[-1] != pairs.episode[begin]:
                yield _episode(parts, final)
                parts = []
            parts.append(pairs.rows(begin, end))
            after = int(rows[end - 1]) + 1
            gone = timing is not ReadTiming.NEXT and columns.done[after]
            final = None if gone else tuple(column[after].copy() for column in columns.obs)
    if parts:
        yield _episode(parts, final)


def neighbours_of(chunks: Iterable[DemoColumns], timing: ReadTiming, where: str) -> Iterator[Neighbours]:
    """Converts records to neighbouring observations. Raises DemoError for a number that is NaN or infinite."""
    for pairs, columns, rows in paired(_finite(chunks, where), timing):
        # in old files an end shows the next episode's first observation
        known = np.full(len(rows), True) if timing is ReadTiming.NEXT else ~columns.done[rows + 1]
        yield Neighbours(columns.obs, rows[known], pairs.episode[known])


def check_finite(columns: DemoColumns, where: str) -> None:
    """Raises DemoError for a number that is NaN or infinite, and names its place."""
    named = [
        ("reward", columns.reward),
        ("group reward", columns.group_reward),
        ("continuous action", columns.continuous),
    ]
    for name, values in [*((f"observation {i}", column) for i, column in enumerate(columns.obs)), *named]:
        if not np.isfinite(values).all():
            row, *place = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise DemoError(
                f"{where}, record {columns.first + row}: {name}{place or ''} is {values[(row, *place)]}; expected "
                "finite numbers"
            )


def _episode(parts: list[Pairs], final: tuple[NDArray[np.float32], ...] | None) -> Episode:
    return Episode(_join(parts), final, bool(parts[-1].terminated[-1] or parts[-1].truncated[-1]))


def paired(chunks: Iterable[DemoColumns], timing: ReadTiming) -> Iterator[tuple[Pairs, DemoColumns, NDArray[np.int64]]]:
    """Yields for each chunk its pairs, its records with the previous chunk's last record before them, and the record of
    each pair."""
    before, episode = None, 0
    for chunk in chunks:
        columns = chunk if before is None else join([before, chunk])
        before = chunk.rows(slice(len(chunk) - 1, None))
        number = episode + np.cumsum(ends(columns))  # episode of the next record
        pairs, rows = _pairs(columns, timing, number)
        episode = int(number[-1]) if len(number) else episode
        yield pairs, columns, rows


def _finite(chunks: Iterable[DemoColumns], where: str) -> Iterator[DemoColumns]:
    for chunk in chunks:
        check_finite(chunk, where)
        yield chunk


def ends(columns: DemoColumns) -> NDArray[np.bool_]:
    """Returns whether the next record belongs to another episode, (N - 1,)."""
    return columns.done[:-1] | (columns.id[:-1] != columns.id[1:])


def _pairs(columns: DemoColumns, timing: ReadTiming, episode: NDArray[np.int64]) -> tuple[Pairs, NDArray[np.int64]]:
    same = columns.id[:-1] == columns.id[1:]
    done = columns.done[:-1]
    goes_on = same & ~done if timing is ReadTiming.NEXT else same | done
    answered = columns.acted[:-1] if timing is ReadTiming.OWN_RESTARTED else columns.acted[1:]
    rows = np.flatnonzero(goes_on & answered)
    after = rows + 1
    action = rows if timing is ReadTiming.OWN_RESTARTED else after
    pairs = Pairs(
        tuple(column[rows] for column in columns.obs),
        None if columns.mask is None else columns.mask[rows],
        columns.continuous[action],
        columns.discrete[action],
        columns.reward[after],
        columns.group_reward[after],
        columns.done[after] & ~columns.truncated[after],
        columns.done[after] & columns.truncated[after],
        episode[rows],
        columns.id[rows],
    )
    return pairs, rows


def _join(parts: Sequence[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Pairs)[2:]}
    obs = tuple(np.concatenate(column) for column in zip(*(part.obs for part in parts), strict=True))
    return Pairs(obs, join_masks([(part.mask, len(part)) for part in parts]), **columns)
