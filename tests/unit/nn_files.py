"""Writes Barracuda's .nn files, as ML-Agents did before release 17."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Shape = Sequence[int]
DENSE = 1
CONV = 20
MAX_POOL = 25
ACTIVATION = 50
RANDOM = 64
ADD = 100
MUL = 102
DIV = 103
SUM = 128
CONCAT = 210
SLICE = 211
LOAD = 255
RELU = 1
SOFTMAX = 2
TANH = 3
SIGMOID = 4
SWISH = 9
LOG = 114


@dataclass
class NNWriter:
    """Collects layers, then writes them."""

    inputs: Mapping[str, Shape]
    outputs: Sequence[str] = ("action",)
    memories: Sequence[tuple[Shape, str, str]] = ()
    version: int = 16
    layers: list[bytes] = field(default_factory=list)
    data: list[np.ndarray] = field(default_factory=list)

    def layer(
        self,
        name: str,
        kind: int,
        inputs: Sequence[str] = (),
        tensors: Mapping[str, np.ndarray] | None = None,
        **rest: Any,
    ) -> None:
        """Adds a layer; `rest`: activation, pads, strides, pool, axis."""
        shapes = (rest.get("pads", (0, 0, 0, 0)), rest.get("strides", ()), rest.get("pool", ()))
        parts = [_text(name), struct.pack("<4i", kind, rest.get("activation", 0), 0, 0), *map(_numbers, shapes)]
        parts += [
            struct.pack("<iffi", rest.get("axis", -1), 1.0, 0.0, 0),
            struct.pack("<i", len(inputs)),
            *map(_text, inputs),
        ]
        parts.append(struct.pack("<i", len(tensors or {})))
        for title, values in (tensors or {}).items():
            start = sum(each.size for each in self.data)
            shape = (*(1,) * (4 - values.ndim), *values.shape)
            parts += [_text(title), _numbers(shape), struct.pack("<qii", start, 4, values.size)]
            self.data.append(values.astype(np.float32))
        self.layers.append(b"".join(parts))

    def constants(self, **values: float) -> None:
        """Adds numbers such as memory_size, in one layer, as they were written."""
        defaults = {"memory_size": 0.0, "version_number": 2.0, "is_continuous_control": 1.0, "action_output_shape": 1.0}
        self.layer(
            "constants", LOAD, tensors={name: np.array([value]) for name, value in {**defaults, **values}.items()}
        )

    def dense(self, name: str, source: str, weight: np.ndarray, **rest: int) -> None:
        """Adds a linear layer, weight (in, out), with a bias of tenths."""
        inputs, outputs = weight.shape
        bias = np.arange(outputs) / 10
        self.layer(
            name,
            DENSE,
            [source],
            {f"{name}/kernel": weight.reshape(inputs, 1, 1, outputs), f"{name}/bias": bias},
            **rest,
        )

    def content(self) -> bytes:
        """Returns the bytes of the file."""
        parts = [struct.pack("<qi", self.version, len(self.inputs))]
        parts += [_text(name) + _numbers(shape) for name, shape in self.inputs.items()]
        parts += [
            struct.pack("<i", len(self.outputs)),
            *map(_text, self.outputs),
            struct.pack("<i", len(self.memories)),
        ]
        parts += [_numbers(shape) + _text(entry) + _text(exit) for shape, entry, exit in self.memories]
        parts += [struct.pack("<i", len(self.layers)), *self.layers, *(each.tobytes() for each in self.data)]
        return b"".join(parts)

    def write(self, path: Path) -> Path:
        """Writes the file and returns its path."""
        path.write_bytes(self.content())
        return path


def small_policy() -> NNWriter:
    """Returns a policy that sees two numbers and does one."""
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    writer.dense("action", "vector_observation", np.array([[1.0], [2.0]]))
    return writer


def _text(text: str) -> bytes:
    return struct.pack("<i", len(text)) + text.encode()


def _numbers(values: Shape) -> bytes:
    return struct.pack(f"<{len(values) + 1}i", len(values), *values)
