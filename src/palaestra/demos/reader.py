"""Reads demonstration files of all versions into arrays, with memory use independent of the file's size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from palaestra.core.errors import DemoError, EmptyDemo, EnvError
from palaestra.core.files import near_files, regular
from palaestra.demos.format import HEADER, LONGEST_BRAIN, Brain, DemoMeta, ReadTiming, read_brain, read_meta
from palaestra.demos.old_headers import correct_action, infer_action, timing_of
from palaestra.demos.old_records import OldRecords, is_old
from palaestra.demos.record_columns import DemoColumns, RecordDecoder
from palaestra.demos.record_file import RecordFile, count_unclosed
from palaestra.demos.source import DemoSource
from palaestra.wire.decode import AgentInfos
from palaestra.wire.messages import DecodeError, Observation
from palaestra.wire.observations import ObservationDecoder
from palaestra.wire.readers import AgentInfoReader

LEAST_RECORD = 4
"""Smallest size of a record in a file, in bytes."""
DECODED = 32 << 20
"""Most bytes of decoded observations at once: small PNGs may contain large images."""
_OLD_PACKAGE = "1.0.0"


@dataclass(frozen=True, kw_only=True)
class Demo(DemoSource):
    """An open demonstration file."""

    file: RecordFile
    meta: DemoMeta
    sensors: tuple[ObservationDecoder | None, ...]

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    @property
    def identity(self) -> tuple[object, ...]:
        """A fingerprint that changes when the file or its content does. Raises DemoError if the file is gone."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise DemoError(f"{self.path} cannot be read: {error.strerror or error}") from error
        return self.path.absolute(), found.st_ino, found.st_size, found.st_mtime_ns

    def described(self) -> dict[str, Any]:
        """Returns facts of the file's metadata."""
        meta = self.meta
        return {
            "api_version": meta.api_version,
            "steps": meta.steps,
            "metadata_episodes": meta.episodes,
            "metadata_mean_reward": meta.mean_reward,
        }

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

    def chunks(self) -> Iterator[DemoColumns]:
        """Yields all records in order, a megabyte of the file at a time, or less if it decodes to much more."""
        decoder = RecordDecoder(self.title, self.spec, self.sensors)
        step = max(1, DECODED // (4 * sum(prod(obs.shape) for obs in self.spec.obs) + 1))
        first = 0
        for data, begins, ends in self.file.blocks(self.records):
            for at in range(0, len(begins), step):
                yield decoder.read(first, data, begins[at : at + step], ends[at : at + step])
                first += len(begins[at : at + step])
        if first < self.records:
            raise DemoError(f"{self.path} is damaged: {first} records can be read; expected {self.records}")


def read_demo(path: Path | str) -> Demo:
    """Opens a demonstration file. Raises EmptyDemo for a file without records, DemoError for any other fault."""
    path = Path(path)
    try:
        with open(path, "rb", opener=regular) as file:
            return _open(path, file)
    except IsADirectoryError:
        raise DemoError(f"{path} is a folder; expected a demonstration file (.demo)") from None
    except OSError as error:
        near = near_files(path, [".demo"]) if isinstance(error, FileNotFoundError) else ""
        raise DemoError(f"{path} cannot be read: {error.strerror or error}{near}") from error


def _open(path: Path, file: BinaryIO) -> Demo:
    size = os.fstat(file.fileno()).st_size
    head = file.read(HEADER + 10 + LONGEST_BRAIN)
    meta = read_meta(path, head)
    brain, start = read_brain(path, head)
    parsed = Brain.FromString(brain)
    complete = _ends_with(file, size, meta)
    stored = RecordFile(path, start)
    raw = next(stored.raw(1), None) if meta.steps or not complete else None
    if raw is None:
        cut = "" if complete or not meta.steps else f"; it is cut off at byte {size} and had {meta.steps}"
        raise EmptyDemo(f"{path} is an empty recording: it holds no records of '{parsed.brain_name}'{cut}")
    old = is_old(raw)
    if old:
        stored = RecordFile(path, start, OldRecords(str(path), brain))
    info = next(stored.parsed(1)).agent_info
    warnings: list[str] = []
    records = meta.steps if complete else count_unclosed(stored, meta, len(info.observations), warnings)
    kept = [_size(blob) > 0 for blob in info.observations]
    if empty := kept.count(False):
        many = "1 observation without numbers is" if empty == 1 else f"{empty} observations without numbers are"
        warnings.append(f"{path}: {many} left out")
    infer_action(stored, records, parsed, warnings)
    correct_action(stored, records, parsed, warnings)
    try:
        reader = AgentInfoReader(parsed.brain_name, parsed, _infos(info, kept), _OLD_PACKAGE)
    except EnvError as error:
        raise DemoError(f"{path}: {error}") from error
    sensors = iter(reader.sensors)
    return Demo(
        title=str(path),
        name=meta.name,
        behavior=reader.name,
        team=reader.team,
        spec=reader.spec,
        timing=ReadTiming.OWN_RESTARTED if old else timing_of(brain, parsed),
        records=records,
        most_decisions=min(records, size // LEAST_RECORD),  # metadata may count more than the file has room for
        warnings=tuple(warnings),
        file=stored,
        meta=meta,
        sensors=tuple(next(sensors) if keep else None for keep in kept),
    )


def _ends_with(file: BinaryIO, size: int, meta: DemoMeta) -> bool:
    """Whether the recording was closed."""
    message = meta.to_bytes()
    file.seek(max(0, size - len(message)))
    return bool(message) and file.read() == message


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
