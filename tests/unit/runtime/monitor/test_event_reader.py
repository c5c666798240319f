"""Event files of unknown origin on the page: none takes more memory than it is large, and damage hides nothing that
came before.
"""

import os
import struct
import sys
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]  made by protobuf
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.event_reader import EventsReader

EVENTS = "events.out.tfevents.1"


def record(data: bytes) -> bytes:
    return (
        struct.pack("<QI", len(data), masked_crc32c(struct.pack("<Q", len(data))))
        + data
        + struct.pack("<I", masked_crc32c(data))
    )


def point(step: int, value: float) -> bytes:
    event = Event(wall_time=1e9 + step, step=step)
    event.summary.value.add(tag="Reward", simple_value=value)
    return record(event.SerializeToString())


def tensor(step: int, value: float, *shape: int) -> bytes:
    event = Event(wall_time=1e9 + step, step=step)
    one = event.summary.value.add(tag="Loss")
    one.metadata.plugin_data.plugin_name = "scalars"
    one.tensor.dtype = 1
    one.tensor.float_val.append(value)
    for size in shape:
        one.tensor.tensor_shape.dim.add(size=size)
    return record(event.SerializeToString())


def read(results: Path, *content: bytes) -> EventsReader:
    folder = results / "run" / "Ball"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EVENTS).write_bytes(b"".join(content))
    reader = EventsReader(ResultsFiles(results), results / "run")
    reader.refresh()
    return reader


def values(reader: EventsReader, tag: str) -> list[float]:
    found = reader.points("Ball", tag)
    return found.value.tolist()


@pytest.mark.parametrize("length", [2**40, 2**64 - 1])
def test_a_record_takes_no_more_memory_than_its_file(tmp_path: Path, length: int):
    size = struct.pack("<Q", length)
    end = size + struct.pack("<I", masked_crc32c(size))
    assert read(tmp_path, point(1, 5), end).tags == {"Ball": []}


def test_what_was_read_before_a_damaged_record_stays(tmp_path: Path):
    reader = read(tmp_path, point(1, 5), record(b"\xff" * 9))
    assert values(reader, "Reward") == [5]


def test_tensors_of_any_shape_are_no_points_of_a_curve(tmp_path: Path):
    reader = read(tmp_path, tensor(1, 5), tensor(2, 6, 2**20, 2**20), tensor(3, 7))
    assert values(reader, "Loss") == [5, 7]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_no_file_elsewhere_is_read_by_whatever_name_tensorboard_takes_for_its_own(tmp_path: Path):
    (tmp_path / "elsewhere").write_bytes(point(2, 666))
    results = tmp_path / "results"
    (results / "run" / "Ball").mkdir(parents=True)
    (results / "run" / "Ball" / "tfevents").symlink_to(tmp_path / "elsewhere")
    assert read(results, point(1, 5)).tags == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes there")
def test_no_pipe_is_waited_for(tmp_path: Path):
    (tmp_path / "run" / "Ball").mkdir(parents=True)
    os.mkfifo(tmp_path / "run" / "Ball" / "tfevents")
    assert read(tmp_path, point(1, 5)).tags == {"Ball": []}
