"""Joins demonstrations of any source into one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.core.files import must_be_new
from palaestra.core.specs import differences
from palaestra.demos.format import ReadTiming
from palaestra.demos.pairs import Pairs, ends
from palaestra.demos.record_columns import DemoColumns, join, records_of
from palaestra.demos.source import DemoSource
from palaestra.demos.writer import DemoWriter


def write_demo(demos: Sequence[DemoSource], path: Path, *, force: bool = False) -> DemoWriter:
    """Writes demonstrations of one behavior into one file and returns the closed writer. Raises DemoError."""
    must_be_new(path, force=force)
    must_be_alike(demos)
    for demo in demos:
        with suppress(OSError, AttributeError):
            if path.exists() and path.samefile(demo.title):
                raise DemoError(f"{path} cannot be written onto itself")
    first = demos[0]
    with DemoWriter(path, first.name, first.key, first.spec) as writer:
        try:
            for record in records_of(_apart(demos)):
                free = record.mask is not None and record.mask.all()
                writer.write(replace(record, mask=None) if free else record)
        except BaseException:
            writer.discard()
            raise
    return writer


def must_be_alike(demos: Sequence[DemoSource]) -> None:
    """Raises DemoError unless all demonstrations are of one behavior, one team and the same spec."""
    first = demos[0]
    for demo in demos[1:]:
        if demo.key != first.key:
            raise DemoError(
                f"{demo.title} is of the behavior '{demo.key}', and {first.title} of '{first.key}'; one recording "
                f"holds one behavior: convert each separately"
            )
        if table := differences(first.spec, demo.spec, ("the first", "the other")):
            raise DemoError(f"{demo.title} has other observations or actions than {first.title}:\n{table}")


def episode_records(demo: DemoSource) -> Iterator[DemoColumns]:
    """Yields each episode's records in the current timing, at least two each, one episode in memory."""
    if demo.timing is not ReadTiming.NEXT:
        for episode in demo.episodes():
            yield _retimed(episode.pairs, episode.final_obs, ended=episode.ended)
        return
    parts: list[DemoColumns] = []
    for chunk in demo.chunks():
        borders = [0, *(np.flatnonzero(ends(chunk)) + 1).tolist(), len(chunk)]
        for begin, end in pairwise(borders):
            if parts and (begin or parts[-1].done[-1] or parts[-1].id[-1] != chunk.id[0]):
                yield from _with_decisions(join(parts), demo)
                parts = []
            parts.append(chunk.rows(slice(begin, end)))
    if parts:
        yield from _with_decisions(join(parts), demo)


def _with_decisions(columns: DemoColumns, demo: DemoSource) -> Iterator[DemoColumns]:
    if len(columns) < 2:
        return
    if not columns.acted[1:].all():
        raise DemoError(
            f"{demo.title}, record {columns.first + 1}: some records have no action, so the episode cannot be converted"
        )
    yield columns


def _retimed(pairs: Pairs, final_obs: Sequence[NDArray[np.float32]] | None, *, ended: bool) -> DemoColumns:
    """Returns the records of an old file's episode; the last observation replaces the unknown final one."""
    count = len(pairs)
    last = tuple(column[-1] for column in pairs.obs) if final_obs is None else final_obs

    def after(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([np.zeros_like(values[:1]), values])

    done = np.zeros(count + 1, np.bool_)
    done[-1] = ended
    return DemoColumns(
        first=0,
        obs=tuple(np.concatenate([column, one[None]]) for column, one in zip(pairs.obs, last, strict=True)),
        reward=after(pairs.reward),
        group_reward=after(pairs.group_reward),
        done=done,
        truncated=after(pairs.truncated),
        id=np.full(count + 1, pairs.id[0]),
        group=np.zeros(count + 1, np.int64),
        mask=None if pairs.mask is None else np.concatenate([pairs.mask, np.ones_like(pairs.mask[:1])]),
        continuous=after(pairs.continuous),
        discrete=after(pairs.discrete),
        acted=np.ones(count + 1, np.bool_),
    )


def _apart(demos: Sequence[DemoSource]) -> Iterator[DemoColumns]:
    """Yields all episodes. After an episode without an end the next one gets another id, lest they become one."""
    open_id = -1
    for demo in demos:
        for columns in episode_records(demo):
            if open_id >= 0 and columns.id[0] == open_id:
                columns = replace(columns, id=columns.id + 1)
            open_id = -1 if columns.done[-1] else int(columns.id[-1])
            yield columns
