"""Reads Barracuda's binary format, version 16: inputs, outputs, memories, layers, then all weights in a float32 array.

Everything is bounded by the file's size, and anything that does not fit is refused: a file from elsewhere may be
damaged.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from palaestra.brains.barracuda import nn_kinds as kinds
from palaestra.core.errors import PolicyError
from palaestra.core.files import kind_of, read_whole

FORMAT = 16
LONGEST_NAME = 4096
MOST_BYTES = 1 << 30
MOST_NUMBERS = 1 << 24
"""Most numbers of an input or a memory, which the file's size does not bound: those of a picture of 2,364 x 2,364."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """A constant tensor of a layer, (N, H, W, C)."""

    name: str
    values: np.ndarray


@dataclass(frozen=True, slots=True)
class Layer:
    """One operation. `pads`, `strides`, `pool`, `axis`, `alpha` and `beta` depend on the layer's kind."""

    name: str
    kind: int
    activation: int
    pads: Shape
    strides: Shape
    pool: Shape
    axis: int
    alpha: float
    beta: float
    inputs: tuple[str, ...]
    weights: tuple[Weights, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """A tensor that is handed from one decision to the next."""

    size: int
    entry: str
    exit: str


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """Content of a file. Shapes are (N, H, W, C), with -1 for the number of agents."""

    path: Path
    inputs: dict[str, Shape]
    outputs: tuple[str, ...]
    memories: tuple[Memory, ...]
    layers: tuple[Layer, ...]
    constants: dict[str, np.ndarray]
    """Tensors that a layer has in the file instead of as an input, such as `memory_size`."""


def read_network(path: Path) -> NetworkFile:
    """Reads a file. Raises PolicyError if the file is missing, damaged, or of another format."""
    try:
        data = read_whole(path, MOST_BYTES)
    except OSError as error:
        raise PolicyError(
            f"{path} cannot be read: {error.strerror or error}; expected a Barracuda model (.nn)"
        ) from error
    reader = _Fields(path, data)
    version = reader.long("the version")
    if version != FORMAT:
        if kind := kind_of(data[:4096]):
            raise PolicyError(f"{path} is no Barracuda model: it is {kind}")
        raise PolicyError(
            f"{path} is no Barracuda model of version {FORMAT} (it begins with {version}); expected an .nn file as "
            "ML-Agents wrote them before release 17; models of later releases are ONNX files"
        )
    inputs = {
        reader.text("an input's name"): reader.shape("an input's shape") for _ in range(reader.count("inputs", 8))
    }
    outputs = reader.texts("outputs")
    memories = tuple(
        Memory(
            abs(prod(reader.shape("a memory's shape"))),
            reader.text("a memory's input"),
            reader.text("a memory's output"),
        )
        for _ in range(reader.count("memories", 12))
    )
    parts = [_layer(reader) for _ in range(reader.count("layers", 60))]
    return _assembled(reader, inputs, outputs, memories, parts)


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    shape: Shape
    start: int
    size: int


class _Fields:
    """Reads values from a file's bytes in order. Raises PolicyError where the file ends or makes no sense."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def damaged(self, why: str) -> PolicyError:
        return PolicyError(
            f"{self.path} is damaged: {why} (at byte {self.at:,} of {len(self.data):,}); copy the file again from its "
            "source"
        )

    def _take(self, form: str, what: str) -> float:
        try:
            (value,) = struct.unpack_from(form, self.data, self.at)
        except struct.error:
            raise self.damaged(f"it ends before {what}") from None
        self.at += struct.calcsize(form)
        return value

    def integer(self, what: str) -> int:
        return int(self._take("<i", what))

    def long(self, what: str) -> int:
        return int(self._take("<q", what))

    def number(self, what: str) -> float:
        return float(self._take("<f", what))

    def count(self, what: str, least_bytes: int) -> int:
        """Reads the number of items that follow; each has at least `least_bytes`."""
        count = self.integer(f"the number of {what}")
        room = (len(self.data) - self.at) // least_bytes
        if not 0 <= count <= room:
            raise self.damaged(f"the number of {what} is {count}, and at most {room} can follow")
        return count

    def text(self, what: str) -> str:
        size = self.integer(what)
        if not 0 <= size <= min(LONGEST_NAME, len(self.data) - self.at):
            raise self.damaged(f"{what} has {size} characters")
        raw = self.data[self.at : self.at + size]
        self.at += size
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.damaged(f"{what} is no text") from None

    def texts(self, what: str) -> tuple[str, ...]:
        return tuple(self.text(f"a name among {what}") for _ in range(self.count(what, 4)))

    def integers(self, what: str) -> Shape:
        return tuple(self.integer(what) for _ in range(self.count(what, 4)))

    def shape(self, what: str) -> Shape:
        shape = self.integers(f"sizes in {what}")
        if len(shape) > 8 or any(size < 1 for size in shape[1:]) or abs(prod(shape)) > MOST_NUMBERS:
            raise self.damaged(f"{what} is {list(shape)}")
        return shape


def _layer(reader: _Fields) -> tuple[Layer, list[_Place]]:
    name = reader.text("a layer's name")
    what = f"layer '{name}'"
    kind, activation, _, _ = (reader.integer(what) for _ in range(4))
    pads, strides, pool = (reader.integers(f"numbers of {what}") for _ in range(3))
    axis = reader.integer(what)
    alpha = reader.number(what)
    beta = reader.number(what)
    _ = reader.integer(what)
    inputs = reader.texts(f"inputs of {what}")
    places = [_place(reader, what) for _ in range(reader.count(f"tensors of {what}", 24))]
    return Layer(name, kind, activation, pads, strides, pool, axis, alpha, beta, inputs, ()), places


def _place(reader: _Fields, what: str) -> _Place:
    name = reader.text(f"a tensor's name of {what}")
    shape = reader.shape(f"a tensor's shape of {what}")
    start = reader.long(what)
    item = reader.integer(what)
    size = reader.integer(what)
    if item != 4:
        raise reader.damaged(f"tensor '{name}' has numbers of {item} bytes, where only 4 are supported")
    if len(shape) != 4 or prod(shape) != size or size < 0:
        raise reader.damaged(f"tensor '{name}' of shape {list(shape)} has {size} numbers")
    return _Place(name, shape, start, size)


def _assembled(
    reader: _Fields,
    inputs: dict[str, Shape],
    outputs: tuple[str, ...],
    memories: tuple[Memory, ...],
    parts: list[tuple[Layer, list[_Place]]],
) -> NetworkFile:
    """Returns the network with its weights; every name that a layer reads must be known before it."""
    rest = len(reader.data) - reader.at
    used = max((place.start + place.size for _, places in parts for place in places), default=0)
    if rest > 4 * used:
        raise reader.damaged(
            f"{rest - 4 * used:,} bytes too many follow the layers, whose tensors have {used:,} numbers"
        )
    values = np.frombuffer(reader.data, np.dtype("<f4"), rest // 4, reader.at).astype(np.float32)
    layers = list[Layer]()
    constants = dict[str, np.ndarray]()
    known = {*inputs, *(memory.entry for memory in memories)}
    for layer, places in parts:
        weights = tuple(_weights(reader, place, values) for place in places)
        if not layer.inputs:
            constants |= {each.name: each.values for each in weights}
            known |= constants.keys()
        missing = [name for name in layer.inputs if name not in known]
        if missing:
            raise reader.damaged(f"layer '{layer.name}' reads '{missing[0]}', which no earlier layer writes")
        if layer.kind != kinds.LOAD:  # which gives its own tensors and nothing else
            known.add(layer.name)
        layers.append(replace(layer, weights=weights))
    return NetworkFile(reader.path, inputs, outputs, memories, tuple(layers), constants)


def _weights(reader: _Fields, place: _Place, values: np.ndarray) -> Weights:
    if not 0 <= place.start <= len(values) - place.size:
        have = (
            f"{len(values):,} numbers follow the layers, and tensor '{place.name}' needs {place.start + place.size:,}"
        )
        raise reader.damaged(f"weights are missing: {have}")
    part = values[place.start : place.start + place.size].reshape(place.shape)
    if not np.isfinite(part).all():
        raise reader.damaged(f"tensor '{place.name}' holds numbers that are not finite")
    return Weights(place.name, part)
