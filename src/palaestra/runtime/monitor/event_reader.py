"""Reads TensorBoard's event files of ML-Agents and of any other program, with TensorBoard's own reader."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.runtime.logging.event_files import ANY_EVENTS, GuardedEvents
from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, Signature, signature
from palaestra.runtime.monitor.run_list import EVENTS

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DEPTH = 3
"""Most levels of folders below a run in which event files are looked for."""
LAST_RECORDS = 64
"""Records at the end of a file that are read for the table of runs."""
MOST_BYTES = 256 * 2**20
"""Most bytes of event files that are read for curves."""
MOST_RECORD = 2**20
"""Most bytes of a record that is read for the table; pictures and histograms are larger."""
_SKIPPED = {"images": 1, "audio": 1, "histograms": 1, "compressedHistograms": 1}


def event_files(files: ResultsFiles, run: Path) -> dict[Path, Signature]:
    """Returns the event files of a run, sorted by name with the oldest first, without pipes and without links that lead
    elsewhere."""
    found: list[Path] = []
    _search(run, found, DEPTH)
    signed = {p: signature(p) for p in sorted(found) if p.is_file() and (not p.is_symlink() or files.contains(p))}
    return {path: sign for path, sign in signed.items() if sign is not None}


def _search(folder: Path, found: list[Path], depth: int) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if EVENTS in entry.name:
                    found.append(Path(entry.path))
                elif depth > 1 and entry.is_dir(follow_symlinks=False) and entry.name != "checkpoints":
                    _search(Path(entry.path), found, depth - 1)
    except OSError:
        return


def last_values(files: ResultsFiles, path: Path) -> tuple[int, float, dict[str, float]]:
    """Returns the last step of a file, its time, and the last value of each tag among its last records."""
    from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]  made by protobuf

    data = files.part(path, 0, MOST_BYTES) or b""
    starts: list[tuple[int, int]] = []
    at = 0
    while at + 16 <= len(data):  # length, its checksum, the event, its checksum
        (length,) = struct.unpack_from("<Q", data, at)
        if at + 16 + length > len(data):
            break
        if length <= MOST_RECORD:
            starts.append((at + 12, length))
        at += 16 + length
    step = 0
    when = 0.0
    values = dict[str, float]()
    for start, length in starts[-LAST_RECORDS:]:
        try:
            event = Event.FromString(data[start : start + length])
        except Exception:  # whatever protobuf makes of a damaged record
            continue
        when = max(when, event.wall_time)
        for value in event.summary.value:
            number = _number(value)
            if number is not None:
                step = max(step, event.step)
                values[value.tag] = number
    return step, when, values


def _number(value: Any) -> float | None:
    """Returns a scalar, in the form of old programs or of new ones; None for anything else."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    return _scalar(value.tensor) if value.HasField("tensor") else None


def _scalar(tensor: Any) -> float | None:
    """Returns the number of a scalar tensor; None for other shapes, which a few bytes can make arbitrarily large."""
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return None if tensor.tensor_shape.dim else float(make_ndarray(tensor))
    except (TypeError, ValueError, IndexError):
        return None


class EventsReader:
    """Curves of a run's event files; each folder of event files is a behavior. Not for several threads at once."""

    def __init__(self, files: ResultsFiles, run: Path) -> None:
        self._files = files
        self._run = run
        self._readers: dict[Path, GuardedEvents] = {}
        self._seen: dict[Path, Signature] = {}
        self.version = 0
        """A number that grows with each change of the content."""

    def refresh(self) -> None:
        """Reads what was written since the last call."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        now = event_files(self._files, self._run)
        if now == self._seen:
            return
        folders = {path.parent for path, sign in now.items() if self._seen.get(path) != sign}
        gone = {path.parent for path in self._seen if path not in now}
        self._seen = now
        self.version += 1
        for folder in gone:
            self._readers.pop(folder, None)
        for folder in sorted(folders):
            size = sum(sign[1] for path, sign in now.items() if path.parent == folder)
            if size > MOST_BYTES or not self._all_inside(folder, now):
                continue
            if folder not in self._readers:
                reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 100_000, **_SKIPPED})
                self._readers[folder] = GuardedEvents(folder, reader)
            with suppress(OSError):  # what was read before a damaged record is shown
                self._readers[folder].reload()

    def _all_inside(self, folder: Path, known: dict[Path, Signature]) -> bool:
        """Whether no event file of the folder is a link that leads elsewhere (the reader opens all of them)."""
        try:
            there = [Path(entry.path) for entry in os.scandir(folder) if ANY_EVENTS in entry.name]
        except OSError:
            return False
        return self._files.contains(folder) and all(path in known or self._files.contains(path) for path in there)

    @property
    def tags(self) -> dict[str, list[str]]:
        """Tags by behavior."""
        return {
            self._name(folder): [*_scalars(one.reader), *_tensors(one.reader)] for folder, one in self._readers.items()
        }

    def points(self, behavior: str, tag: str) -> Points | None:
        """Returns all values of a tag; None if the tag has none."""
        reader = next((one.reader for folder, one in self._readers.items() if self._name(folder) == behavior), None)
        if reader is None:
            return None
        if tag in _scalars(reader):
            triples = [(point.step, point.wall_time, point.value) for point in reader.Scalars(tag)]
        elif tag in _tensors(reader):
            numbers = ((point, _scalar(point.tensor_proto)) for point in reader.Tensors(tag))
            triples = [(point.step, point.wall_time, number) for point, number in numbers if number is not None]
        else:
            return None
        table = np.array(triples, float).reshape(-1, 3)
        began = reader.FirstEventTimestamp() or 0.0
        return Points(table[:, 0], np.maximum(table[:, 1] - began, 0.0), table[:, 2])

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self._run).as_posix() if folder != self._run else self._run.name


def _scalars(reader: EventAccumulator) -> list[str]:
    return reader.Tags()["scalars"]


def _tensors(reader: EventAccumulator) -> list[str]:
    return [tag for tag in reader.Tags()["tensors"] if reader.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"]
