"""Writes demonstrations as Minari datasets, and joins demonstrations into one file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError, EnvError, exception_summary
from palaestra.core.files import explain
from palaestra.core.specs import differences
from palaestra.datasets.dataset_form import DatasetForm, own_form
from palaestra.datasets.minari_episode import KEPT, MASK, OURS, EpisodeRecords
from palaestra.datasets.minari_library import PIP, DatasetPlace, new_place, storage_type
from palaestra.demos import DemoColumns, DemoRecord, DemoSource, DemoWriter, Pairs, ReadTiming
from palaestra.demos.pairs import check_finite, ends
from palaestra.demos.record_columns import join, records_of

AHEAD = 16 << 20
"""Bytes that must be free beyond what is written next."""
BESIDE = 64 << 10
"""Most bytes that an episode takes beside its numbers."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Metadata of a new dataset; None: not given."""

    author: str | None = None
    algorithm: str | None = None
    description: str | None = None
    env_spec: Any = None
    """Gymnasium's EnvSpec of the environment, with which Minari can make it."""
    data_format: str = "hdf5"


@dataclass(frozen=True, slots=True)
class WrittenDataset:
    """Counts of a dataset that was written."""

    place: DatasetPlace
    episodes: int
    steps: int
    notes: tuple[str, ...]
    """Sentences about what could not be written as it was."""


def check_target(target: str, *, force: bool) -> DatasetPlace:
    """Returns the place of a new dataset. Raises DemoError for an invalid id, or one in use unless `force`."""
    storage_type()
    place = new_place(target)
    if place.folder.exists() and not force:
        raise DemoError(
            f"the Minari dataset {place.id} exists already ({place.folder}); choose another id, or overwrite it with "
            "--force"
        )
    if place.folder.exists() and not (place.folder / "data").is_dir():
        raise DemoError(
            f"{place.folder} exists and is no Minari dataset, so it is not overwritten; choose another name"
        )
    return place


def storable(form: DatasetForm) -> bool:
    """Whether Minari can store values of the spaces: it has no Sequence."""
    from minari.serialization import serialize_space

    try:
        return all(serialize_space(space) for space in (form.observation_space, form.action_space))
    except NotImplementedError:
        return False


def write_minari(
    demos: Sequence[DemoSource],
    target: str,
    facts: DatasetFacts,
    form: DatasetForm | None = None,
    *,
    force: bool = False,
) -> WrittenDataset:
    """Writes demonstrations of one behavior as a dataset, an episode at a time; it appears when it is complete.

    `form` are the spaces of the environment; None: those in which we offer the behavior to other trainers. Everything
    is written so that reading it returns the same records: where Minari has no place for a column, or the form does not
    return it to the last digit, infos hold it. Raises DemoError if that fails, or an observation does not fit its
    space.
    """
    place = check_target(target, force=force)
    must_be_alike(demos)
    if form is None:
        form = own_form(demos[0].spec)
    elif table := differences(demos[0].spec, form.spec, ("the demonstration", "the environment")):
        raise DemoError(f"{demos[0].title} does not fit the spaces of the environment:\n{table}")
    if not storable(form):
        raise DemoError(
            f"Minari cannot store a Sequence: {form.observation_space}; without --env the numbers are written as "
            "recorded"
        )
    for demo in demos if not form.own else []:
        demo.must_fit(form.spec)
    folder = place.folder.parent / f".palaestra-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        (folder / "data").mkdir(parents=True)
        writer = _DatasetWriter(demos, form, facts.data_format, _Room(folder))
        env_spec = facts.env_spec
        if env_spec is not None and (problem := _unstorable(env_spec)):
            writer.notes.append(f"the dataset does not name its environment: {problem}")
            env_spec = None
        storage = storage_type().new(
            folder / "data", form.observation_space, form.action_space, env_spec, facts.data_format, jpeg_encoding=False
        )
        storage.update_metadata(_metadata(place, demos[0], form, facts))
        storage.update_episodes(writer.buffers())
        if not writer.episodes:
            raise DemoError(f"{demos[0].title} holds no decision to write")
        _appear(folder, place)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, DemoError) or not isinstance(error, Exception):
            raise
        raise _unwritten(place, error) from error
    return WrittenDataset(place, writer.episodes, writer.steps, tuple(writer.notes))


