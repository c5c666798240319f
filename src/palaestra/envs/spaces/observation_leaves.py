"""One array of an observation, and its conversion from a Gymnasium environment's values to a column.

`gather` puts the values of N environments together, `column` converts them to float32.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from numbers import Number
from operator import getitem
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ObsSpec

FLOAT32 = np.dtype(np.float32)
NUMBERS = "biuf"
"""Kinds of NumPy types that are numbers."""


class WrongObservation(EnvError):
    """An observation that does not fit its space."""

    def __init__(self, row: int | None, name: str, problem: str) -> None:
        """`row`: which of N observations; None: all of them together. `problem` follows the observation's name."""
        super().__init__(f"{'' if row is None else f'row {row}: '}observation '{name}' {problem}")
        self.row = row
        self.name = name
        self.problem = problem

    def of(self, env: str, areas: Sequence[int] | Tensor | np.ndarray | None = None) -> EnvError:
        """Returns the error, naming environment and area; `areas` are the areas of the N rows, None: 0 to N - 1."""
        area = "" if self.row is None else f", area {self.row if areas is None else int(areas[self.row])}"
        return EnvError(f"{env}{area}: observation '{self.name}' {self.problem}")


@dataclass(frozen=True)
class Leaf:
    """One array of an observation, at the `path` of keys that leads to it."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    box: spaces.Box | None = field(default=None, kw_only=True, compare=False)
    """The space of a vector or image, for its bounds; None: it has none."""

    def gather(self, values: Any) -> np.ndarray:
        """Returns N values, batched or listed, as an array (N, ...)."""
        return as_numbers(values)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to a new tensor (N, *spec.shape) float32."""
        raise NotImplementedError

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column (N, *spec.shape) float32."""
        column[...] = self.column(values).numpy()

    def wrong(self, row: int | None, problem: str) -> WrongObservation:
        """Returns the error for one of N values, which does not fit."""
        return WrongObservation(row, self.spec.name, problem)


class Vector(Leaf):
    """An array of numbers, flattened."""

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values."""
        return torch.from_numpy(as_float32(values).reshape(len(values), -1))

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column."""
        if values.dtype.kind == "f" and values.dtype.itemsize > 4:
            values = as_float32(values)
        column[...] = values.reshape(len(values), -1)


@dataclass(frozen=True)
class OneHot(Leaf):
    """Integers, converted to concatenated one-hots."""

    sizes: np.ndarray  # number of values of each integer
    offset: np.ndarray  # added to each integer to give its index in the row

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to one-hots (N, sum of sizes). Raises WrongObservation for other integers."""
        values = np.reshape(values, (len(values), -1))
        whole = values.astype(np.int64)
        if values.dtype.kind == "f" and (whole != values).any():
            row, place = np.argwhere(whole != values)[0].tolist()
            raise self.wrong(row, f"is {values[row, place]}; expected a whole number, as its space says")
        places = whole + self.offset
        ends = np.cumsum(self.sizes)
        wrong = (places < ends - self.sizes) | (places >= ends)
        if wrong.any():
            row, place = np.argwhere(wrong)[0].tolist()
            least = int((ends - self.sizes - self.offset)[place])
            value = int(places[row, place] - self.offset[place])
            most = least + int(self.sizes[place]) - 1
            raise self.wrong(row, f"is {value}; its space says {least} to {most}")
        return torch.zeros(len(values), *self.spec.shape).scatter_(1, torch.from_numpy(places), 1.0)


@dataclass(frozen=True)
class Image(Leaf):
    """An image, or a stack of images, converted to (C, H, W) within 0..1."""

    channels: int | None  # channel axis of one image or stack, or None if it has none
    scale: float

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched images to a new tensor (N, C, H, W)."""
        image = torch.from_numpy(np.require(values, requirements="W"))
        image = image.unsqueeze(1) if self.channels is None else image.movedim(self.channels + 1, -3)
        image = image.to(torch.float32, copy=True, memory_format=torch.contiguous_format).mul_(self.scale)
        return image.reshape(len(values), *self.spec.shape)


@dataclass(frozen=True)
class Elements(Leaf):
    """A Sequence: one row for each element, which starts with a 1; the other rows are zeros."""

    space: spaces.Sequence
    parts: tuple[Leaf, ...]  # the leaves of one element

    def gather(self, values: Any) -> np.ndarray:
        """Gathers N sequences as (N, most, size) float32. Raises WrongObservation for a sequence that is too long or
        does not fit."""
        column = np.zeros((len(values), *self.spec.shape), np.float32)
        for row, sequence in enumerate(values):
            elements = list(self._elements(sequence))
            if len(elements) > len(column[row]):
                raise WrongObservation(
                    row,
                    self.spec.name,
                    f"has {len(elements)} elements; there is room for {len(column[row])}: --set "
                    "env_settings.env_options.max_elements=NUMBER makes more for an environment named by its id, "
                    "metadata['max_elements'] in its class for any",
                )
            if elements:
                parts = [self._part(part, row, elements) for part in self.parts]
                column[row, : len(elements)] = np.concatenate([np.ones((len(elements), 1), np.float32), *parts], 1)
        return column

    def _part(self, part: Leaf, row: int, elements: list[Any]) -> np.ndarray:
        """Returns one array of every element, (elements, size)."""
        try:
            values = part.gather([pick(part, element) for element in elements])
            if values.shape[1:] == given_shape(part) and values.dtype.kind in NUMBERS:
                return part.column(values).numpy()
            problem = (
                f"has elements of shape {values.shape[1:]} and type {values.dtype}; its space says {given_shape(part)}"
            )
        except WrongObservation as error:
            problem = (
                f"has {'' if not part.path else f'a {part.spec.name} in '}element {error.row} that {error.problem}"
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            problem = f"has elements that do not fit their space: {type(error).__name__}: {error}"
        raise self.wrong(row, problem)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts gathered sequences to a new tensor (N, most, size)."""
        return torch.from_numpy(np.array(values, np.float32))

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes gathered sequences to a column (N, most, size)."""
        column[...] = values

    def _elements(self, sequence: Any) -> Iterator[Any]:
        return iter(sequence) if not self.space.stack else iterate(self.space.stacked_feature_space, sequence)


def as_numbers(values: Any) -> np.ndarray:
    """Returns values as an array; objects that are numbers, or rows of numbers, become an array of numbers."""
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    parts = [as_numbers(one) if isinstance(one, list | tuple | np.ndarray) else one for one in array.flat]
    if any(isinstance(one, np.ndarray) for one in parts):
        return np.stack(parts).reshape(*array.shape, *np.shape(parts[0]))
    if not all(isinstance(one, Number) for one in parts):
        return array
    numbers = np.array(array.tolist())
    return numbers.astype(np.float64) if numbers.dtype.kind == "O" else numbers


def as_float32(values: np.ndarray) -> np.ndarray:
    """Returns a new array in float32; numbers that are too large become infinite, without a warning."""
    if values.dtype is FLOAT32:  # the usual case
        return np.array(values, order="C")
    with np.errstate(over="ignore"):
        return np.array(values, np.float32, order="C")


def pick(leaf: Leaf, observation: Any) -> Any:
    """Returns the leaf's part of an observation, batched or single."""
    return reduce(getitem, leaf.path, observation)


