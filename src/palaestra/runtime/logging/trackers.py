"""Trackers that come with Palaestra: TensorBoard, `metrics.jsonl`, the console, and the gauges of `timers.json`.

When a run resumes, each file drops the values after the step from which it resumes, so that no curve overlaps itself.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from palaestra.core.display import indented
from palaestra.core.errors import RunError
from palaestra.core.files import MOST_LINES, explain, file_name, read_whole, write_whole
from palaestra.core.metrics import ELO, GROUP_REWARD, SUCCESS
from palaestra.runtime.logging.tracker import Summary, TrackedRun
from palaestra.runtime.settings import whose_reward
from palaestra.scenario.standing import standing_in_words

if TYPE_CHECKING:
    from palaestra.runtime.logging.run_times import Timers

METRICS = "metrics.jsonl"
_BINS = 30
_MOST = float(np.finfo(np.float64).max)


class TensorBoardTracker:
    """Writes event files `<run>/<Behavior>/events.out.tfevents...`. A new run first removes the files of an earlier run
    in its folder.

    Unlike TensorBoard's own file writer it uses no thread, so that a full disk is reported by the call that fails.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        self._files: dict[str, BinaryIO] = {}
        self._begun: set[str] = set()

    def write(self, summary: Summary) -> None:
        """Writes one event with every tag."""
        proto = _proto("summary").Summary
        values = [proto.Value(tag=_utf8(tag), simple_value=value) for tag, value in summary.values.items()]
        histograms = summary.histograms.items()
        values += [proto.Value(tag=f"{_utf8(tag)}_hist", histo=_histogram(numbers)) for tag, numbers in histograms]
        self._append(summary.behavior, step=summary.step, wall_time=summary.time, summary=proto(value=values))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Writes a note, which the text tab shows as `<tag>/text_summary`."""
        proto = _proto("summary").Summary
        value = proto.Value(
            tag=f"{tag}/text_summary",
            metadata={"plugin_data": {"plugin_name": "text"}},
            tensor={"dtype": "DT_STRING", "string_val": [body.encode()], "tensor_shape": {"dim": [{"size": 1}]}},
        )
        self._append(behavior, step=0, wall_time=time.time(), summary=proto(value=[value]))

    def close(self) -> None:
        """Closes the event files."""
        for file in self._files.values():
            _close(file)
        self._files.clear()

    def _append(self, behavior: str, **event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = self._run.folder / file_name(behavior)
        try:
            if behavior not in self._files:
                self._files[behavior] = self._open(behavior, folder)
            file = self._files[behavior]
            RecordWriter(file).write(_proto("event").Event(**event).SerializeToString())
            file.flush()
        except OSError as error:
            if behavior in self._files:  # events after half an event cannot be read: the next one goes to a new file
                _close(self._files.pop(behavior))
            raise RunError(f"cannot write TensorBoard data to {folder}: {explain(error)}") from error

    def _open(self, behavior: str, folder: Path) -> BinaryIO:
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        first = behavior not in self._begun
        if first and not self._run.resumed:
            for old in sorted(folder.glob("events.out.tfevents.*")):
                old.unlink()
                self._run.info(f"Removed {old}: TensorBoard data of an earlier run in this folder")
        file = (
            folder / f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{socket.gethostname()}"
            f".{os.getpid()}.{time.time_ns()}"
        ).open("xb")
        event = _proto("event").Event
        writer = RecordWriter(file)
        writer.write(event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        if first and self._run.resumed:  # a session that starts at a step makes TensorBoard drop the points after it
            start = event(
                wall_time=time.time(), step=self._run.resumed.get(behavior, -1) + 1, session_log={"status": "START"}
            )
            writer.write(start.SerializeToString())
        self._begun.add(behavior)
        return file


class JSONLTracker:
    """Writes `<run>/metrics.jsonl`: a line for each summary.

    The line has behavior, step, time, elapsed, training, episodes, std, every value by its tag, and under `times` the
    seconds by activity.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._file = _LineFile(run.folder / METRICS, run.resumed)

    def write(self, summary: Summary) -> None:
        """Writes one line; infinities and NaN are null."""
        names = ("behavior", "step", "time", "elapsed", "training", "episodes")
        head: dict[str, Any] = {name: getattr(summary, name) for name in names} | {"std": _finite(summary.std)}
        values = {
            f"{tag} (stat)" if tag in head or tag == "times" else tag: _finite(value)
            for tag, value in summary.values.items()
        }
        times = {} if summary.times is None else {"times": summary.times}
        self._file.append(json.dumps({**head, **values, **times}).encode() + b"\n")

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Does nothing: the settings are in `configuration.yaml`."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class _LineFile:
    """File of whole lines. The first `append` opens it, and removes lines of steps after those resumed from."""

    def __init__(self, path: Path, resumed: Mapping[str, int]) -> None:
        self._path = path
        self._resumed = resumed
        self._file: BinaryIO | None = None
        self._begun = False

    def append(self, lines: bytes) -> None:
        """Writes whole lines; when it returns, a crash of this process does not lose them. Raises RunError."""
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(lines)
            self._file.flush()
        except OSError as error:
            self.close()
            raise RunError(f"cannot write {self._path}: {explain(error)}") from error

    def close(self) -> None:
        if self._file is not None:
            _close(self._file)
            self._file = None

    def _open(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._begun and self._path.exists():
            kept = (
                [line for line in read_whole(self._path, MOST_LINES).splitlines() if self._precedes(line)]
                if self._resumed
                else []
            )
            write_whole(self._path, b"".join(line + b"\n" for line in kept))
        self._begun = True
        file = self._path.open("a+b")
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) and file.read() != b"\n":
            file.write(b"\n")  # keeps a line that was only written in part apart from the next one
        return file

    def _precedes(self, line: bytes) -> bool:
        """Whether a line was written before the step resumed from; False for a line that was cut off."""
        try:
            point = json.loads(line)
            return point["step"] <= self._resumed.get(point["behavior"], -1)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False


