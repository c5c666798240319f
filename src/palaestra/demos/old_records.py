"""Converts records of ML-Agents 0.6 to 0.11 to the form of later files.

Such a record is an agent's message alone: its vector, its pictures without a shape, and the action of the decision
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.demos.format import Pair
from palaestra.demos.frames import IrregularRecord, fields
from palaestra.wire.messages import DecodeError, Observation, message_class

Block = tuple[bytes, NDArray[np.int64], NDArray[np.int64]]
"""A block of bytes, with the begin and the end of each record in it."""
_Old = message_class("palaestra.columns.OldRecord")
_OldBrain = message_class("palaestra.columns.OldBrain")
_PNG = 1
_PICTURE_SIZE = slice(16, 24)  # width and height in a PNG's first chunk


def is_old(record: bytes) -> bool:
    """Whether a record is of ML-Agents 0.6 to 0.11: later records have two fields only."""
    try:
        return any(number > 2 for number, *_ in fields(record, 0, len(record)))
    except IrregularRecord:
        return False


class OldRecords:
    """Converts the records of a file: each record gets the next record's action, and the last record none."""

    def __init__(self, where: str, brain: bytes) -> None:
        self._where = where
        self._gray = [camera.gray_scale for camera in _OldBrain.FromString(brain).camera_resolutions]

    def convert(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yields blocks of converted records; a record may move to the next block."""
        before: Any = None
        number = 0
        for data, begins, ends in blocks:
            converted: list[bytes] = []
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                record = self._parse(number, data[begin:end])
                if before is not None:
                    converted.append(self._pair(before, record.stored_vector_actions))
                before = record
                number = number + 1
            if converted:
                yield _block(converted)
        if before is not None:
            yield _block([self._pair(before, ())])

    def _parse(self, number: int, record: bytes) -> Any:
        try:
            return _Old.FromString(record)
        except DecodeError:
            raise DemoError(
                f"{self._where}, record {number}: its {len(record)} bytes ({record[:16].hex(' ')}) are not a record "
                "of ML-Agents 0.6 to 0.11, unlike the first record; the file is damaged"
            ) from None

    def _pair(self, record: Any, action: Iterable[float]) -> bytes:
        pair = Pair()
        info = pair.agent_info
        info.reward = record.reward
        info.done = record.done
        info.max_step_reached = record.max_step_reached
        info.id = record.id
        info.action_mask = record.action_mask
        for i, picture in enumerate(record.visual_observations):
            info.observations.append(self._picture(i, picture))
        info.observations.extend(record.observations)
        if numbers := record.stacked_vector_observation:
            info.observations.append(
                Observation(shape=[len(numbers)], float_data={"data": numbers}).SerializeToString()
            )
        pair.action_info.vector_actions_deprecated.extend(action)
        return pair.SerializeToString()

    def _picture(self, camera: int, picture: bytes) -> bytes:
        width, height = (int.from_bytes(picture[_PICTURE_SIZE][at : at + 4], "big") for at in (0, 4))
        channels = 1 if camera < len(self._gray) and self._gray[camera] else 3
        return Observation(
            shape=[height, width, channels], compression_type=_PNG, compressed_data=picture
        ).SerializeToString()


def _block(records: list[bytes]) -> Block:
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    return b"".join(records), ends - [len(record) for record in records], ends
