"""Plays a model from any source whose tensors are named by a file (`brains/names.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen
from palaestra.brains.names import Mask, MemoryTensors, ObservationInput, Source, UniformInput, Value, read_names
from palaestra.brains.session import Arrays, Session
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


class MappedModel:
    """Brain for such a model. One made for a single row is run once for each agent."""

    def __init__(self, model: Path, names: Path, role: Role) -> None:
        """Raises PolicyError if the names do not fit the model, or the tensors do not fit the behavior."""
        if not model.is_file():
            raise PolicyError(f"{model} does not exist; expected a model file")
        self._session = Session(str(model), str(model), role.seed)
        self._names = read_names(names)
        self._role = role
        self.rng = np.random.default_rng(role.seed)
        """Random generator for choices; a checkpoint saves its state."""
        self._obs = {f"obs_{i}": i for i in range(len(role.spec.obs))} | {
            obs.name: i for i, obs in enumerate(role.spec.obs)
        }
        self._check_tensors()
        self._outputs = self._chosen_outputs()
        declared = self._session.inputs
        self._single = any(
            declared[key][0] == 1
            for key, source in self._names.inputs.items()
            if isinstance(source, ObservationInput) and declared[key]
        )
        self._memory: dict[str, NDArray[Any]] = {
            key: np.zeros((0, *self._sizes(key, None)[1]), self._type(key))
            for key, source in self._names.inputs.items()
            if isinstance(source, MemoryTensors)
        }

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Sets the memory of these slots to zero."""
        self._widen(slots)
        for memory in self._memory.values():
            memory[slots] = 0

    def decide(self, seen: Seen) -> Choice:
        """Returns actions: continuous ones clipped to -1..1, discrete ones sampled or with `deterministic` the best."""
        self._widen(seen.slots)
        rows = len(seen.slots)
        parts = [slice(i, i + 1) for i in range(rows)] if self._single else [slice(0, rows)]
        answers = [self._run(seen, part) for part in parts]
        answer = {name: np.concatenate([each[name] for each in answers]) for name in answers[0]}
        for key, source in self._names.inputs.items():
            if isinstance(source, MemoryTensors):
                self._memory[key][seen.slots] = answer[source.output]
        action = self._role.spec.action
        continuous = self._columns(answer, "continuous", action.continuous, rows)
        return Choice(np.clip(continuous, -1, 1).astype(np.float32), self._discrete(answer, seen, rows))

    def _run(self, seen: Seen, part: slice) -> Arrays:
        rows = part.stop - part.start
        feeds = {key: self._feed(key, source, seen, part) for key, source in self._names.inputs.items()}
        memories = {
            source.output: key for key, source in self._names.inputs.items() if isinstance(source, MemoryTensors)
        }
        answer = self._session.run([*dict.fromkeys([*self._outputs.values(), *memories])], feeds)
        for name, key in memories.items():
            answer[name] = answer[name].reshape(rows, *self._memory[key].shape[1:])
        return answer

    def _feed(self, key: str, source: Source, seen: Seen, part: slice) -> NDArray[Any]:
        kind = self._type(key)
        rows = part.stop - part.start
        if isinstance(source, ObservationInput):
            return self._seen(key, source, seen, part).astype(kind)
        if isinstance(source, Mask):
            choices = self._role.spec.action.choices
            return (np.ones((rows, choices)) if seen.mask is None else seen.mask[part]).astype(kind)
        if isinstance(source, MemoryTensors):
            return self._memory[key][seen.slots[part]]
        by_row, shape = self._sizes(
            key, np.shape(source.value) if isinstance(source, Value) and source.shape is None else source.shape
        )
        shape = (rows, *shape) if by_row else shape
        if isinstance(source, UniformInput):
            return self.rng.uniform(source.low, source.high, shape).astype(kind)
        return np.broadcast_to(np.asarray(source.value, kind), shape).copy()

    def _seen(self, key: str, source: ObservationInput, seen: Seen, part: slice) -> NDArray[np.float32]:
        parts = [seen.obs[self._obs[name]][part] for name in source.obs]
        obs = parts[0] if len(parts) == 1 else np.concatenate([each.reshape(len(each), -1) for each in parts], 1)
        return np.moveaxis(obs, 1, -1) if self._channels_last(key, obs.shape[1:]) else obs

    def _channels_last(self, key: str, shape: tuple[int, ...]) -> bool:
        sizes = tuple(self._session.inputs[key][1:])
        return len(shape) == 3 and not _fits(sizes, shape) and _fits(sizes, (*shape[1:], shape[0]))

    def _sizes(self, key: str, shape: tuple[int, ...] | None) -> tuple[bool, tuple[int, ...]]:
        """Returns whether an input has a row for each agent, and its shape without rows; `shape` is the file's."""
        declared = self._session.inputs[key]
        by_row = bool(declared) and not isinstance(declared[0], int)
        if isinstance(self._names.inputs[key], MemoryTensors):
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
            raise self._wrong(key, f"its size '{unknown[0]}' in {declared} is open; give it a shape")
        return by_row, tuple(int(size) for size in sizes)

    def _check_tensors(self) -> None:
        session = self._session
        names = self._names
        for key, source in names.inputs.items():
            if key not in session.inputs:
                known = session.inputs
                raise self._wrong(
                    key, f"the model has no input of that name{nearest(key, known)} (it has: {', '.join(known)})"
                )
            self._type(key)
            if isinstance(source, MemoryTensors):
                self._check_output(f"inputs: {key}: memory", source.output)
            elif isinstance(source, ObservationInput):
                self._check_shown(key, source)
            elif isinstance(source, Mask) and not self._role.spec.action.branches:
                raise self._wrong(key, f"behavior '{self._role.behavior}' has no discrete actions, and so no mask")
            elif isinstance(source, Value | UniformInput):
                self._check_extra(key, source)
        if missing := [key for key in session.inputs if key not in names.inputs]:
            raise PolicyError(
                f"{names.path}: inputs: the model's '{missing[0]}' {session.inputs[missing[0]]} is not named: say "
                "what it takes"
            )
        for what, tensor in names.outputs.items():
            self._check_output(f"outputs: {what}", tensor)

    def _check_shown(self, key: str, source: ObservationInput) -> None:
        spec = self._role.spec
        for name in source.obs:
            if name not in self._obs:
                there = ", ".join(f"obs_{i} ({obs.name})" for i, obs in enumerate(spec.obs))
                raise self._wrong(
                    key,
                    f"behavior '{self._role.behavior}' has no observation '{name}'{nearest(name, self._obs)} (it has: "
                    f"{there})",
                )
        shapes = [spec.obs[self._obs[name]].shape for name in source.obs]
        shape = shapes[0] if len(shapes) == 1 else (sum(int(np.prod(each)) for each in shapes),)
        declared = self._session.inputs[key]
        if not _fits(tuple(declared[1:]), shape) and not self._channels_last(key, shape):
            raise self._wrong(
                key, f"the model wants {declared}, and {', '.join(source.obs)} has shape {shape} without the rows"
            )

    def _check_extra(self, key: str, source: Value | UniformInput) -> None:
        if isinstance(source, UniformInput):
            self._sizes(key, source.shape)
            return
        try:
            value = np.asarray(source.value, self._type(key))
            np.broadcast_to(value, self._sizes(key, value.shape if source.shape is None else source.shape)[1])
        except (TypeError, ValueError) as error:
            raise self._wrong(
                key, f"value {source.value!r} does not fit the model's {self._session.inputs[key]}: {error}"
            ) from error

    def _check_output(self, where: str, tensor: str) -> None:
        known = self._session.outputs
        if tensor not in known:
            hint = f"{nearest(tensor, known)} (it has: {', '.join(known)})"
            raise PolicyError(f"{self._names.path}: {where}: the model has no output '{tensor}'{hint}")

    def _chosen_outputs(self) -> dict[str, str]:
        given = dict(self._names.outputs)
        action = self._role.spec.action
        for part in ("continuous", "discrete"):
            certain = given.pop(f"deterministic_{part}", None)
            if certain is not None and (self._role.deterministic or part not in given):
                given[part] = certain
        for part, wanted in (("continuous", action.continuous > 0), ("discrete", bool(action.branches))):
            named = part in given or (part == "discrete" and "logits" in given)
            if wanted and not named:
                raise PolicyError(
                    f"{self._names.path}: outputs: behavior '{self._role.behavior}' has {part} actions; say which "
                    "tensor they are"
                )
            if named and not wanted:
                raise PolicyError(
                    f"{self._names.path}: outputs: behavior '{self._role.behavior}' has no {part} actions"
                )
        return given

    def _columns(self, answer: Mapping[str, NDArray[Any]], part: str, size: int, rows: int) -> NDArray[Any]:
        if part not in self._outputs:
            return np.zeros((rows, 0))
        array = answer[self._outputs[part]]
        if array.size != rows * size:
            tensor = self._outputs[part]
            raise PolicyError(
                f"{self._session.name}: output '{tensor}' has shape {array.shape}; expected {(rows, size)} for {part}"
            )
        return array.reshape(rows, size)

    def _discrete(self, answer: Mapping[str, NDArray[Any]], seen: Seen, rows: int) -> NDArray[np.int64]:
        action = self._role.spec.action
        if "logits" not in self._outputs:
            return np.rint(self._columns(answer, "discrete", len(action.branches), rows)).astype(np.int64)
        score = self._columns(answer, "logits", action.choices, rows).astype(np.float64)
        if not self._role.deterministic:
            score = score + self.rng.gumbel(size=score.shape)
        if seen.mask is not None:
            score = np.where(seen.mask, score, -np.inf)
        return np.stack([part.argmax(1) for part in np.split(score, np.cumsum(action.branches)[:-1], axis=1)], 1)

    def _type(self, key: str) -> type[np.generic]:
        kind = self._session.input_types[key]
        if kind not in TYPES:
            raise self._wrong(key, f"the model wants {kind}; what can be given is {', '.join(TYPES)}")
        return TYPES[kind]

    def _widen(self, slots: NDArray[np.int64]) -> None:
        for key, memory in self._memory.items():
            more = int(slots.max(initial=-1)) + 1 - len(memory)
            if more > 0:
                self._memory[key] = np.pad(memory, ((0, more), *((0, 0),) * (memory.ndim - 1)))

    def _wrong(self, key: str, what: str) -> PolicyError:
        return PolicyError(f"{self._names.path}: inputs: {key}: {what}")


def _fits(declared: tuple[int | str, ...], shape: tuple[int, ...]) -> bool:
    """Whether the model takes a shape; sizes that it leaves open are no numbers."""
    return len(declared) == len(shape) and all(
        not isinstance(one, int) or one == other for one, other in zip(declared, shape, strict=True)
    )
