"""Writes demonstration files, byte for byte as Unity's recorder does."""

from __future__ import annotations

import io
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos.format import Brain, DemoMeta, DemoRecord, Pair, clean_name
from palaestra.wire.images import encode_pictures
from palaestra.wire.messages import Observation, varint
from palaestra.wire.observations import DIMENSIONS, GOAL, PNG
from palaestra.wire.readers import split_key, write_action, write_old_action


def free_path(folder: Path, name: str) -> Path:
    """Returns a path that overwrites nothing: `<name>.demo`, or `<name>_0.demo` and so on, as Unity numbers them."""
    path = folder / f"{name}.demo"
    number = 0
    while os.path.lexists(path) or os.path.lexists(_part(path)):  # a link, even to nothing, would lead elsewhere
        path = folder / f"{name}_{number}.demo"
        number = number + 1
    return path


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


class DemoWriter:
    """Writes one demonstration file for one behavior; a context manager.

    Records go to `<path>.part`, which `close` renames; a file left there by an interrupted process is readable.
    `key` is the behavior with its team, such as 'Ball?team=0'; `compressed` names the images to write as PNGs.

    Raises:
        DemoError, here and in the methods: the file cannot be written, or a record does not fit the spec.
        ProtocolError: for an invalid `key`.
    """

    def __init__(
        self, path: Path | str, name: str, key: str, spec: BehaviorSpec, compressed: Collection[str] = ()
    ) -> None:
        self.path = Path(path)
        self.spec = spec
        self.name = clean_name(name)
        behavior, team = split_key(key)
        self.key = f"{behavior}?team={team}"
        self.records = 0
        self.ends = 0
        self._total = np.float32(0)  # Unity's precision
        self.reward = 0.0
        """Sum of the rewards of all records so far."""
        self._compressed = frozenset(compressed)
        if unknown := self._compressed - {obs.name for obs in spec.obs if obs.is_visual}:
            raise DemoError(
                f"{self.path}: {', '.join(sorted(unknown))} cannot be PNGs; behavior '{behavior}' has no images of "
                "such a name"
            )
        self.part = _part(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.part.open("wb")
        except OSError as error:
            raise self._failed(error) from error
        brain = brain_parameters(self.key, spec.action)
        self._put(self.meta.header() + varint(len(brain)) + brain)

    @property
    def meta(self) -> DemoMeta:
        """Metadata of the records so far."""
        episodes = self.ends + 1
        return DemoMeta(1, self.name, self.records, episodes, float(self._total / np.float32(episodes)))

    @property
    def closed(self) -> bool:
        """Whether the file is closed or discarded."""
        return self._file.closed

    def write(self, record: DemoRecord) -> None:
        """Appends a record."""
        self.write_raw(self.encode(record), record.reward, record.done)

    def write_raw(self, record: bytes, reward: float, done: bool) -> None:
        """Appends an encoded record (AgentInfoActionPairProto); `reward` and `done` are for the metadata."""
        if self.closed:
            raise DemoError(f"{self.path} is closed; nothing more can be recorded into it")
        self._put(varint(len(record)) + record)
        self.records += 1
        self.ends += done
        self._total += np.float32(reward)
        self.reward += reward
        if done:
            self._put_header()

    def close(self) -> None:
        """Finishes the file and renames it to its path. May be called again."""
        if self.closed:
            return
        self._put(self.meta.to_bytes())
        self._put_header()
        try:
            self._file.close()
            self.part.replace(self.path)
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Deletes the unfinished file; does nothing if it is closed."""
        if not self.closed:
            with suppress(OSError):
                self._file.close()
            self.part.unlink(missing_ok=True)

    def __enter__(self) -> DemoWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self.records:
            self.discard()
        elif isinstance(error, DemoError):
            with suppress(DemoError):  # the first error is enough
                self.close()
        else:
            self.close()

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from error

    def _put_header(self) -> None:
        try:
            self._file.seek(0)
            self._file.write(self.meta.header())
            self._file.seek(0, io.SEEK_END)
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> DemoError:
        kept = f"; the {self.records} records before may be in {self.part}" if self.records else ""
        if hasattr(self, "_file"):
            with suppress(OSError):
                self._file.close()
        return DemoError(f"{self.path} cannot be written: {error.strerror or error}{kept}")

    def encode(self, record: DemoRecord) -> bytes:
        """Encodes a record for `write_raw`."""
        if len(record.obs) != len(self.spec.obs):
            raise DemoError(
                f"{self._where(record)}: {len(record.obs)} observations received; expected {len(self.spec.obs)}"
            )
        pair = Pair()
        info = pair.agent_info
        action = pair.action_info
        info.reward = record.reward
        info.group_reward = record.group_reward
        info.done = record.done
        info.max_step_reached = record.truncated
        info.id = record.id
        info.group_id = record.group
        if record.mask is not None:
            if len(record.mask) != self.spec.action.choices:
                raise DemoError(
                    f"{self._where(record)}: received a mask of {len(record.mask)} choices; expected "
                    f"{self.spec.action.choices}"
                )
            info.action_mask = (~np.asarray(record.mask, np.bool_)).tobytes()
        for spec, value in zip(self.spec.obs, record.obs, strict=True):
            info.observations.append(self._observation(spec, value, record))
        continuous = np.asarray(record.continuous, np.float32)
        discrete = np.asarray(record.discrete, np.int64)
        came = (continuous.shape, discrete.shape)
        wanted = ((self.spec.action.continuous,), (len(self.spec.action.branches),))
        if came != wanted:
            raise DemoError(
                f"{self._where(record)}: received continuous and discrete actions of shapes {came}; expected {wanted}"
            )
        action.SetInParent()
        action.continuous_actions.extend(continuous.tolist())
        action.discrete_actions.extend(discrete.tolist())
        return pair.SerializeToString()

    def _observation(self, spec: ObsSpec, value: NDArray[np.float32], record: DemoRecord) -> bytes:
        value = np.asarray(value, np.float32)
        if value.shape != spec.shape:
            raise DemoError(
                f"{self._where(record)}: observation '{spec.name}' has shape {value.shape}; expected {spec.shape}"
            )
        message = Observation(shape=spec.shape, dimension_properties=DIMENSIONS[len(spec.shape)], name=spec.name)
        if spec.goal:
            message.observation_type = GOAL
        if spec.name in self._compressed:
            message.compression_type = PNG
            (message.compressed_data,) = encode_pictures(value[None])
            # a gray image is one of three channels, which are averaged, as in Unity's files; -1: padding
            mapping = (0, 0, 0) if len(value) == 1 else (*range(len(value)), *[-1] * (-len(value) % 3))
            message.compressed_channel_mapping.extend(mapping)
        else:
            message.float_data.data.extend(value.ravel().tolist())
        return message.SerializeToString()

    def _where(self, record: DemoRecord) -> str:
        return f"{self.path}, behavior '{self.key}', agent {record.id}, record {self.records}"


def brain_parameters(key: str, action: ActionSpec) -> bytes:
    """Encodes a BrainParametersProto; its deprecated fields cannot describe hybrid actions and stay empty then."""
    brain: Any = Brain(brain_name=key)
    write_action(brain, action)
    if not (action.continuous and action.branches):
        write_old_action(brain, action)
    return brain.SerializeToString()
