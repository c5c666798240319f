"""Decodes thousands of records of a demonstration file at once.

Most records of a file have the same fields at the same offsets and differ only in their numbers. These offsets form a
frame, which is derived from one record; every record that fits it is read without parsing its fields again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from palaestra.demos.format import read_varint
from palaestra.wire.messages import DecodeError, Observation
from palaestra.wire.observations import ObservationDecoder

_VARINT, _LENGTH, _FLOAT = 0, 2, 5  # wire types
_ALL, _NONE, _NUMBER, _FLAG = 0xFF, 0x00, 0x80, 0xFE  # bits of a byte that a frame fixes
# fields of AgentInfoProto
REWARD = 7
DONE = 8
MAX_STEP_REACHED = 9
ID = 10
MASK = 11
OBSERVATION = 13
GROUP = 14
GROUP_REWARD = 15
OLD, VALUE, CONTINUOUS, DISCRETE = 1, 4, 6, 7  # fields of AgentActionProto


class IrregularRecord(Exception):
    """A record with an unusual layout, which is parsed on its own."""


@dataclass(slots=True)
class Frame:
    """Offsets (begin, end) of the fields in records of one length; absent fields have none."""

    bits: NDArray[np.uint8]  # (length,) bits that must be equal to those in `bytes`
    bytes: NDArray[np.uint8]  # (length,)
    info: dict[int, tuple[int, int]] = field(default_factory=dict)
    action: dict[int, tuple[int, int]] = field(default_factory=dict)
    obs: list[tuple[int, int]] = field(default_factory=list)
    discrete: list[tuple[int, int]] = field(default_factory=list)

    def fits(self, table: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Returns which rows of a table of records have this frame, (N,)."""
        return np.logical_not(((table ^ self.bytes) & self.bits).any(axis=1))

    def obs_places(self, sensors: Sequence[ObservationDecoder | None]) -> list[tuple[int, int]]:
        """Returns the offsets of the floats of each observation that is not skipped."""
        return [place for place, sensor in zip(self.obs, sensors, strict=True) if sensor is not None]

    def permit(self, begin: int, end: int, bits: int) -> tuple[int, int]:
        """Lets these bytes vary, except the given bits of each byte."""
        self.bits[begin:end] = bits
        return begin, end


def frame_of(record: bytes, sensors: Sequence[ObservationDecoder | None]) -> Frame | None:
    """Returns a record's frame; None if it has PNGs, repeated fields, or floats that are not contiguous."""
    template = np.frombuffer(record, np.uint8)
    frame = Frame(np.full(len(record), _ALL, np.uint8), template)
    try:
        seen: set[int] = set()
        for number, kind, begin, end in fields(record, 0, len(record)):
            if number in seen or kind != _LENGTH:
                raise IrregularRecord
            seen.add(number)
            if number == 1:
                _frame_info(frame, record, begin, end, sensors)
            elif number == 2:
                _frame_action(frame, record, begin, end)
    except (IrregularRecord, DecodeError):
        return None
    return frame if len(frame.obs) == len(sensors) else None


def _frame_info(
    frame: Frame, record: bytes, begin: int, end: int, sensors: Sequence[ObservationDecoder | None]
) -> None:
    wanted = {
        REWARD: (_FLOAT, _NONE),
        GROUP_REWARD: (_FLOAT, _NONE),
        DONE: (_VARINT, _FLAG),
        MAX_STEP_REACHED: (_VARINT, _FLAG),
        ID: (_VARINT, _NUMBER),
        GROUP: (_VARINT, _NUMBER),
        MASK: (_LENGTH, _FLAG),
    }
    for number, kind, at, to in fields(record, begin, end):
        if number == OBSERVATION:
            if kind != _LENGTH or len(frame.obs) == len(sensors):
                raise IrregularRecord
            frame.obs.append(_frame_observation(frame, record, at, to, sensors[len(frame.obs)]))
        elif number in wanted:
            expected, bits = wanted[number]
            if kind != expected or number in frame.info:
                raise IrregularRecord
            frame.info[number] = frame.permit(at, to, bits)


def _frame_action(frame: Frame, record: bytes, begin: int, end: int) -> None:
    for number, kind, at, to in fields(record, begin, end):
        if number in frame.action or kind not in (_LENGTH, _FLOAT):
            raise IrregularRecord
        frame.action[number] = frame.permit(at, to, _NUMBER if number == DISCRETE else _NONE)
        if number == DISCRETE:
            while at < to:
                value, after = read_varint(record, at, limit=False)
                if value < 0 or after > to:
                    raise IrregularRecord
                frame.discrete.append((at, after))
                at = after
        elif number not in (OLD, VALUE, CONTINUOUS) or (to - at) % 4:
            raise IrregularRecord


def _frame_observation(
    frame: Frame, record: bytes, begin: int, end: int, sensor: ObservationDecoder | None
) -> tuple[int, int]:
    if sensor is None:
        return begin, begin
    if tuple(Observation.FromString(record[begin:end]).shape) != sensor.sent:
        raise IrregularRecord
    place = None
    for number, kind, at, to in fields(record, begin, end):
        if number == 3:
            raise IrregularRecord
        if number == 4 and kind == _LENGTH:
            pieces = list(fields(record, at, to))
            if (
                place
                or len(pieces) != 1
                or pieces[0][:2] != (1, _LENGTH)
                or pieces[0][3] - pieces[0][2] != 4 * prod(sensor.sent)
            ):
                raise IrregularRecord
            place = pieces[0][2:]
    if place is None:
        raise IrregularRecord
    return frame.permit(*place, _NONE)


def fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields number, wire type, begin and end of each field. Raises IrregularRecord for a damaged message."""
    at = begin
    while at < end:
        tag, at = read_varint(data, at)
        kind = tag & 7
        start = at
        if tag < 8:
            raise IrregularRecord
        if kind == _VARINT:
            value, at = read_varint(data, at, limit=False)
            if value < 0:
                raise IrregularRecord
        elif kind == _LENGTH:
            length, start = read_varint(data, at)
            at = start + length
            if length < 0:
                raise IrregularRecord
        elif kind == _FLOAT:
            at += 4
        else:
            raise IrregularRecord
        if at > end:
            raise IrregularRecord
        yield tag >> 3, kind, start, at


def floats(table: NDArray[np.uint8], place: tuple[int, int]) -> NDArray[np.float32]:
    """Reads floats, (N, numbers), at the same place of N records."""
    return np.ascontiguousarray(table[:, place[0] : place[1]]).view("<f4").astype(np.float32, copy=False)


def numbers(table: NDArray[np.uint8], place: tuple[int, int]) -> NDArray[np.int64]:
    """Reads varints, (N,), at the same place of N records."""
    value = np.zeros(len(table), np.uint64)
    for i, at in enumerate(range(*place)):
        value |= (table[:, at] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * i)
    return value.view(np.int64)
