"""Where summaries go: TensorBoard, `metrics.jsonl`, the console, the gauges of `timers.json`.

On a resume each file drops what lies beyond the step resumed from, so that no curve overlaps itself.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from palaestra.core.display import indented
from palaestra.core.errors import RunError
from palaestra.core.files import explain, file_name, write_whole
from palaestra.core.metrics import ELO, GROUP_REWARD
from palaestra.runtime.logging.tracker import Summary

if TYPE_CHECKING:
    from palaestra.runtime.logging.timers import Timers

METRICS = "metrics.jsonl"
_BINS = 30
_MOST = float(np.finfo(np.float64).max)


class TensorBoardSink:
    """Event files `<run>/<Behavior>/events.out.tfevents...`.

    Written without the thread of TensorBoard's own file writer: a full disk is then an error where it happens.
    """

    def __init__(self, run: Path, resumed: Mapping[str, int], notify: Callable[[str], None]) -> None:
        """`resumed` has the step of each behavior in the checkpoint gone on from; empty: a new run, for which the event files of an
        earlier one are removed, and `notify` told.
        """
        self._run, self._resumed, self._notify = run, resumed, notify
        self._files: dict[str, BinaryIO] = {}
        self._begun: set[str] = set()

    def write(self, summary: Summary) -> None:
        """One event with every tag."""
        proto = _proto("summary").Summary
        values = [proto.Value(tag=_utf8(tag), simple_value=value) for tag, value in summary.values.items()]
        values += [proto.Value(tag=f"{_utf8(tag)}_hist", histo=_histogram(numbers)) for tag, numbers in summary.histograms.items()]
        self._append(summary.behavior, step=summary.step, wall_time=summary.time, summary=proto(value=values))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Shown in the text tab as `<tag>/text_summary`."""
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

        folder = self._run / file_name(behavior)
        try:
            if behavior not in self._files:
                self._files[behavior] = self._open(behavior, folder)
            file = self._files[behavior]
            RecordWriter(file).write(_proto("event").Event(**event).SerializeToString())
            file.flush()
        except OSError as error:
            if behavior in self._files:  # nothing can be read behind half an event: the next one goes to a new file
                _close(self._files.pop(behavior))
            raise RunError(f"cannot write TensorBoard data to {folder}: {explain(error)}") from error

    def _open(self, behavior: str, folder: Path) -> BinaryIO:
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        first = behavior not in self._begun
        if first and not self._resumed:
            for old in sorted(folder.glob("events.out.tfevents.*")):
                old.unlink()
                self._notify(f"Removed {old}: TensorBoard data of an earlier run in this folder")
        file = (folder / f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{socket.gethostname()}.{os.getpid()}.{time.time_ns()}").open(
            "xb"
        )
        event, writer = _proto("event").Event, RecordWriter(file)
        writer.write(event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        if first and self._resumed:  # a session that starts at a step makes TensorBoard drop the points from there on
            start = event(wall_time=time.time(), step=self._resumed.get(behavior, -1) + 1, session_log={"status": "START"})
            writer.write(start.SerializeToString())
        self._begun.add(behavior)
        return file


class JSONLSink:
    """`<run>/metrics.jsonl`: an object a line with behavior, step, time, elapsed, training, episodes, std, and every value by its tag."""

    def __init__(self, run: Path, resumed: Mapping[str, int]) -> None:
        """`resumed` has the step of each behavior in the checkpoint gone on from; empty: a new run, whose file starts empty."""
        self._path, self._resumed, self._begun = run / METRICS, resumed, False
        self._file: BinaryIO | None = None

    def write(self, summary: Summary) -> None:
        """One line; numbers that JSON has no word for are null."""
        head: dict[str, Any] = {
            "behavior": summary.behavior,
            "step": summary.step,
            "time": summary.time,
            "elapsed": summary.elapsed,
            "training": summary.training,
            "episodes": summary.episodes,
            "std": _finite(summary.std),
        }
        values = {f"{tag} (stat)" if tag in head else tag: _finite(value) for tag, value in summary.values.items()}
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(json.dumps({**head, **values}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            self.close()
            raise RunError(f"cannot write {self._path}: {explain(error)}") from error

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Not kept: the settings are in `configuration.yaml`."""

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            _close(self._file)
            self._file = None

    def _open(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._begun and self._path.exists():
            kept = [line for line in self._path.read_bytes().splitlines() if self._precedes(line)] if self._resumed else []
            write_whole(self._path, b"".join(line + b"\n" for line in kept))
        self._begun = True
        file = self._path.open("a+b")
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) and file.read() != b"\n":
            file.write(b"\n")  # a line that could only be written in part stays alone
        return file

    def _precedes(self, line: bytes) -> bool:
        """Whether a line is of before the resume. A last line that was cut off is not."""
        try:
            point = json.loads(line)
            return point["step"] <= self._resumed.get(point["behavior"], -1)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False


class ConsoleSink:
    """The line a summary that users, and their scripts, know from ML-Agents."""

    def __init__(self, say: Callable[[str], None], detail: Callable[[str], None], rank: int | None = None) -> None:
        """`say` prints a line, `detail` one that few want to read; `rank` is named where several processes train together."""
        self._say, self._detail, self._rank = say, detail, rank

    def write(self, summary: Summary) -> None:
        """Step, time, mean reward."""
        parts = [summary.behavior, f"Step: {summary.step}", f"Time Elapsed: {summary.elapsed:.3f} s"]
        if summary.episodes:
            if self._rank is not None:
                parts.append(f"Rank: {self._rank}")
            parts.append(f"Mean Reward: {summary.mean:.3f}")
            group = summary.values.get(GROUP_REWARD)
            parts.append(f"Std of Reward: {summary.std:.3f}" if group is None else f"Mean Group Reward: {group:.3f}")
        else:
            parts.append("No episode was completed since last summary")
        parts.append("Training" if summary.training else "Not Training")
        if ELO in summary.values:
            parts.append(f"ELO: {summary.values[ELO]:.3f}")
        self._say(". ".join(parts) + ".")

    def text(self, behavior: str, tag: str, body: str) -> None:
        """The note under a heading, as a detail."""
        self._detail(f"{tag} for behavior name {behavior}:\n{indented(body)}")

    def close(self) -> None:
        """Nothing to close: the console is the run's."""


class GaugeSink:
    """The gauges of `timers.json`: mean and sum of every tag."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def write(self, summary: Summary) -> None:
        """Tags become dotted names without blanks."""
        numbers = {**summary.values, "Step": summary.step, "Is Training": float(summary.training)}
        for tag, value in numbers.items():
            name = f"{summary.behavior}.{tag}".replace("/", ".").replace(" ", "")
            self._timers.gauge(f"{name}.mean", value)
            self._timers.gauge(f"{name}.sum", summary.totals.get(tag, value))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Not a number."""

    def close(self) -> None:
        """Nothing to close: `Timers.write` is the run's."""


def _proto(name: str) -> Any:
    """A module of TensorBoard's messages, which are made at run time; imported at the first write (0.2 s)."""
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
    """Rising edges from `low` to `high`: those of 30 equal bins, or of fewer where no more numbers lie between the two."""
    share = np.arange(_BINS + 1) / _BINS
    edges = np.unique(np.clip(low * (1 - share) + high * share, low, high))  # without high - low, which may overflow
    if len(edges) > 1:
        edges[0], edges[-1] = low, high
        return edges
    margin = 0.5 + 1e-9 * abs(low)
    return np.clip([low - margin, low + margin], -_MOST, _MOST)


def _utf8(tag: str) -> str:
    """A tag that can be encoded; a game may send half a surrogate pair."""
    return tag.encode("utf-8", "backslashreplace").decode()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _close(file: BinaryIO) -> None:
    """Every write was flushed: what is left to flush has already failed, and was told."""
    with suppress(OSError):
        file.close()