def write_demo(demos: Sequence[DemoSource], path: Path, *, force: bool = False) -> DemoWriter:
    """Writes demonstrations of one behavior into one file, one after another. Returns the closed writer. Raises
    DemoError.
    """
    if path.exists() and not force:
        raise DemoError(f"{path} exists already; choose another name, or overwrite it with --force")
    must_be_alike(demos)
    for demo in demos:
        with suppress(OSError, AttributeError):
            if path.exists() and path.samefile(demo.title):
                raise DemoError(f"{path} cannot be written onto itself")
    first = demos[0]
    with DemoWriter(path, first.name, first.key, first.spec) as writer:
        try:
            for columns in _apart(demos):
                for record in _records(columns):
                    writer.write(record)
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
                "holds one behavior: "
                f"convert each by itself"
            )
        if table := differences(first.spec, demo.spec, ("the first", "the other")):
            raise DemoError(f"{demo.title} has other observations or actions than {first.title}:\n{table}")


def episode_records(demo: DemoSource) -> Iterator[DemoColumns]:
    """Yields the records of each episode in the current timing, at least two each: single ones hold no decision. Holds
    one in memory.
    """
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


class _Room:
    """Checks that a disk has room before HDF5 writes to it, which crashes the process where it has none."""

    def __init__(self, folder: Path) -> None:
        self._probe = folder / "room"
        self._used = 0
        self._left = 0

    def take(self, size: int) -> None:
        """Reserves bytes for what is written next. Raises OSError if there is no room, or for a quota or a limit of
        file sizes.
        """
        if size > self._left:
            self._left = size + AHEAD
            if shutil.disk_usage(self._probe.parent).free < self._left:
                raise OSError(errno.ENOSPC, "the disk is full")
            self._allocate()
        self._left -= size
        self._used += size

    def _allocate(self) -> None:
        """Allocates a file as large as what was written and comes next, but for what was written, and deletes it."""
        if not hasattr(os, "posix_fallocate"):
            return
        with self._probe.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), self._used, self._left)
            except OSError as error:
                if error.errno not in (
                    errno.EINVAL,
                    errno.EOPNOTSUPP,
                    errno.ENOSYS,
                ):  # which some file systems do not support
                    raise
        self._probe.unlink()


class _DatasetWriter:
    """Converts the episodes of demonstrations to Minari's buffers, and counts them."""

    def __init__(self, demos: Sequence[DemoSource], form: DatasetForm, data_format: str, room: _Room) -> None:
        self._demos = demos
        self._form = form
        self._room = room
        self.episodes = self.steps = 0
        self.notes: list[str] = []
        records = sum(demo.records for demo in demos)
        self._uniform: set[str] | None = None
        if data_format != "hdf5":  # episodes of other formats must have the same infos
            self._uniform = {
                name for number, columns in enumerate(self._columns()) for name in self._converted(columns, number)[1]
            }
            self.notes.clear()
        self._records = records

    def buffers(self) -> Iterator[Any]:
        """Yields the episodes. Raises DemoError for one that does not fit the spaces."""
        from minari.data_collector import EpisodeBuffer

        records = 0
        for number, columns in enumerate(self._columns()):
            episode, kept = self._converted(columns, number)
            names = kept if self._uniform is None else self._uniform
            infos = {f"{OURS}_{name}": _info(columns, name) for name in sorted(names) if name != MASK}
            size = len(columns) * self._form.row_bytes + sum(info.nbytes for info in infos.values())
            self._room.take(2 * size + BESIDE)  # chunks of HDF5 are rarely full
            if MASK in names:
                infos[MASK] = _mask(columns, self._form).astype(np.int8)
            self.episodes = self.episodes + 1
            self.steps = self.steps + len(columns) - 1
            records = records + len(columns)
            yield EpisodeBuffer(**episode, infos=infos or None)
        if records < self._records and all(demo.timing is ReadTiming.NEXT for demo in self._demos):
            self.notes.append(
                f"{self._records - records} records without a decision were left out: a dataset's episodes have at "
                "least one step"
            )

    def _columns(self) -> Iterator[DemoColumns]:
        for demo in self._demos:
            if demo.timing is not ReadTiming.NEXT:
                self.notes.append(
                    f"{demo.title}: final observations are unknown; the ones before them stand in their place"
                )
            for columns in episode_records(demo):
                check_finite(columns, demo.title)
                yield columns

    def _converted(self, columns: DemoColumns, number: int) -> tuple[dict[str, Any], set[str]]:
        """Returns an episode as Minari stores it, and the names of the columns that it does not return to the last
        digit.
        """
        form = self._form
        done = bool(columns.done[-1])
        terminations, truncations = np.zeros((2, len(columns) - 1), np.bool_)
        terminations[-1] = done and not columns.truncated[-1]
        truncations[-1] = not terminations[-1]
        try:
            episode = {
                "observations": form.write_observations(columns.obs, columns.mask),
                "actions": form.write_actions(columns.continuous[1:], columns.discrete[1:]),
                "rewards": columns.reward[1:],
                "terminations": terminations,
                "truncations": truncations,
            }
            read = EpisodeRecords(form, episode, number)
            back = read.columns(0, len(columns))
        except EnvError as error:
            raise DemoError(
                f"episode {number} does not fit the spaces: {str(error).replace('area ', 'step ', 1)}"
            ) from error
        for obs, one, other in zip(form.spec.obs, columns.obs, back.obs, strict=True):
            if not np.array_equal(one, other):
                row = int((one != other).reshape(len(one), -1).any(1).argmax())
                raise DemoError(
                    f"episode {number}, record {row}: observation '{obs.name}' is no value of the environment's space "
                    f"{form.observation_space}: it is {_short(one[row])}, and would be read as {_short(other[row])}; "
                    f"without --env the numbers are written as they are"
                )
        kept = {name for name in KEPT if not np.array_equal(getattr(columns, name), getattr(back, name))}
        if columns.mask is not None and not columns.mask.all():
            kept.add(MASK)
        return episode, kept


