"""Reads demonstration files of every age, as columns, with memory that does not grow with the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError, EmptyDemo, EnvError
from palaestra.core.specs import BehaviorSpec
from palaestra.demos.format import (
    HEADER,
    LONGEST_BRAIN,
    Brain,
    DemoMeta,
    DemoRecord,
    Pair,
    ReadTiming,
    clean_name,
    read_brain,
    read_meta,
    spans,
)
from palaestra.demos.pairs import Episode, Pairs, episodes_of, pairs_of
from palaestra.demos.record_columns import DemoColumns, RecordDecoder, join, read_pair
from palaestra.wire.decode import AgentInfos
from palaestra.wire.messages import DecodeError, Observation, varint
from palaestra.wire.observations import ObservationDecoder
from palaestra.wire.readers import AgentInfoReader

LONGEST_TAIL = 1 << 20
BLOCK = 1 << 20
"""Bytes of the file that are read at a time."""
DECODED = 32 << 20
"""Bytes of observations that these may become: small PNGs may hold large pictures."""
_OLD_PACKAGE = "1.0.0"
_MOST_CHOICES = 0x7FFFFFFF  # that fit into a message; the reader refuses as many


@dataclass(frozen=True)
class Demo:
    """An open book: what a demonstration file says of itself, and its records in passes that each read the file anew.

    Raises:
        DemoError: in every pass; a record is damaged, or the file is gone.
    """

    path: Path
    meta: DemoMeta
    behavior: str
    team: int
    spec: BehaviorSpec
    timing: ReadTiming
    records: int
    """How many are read: those that the metadata count, or of a file that is cut off or was never closed all that are complete."""
    warnings: tuple[str, ...]
    """What is odd but can be read, a line each."""
    brain: bytes
    """The behavior's parameters, a BrainParametersProto."""
    sensors: tuple[ObservationDecoder | None, ...]
    tail: bytes
    """What follows the last record."""

    @property
    def key(self) -> str:
        """The behavior with its team, such as 'Ball?team=0'."""
        return f"{self.behavior}?team={self.team}"

    def __len__(self) -> int:
        return self.records

    def chunks(self) -> Iterator[DemoColumns]:
        """All records in order, a megabyte of the file at a time, or less where that would be much more as numbers."""
        decoder = RecordDecoder(str(self.path), self.spec, self.sensors)
        step = max(1, DECODED // (4 * sum(prod(obs.shape) for obs in self.spec.obs) + 1))
        first = 0
        for data, begins, ends in _blocks(self.path, self._start, self.records):
            for at in range(0, len(begins), step):
                yield decoder.read(first, data, begins[at : at + step], ends[at : at + step])
                first += len(begins[at : at + step])
        if first < self.records:
            raise DemoError(f"{self.path} is damaged: {first} records can be read; expected {self.records}")

    def raw(self) -> Iterator[bytes]:
        """All records in order as they are, each an AgentInfoActionPairProto."""
        for data, begins, ends in _blocks(self.path, self._start, self.records):
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                yield data[begin:end]

    def __iter__(self) -> Iterator[DemoRecord]:
        """All records in order, one by one."""
        for chunk in self.chunks():
            for row in range(len(chunk)):
                yield DemoRecord(
                    tuple(column[row] for column in chunk.obs),
                    float(chunk.reward[row]),
                    float(chunk.group_reward[row]),
                    bool(chunk.done[row]),
                    bool(chunk.truncated[row]),
                    int(chunk.id[row]),
                    int(chunk.group[row]),
                    None if chunk.mask is None else chunk.mask[row],
                    chunk.continuous[row] if chunk.acted[row] else chunk.continuous[row, :0],
                    chunk.discrete[row] if chunk.acted[row] else chunk.discrete[row, :0],
                )

    def pairs(self) -> Iterator[Pairs]:
        """What was seen with what was done about it and what came of it, a chunk at a time. Never across an episode's end.

        Raises DemoError also for a number that is NaN or infinite.
        """
        return pairs_of(self.chunks(), self.timing, str(self.path))

    def episodes(self) -> Iterator[Episode]:
        """The same, an episode at a time, without those of no decision; the last may be open. Holds one episode in memory."""
        return episodes_of(self.chunks(), self.timing, str(self.path))

    def columns(self) -> DemoColumns:
        """All records at once: for files that fit into memory."""
        return join(list(self.chunks()))

    @property
    def _start(self) -> int:
        return HEADER + len(varint(len(self.brain))) + len(self.brain)


def read_demo(path: Path | str) -> Demo:
    """Opens a demonstration file: reads what stands before its records and the first of them.

    Raises:
        EmptyDemo: nothing was recorded.
        DemoError: no demonstration file, or one that cannot be read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except IsADirectoryError:
        raise DemoError(f"{path} is a folder; expected a demonstration file (.demo)") from None
    except OSError as error:
        raise DemoError(f"{path} cannot be read: {error.strerror or error}") from error


def rewrite(demo: Demo, path: Path | str) -> None:
    """Writes a demonstration anew, its records as they are: the same bytes, or of a file that was never closed a closed one."""
    path = Path(path)
    if path.exists() and path.samefile(demo.path):
        raise DemoError(f"{path} cannot be written onto itself")
    try:
        with path.open("wb") as file:
            meta = demo.meta if demo.records == demo.meta.steps else _counted(demo)
            file.write(meta.header() + varint(len(demo.brain)) + demo.brain)
            for record in demo.raw():
                file.write(varint(len(record)) + record)
            file.write(demo.tail or (b"" if meta is demo.meta else meta.to_bytes()))
    except OSError as error:
        raise DemoError(f"{path} cannot be written: {error.strerror or error}") from error


def _counted(demo: Demo) -> DemoMeta:
    """Metadata of what is read."""
    total, episodes = 0.0, 1
    for chunk in demo.chunks():
        total, episodes = total + float(chunk.reward.sum(dtype=np.float64)), episodes + int(chunk.done.sum())
    return DemoMeta(demo.meta.api_version or 1, demo.meta.name or clean_name(demo.behavior), demo.records, episodes, total / episodes)


def _read(path: Path, file: BinaryIO) -> Demo:
    size = os.fstat(file.fileno()).st_size
    head = file.read(HEADER + 10 + LONGEST_BRAIN)
    meta = read_meta(path, head)
    brain, start = read_brain(path, head)
    parsed = Brain.FromString(brain)
    complete = _ends_with(file, size, meta)
    raw = next(_first(path, start, 1), None) if meta.steps or not complete else None
    if raw is None:
        cut = "" if complete or not meta.steps else f"; it is cut off at byte {size} and had {meta.steps}"
        raise EmptyDemo(f"{path} is an empty recording: it holds no records of '{parsed.brain_name}'{cut}")
    info = read_pair(f"{path}, record 0", raw).agent_info
    warnings: list[str] = []
    records, tail = (meta.steps, meta.to_bytes()) if complete else _looked_through(path, start, meta, len(info.observations), warnings)
    timing = _timing(brain, parsed)
    kept = [_size(blob) > 0 for blob in info.observations]
    if not all(kept):
        warnings.append(f"{path}: {kept.count(False)} observations of no numbers are left out")
    _infer_action(path, start, parsed, records, warnings)
    infos = _infos(info, kept)
    try:
        reader = AgentInfoReader(parsed.brain_name, parsed, infos, _OLD_PACKAGE)
    except EnvError as error:
        raise DemoError(f"{path}: {error}") from error
    sensors = iter(reader.sensors)
    seated = tuple(next(sensors) if keep else None for keep in kept)
    return Demo(path, meta, reader.name, reader.team, reader.spec, timing, records, tuple(warnings), brain, seated, tail)


def _looked_through(path: Path, start: int, meta: DemoMeta, observations: int, warnings: list[str]) -> tuple[int, bytes]:
    """How many records to read of a file that does not end as Unity ends it, and the bytes after them.

    A recording that was never closed, as when its game is killed, has all of its complete records: its metadata counts none of them,
    those of an earlier moment, or more than were written.
    """
    size = path.stat().st_size
    places = [(int(ends[-1]), len(begins)) for _, begins, ends in _blocks(path, start, None)]
    found, at = sum(count for _, count in places), start + sum(end for end, _ in places)  # what a block leaves over begins the next
    counted_end = start + sum(int(ends[-1]) for _, _, ends in _blocks(path, start, meta.steps))
    tail = _bytes_at(path, counted_end) if 0 < meta.steps <= found else b""
    if 0 < meta.steps <= found and (not tail or tail.startswith(b"\x08")):
        return meta.steps, tail  # closed: the metadata's copy at the end is another or missing
    used = 0
    for number, raw in enumerate(_first(path, start, found), 1):
        used = number if _observations(raw) == observations else used  # a disk that was full may leave zeros, which look like records
    if used == meta.steps:
        warnings.append(
            f"{path}: {size - counted_end} bytes follow its {meta.steps} records, from byte {counted_end} on; they are not read"
        )
        return meta.steps, tail
    counted = f"its metadata counts {meta.steps} records" if meta.steps else "its metadata counts no records yet, as while it is recorded"
    lost = f" ({meta.steps - used} are lost)" if meta.steps > used else ""
    what = f"is cut off at byte {size}" if lost or at < size or used < found else "was never closed"
    warnings.append(f"{path} {what}: {counted}; its {used} complete records are used{lost}")
    return used, b""


def _bytes_at(path: Path, at: int) -> bytes:
    """What lies there, LONGEST_TAIL bytes at most."""
    with path.open("rb") as file:
        file.seek(at)
        return file.read(LONGEST_TAIL)


def _ends_with(file: BinaryIO, size: int, meta: DemoMeta) -> bool:
    """Whether the file ends with its metadata, as a recorder that was stopped properly leaves it."""
    message = meta.to_bytes()
    file.seek(max(0, size - len(message)))
    return bool(message) and file.read() == message


def _observations(raw: bytes) -> int:
    """How many a record has; -1 for bytes that are none."""
    try:
        return len(Pair.FromString(raw).agent_info.observations)
    except DecodeError:
        return -1


def _timing(brain: bytes, parsed: Any) -> ReadTiming:
    """Only old files lack the team and the new description of actions; only those that were converted have the two oldest fields."""
    if "?" in parsed.brain_name or parsed.HasField("action_spec"):
        return ReadTiming.NEXT
    return ReadTiming.OWN_RESTARTED if brain[:1] in (b"\x08", b"\x10") else ReadTiming.NEXT_RESTARTED


def _infer_action(path: Path, start: int, brain: Any, records: int, warnings: list[str]) -> None:
    """Fills in what a behavior does where its parameters do not say, as those of Unity's Match-3 actuator."""
    spec = brain.action_spec
    if spec.num_continuous_actions or spec.num_discrete_actions or brain.vector_action_size_deprecated:
        return
    actions, masks, most = 0, set(), np.zeros(0, np.int64)
    for number, raw in enumerate(_first(path, start, records)):
        pair = read_pair(f"{path}, record {number}", raw)
        actions = max(actions, len(pair.action_info.continuous_actions))
        masks.add(len(pair.agent_info.action_mask))
        discrete = np.array(pair.action_info.discrete_actions, np.int64)
        most = np.maximum(most, discrete) if len(discrete) == len(most) else discrete if len(most) == 0 else most
    branches = np.clip(most + 1, 1, _MOST_CHOICES).tolist()
    if len(branches) == 1 and max(masks, default=0) >= branches[0]:
        branches = [max(masks)]
    spec.num_continuous_actions, spec.num_discrete_actions = actions, len(branches)
    spec.discrete_branch_sizes.extend(branches)
    warnings.append(
        f"{path} does not say what actions '{brain.brain_name}' has; its records have {actions} continuous, branches {branches}"
    )


def _infos(info: Any, kept: Sequence[bool]) -> AgentInfos:
    """The first record as a tick of one agent."""
    obs = tuple((blob,) for blob, keep in zip(info.observations, kept, strict=True) if keep)
    number, flag = np.zeros(1, np.float32), np.zeros(1, np.bool_)
    return AgentInfos(np.array([info.id]), number, flag, flag, np.zeros(1, np.int64), number, (b"",), obs)


def _size(blob: bytes) -> int:
    try:
        shape = Observation.FromString(blob).shape
    except DecodeError:
        return 1  # left to the reader, which says what is wrong
    return 0 if 0 in shape else 1


def _first(path: Path, start: int, most: int) -> Iterator[bytes]:
    """The first records that are complete."""
    for data, begins, ends in _blocks(path, start, most):
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            yield data[begin:end]


def _blocks(path: Path, start: int, most: int | None) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    """Pieces of the file that begin with a record and where the complete records in each lie; ends where no more are complete."""
    left = most if most is not None else 1 << 62
    rest, wanted = b"", BLOCK
    with path.open("rb") as file:
        file.seek(start)
        while left:
            came = file.read(wanted)
            data = rest + came
            begins, ends = spans(data, left)
            if not len(begins):
                if not came:
                    return
                rest, wanted = data, max(BLOCK, len(data))
                continue
            yield data, begins, ends
            left -= len(begins)
            rest, wanted = data[ends[-1] :], BLOCK
