"""Converts observations to a model's inputs: arrays, dictionaries by name, and an environment's own observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.core.errors import PolicyError
from palaestra.core.onnx_models.onnx_metadata import ModelNotes
from palaestra.core.plugins import nearest
from palaestra.core.specs import RawObs

Shape = tuple[int, ...]
VECTORS = "vector_observation"
"""The tensor with all vectors joined, in a file of version 2."""


class Inputs:
    """Observations of a model: names and shapes of their tensors, and the file's notes about them."""

    def __init__(self, model: str, shapes: Mapping[str, Shape], notes: ModelNotes) -> None:
        """Takes the model's name for messages. Ignores notes of another number of observations."""
        self._model = model
        noted = len(notes.names) == len(shapes)
        self._read = [i for i in range(len(shapes)) if not (noted and notes.unread[i])]
        self._every = len(shapes)
        names, raw = (notes.names, notes.raw) if noted else (tuple(shapes), (None,) * len(shapes))
        self.shapes = {name: shape for i, (name, shape) in enumerate(shapes.items()) if i in self._read}
        """Shape of each tensor that the model reads."""
        self.unread = {name: shape for name, shape in shapes.items() if name not in self.shapes}
        """Shapes of the tensors that the model does not read: observations for the critic alone, which Unity sends
        too."""
        self.unread_names = tuple(name for i, name in enumerate(names) if i not in self._read)
        """Names in the environment of the observations in `unread`."""
        self._tensors = tuple(self.shapes)
        self._shapes = tuple(self.shapes.values())
        self.names = tuple(names[i] for i in self._read)
        """Names of the observations in the environment, if the file has them; else the names of the tensors."""
        self._raw = tuple(raw[i] for i in self._read)

    @property
    def scales(self) -> tuple[float | None, ...]:
        """Factor by which each observation was scaled in training; None: the file does not say."""
        return tuple(None if raw is None else raw.scale for raw in self._raw)

    def arrays(self, obs: Any) -> tuple[list[np.ndarray], bool]:
        """Returns an array (N, *shape) float32 for each observation, and whether they were given for a single agent.
        Raises PolicyError."""
        given = self._listed(obs)
        arrays = [self._array(i, one) for i, one in enumerate(given)]
        single = bool(arrays) and arrays[0].shape == self._shapes[0]
        rows = 1 if single else arrays[0].shape[0] if arrays and arrays[0].ndim else 1
        for i, (array, shape) in enumerate(zip(arrays, self._shapes, strict=True)):
            expected = shape if single else (rows, *shape)
            if array.shape != expected:
                wanted = f"{shape} or ({', '.join(map(str, ('n', *shape)))})" if i == 0 else str(expected)
                raw = self._raw[i]
                itself = (
                    "" if raw is None or raw.shape == shape else f"; or {raw.shape} for one as the environment gives it"
                )
                raise PolicyError(
                    f"observation '{self.names[i]}' has shape {np.shape(given[i])}; expected {wanted}{itself}"
                )
        return [array[None] if single else array for array in arrays], single

    def _listed(self, obs: Any) -> list[Any]:
        raw, shape = (self._raw[0], self._shapes[0]) if len(self._shapes) == 1 else (None, ())
        if isinstance(obs, Mapping):
            named = bool({*self.names, *self._tensors} & obs.keys())
            if (
                raw is not None
                and raw.rows
                and not named
                and all(key and _walk(obs, key) is not None for key, _ in raw.rows)
            ):
                return [obs]  # the only observation is a sequence whose elements are stacked, entry by entry
            return [self._named(obs, i) for i in range(len(self._shapes))]
        if self.unread and isinstance(obs, list | tuple) and len(obs) == self._every:
            obs = [obs[i] for i in self._read]
        given = self._with_vectors_joined(list(obs) if isinstance(obs, list | tuple) else [obs])
        if (
            raw is not None
            and raw.rows
            and not (len(given) == 1 and np.ndim(given[0]) >= 2 and np.shape(given[0])[-2:] == shape)
        ):
            return [obs]  # a sequence of elements is the only observation
        if len(given) == len(self._shapes):
            return given
        walked = [_walk(given, name) for name in self.names] if isinstance(obs, list | tuple) else []
        if walked and all(one is not None for one in walked):
            return walked  # tuples in tuples
        if len(self._shapes) == 1 and len({np.shape(one) for one in given}) == 1:
            return [obs]  # numbers in a list
        of_reset = "; `reset` returns (obs, info): give obs alone" if given and isinstance(given[-1], Mapping) else ""
        raise PolicyError(
            f"{self._model} sees {len(self._shapes)} observations {list(self._shapes)}; got {len(given)}{of_reset}"
        )

    def _with_vectors_joined(self, given: list[Any]) -> list[Any]:
        if VECTORS not in self._tensors or len(given) <= len(self._shapes):
            return given
        try:
            vectors = [one for one in given if np.ndim(one) <= 2]
            joined = np.concatenate(vectors, axis=-1)
        except ValueError:
            return given  # no arrays, or of different numbers of agents, which is an error elsewhere
        images = [one for one in given if np.ndim(one) > 2]
        if len(images) + 1 != len(self._shapes):
            return given
        return [joined if name == VECTORS else images.pop(0) for name in self._tensors]

    def _named(self, obs: Mapping[Any, Any], i: int) -> Any:
        """Looks up by the environment's name, by its path through dictionaries, or by the tensor's name."""
        for name in (self.names[i], self._tensors[i]):
            found = obs[name] if name in obs else _walk(obs, name)
            if found is not None:
                return found
        there = [str(key) for key in obs]
        raise PolicyError(
            f"observation '{self.names[i]}' is missing{nearest(self.names[i], there)} (given: "
            f"{', '.join(there) or 'none'}; {self._model} sees {', '.join(self.names)})"
        )

    def _array(self, i: int, values: Any) -> np.ndarray:
        raw = self._raw[i]
        if raw is not None:
            values = self._from_raw(i, values, raw)
        return floats(values, f"observation '{self.names[i]}'")

    def _from_raw(self, i: int, values: Any, raw: RawObs) -> Any:
        shape = self._shapes[i]
        if raw.rows:
            return self._sequences(i, values, raw)
        try:
            array = np.asarray(values)
        except ValueError:
            return values  # not convertible to an array
        many = array.ndim == len(raw.shape) + 1 and array.shape[1:] == raw.shape
        if raw.sizes and not raw.shape and array.ndim == 2 and array.shape[1] == 1 != shape[0]:
            array = array[:, 0]
            many = True
        if not many and array.shape != raw.shape:
            return values
        if raw.sizes:
            return self._one_hot(i, array, raw, many) if array.dtype.kind in "iu" else values
        if len(shape) == 3:
            if raw.shape == shape and array.dtype.kind == "f":
                return values
            image = array if raw.channels is not None else np.expand_dims(array, 1 if many else 0)
            image = image if raw.channels is None else np.moveaxis(image, raw.channels + many, -3)
            return image.reshape(*array.shape[:many], *shape).astype(np.float32) * np.float32(raw.scale)
        return values if array.shape == shape else array.reshape(len(array), *shape) if many else array.reshape(shape)

    def _sequences(self, i: int, values: Any, raw: RawObs) -> Any:
        """Converts the elements that one or several agents see to rows; arrays of rows stay as they are."""
        most, size = self._shapes[i]
        if (
            isinstance(values, np.ndarray)
            and values.dtype != object
            and values.shape[-2:] == (most, size)
            and values.ndim in (2, 3)
        ):
            return values
        if not isinstance(values, Sequence | np.ndarray | Mapping):
            return values
        listed = _elements(values, raw)
        if len(listed) > most:
            raise PolicyError(
                f"observation '{self.names[i]}' has {len(listed)} elements; the model has room for {most}"
            )
        rows = np.zeros((most, size), np.float32)
        for row, element in zip(rows, listed, strict=False):
            parts = [self._part(i, key, element, one) for key, one in raw.rows]
            numbers = np.concatenate(parts) if parts else np.zeros(0)
            if len(numbers) != size - 1:
                raise PolicyError(
                    f"an element of observation '{self.names[i]}' has {len(numbers)} numbers; expected {size - 1}"
                )
            row[0] = 1
            row[1:] = numbers
        return rows

    def _part(self, i: int, key: str, element: Any, raw: RawObs) -> np.ndarray:
        value = _walk(element, key) if key else element
        if value is None:
            raise PolicyError(f"an element of observation '{self.names[i]}' has no '{key}'")
        if not raw.sizes:
            return floats(value, f"observation '{self.names[i]}'").ravel()
        hot = np.zeros(sum(raw.sizes), np.float32)
        at = 0
        for integer, count, least in zip(
            np.ravel(value).astype(np.int64).tolist(), raw.sizes, raw.starts, strict=False
        ):
            if not least <= integer < least + count:
                raise PolicyError(
                    f"observation '{self.names[i]}' holds {integer}; expected {least} to {least + count - 1}"
                )
            hot[at + integer - least] = 1
            at += count
        return hot

    def _one_hot(self, i: int, array: np.ndarray, raw: RawObs, many: bool) -> np.ndarray:
        size = self._shapes[i][0]
        if many and array.shape == (size,):
            raise PolicyError(
                f"observation '{self.names[i]}' is {size} integers, which may be one agent's one-hot or a number for "
                f"each of {size} agents; give floats for a one-hot, or shape ({size}, 1) for one number for each agent"
            )
        sizes = np.array(raw.sizes)
        values = array.reshape(len(array) if many else 1, -1).astype(np.int64) - np.array(raw.starts)
        if ((values < 0) | (values >= sizes)).any():
            row, place = np.argwhere((values < 0) | (values >= sizes))[0].tolist()
            least = raw.starts[place]
            raise PolicyError(
                f"observation '{self.names[i]}' holds {values[row, place] + least}; expected {least} to "
                f"{least + raw.sizes[place] - 1}"
            )
        hot = np.zeros((len(values), size), np.float32)
        np.put_along_axis(hot, values + np.cumsum(sizes) - sizes, 1.0, 1)
        return hot if many else hot[0]


