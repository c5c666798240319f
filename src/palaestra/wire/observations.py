"""Decodes one observation of a behavior: its spec, then ObservationProtos of many agents into one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, NotFinite, ProtocolError
from palaestra.core.specs import ObsSpec
from palaestra.wire.images import Picture, check_picture, picture_size, read_pictures
from palaestra.wire.limits import check_agent, max_bytes
from palaestra.wire.messages import DecodeError, Observation

NONE, TRANSLATIONAL, VARIABLE = 1, 2, 4  # dimension_properties
FLOATS, PNG = 0, 1  # compression_type
DIMENSIONS = {1: (NONE,), 2: (VARIABLE, NONE), 3: (NONE, TRANSLATIONAL, TRANSLATIONAL)}  # by the number of dimensions
GOAL = 1  # observation_type
MAX_DIMENSIONS = 16
"""Most dimensions of an observation that an error message lists."""
CHANNELS_FIRST_SINCE = 3
"""Major version of Unity's package from which images are (C, H, W); earlier ones send (H, W, C)."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The bytes before and after the floats of an ObservationProto."""

    head: NDArray[np.uint8]
    tail: NDArray[np.uint8]
    length: int  # bytes of the message


class ObservationDecoder:
    """Decodes one observation of a behavior.

    `first` is the first message of the observation; its shape and kind apply to all later ones. Raises ProtocolError if
    shape or kind is unknown.
    """

    def __init__(self, behavior: str, agent: int, name: str, first: bytes, package_major: int | None) -> None:
        self.behavior = behavior
        self.name = name
        observation = self._parse(first, agent)
        if len(observation.shape) > MAX_DIMENSIONS:
            raise ProtocolError(f"{self._where(agent)} has {len(observation.shape)} dimensions; expected at most 3")
        self.sent = tuple(observation.shape)  # as the game sends it
        dimensions = tuple(observation.dimension_properties)
        where = self._where(agent)
        if not 1 <= len(self.sent) <= 3:
            raise ProtocolError(
                f"{where} has shape {self.sent}; expected (n,), (most, size) or an image's three numbers"
            )
        if len(self.sent) == 2 and dimensions != (VARIABLE, NONE):
            raise ProtocolError(
                f"{where} has two dimensions {self.sent} that are not marked as a list of variable length (dimension "
                f"properties {dimensions or 'absent'}, expected {(VARIABLE, NONE)}); send a flat vector, an image, or "
                "use a BufferSensor"
            )
        self.channels_last = len(self.sent) == 3 and self._channels_last(observation, dimensions, package_major, agent)
        height, *rest = self.sent
        shape = (rest[1], height, rest[0]) if self.channels_last else self.sent
        try:
            self.spec = ObsSpec(name, shape, goal=observation.observation_type == GOAL)
        except EnvError as error:
            raise ProtocolError(f"behavior '{behavior}', agent {agent}: {error}") from None
        if self._compressed(observation):
            check_picture(self._picture(observation, agent), self.spec.shape)
        else:
            self._floats(observation, agent)
        check_agent(behavior, agent, {name: self.sent})
        self._must_be_small(first, agent)
        self._frame = self._framed(first)

    def read(self, blobs: Sequence[bytes], agents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decodes the ObservationProtos of N agents with these ids into an array (N, *spec.shape)."""
        floats = self._alike(blobs)
        if floats is not None:
            return self._numbers(floats, agents)
        column = self._one_by_one(blobs, agents)
        self._frame = self._framed(blobs[0]) or self._frame
        return column

    def _alike(self, blobs: Sequence[bytes]) -> NDArray[np.float32] | None:
        """Decodes into (N, *sent) if only floats differ from earlier messages, which is usual; else returns None."""
        frame = self._frame
        if frame is None or set(map(len, blobs)) != {frame.length}:
            return None
        table = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), frame.length)
        begin = len(frame.head)
        end = frame.length - len(frame.tail)
        if (table[:, :begin] != frame.head).any() or (table[:, end:] != frame.tail).any():
            return None
        floats = np.array(table[:, begin:end]).view("<f4").astype(np.float32, copy=False)
        return floats.reshape(len(blobs), *self.sent)

    def _one_by_one(self, blobs: Sequence[bytes], agents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decodes message by message; one agent may send floats and the next a PNG."""
        floats: dict[int, NDArray[np.float32]] = {}
        pictures: dict[int, Picture] = {}
        for row, (blob, agent) in enumerate(zip(blobs, agents.tolist(), strict=True)):
            self._must_be_small(blob, agent)
            observation = self._parse(blob, agent)
            if tuple(observation.shape) != self.sent:
                came = f"{tuple(observation.shape)}{f' named {observation.name!r}' if observation.name else ''}"
                raise ProtocolError(
                    f"{self._where(agent)} came with shape {came}; expected {self.sent}, as in the first message"
                )
            if self._compressed(observation):
                pictures[row] = self._picture(observation, agent)
            else:
                floats[row] = self._floats(observation, agent)
        if not floats:
            return read_pictures(list(pictures.values()), self.spec.shape)
        numbers = self._numbers(np.stack(list(floats.values())), agents[list(floats)])
        if not pictures:
            return numbers
        column = np.empty((len(blobs), *self.spec.shape), np.float32)
        column[list(floats)] = numbers
        column[list(pictures)] = read_pictures(list(pictures.values()), self.spec.shape)
        return column

    def _numbers(self, floats: NDArray[np.float32], agents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Converts (N, *sent) to (N, *spec.shape). Raises NotFinite."""
        if not np.isfinite(floats).all():
            row, *place = (int(i) for i in np.argwhere(~np.isfinite(floats))[0])
            what = f"observation '{self.name}'[{', '.join(map(str, place))}]"
            raise NotFinite(self.behavior, int(agents[row]), what, float(floats[(row, *place)]))
        return np.ascontiguousarray(floats.transpose(0, 3, 1, 2)) if self.channels_last else floats

    def _floats(self, observation: Any, agent: int) -> NDArray[np.float32]:
        floats = np.array(observation.float_data.data, np.float32)
        if len(floats) != prod(self.sent):
            came = "a compressed image" if observation.HasField("compressed_data") else f"{len(floats)} numbers"
            raise ProtocolError(
                f"{self._where(agent)} came as {came}; expected {prod(self.sent)} numbers for its shape {self.sent}"
            )
        return floats.reshape(self.sent)

    def _compressed(self, observation: Any) -> bool:
        """Whether it is a compressed image: on other ranks the compression type has no meaning."""
        return len(self.sent) == 3 and observation.compression_type != FLOATS

    def _picture(self, observation: Any, agent: int) -> Picture:
        where = self._where(agent)
        if observation.compression_type != PNG or not observation.HasField("compressed_data"):
            came = (
                f"compression type {observation.compression_type} with "
                f"{observation.WhichOneof('observation_data') or 'no data'}"
            )
            raise ProtocolError(
                f"{where} came as {came}; expected PNG ({PNG}) with compressed_data, or numbers ({FLOATS}) with "
                "float_data"
            )
        return Picture(observation.compressed_data, tuple(observation.compressed_channel_mapping), where)

    def _channels_last(
        self, observation: Any, dimensions: tuple[int, ...], package_major: int | None, agent: int
    ) -> bool:
        """Whether an image is (H, W, C)."""
        a, b, c = self.sent
        if self._compressed(observation):
            size = picture_size(self._picture(observation, agent))
            first = size == (b, c)
            last = size == (a, b)
            if not first and not last:
                raise ProtocolError(
                    f"{self._where(agent)} is a PNG of {size[0]}x{size[1]} pixels (height x width), but its shape is "
                    f"{self.sent}"
                )
            if first != last:
                return last
        known: dict[tuple[int, ...], bool] = {
            (NONE, TRANSLATIONAL, TRANSLATIONAL): False,
            (TRANSLATIONAL, TRANSLATIONAL, NONE): True,
        }
        if dimensions in known:
            return known[dimensions]
        first = a <= 4 and min(b, c) >= 16
        last = c <= 4 and min(a, b) >= 16
        if first != last:
            return last
        return package_major is not None and package_major < CHANNELS_FIRST_SINCE

    def _framed(self, blob: bytes) -> _Frame | None:
        """Returns the bytes around the message's floats; None if those are not contiguous."""
        floats = np.array(Observation.FromString(blob).float_data.data, "<f4")
        if len(floats) != prod(self.sent):
            return None
        payload = floats.tobytes()
        other = np.arange(len(floats), dtype="<f4") + (2 if floats[0] == 1 else 1)
        begin = blob.find(payload)
        while begin >= 0:
            end = begin + len(payload)
            try:
                probe = Observation.FromString(blob[:begin] + other.tobytes() + blob[end:])
            except DecodeError:
                probe = Observation()
            if np.array_equal(np.array(probe.float_data.data, "<f4"), other):
                head = np.frombuffer(blob[:begin], np.uint8)
                tail = np.frombuffer(blob[end:], np.uint8)
                return _Frame(head, tail, len(blob))
            begin = blob.find(payload, begin + 1)
        return None

    def _must_be_small(self, blob: bytes, agent: int) -> None:
        """Raises ProtocolError for a message that is far larger than its content can be."""
        if len(blob) > (most := max_bytes(self.sent)):
            raise ProtocolError(
                f"{self._where(agent)} came in {len(blob):,} bytes; expected at most {most:,} for its shape {self.sent}"
            )

    def _parse(self, blob: bytes, agent: int) -> Any:
        try:
            return Observation.FromString(blob)
        except DecodeError:
            raise ProtocolError(
                f"{self._where(agent)}: its {len(blob)} bytes ({blob[:16].hex(' ')}) are not an observation"
            ) from None

    def _where(self, agent: int) -> str:
        return f"behavior '{self.behavior}', agent {agent}: observation '{self.name}'"
