"""Reads demonstration files of all versions into arrays, with memory use independent of the file's size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from palaestra.core.errors import DemoError, EmptyDemo, EnvError
from palaestra.core.files import regular
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
from palaestra.demos.old_records import Block, OldRecords, is_old
from palaestra.demos.pairs import Episode, Pairs, episodes_of, pairs_of
from palaestra.demos.record_columns import DemoColumns, RecordDecoder, join, read_pair, records_of, stored_numbers
from palaestra.wire.decode import AgentInfos
from palaestra.wire.messages import DecodeError, Observation, varint
from palaestra.wire.observations import ObservationDecoder
from palaestra.wire.readers import AgentInfoReader

LONGEST_TAIL = 1 << 20
BLOCK = 1 << 20
"""Bytes of the file read at once."""
LEAST_RECORD = 4
"""Smallest size of a record in a file, in bytes."""
DECODED = 32 << 20
"""Most bytes of decoded observations at once: small PNGs may contain large images."""
_OLD_PACKAGE = "1.0.0"
_MAX_CHOICES = 0x7FFFFFFF  # largest number of the message's field; the reader refuses as many


@dataclass(frozen=True)
class Demo:
    """An open demonstration file. Each iteration reads it again, and raises DemoError for a damaged record."""

    path: Path
    meta: DemoMeta
    behavior: str
    team: int
    spec: BehaviorSpec
    timing: ReadTiming
    records: int
    """Number of records to read: as the metadata says, or all complete ones of a file that was not closed."""
    warnings: tuple[str, ...]
    """Messages about unusual but readable content."""
    brain: bytes
    """The behavior's parameters, a BrainParametersProto."""
    sensors: tuple[ObservationDecoder | None, ...]
    tail: bytes
    """The bytes after the last record."""
    old: OldRecords | None = None
    """Converts its records if they are of ML-Agents 0.6 to 0.11."""

    @property
    def key(self) -> str:
        """The behavior with its team, such as 'Ball?team=0'."""
        return f"{self.behavior}?team={self.team}"

    @property
    def title(self) -> str:
        """Its path, for messages."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The recording's name in its metadata."""
        return self.meta.name

    @property
    def most_decisions(self) -> int:
        """Largest number of decisions that it can hold: metadata may count more records than the file has room for."""
        return min(self.records, self.path.stat().st_size // LEAST_RECORD)

    @property
    def identity(self) -> tuple[object, ...]:
        """Changes when the file is another or has other contents. Raises DemoError if it is gone."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise DemoError(f"{self.path} cannot be read: {error.strerror or error}") from error
        return self.path.absolute(), found.st_ino, found.st_size, found.st_mtime_ns

    def must_fit(self, spec: BehaviorSpec) -> None:
        """Does nothing: files store the numbers and choices of the policy, whatever they mean to its environment."""

    def metadata_problems(self, decisions: int, done: int, reward: float) -> list[str]:
        """Returns a line for each fact of the metadata that disagrees with the records that were read."""
        meta = self.meta
        lines = list[str]()
        if self.records != meta.steps:
            return lines
        if meta.episodes != done + 1:
            lines.append(
                f"its metadata counts {meta.episodes} episodes; expected one more than its {done} ends, as Unity counts"
            )
        mean = reward / max(meta.episodes, 1)
        if not abs(mean - meta.mean_reward) <= 1e-3 * max(1.0, abs(mean)):
            lines.append(f"its metadata gives a mean reward of {meta.mean_reward:.6g}; its records give {mean:.6g}")
        return lines

    def __len__(self) -> int:
        return self.records

    def chunks(self) -> Iterator[DemoColumns]:
        """Yields all records in order, a megabyte of the file at a time, or less if it decodes to much more."""
        decoder = RecordDecoder(str(self.path), self.spec, self.sensors)
        step = max(1, DECODED // (4 * sum(prod(obs.shape) for obs in self.spec.obs) + 1))
        first = 0
        blocks = _blocks(self.path, self._start, self.records)
        for data, begins, ends in self.old.convert(blocks) if self.old else blocks:
            for at in range(0, len(begins), step):
                yield decoder.read(first, data, begins[at : at + step], ends[at : at + step])
                first += len(begins[at : at + step])
        if first < self.records:
            raise DemoError(f"{self.path} is damaged: {first} records can be read; expected {self.records}")

    def raw(self) -> Iterator[bytes]:
        """Yields all records in order and undecoded, each an AgentInfoActionPairProto."""
        return _first(self.path, self._start, self.records, self.old)

    def __iter__(self) -> Iterator[DemoRecord]:
        """Yields all records in order, one by one."""
        return records_of(self.chunks())

    def pairs(self) -> Iterator[Pairs]:
        """Yields decisions with what followed, a chunk at a time. Raises DemoError for NaN and infinity, too."""
        return pairs_of(self.chunks(), self.timing, str(self.path))

    def episodes(self) -> Iterator[Episode]:
        """Yields pairs episode by episode; the last may be unfinished. Holds one episode in memory."""
        return episodes_of(self.chunks(), self.timing, str(self.path))

    def columns(self) -> DemoColumns:
        """Returns all records at once, for files that fit into memory."""
        return join(list(self.chunks()))

    @property
    def _start(self) -> int:
        return HEADER + len(varint(len(self.brain))) + len(self.brain)


def read_demo(path: Path | str) -> Demo:
    """Opens a demonstration file. Raises EmptyDemo for one without records, DemoError for any other fault."""
    path = Path(path)
    try:
        with open(path, "rb", opener=regular) as file:
            return _open(path, file)
    except IsADirectoryError:
        raise DemoError(f"{path} is a folder; expected a demonstration file (.demo)") from None
    except OSError as error:
        raise DemoError(f"{path} cannot be read: {error.strerror or error}") from error


def rewrite(demo: Demo, path: Path | str) -> None:
    """Copies a demonstration with its records unchanged; a file that was never closed becomes a closed one."""
    path = Path(path)
    if path.exists() and path.samefile(demo.path):
        raise DemoError(f"{path} cannot be written onto itself")
    try:
        with path.open("wb") as file:
            meta = demo.meta if demo.records == demo.meta.steps else _recount(demo)
            file.write(meta.header() + varint(len(demo.brain)) + demo.brain)
            for record in demo.raw():
                file.write(varint(len(record)) + record)
            file.write(demo.tail or (b"" if meta is demo.meta else meta.to_bytes()))
    except OSError as error:
        raise DemoError(f"{path} cannot be written: {error.strerror or error}") from error


def _recount(demo: Demo) -> DemoMeta:
    """Computes the metadata of the records that are read."""
    total, episodes = 0.0, 1
    for chunk in demo.chunks():
        total = total + float(chunk.reward.sum(dtype=np.float64))
        episodes = episodes + int(chunk.done.sum())
    return DemoMeta(
        demo.meta.api_version or 1,
        demo.meta.name or clean_name(demo.behavior),
        demo.records,
        episodes,
        total / episodes,
    )


def _open(path: Path, file: BinaryIO) -> Demo:
    size = os.fstat(file.fileno()).st_size
    head = file.read(HEADER + 10 + LONGEST_BRAIN)
    meta = read_meta(path, head)
    brain, start = read_brain(path, head)
    parsed = Brain.FromString(brain)
    complete = _ends_with(file, size, meta)
    raw = next(_first(path, start, 1, None), None) if meta.steps or not complete else None
    if raw is None:
        cut = "" if complete or not meta.steps else f"; it is cut off at byte {size} and had {meta.steps}"
        raise EmptyDemo(f"{path} is an empty recording: it holds no records of '{parsed.brain_name}'{cut}")
    old = OldRecords(str(path), brain) if is_old(raw) else None
    info = read_pair(f"{path}, record 0", next(_first(path, start, 1, old))).agent_info
    warnings: list[str] = []
    records, tail = (
        (meta.steps, meta.to_bytes())
        if complete
        else _scan_unclosed(path, start, meta, old, len(info.observations), warnings)
    )
    timing = ReadTiming.OWN_RESTARTED if old else _timing(brain, parsed)
    kept = [_size(blob) > 0 for blob in info.observations]
    if not all(kept):
        warnings.append(f"{path}: {kept.count(False)} observations of no numbers are left out")
    pairs = partial(_parsed, path, start, records, old)
    _infer_action(path, pairs, parsed, warnings)
    _correct_action(path, pairs, parsed, warnings)
    infos = _infos(info, kept)
    try:
        reader = AgentInfoReader(parsed.brain_name, parsed, infos, _OLD_PACKAGE)
    except EnvError as error:
        raise DemoError(f"{path}: {error}") from error
    sensors = iter(reader.sensors)
    kept_sensors = tuple(next(sensors) if keep else None for keep in kept)
    return Demo(
        path,
        meta,
        reader.name,
        reader.team,
        reader.spec,
        timing,
        records,
        tuple(warnings),
        brain,
        kept_sensors,
        tail,
        old,
    )


def _scan_unclosed(
    path: Path, start: int, meta: DemoMeta, old: OldRecords | None, observations: int, warnings: list[str]
) -> tuple[int, bytes]:
    """Returns the number of records to read, and the bytes after them, for a file that does not end with its metadata.

    A recording that was never closed, for example because its game was killed, keeps all complete records: its metadata
    may count none, fewer, or more than were written.
    """
    size = path.stat().st_size
    places = [(int(ends[-1]), len(begins)) for _, begins, ends in _blocks(path, start, None)]
    # a block's rest begins the next block
    found = sum(count for _, count in places)
    at = start + sum(end for end, _ in places)
    counted_end = start + sum(int(ends[-1]) for _, _, ends in _blocks(path, start, meta.steps))
    tail = _bytes_at(path, counted_end) if 0 < meta.steps <= found else b""
    if 0 < meta.steps <= found and (not tail or tail.startswith(b"\x08")):
        return meta.steps, tail  # closed: the metadata's copy at the end differs or is missing
    used = 0
    for number, raw in enumerate(_first(path, start, found, old), 1):
        # a full disk may leave zeros, which look like records
        used = number if _observations(raw) == observations else used
    if used == meta.steps:
        warnings.append(
            f"{path}: {size - counted_end} bytes follow its {meta.steps} records, from byte {counted_end} on; they "
            "are not read"
        )
        return meta.steps, tail
    counted = (
        f"its metadata counts {meta.steps} records"
        if meta.steps
        else "its metadata counts no records yet, as while it is recorded"
    )
    lost = f" ({meta.steps - used} are lost)" if meta.steps > used else ""
    what = f"is cut off at byte {size}" if lost or at < size or used < found else "was never closed"
    warnings.append(f"{path} {what}: {counted}; its {used} complete records are used{lost}")
    return used, b""


def _bytes_at(path: Path, at: int) -> bytes:
    """Reads at most LONGEST_TAIL bytes at an offset."""
    with open(path, "rb", opener=regular) as file:
        file.seek(at)
        return file.read(LONGEST_TAIL)


def _ends_with(file: BinaryIO, size: int, meta: DemoMeta) -> bool:
    """Whether the file ends with its metadata, as it does if the recording was closed."""
    message = meta.to_bytes()
    file.seek(max(0, size - len(message)))
    return bool(message) and file.read() == message


def _observations(raw: bytes) -> int:
    """Returns the number of observations in a record; -1 if the bytes are no record."""
    try:
        return len(Pair.FromString(raw).agent_info.observations)
    except DecodeError:
        return -1


def _timing(brain: bytes, parsed: Any) -> ReadTiming:
    """Only old files lack both the team and the `action_spec`; only converted ones have the two oldest fields."""
    if "?" in parsed.brain_name or parsed.HasField("action_spec"):
        return ReadTiming.NEXT
    return ReadTiming.OWN_RESTARTED if brain[:1] in (b"\x08", b"\x10") else ReadTiming.NEXT_RESTARTED


def _infer_action(path: Path, pairs: Callable[[], Iterator[Any]], brain: Any, warnings: list[str]) -> None:
    """Infers a missing action spec, as in files of Unity's Match-3 actuator, from the records."""
    spec = brain.action_spec
    if spec.num_continuous_actions or spec.num_discrete_actions or brain.vector_action_size_deprecated:
        return
    actions = 0
    masks = set()
    most = np.zeros(0, np.int64)
    for pair in pairs():
        actions = max(actions, len(pair.action_info.continuous_actions))
        masks.add(len(pair.agent_info.action_mask))
        discrete = np.array(pair.action_info.discrete_actions, np.int64)
        most = np.maximum(most, discrete) if len(discrete) == len(most) else discrete if len(most) == 0 else most
    branches = np.clip(most + 1, 1, _MAX_CHOICES).tolist()
    if len(branches) == 1 and max(masks, default=0) >= branches[0]:
        branches = [max(masks)]
    spec.num_continuous_actions = actions
    spec.num_discrete_actions = len(branches)
    spec.discrete_branch_sizes.extend(branches)
    warnings.append(
        f"{path} does not say what actions '{brain.brain_name}' has; its records have {actions} continuous, branches "
        f"{branches}"
    )


def _correct_action(path: Path, pairs: Callable[[], Iterator[Any]], brain: Any, warnings: list[str]) -> None:
    """Takes the number of continuous actions from the records where the header has another.

    Before ML-Agents 1.0 a heuristic returned an array of its own, and the recorder stored as many numbers as it held.
    """
    spec = brain.action_spec
    old = brain.vector_action_size_deprecated
    if spec.num_discrete_actions or not (spec.num_continuous_actions or brain.vector_action_space_type_deprecated):
        return
    said = spec.num_continuous_actions or (old[0] if old else 0)
    stored = (stored_numbers(pair.action_info) for pair in pairs())
    counts = (len(numbers) for numbers in stored if any(numbers))  # an episode's first record stores zeros
    came = next(counts, said)
    if came == said or any(count != came for count in counts):
        return  # numbers of several counts are an error of the record that is read
    spec.num_continuous_actions = came
    warnings.append(
        f"{path}: its header says {said} continuous actions, but its records hold {came}, as a heuristic of ML-Agents "
        f"before 1.0 may have returned; they are read as {came}. To use it with a behavior of {said}, record it again "
        f"with a heuristic that returns {said}"
    )


def _infos(info: Any, kept: Sequence[bool]) -> AgentInfos:
    """Returns the first record as the agent infos of one tick."""
    obs = tuple((blob,) for blob, keep in zip(info.observations, kept, strict=True) if keep)
    number = np.zeros(1, np.float32)
    flag = np.zeros(1, np.bool_)
    return AgentInfos(np.array([info.id]), number, flag, flag, np.zeros(1, np.int64), number, (b"",), obs)


def _size(blob: bytes) -> int:
    try:
        shape = Observation.FromString(blob).shape
    except DecodeError:
        return 1  # the AgentInfoReader reports the error
    return 0 if 0 in shape else 1


def _parsed(path: Path, start: int, records: int, old: OldRecords | None) -> Iterator[Any]:
    """Yields the messages of records. Raises DemoError for one that is damaged."""
    for number, raw in enumerate(_first(path, start, records, old)):
        yield read_pair(f"{path}, record {number}", raw)


def _first(path: Path, start: int, most: int, old: OldRecords | None) -> Iterator[bytes]:
    """Yields at most `most` complete records, undecoded."""
    blocks = _blocks(path, start, most)
    for data, begins, ends in old.convert(blocks) if old else blocks:
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            yield data[begin:end]


def _blocks(path: Path, start: int, most: int | None) -> Iterator[Block]:
    """Yields pieces of the file that begin with a record, with the begins and ends of their complete records."""
    left = most if most is not None else 1 << 62
    rest = b""
    wanted = BLOCK
    with open(path, "rb", opener=regular) as file:
        file.seek(start)
        while left:
            came = file.read(wanted)
            data = rest + came
            begins, ends = spans(data, left)
            if not len(begins):
                if not came:
                    return
                rest = data
                wanted = max(BLOCK, len(data))
                continue
            yield data, begins, ends
            left -= len(begins)
            rest = data[ends[-1] :]
            wanted = BLOCK
