"""Format of demonstration files (`.demo`): metadata, a behavior, and a sequence of records.

byte 0    length (varint), metadata; zeros up to byte 33
byte 33   length, the behavior's parameters
then      length, record; as many as the metadata says
tail      the metadata once more, without a length; ML-Agents never reads it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.core.files import kind_of
from palaestra.wire.messages import DecodeError, message_class, varint

Meta = message_class("communicator_objects.DemonstrationMetaProto")
Brain = message_class("communicator_objects.BrainParametersProto")
Pair = message_class("palaestra.columns.Pair")

HEADER = 33
"""Bytes before the behavior's parameters."""
VERSIONS = (0, 1)
"""Supported versions of the format. Version 0 stores actions in deprecated fields, which are read in any version."""
LONGEST_NAME = 16
"""Most characters of a demonstration's name: its metadata must fit into the header."""
LONGEST_RECORD = 1 << 30
"""Most bytes of a record; a greater length is taken to be damaged."""


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One record: an agent at a decision or at the end of its episode.

    `continuous` and `discrete` are the action of the *previous* decision, as Unity stores it; zeros in an episode's
    first record.
    """

    obs: tuple[NDArray[np.float32], ...]  # each (*shape), as in the behavior's spec
    reward: float  # since the previous record
    group_reward: float
    done: bool  # the episode ended here
    truncated: bool  # the episode ended by a limit (max_step_reached)
    id: int
    group: int  # 0: none
    mask: NDArray[np.bool_] | None  # (choices,) True: allowed; None: all are allowed
    continuous: NDArray[np.float32]  # (numbers,); empty in some records of old files
    discrete: NDArray[np.int64]  # (branches,)


@dataclass(frozen=True, slots=True)
class DemoMeta:
    """Metadata of a demonstration file."""

    api_version: int
    name: str
    steps: int  # number of records
    episodes: int  # number of episode ends, plus one
    mean_reward: float  # sum over all records, divided by `episodes`

    def to_bytes(self) -> bytes:
        """Encodes the metadata as a message, without its length."""
        meta = Meta(
            api_version=self.api_version,
            demonstration_name=self.name,
            number_steps=self.steps,
            number_episodes=self.episodes,
        )
        meta.mean_reward = self.mean_reward
        return meta.SerializeToString()

    def header(self) -> bytes:
        """Returns the first 33 bytes of a file."""
        message = self.to_bytes()
        return (varint(len(message)) + message).ljust(HEADER, b"\0")


def clean_name(name: str) -> str:
    """Returns the name as Unity writes it: at most 16 letters, digits, spaces and hyphens."""
    return re.sub(r"[^a-zA-Z0-9 -]", "", name)[:LONGEST_NAME]


def read_varint(data: bytes, at: int, limit: bool = True) -> tuple[int, int]:
    """Returns a varint and the offset after it; -1 if damaged or, with `limit`, too large as a length."""
    if len(data) > at + 1 and data[at] > 0x7F > data[at + 1]:  # most lengths
        return data[at] & 0x7F | data[at + 1] << 7, at + 2
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (value, at + i + 1) if value <= LONGEST_RECORD or not limit else (-1, at)
    return -1, at


def spans(data: bytes, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where at most `most` complete messages begin and end; each follows its length, and the first length is at
    0."""
    begins: list[int] = []
    ends: list[int] = []
    begin_at = begins.append
    end_at = ends.append
    size = len(data)
    at = 0
    while at < size:  # the only loop over all records: kept short for speed
        length = data[at]
        begin = at + 1
        if length > 0x7F:
            length, begin = read_varint(data, at)
            if length < 0:
                break
        at = begin + length
        if at > size:
            break
        begin_at(begin)
        end_at(at)
    return np.array(begins[:most], np.int64), np.array(ends[:most], np.int64)


class ReadTiming(Enum):
    """Where a file stores the action for an observation, and what an episode's last record observes."""

    NEXT = "next"
    """Unity since ML-Agents 0.15, and Palaestra: the next record stores it; an end has the final observation."""
    NEXT_RESTARTED = "next, ends show the next episode"
    """Before 0.15: the next record stores the action; an end already has the next episode's first observation."""
    OWN_RESTARTED = "own, ends show the next episode"
    """Files converted from older versions: each record stores its own action, the last none; ends as before 0.15."""


LONGEST_BRAIN = 1 << 20


def read_meta(path: Path, head: bytes) -> DemoMeta:
    """Reads the metadata from a file's first bytes. Raises DemoError for another kind of file."""
    if not head:
        raise DemoError(f"{path} is empty: 0 bytes; expected a demonstration file")
    kind = kind_of(head)
    length = head[0]
    try:
        meta = Meta.FromString(head[1 : 1 + length]) if not kind and length < HEADER else None
    except DecodeError:
        meta = None
    if meta is None:
        raise DemoError(
            f"{path} is not a demonstration file: it {f'is {kind}' if kind else 'begins with other bytes'}. Unity's "
            "recorder and 'palaestra record --demo' write demonstrations"
        )
    if len(head) <= HEADER:
        raise DemoError(f"{path} is cut off within its header: it has {len(head)} bytes; expected more than {HEADER}")
    if meta.api_version not in VERSIONS:
        raise DemoError(
            f"{path} is of version {meta.api_version} of the format; expected one of {VERSIONS}. A newer Palaestra "
            "may read it"
        )
    if meta.number_steps < 0:
        raise DemoError(f"{path} is damaged: its metadata counts {meta.number_steps} records")
    return DemoMeta(
        meta.api_version, meta.demonstration_name, meta.number_steps, meta.number_episodes, meta.mean_reward
    )


def read_brain(path: Path, head: bytes) -> tuple[bytes, int]:
    """Returns the behavior's parameters and the offset of the records. Raises DemoError."""
    length, begin = read_varint(head, HEADER)
    if not 0 < length <= LONGEST_BRAIN:
        raise DemoError(
            f"{path} is not a demonstration file: {head[HEADER : HEADER + 8].hex(' ')} at byte {HEADER}; expected a "
            "behavior there"
        )
    if begin + length > len(head):
        raise DemoError(
            f"{path} is cut off within its header: {len(head)} bytes came; its behavior alone ends at byte "
            f"{begin + length}"
        )
    brain = head[begin : begin + length]
    try:
        named = bool(Brain.FromString(brain).brain_name)
    except DecodeError:
        named = False
    if not named:
        raise DemoError(f"{path} is not a demonstration file: its {length} bytes from byte {begin} on name no behavior")
    return brain, begin + length