def check_form(leaf: Leaf, values: np.ndarray, rows: int) -> None:
    """Raises WrongObservation unless values have this number of rows and the space's shape, and are numbers."""
    name = leaf.spec.name
    if values.shape[:1] != (rows,):
        given = f"{len(values)} rows" if values.ndim else "no rows"
        raise WrongObservation(None, name, f"has {given}, shape {values.shape}; expected {rows}, one for each area")
    if values.shape[1:] != (expected := given_shape(leaf)):
        raise WrongObservation(0, name, f"has shape {values.shape[1:]}; its space says {expected}")
    if values.dtype.kind not in NUMBERS:
        raise WrongObservation(0, name, _no_number(values[0]))


def given_shape(leaf: Leaf) -> tuple[int, ...]:
    """Returns the shape of a gathered value."""
    raw = leaf.spec.raw
    return leaf.spec.shape if raw is None or isinstance(leaf, Elements) else raw.shape


def gathered(
    leaves: Sequence[Leaf], observations: Sequence[Any], env: str, areas: Sequence[int] | None = None
) -> tuple[np.ndarray, ...]:
    """Returns an array (N, ...) for each leaf of N single observations. `env` and the `areas` of the observations are
    for messages.

    Raises EnvError for an observation that does not fit its space.
    """
    try:
        arrays = tuple([leaf.gather([pick(leaf, observation) for observation in observations]) for leaf in leaves])
    except WrongObservation as error:
        raise error.of(env, areas) from None
    except Exception as error:
        raise _unreadable(leaves, observations, error).of(env, areas) from error
    for array in arrays:
        if array.dtype.kind not in NUMBERS:
            raise _unreadable(leaves, observations, None).of(env, areas)
    return arrays


def _unreadable(leaves: Sequence[Leaf], observations: Sequence[Any], error: Exception | None) -> WrongObservation:
    """Returns the error for the first observation that does not fit its space."""
    found = next(
        (
            wrong
            for row, one in enumerate(observations)
            for leaf in leaves
            if (wrong := wrong_observation(leaf, row, one))
        ),
        None,
    )
    return found or WrongObservation(
        None, leaves[0].spec.name, f"cannot be read: {error or 'expected numbers, as its space says'}"
    )


def wrong_observation(leaf: Leaf, row: int, observation: Any) -> WrongObservation | None:
    """Describes why a single observation does not fit its space; None if it fits."""
    try:
        value = pick(leaf, observation)
    except (KeyError, IndexError, TypeError):
        keys = f" with {', '.join(map(str, observation))}" if isinstance(observation, dict) else ""
        return leaf.wrong(row, f"is missing from what the environment returned, a {type(observation).__name__}{keys}")
    if isinstance(leaf, Elements):
        return None
    shape = given_shape(leaf)
    if value is None:
        return leaf.wrong(row, f"is None; expected an array of shape {shape}, as its space says")
    try:
        array = as_numbers(value)
    except ValueError:
        return leaf.wrong(row, f"is no array of shape {shape}: it has parts of different lengths")
    if array.shape != shape:
        kind = type(value).__name__
        what = f"is {value!r:.80}" if isinstance(value, str) else f"is a {kind}" if isinstance(value, dict) else ""
        return leaf.wrong(row, f"{what or f'has shape {array.shape}'}; its space says {shape}")
    if array.dtype.kind not in NUMBERS:
        return leaf.wrong(row, _no_number(array))
    return None


def _no_number(array: np.ndarray) -> str:
    """Names the entry of an array that is no number."""
    at = next((at for at, one in np.ndenumerate(array) if not isinstance(one, Number)), None)
    if at is None:
        return f"has dtype {array.dtype}; expected numbers, as its space says"
    place = f"entry [{', '.join(map(str, at))}] of an array" if at else "an array"
    return f"is {np.asarray(array[at]).item()!r}; expected numbers, as its space says ({place} of dtype {array.dtype})"