class ConsoleTracker:
    """Prints a line for each summary, in the words of ML-Agents."""

    def __init__(self, run: TrackedRun, rank: int | None = None) -> None:
        """`rank` is printed where several processes train together."""
        self._run = run
        self._rank = rank

    def write(self, summary: Summary) -> None:
        """Prints step, time and mean reward."""
        parts = [summary.behavior, f"Step: {summary.step}", f"Time Elapsed: {summary.elapsed:.3f} s"]
        if summary.episodes:
            if self._rank is not None:
                parts.append(f"Rank: {self._rank}")
            whose = whose_reward(self._run.settings, summary.behavior)
            parts.append(f"Mean Reward: {summary.mean:.3f}{f' ({whose})' if whose else ''}")
            group = summary.values.get(GROUP_REWARD)
            parts.append(f"Std of Reward: {summary.std:.3f}" if group is None else f"Mean Group Reward: {group:.3f}")
        else:
            parts.append("No episode was completed since last summary")
        parts.append("Training" if summary.training else "Not Training")
        if ELO in summary.values:
            parts.append(f"ELO: {summary.values[ELO]:.3f}")
        if against := standing_in_words(summary.values):
            parts.append(f"{against[0].upper()}{against[1:]}")
        if SUCCESS in summary.values:
            parts.append(f"Success: {100 * summary.values[SUCCESS]:.0f} %")
        (self._run.summary or self._run.info)(". ".join(parts) + ".")

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Prints a note with --debug."""
        self._run.debug(f"{tag} for behavior name {behavior}:\n{indented(body)}")

    def close(self) -> None:
        """Does nothing: the run owns the console."""


class GaugeTracker:
    """Sets the gauges of `timers.json`: mean and sum of every tag. Every run has one."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def write(self, summary: Summary) -> None:
        """Sets the gauges; their names are the tags with dots and without blanks."""
        numbers = {**summary.values, "Step": summary.step, "Is Training": float(summary.training)}
        for tag, value in numbers.items():
            name = f"{summary.behavior}.{tag}".replace("/", ".").replace(" ", "")
            self._timers.gauge(f"{name}.mean", value)
            self._timers.gauge(f"{name}.sum", summary.totals.get(tag, value))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Does nothing: a note is not a number."""

    def close(self) -> None:
        """Does nothing: the run writes the timers."""


def _proto(name: str) -> Any:
    """Imports a module of TensorBoard's messages, at the first write because it takes 0.2 s."""
    return import_module(f"tensorboard.compat.proto.{name}_pb2")


def _histogram(values: np.ndarray) -> Any:
    histogram = _proto("summary").HistogramProto
    values = values[np.isfinite(values)]
    if not len(values):
        return histogram()
    edges = _bin_edges(float(values.min()), float(values.max()))
    counts, _ = np.histogram(values, bins=edges)
    with np.errstate(over="ignore"):
        total, squares = np.nan_to_num((values.sum(), np.square(values).sum()))
    return histogram(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=total,
        sum_squares=squares,
        bucket_limit=edges[1:],
        bucket=counts,
    )


def _bin_edges(low: float, high: float) -> np.ndarray:
    """Returns edges from `low` to `high` of 30 equal bins, or fewer where too few floats lie between them."""
    share = np.arange(_BINS + 1) / _BINS
    edges = np.unique(np.clip(low * (1 - share) + high * share, low, high))  # without high - low, which may overflow
    if len(edges) > 1:
        edges[0] = low
        edges[-1] = high
        return edges
    margin = 0.5 + 1e-9 * abs(low)
    return np.clip([low - margin, low + margin], -_MOST, _MOST)


def _utf8(tag: str) -> str:
    """Escapes characters that UTF-8 cannot encode: a game may send half a surrogate pair."""
    return tag.encode("utf-8", "backslashreplace").decode()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _close(file: BinaryIO) -> None:
    """Closes a file. Errors are ignored: every write was flushed, and a failed write has been reported."""
    with suppress(OSError):
        file.close()