def _elements(values: Any, raw: RawObs) -> list[Any]:
    """Lists the elements of a sequence, which a space with `stack` gives as arrays with an element in each row."""
    if isinstance(values, Mapping):
        columns = {key: np.asarray(_walk(values, key)) for key, _ in raw.rows}
        return [{key: column[j] for key, column in columns.items()} for j in range(len(next(iter(columns.values()))))]
    return list(values)


def floats(values: Any, what: str) -> np.ndarray:
    """Returns a float32 array. Raises PolicyError, which names the array as `what`, unless it holds finite numbers."""
    try:
        if values is None or np.iscomplexobj(values):
            raise TypeError(f"it is {values!r:.80}")
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{what} is no array of numbers: {error}") from error
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise PolicyError(f"{what} holds {array[tuple(where)]} at {where}; expected finite numbers")
    return array


def _walk(obs: Any, name: str) -> Any:
    """Looks up a dotted name such as `arm.0` in dictionaries and tuples; None: missing. Keys may have dots."""
    if not name:
        return obs
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        rest = ".".join(parts[length:])
        found = _entry(obs, key)
        if found is not None and (found := _walk(found, rest)) is not None:
            return found
    return None


def _entry(obs: Any, key: str) -> Any:
    if isinstance(obs, Mapping):
        return obs[key] if key in obs else obs.get(int(key)) if key.isdecimal() else None
    return obs[int(key)] if isinstance(obs, Sequence) and key.isdecimal() and int(key) < len(obs) else None