def _unstorable(env_spec: Any) -> str:
    """Returns why an EnvSpec cannot be stored, such as that it holds a function; '' if it can."""
    try:
        env_spec.to_json()
    except (TypeError, ValueError) as error:
        return str(error).strip().split(". ")[0]
    return ""


def _metadata(place: DatasetPlace, demo: DemoSource, form: DatasetForm, facts: DatasetFacts) -> dict[str, Any]:
    import minari

    obs = [{"name": obs.name, "shape": list(obs.shape), "goal": obs.goal} for obs in demo.spec.obs]
    ours: dict[str, Any] = {"behavior": demo.behavior, "team": demo.team, "name": demo.name, "observations": obs}
    if form.own:
        ours |= {"continuous": demo.spec.action.continuous, "branches": list(demo.spec.action.branches)}
    given = {
        "algorithm_name": facts.algorithm,
        "description": facts.description,
        "author": None if facts.author is None else {facts.author},
    }
    known = {key: value for key, value in given.items() if value is not None}
    return {"dataset_id": place.id, "minari_version": minari.__version__, OURS: ours, **known}


def _appear(folder: Path, place: DatasetPlace) -> None:
    """Moves a complete dataset to its place, in that of an older one if there is one."""
    if place.namespace is not None:
        from minari.namespace import create_namespace, list_local_namespaces

        if place.namespace not in list_local_namespaces():
            create_namespace(place.namespace)
    old = folder.with_name(f"{folder.name}-old")
    if place.folder.exists():
        place.folder.rename(old)
    folder.rename(place.folder)
    shutil.rmtree(old, ignore_errors=True)


def _unwritten(place: DatasetPlace, error: Exception) -> DemoError:
    if isinstance(error, ImportError):
        return DemoError(f"the dataset {place.id} cannot be written: {error}; all formats: {PIP}")
    reason = explain(error) if isinstance(error, OSError) else exception_summary(error)
    return DemoError(f"the dataset {place.id} cannot be written to {place.folder}: {reason}")


def _with_decisions(columns: DemoColumns, demo: DemoSource) -> Iterator[DemoColumns]:
    if len(columns) < 2:
        return
    if not columns.acted[1:].all():
        raise DemoError(
            f"{demo.title}, record {columns.first + 1}: some records have no action, so the episode cannot be converted"
        )
    yield columns


def _retimed(pairs: Pairs, final_obs: Sequence[NDArray[np.float32]] | None, *, ended: bool) -> DemoColumns:
    """Returns the records of an episode of an old file, in which the last observation stands for an unknown final
    one.
    """
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
    """Yields the episodes of all demonstrations. One after an episode without an end gets another id, or the two would
    become one.
    """
    open_id = -1
    for demo in demos:
        for columns in episode_records(demo):
            if open_id >= 0 and columns.id[0] == open_id:
                columns = replace(columns, id=columns.id + 1)
            open_id = -1 if columns.done[-1] else int(columns.id[-1])
            yield columns


def _records(columns: DemoColumns) -> Iterator[DemoRecord]:
    for record in records_of([columns]):
        yield replace(record, mask=None) if record.mask is not None and record.mask.all() else record


def _info(columns: DemoColumns, name: str) -> NDArray[Any]:
    """Returns a column as an info, with two axes, which every format of Minari stores."""
    values = getattr(columns, name)
    return values.astype(np.uint8 if values.dtype == np.bool_ else values.dtype).reshape(len(columns), -1)


def _mask(columns: DemoColumns, form: DatasetForm) -> NDArray[np.bool_]:
    choices = form.spec.action.choices
    return np.ones((len(columns), choices), np.bool_) if columns.mask is None else columns.mask


def _short(values: NDArray[np.float32]) -> str:
    text = ", ".join(f"{value:g}" for value in values.ravel()[:6].tolist())
    return f"[{text}{', ...' if values.size > 6 else ''}]"
