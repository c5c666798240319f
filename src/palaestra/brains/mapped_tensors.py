"""The tensors of a model from any source, checked against the file of their names and against a behavior."""

from __future__ import annotations

import numpy as np

from palaestra.brains.base import Role
from palaestra.brains.names import Mask, MemoryTensors, Names, ObservationInput, UniformInput, Value
from palaestra.brains.session import Session
from palaestra.core.errors import PolicyError
from palaestra.core.plugins import nearest

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


class MappedTensors:
    """Inputs and outputs of a model and what they mean. Raises PolicyError if names, model and behavior disagree."""

    def __init__(self, session: Session, names: Names, role: Role) -> None:
        self.session = session
        self.names = names
        self.role = role
        self.obs = {f"obs_{i}": i for i in range(len(role.spec.obs))}
        self.obs |= {obs.name: i for i, obs in enumerate(role.spec.obs)}
        self._check()

    def channels_last(self, key: str, shape: tuple[int, ...]) -> bool:
        """Whether the model takes (H, W, C) instead of (C, H, W)."""
        sizes = tuple(self.session.inputs[key][1:])
        return len(shape) == 3 and not _fits(sizes, shape) and _fits(sizes, (*shape[1:], shape[0]))

    def sizes(self, key: str, shape: tuple[int, ...] | None) -> tuple[bool, tuple[int, ...]]:
        """Returns whether an input has a row for each agent, and its shape without rows; `shape` is the one in the file
        of names."""
        declared = self.session.inputs[key]
        by_row = bool(declared) and not isinstance(declared[0], int)
        if isinstance(self.names.inputs[key], MemoryTensors):
            by_row = True
        if shape:
            by_row = len(declared) == len(shape) + 1
            if not by_row and len(declared) != len(shape):
                raise self._wrong(key, f"shape {list(shape)} does not fit the model's {declared}")
        sizes = declared[1:] if by_row else declared
        if shape:
            if not _fits(tuple(sizes), shape):
                raise self._wrong(key, f"shape {list(shape)} does not fit the model's {declared}")
            return by_row, shape
        if unknown := [size for size in sizes if not isinstance(size, int)]:
            raise self._wrong(key, f"its size '{unknown[0]}' in {declared} is not fixed; give the input a shape")
        return by_row, tuple(int(size) for size in sizes)

    def _check(self) -> None:
        session = self.session
        names = self.names
        for key, source in names.inputs.items():
            if key not in session.inputs:
                known = session.inputs
                raise self._wrong(
                    key, f"the model has no input of that name{nearest(key, known)} (it has: {', '.join(known)})"
                )
            self.type(key)
            if isinstance(source, MemoryTensors):
                self._check_output(f"inputs: {key}: memory", source.output)
            elif isinstance(source, ObservationInput):
                self._check_shown(key, source)
            elif isinstance(source, Mask) and not self.role.spec.action.branches:
                raise self._wrong(key, f"behavior '{self.role.behavior}' has no discrete actions, and so no mask")
            elif isinstance(source, Value | UniformInput):
                self._check_extra(key, source)
        if missing := [key for key in session.inputs if key not in names.inputs]:
            raise PolicyError(
                f"{names.path}: inputs: the model's '{missing[0]}' {session.inputs[missing[0]]} is not named: name "
                f"the observation that it takes"
            )
        for what, tensor in names.outputs.items():
            self._check_output(f"outputs: {what}", tensor)

    def _check_shown(self, key: str, source: ObservationInput) -> None:
        spec = self.role.spec
        for name in source.obs:
            if name not in self.obs:
                there = ", ".join(f"obs_{i} ({obs.name})" for i, obs in enumerate(spec.obs))
                raise self._wrong(
                    key,
                    f"behavior '{self.role.behavior}' has no observation '{name}'{nearest(name, self.obs)} (it has: "
                    f"{there})",
                )
        shapes = [spec.obs[self.obs[name]].shape for name in source.obs]
        shape = shapes[0] if len(shapes) == 1 else (sum(int(np.prod(each)) for each in shapes),)
        declared = self.session.inputs[key]
        if not _fits(tuple(declared[1:]), shape) and not self.channels_last(key, shape):
            raise self._wrong(
                key, f"the model expects {declared}, but {', '.join(source.obs)} has shape {shape} without the rows"
            )

    def _check_extra(self, key: str, source: Value | UniformInput) -> None:
        if isinstance(source, UniformInput):
            self.sizes(key, source.shape)
            return
        try:
            value = np.asarray(source.value, self.type(key))
            np.broadcast_to(value, self.sizes(key, value.shape if source.shape is None else source.shape)[1])
        except (TypeError, ValueError) as error:
            raise self._wrong(
                key, f"value {source.value!r} does not fit the model's {self.session.inputs[key]}: {error}"
            ) from error

    def _check_output(self, where: str, tensor: str) -> None:
        known = self.session.outputs
        if tensor not in known:
            hint = f"{nearest(tensor, known)} (it has: {', '.join(known)})"
            raise PolicyError(f"{self.names.path}: {where}: the model has no output '{tensor}'{hint}")

    def outputs(self) -> dict[str, str]:
        """Returns the tensor of each part of the action. Raises PolicyError if a part is missing."""
        given = dict(self.names.outputs)
        action = self.role.spec.action
        for part in ("continuous", "discrete"):
            certain = given.pop(f"deterministic_{part}", None)
            if certain is not None and (self.role.deterministic or part not in given):
                given[part] = certain
        for part, wanted in (("continuous", action.continuous > 0), ("discrete", bool(action.branches))):
            named = part in given or (part == "discrete" and "logits" in given)
            if wanted and not named:
                raise PolicyError(
                    f"{self.names.path}: outputs: behavior '{self.role.behavior}' has {part} actions; say which "
                    "tensor they are"
                )
            if named and not wanted:
                raise PolicyError(f"{self.names.path}: outputs: behavior '{self.role.behavior}' has no {part} actions")
        return given

    def type(self, key: str) -> type[np.generic]:
        """Returns the type of an input. Raises PolicyError for an input that cannot be filled."""
        kind = self.session.input_types[key]
        if kind not in TYPES:
            raise self._wrong(key, f"the model expects {kind}; supported are {', '.join(TYPES)}")
        return TYPES[kind]

    def _wrong(self, key: str, what: str) -> PolicyError:
        return PolicyError(f"{self.names.path}: inputs: {key}: {what}")


def _fits(declared: tuple[int | str, ...], shape: tuple[int, ...]) -> bool:
    """Whether the model accepts a shape; dimensions that the model leaves open are not numbers."""
    return len(declared) == len(shape) and all(
        not isinstance(one, int) or one == other for one, other in zip(declared, shape, strict=True)
    )
