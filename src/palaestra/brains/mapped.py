"""Plays a model from any source whose tensors are named in a file (`brains/names.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen, best_choices, widened
from palaestra.brains.mapped_tensors import MappedTensors
from palaestra.brains.names import Mask, MemoryTensors, ObservationInput, Source, UniformInput, Value, read_names
from palaestra.brains.session import Arrays, Session
from palaestra.core.errors import PolicyError
from palaestra.core.files import MODEL_FILES, near_files


class MappedModel:
    """Brain for a model with tensors of other names. A model made for a single row is run once for each agent."""

    def __init__(self, model: Path, names: Path, role: Role) -> None:
        """Raises PolicyError if the names do not fit the model, or the tensors do not fit the behavior."""
        if not model.is_file():
            raise PolicyError(f"{model} does not exist{near_files(model, MODEL_FILES)}")
        self._session = Session(str(model), str(model), role.seed)
        self._tensors = MappedTensors(self._session, read_names(names), role)
        self._inputs = self._tensors.names.inputs
        self._outputs = self._tensors.outputs()
        self._role = role
        self.rng = np.random.default_rng(role.seed)
        """Random generator for choices; a checkpoint saves its state."""
        declared = self._session.inputs
        self._single = any(
            declared[key][0] == 1
            for key, source in self._inputs.items()
            if isinstance(source, ObservationInput) and declared[key]
        )
        self._memory: dict[str, NDArray[Any]] = {
            key: np.zeros((0, *self._tensors.sizes(key, None)[1]), self._tensors.type(key))
            for key, source in self._inputs.items()
            if isinstance(source, MemoryTensors)
        }

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Sets the memory of these slots to zero."""
        self._widen(slots)
        for memory in self._memory.values():
            memory[slots] = 0

    def decide(self, seen: Seen) -> Choice:
        """Returns actions: continuous ones clipped to -1..1, discrete ones drawn or, with `deterministic`, the best."""
        self._widen(seen.slots)
        rows = len(seen.slots)
        parts = [slice(i, i + 1) for i in range(rows)] if self._single else [slice(0, rows)]
        answers = [self._run(seen, part) for part in parts]
        answer = {name: np.concatenate([each[name] for each in answers]) for name in answers[0]}
        for key, source in self._inputs.items():
            if isinstance(source, MemoryTensors):
                self._memory[key][seen.slots] = answer[source.output]
        action = self._role.spec.action
        continuous = self._columns(answer, "continuous", action.continuous, rows)
        return Choice(np.clip(continuous, -1, 1).astype(np.float32), self._discrete(answer, seen, rows))

    def _run(self, seen: Seen, part: slice) -> Arrays:
        rows = part.stop - part.start
        feeds = {key: self._feed(key, source, seen, part) for key, source in self._inputs.items()}
        memories = {source.output: key for key, source in self._inputs.items() if isinstance(source, MemoryTensors)}
        answer = self._session.run([*dict.fromkeys([*self._outputs.values(), *memories])], feeds)
        for name, key in memories.items():
            answer[name] = answer[name].reshape(rows, *self._memory[key].shape[1:])
        return answer

    def _feed(self, key: str, source: Source, seen: Seen, part: slice) -> NDArray[Any]:
        kind = self._tensors.type(key)
        rows = part.stop - part.start
        if isinstance(source, ObservationInput):
            return self._seen(key, source, seen, part).astype(kind)
        if isinstance(source, Mask):
            choices = self._role.spec.action.choices
            return (np.ones((rows, choices)) if seen.mask is None else seen.mask[part]).astype(kind)
        if isinstance(source, MemoryTensors):
            return self._memory[key][seen.slots[part]]
        by_row, shape = self._tensors.sizes(
            key, np.shape(source.value) if isinstance(source, Value) and source.shape is None else source.shape
        )
        shape = (rows, *shape) if by_row else shape
        if isinstance(source, UniformInput):
            return self.rng.uniform(source.low, source.high, shape).astype(kind)
        return np.broadcast_to(np.asarray(source.value, kind), shape).copy()

    def _seen(self, key: str, source: ObservationInput, seen: Seen, part: slice) -> NDArray[np.float32]:
        parts = [seen.obs[self._tensors.obs[name]][part] for name in source.obs]
        obs = parts[0] if len(parts) == 1 else np.concatenate([each.reshape(len(each), -1) for each in parts], 1)
        return np.moveaxis(obs, 1, -1) if self._tensors.channels_last(key, obs.shape[1:]) else obs

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
        return best_choices(score, action.branches)

    def _widen(self, slots: NDArray[np.int64]) -> None:
        self._memory = {key: widened(memory, slots) for key, memory in self._memory.items()}