def turned_inputs(model: Path | str | bytes, shapes: Mapping[str, tuple[int, ...]]) -> frozenset[str]:
    """Returns the observations of variable length that a model's graph transposes and then reshapes to entities.

    Until 2023 ML-Agents exported variable-length observations in this way, for an engine with channels last. In Unity
    that reshape restores the entities; in ONNX's order it permutes them, so `turn` first permutes them the other way.
    """
    candidates = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not candidates:
        return frozenset()
    import onnx  # takes a sixth of a second, which other models need not wait for

    graph = (onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))).graph
    constants = {
        node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t)
        for node in graph.node
        if node.op_type == "Constant"
    }
    constants |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    turned = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Transpose" and _order(node) == [0, 2, 1]
    }
    found: set[str] = set()
    for node in graph.node:
        if node.op_type != "Reshape" or turned.get(node.input[0]) not in candidates or node.input[1] not in constants:
            continue
        name = turned[node.input[0]]
        if tuple(constants[node.input[1]].tolist()[1:]) == candidates[name]:
            found.add(name)
    return frozenset(found)


def turn(rows: np.ndarray) -> np.ndarray:
    """Returns entities (N, entities, numbers) permuted so that such a graph restores their order."""
    return np.ascontiguousarray(rows.reshape(len(rows), rows.shape[2], rows.shape[1]).transpose(0, 2, 1))


def _order(node: Any) -> list[int]:
    return next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [])
