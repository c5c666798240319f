"""Converts Gymnasium's observation spaces to specs, and their arrays to columns.

Each leaf of a space becomes one observation: a plain space has one leaf, a Dict or Tuple one for each entry. `gather`
puts the leaf's values of N environments together, `column` converts them to float32.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Number
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.core.specs import ObsSpec, RawObs

MAX_CHANNELS = 4  # an image with a longer last axis may have its channels first, unless its other axes are a square's
MOST_NUMBERS = 2**22
"""Most numbers of one observation: 16 MB for each stored decision."""
MOST_CHOICES = 2**16
"""Longest one-hot."""
MOST_ELEMENTS = 32
"""Rows for the elements of a Sequence, unless the environment says otherwise."""
WHITE = 255
FLOAT32 = np.dtype(np.float32)
NUMBERS = "biuf"
"""Kinds of NumPy types that are numbers."""
LEAVE_OUT = "--set env_settings.env_options.leave_out=[{}] (or metadata['leave_out'] in the environment's class)"


class ObservationMisfit(EnvError):
    """An observation that does not fit its space."""

    def __init__(self, row: int | None, name: str, problem: str) -> None:
        """`row`: which of N observations; None: all of them together. `problem` follows the observation's name."""
        super().__init__(f"{'' if row is None else f'row {row}: '}observation '{name}' {problem}")
        self.row = row
        self.name = name
        self.problem = problem

    def of(self, env: str, areas: Sequence[int] | Tensor | np.ndarray | None = None) -> EnvError:
        """Returns the error with environment and area; `areas` are those of the N rows, None: 0 to N - 1."""
        area = "" if self.row is None else f", area {self.row if areas is None else int(areas[self.row])}"
        return EnvError(f"{env}{area}: observation '{self.name}' {self.problem}")


@dataclass(frozen=True)
class Vector:
    """An array of numbers, flattened."""

    path: tuple[Hashable, ...]
    spec: ObsSpec

    def gather(self, values: Any) -> np.ndarray:
        """Returns N values, batched or listed, as an array (N, ...)."""
        return as_numbers(values)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to a new tensor (N, *spec.shape) float32."""
        return torch.from_numpy(as_float32(values).reshape(len(values), -1))

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column (N, *spec.shape) float32."""
        if values.dtype.kind == "f" and values.dtype.itemsize > 4:
            values = as_float32(values)
        column[...] = values.reshape(len(values), -1)


@dataclass(frozen=True)
class OneHot:
    """Integers, converted to concatenated one-hots."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    sizes: np.ndarray  # number of values of each integer
    offset: np.ndarray  # added to each integer to give its index in the row

    def gather(self, values: Any) -> np.ndarray:
        """Returns N values, batched or listed, as an array (N, ...)."""
        return as_numbers(values)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to one-hots (N, sum of sizes). Raises ObservationMisfit for other integers."""
        values = np.reshape(values, (len(values), -1))
        whole = values.astype(np.int64)
        if values.dtype.kind == "f" and (whole != values).any():
            row, place = np.argwhere(whole != values)[0].tolist()
            raise ObservationMisfit(
                row, self.spec.name, f"is {values[row, place]}; expected a whole number, as its space says"
            )
        places = whole + self.offset
        ends = np.cumsum(self.sizes)
        wrong = (places < ends - self.sizes) | (places >= ends)
        if wrong.any():
            row, place = np.argwhere(wrong)[0].tolist()
            least = int((ends - self.sizes - self.offset)[place])
            value = int(places[row, place] - self.offset[place])
            most = least + int(self.sizes[place]) - 1
            raise ObservationMisfit(row, self.spec.name, f"is {value}; its space says {least} to {most}")
        return torch.zeros(len(values), *self.spec.shape).scatter_(1, torch.from_numpy(places), 1.0)

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column (N, sum of sizes)."""
        column[...] = self.column(values).numpy()


@dataclass(frozen=True)
class Image:
    """An image, or a stack of images, converted to (C, H, W) within 0..1."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    channels: int | None  # channel axis of one image or stack, or None if it has none
    scale: float

    def gather(self, values: Any) -> np.ndarray:
        """Returns N images, batched or listed, as an array (N, ...)."""
        return as_numbers(values)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched images to a new tensor (N, C, H, W)."""
        image = torch.from_numpy(np.require(values, requirements="W"))
        image = image.unsqueeze(1) if self.channels is None else image.movedim(self.channels + 1, -3)
        image = image.to(torch.float32, copy=True, memory_format=torch.contiguous_format).mul_(self.scale)
        return image.reshape(len(values), *self.spec.shape)

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched images to a column (N, C, H, W)."""
        column[...] = self.column(values).numpy()


@dataclass(frozen=True)
class Elements:
    """A Sequence: a row for each element, which starts with a 1, then rows of zeros."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    space: spaces.Sequence
    parts: tuple[Vector | OneHot, ...]  # the leaves of one element

    def gather(self, values: Any) -> np.ndarray:
        """Gathers N sequences as (N, most, size) float32. Raises ObservationMisfit for too long or unfit ones."""
        column = np.zeros((len(values), *self.spec.shape), np.float32)
        for row, sequence in enumerate(values):
            elements = list(self._elements(sequence))
            if len(elements) > len(column[row]):
                raise ObservationMisfit(
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

    def _part(self, part: Vector | OneHot, row: int, elements: list[Any]) -> np.ndarray:
        """Returns one array of every element, (elements, size)."""
        try:
            values = part.gather([pick(part, element) for element in elements])
            if values.shape[1:] == given_shape(part) and values.dtype.kind in NUMBERS:
                return part.column(values).numpy()
            problem = (
                f"has elements of shape {values.shape[1:]} and type {values.dtype}; its space says {given_shape(part)}"
            )
        except ObservationMisfit as error:
            problem = (
                f"has {'' if not part.path else f'a {part.spec.name} in '}element {error.row} that {error.problem}"
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            problem = f"has elements that do not fit their space: {type(error).__name__}: {error}"
        raise ObservationMisfit(row, self.spec.name, problem)

    def column(self, values: np.ndarray) -> Tensor:
        """Converts gathered sequences to a new tensor (N, most, size)."""
        return torch.from_numpy(np.array(values, np.float32))

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes gathered sequences to a column (N, most, size)."""
        column[...] = values

    def _elements(self, sequence: Any) -> Iterator[Any]:
        return iter(sequence) if not self.space.stack else iterate(self.space.stacked_feature_space, sequence)


def as_numbers(values: Any) -> np.ndarray:
    """Returns values as an array; one of objects that are numbers, or rows of numbers, as an array of numbers."""
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


Leaf: TypeAlias = Vector | OneHot | Image | Elements
"""One array of an observation: the `path` of keys to it, and its conversion to a column."""


def pick(leaf: Leaf, observation: Any) -> Any:
    """Returns the leaf's part of an observation, batched or single."""
    return reduce(getitem, leaf.path, observation)


def check_form(leaf: Leaf, values: np.ndarray, rows: int) -> None:
    """Raises ObservationMisfit unless values have this number of rows and the space's shape, and are numbers."""
    name = leaf.spec.name
    if values.shape[:1] != (rows,):
        given = f"{len(values)} rows" if values.ndim else "no rows"
        raise ObservationMisfit(None, name, f"has {given}, shape {values.shape}; expected {rows}, one for each area")
    if values.shape[1:] != (expected := given_shape(leaf)):
        raise ObservationMisfit(0, name, f"has shape {values.shape[1:]}; its space says {expected}")
    if values.dtype.kind not in NUMBERS:
        raise ObservationMisfit(0, name, _no_number(values[0]))


def given_shape(leaf: Leaf) -> tuple[int, ...]:
    """Returns the shape of a gathered value."""
    raw = leaf.spec.raw
    return leaf.spec.shape if raw is None or isinstance(leaf, Elements) else raw.shape


def observation_leaves(
    space: spaces.Space, *, most: int = MOST_ELEMENTS, leave_out: Collection[str] | None = None
) -> list[Leaf]:
    """Returns the leaves of an observation space; entries without numbers are left out.

    `most`: elements of a Sequence; `leave_out`: names of entries that are not observed; None: the user has no way to
    name them. Raises EnvError for an unsupported space, and for an entry to leave out that is missing.
    """
    names = entry_names(space)
    if unknown := [name for name in leave_out or () if name not in names]:
        has = ", ".join(names) or "no entries"
        raise EnvError(
            f"there is no observation '{unknown[0]}' to leave out{nearest(unknown[0], names)} (the environment has: "
            f"{has})"
        )
    leaves = list(_leaves(space, (), most, leave_out))
    if not leaves:
        raise EnvError(
            f"the observations are a {space}, which holds no number; an agent needs at least one (a constant 0 will do)"
        )
    names = [leaf.spec.name for leaf in leaves]
    if twice := [name for name in names if names.count(name) > 1]:
        raise EnvError(
            f"two observations are named '{twice[0]}' in {space}; rename a key (a dot joins the keys of nested entries)"
        )
    return leaves


def _entries(space: spaces.Space) -> Iterable[tuple[Hashable, spaces.Space]]:
    if isinstance(space, spaces.Dict):
        return space.spaces.items()
    return enumerate(space) if isinstance(space, spaces.Tuple) else ()


def entry_names(space: spaces.Space, path: tuple[Hashable, ...] = ()) -> list[str]:
    """Returns the names of all entries of a space, those within others as well."""
    return [
        name
        for key, one in _entries(space)
        for name in (".".join(map(str, (*path, key))), *entry_names(one, (*path, key)))
    ]


def _leaves(
    space: spaces.Space, path: tuple[Hashable, ...], most: int, leave_out: Collection[str] | None = None
) -> Iterator[Leaf]:
    name = ".".join(map(str, path)) or "observation"
    if path and name in (leave_out or ()):
        return
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, one in _entries(space):
            yield from _leaves(one, (*path, key), most, leave_out)
    elif isinstance(space, spaces.Sequence):
        yield _elements(path, name, space, most)
    elif isinstance(space, spaces.Discrete):
        yield _one_hot(path, name, np.array(space.n), np.array(space.start))
    elif isinstance(space, spaces.MultiDiscrete):
        if space.nvec.size:
            yield _one_hot(path, name, space.nvec, space.start)
    elif not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise EnvError(_refusal(name, space, may_leave_out=bool(path) and leave_out is not None))
    elif np.prod(space.shape) > MOST_NUMBERS:
        raise EnvError(
            f"observation '{name}' is a {space} of {np.prod(space.shape)} numbers; at most {MOST_NUMBERS} can be "
            "learned from: make it smaller with a wrapper (gymnasium.wrappers.ResizeObservation for images)"
        )
    elif 0 not in space.shape:
        image = _image(path, name, space) if isinstance(space, spaces.Box) else None
        yield image or _vector(path, name, space.shape)


def _refusal(name: str, space: spaces.Space, *, may_leave_out: bool) -> str:
    instead = "a wrapper (gymnasium.wrappers.TransformObservation) can turn it into one of these"
    if isinstance(space, spaces.Text):
        instead = "encode the text as numbers, such as MultiDiscrete with the index of each character"
    if isinstance(space, spaces.Graph):
        instead = (
            "give the nodes as a Sequence of Box (with what an agent needs of the edges in each), or as a Box "
            "of fixed size"
        )
    if isinstance(space, spaces.OneOf):
        instead = "give a Tuple of all alternatives, zeros for those absent, and a Discrete that says which one holds"
    return (
        f"observation '{name}' is a {space}; supported are Box (vectors, images), Discrete, MultiDiscrete, "
        f"MultiBinary, Sequence, and Dict or Tuple of these: {instead}"
        + (f". {LEAVE_OUT.format(name)} leaves it out" if may_leave_out else "")
    )


def _vector(path: tuple[Hashable, ...], name: str, given: tuple[int, ...]) -> Vector:
    shape = (int(np.prod(given)),)
    return Vector(path, ObsSpec(name, shape, raw=None if given == shape else RawObs(given)))


def _one_hot(path: tuple[Hashable, ...], name: str, sizes: np.ndarray, start: np.ndarray) -> OneHot:
    if sum(sizes.ravel().tolist()) > MOST_CHOICES:
        raise EnvError(
            f"observation '{name}' has {sum(sizes.ravel().tolist())} values, each a number of a one-hot; at most "
            f"{MOST_CHOICES} can be learned from: give coordinates or bits instead, as a Box or MultiBinary"
        )
    raw = RawObs(sizes.shape, tuple(sizes.ravel().tolist()), tuple(start.ravel().tolist()))
    sizes = sizes.ravel()
    start = start.ravel()
    return OneHot(path, ObsSpec(name, (int(sizes.sum()),), raw=raw), sizes, np.cumsum(sizes) - sizes - start)


def _image(path: tuple[Hashable, ...], name: str, space: spaces.Box) -> Image | None:
    """Returns an Image leaf, or None. Four axes are a stack of images, whose channels are concatenated."""
    is_uint8 = space.dtype == np.uint8
    axes = len(space.shape)
    most = float(space.high.max())
    scale = 1 / most if most > 1 else 1.0  # a board of 0 to 2 fills 0..1, as an image of 0 to 255 does
    if axes == 2 and is_uint8:
        return Image(path, ObsSpec(name, (1, *space.shape), raw=RawObs(space.shape, scale=scale)), None, scale)
    within_one = bool((space.low >= 0).all() and (space.high <= 1).all())
    is_bytes = is_uint8 or bool((space.low == 0).all() and (space.high == WHITE).all())
    if axes not in (3, 4) or not (is_bytes or within_one):
        return None
    stack, (first, middle, last) = space.shape[:-3], space.shape[-3:]
    channels = axes - 3 if last > MAX_CHANNELS and first < last and first != middle else axes - 1
    height, width = (size for axis, size in enumerate(space.shape) if axis >= axes - 3 and axis != channels)
    raw = RawObs(space.shape, channels=channels, scale=scale)
    return Image(
        path, ObsSpec(name, (int(np.prod(stack)) * space.shape[channels], height, width), raw=raw), channels, scale
    )


def _elements(path: tuple[Hashable, ...], name: str, space: spaces.Sequence, most: int) -> Elements:
    parts = [_flat(leaf) for leaf in _leaves(space.feature_space, (), most)]
    size = 1 + sum(part.spec.shape[0] for part in parts)
    rows = tuple((".".join(map(str, part.path)), part.spec.raw or RawObs(part.spec.shape)) for part in parts)
    return Elements(path, ObsSpec(name, (most, size), raw=RawObs((), rows=rows)), space, tuple(parts))


def _flat(leaf: Leaf) -> Vector | OneHot:
    """Returns a leaf of an element, with images as vectors."""
    if isinstance(leaf, Elements):
        raise EnvError(
            f"observation '{leaf.spec.name}' is a {leaf.space} within a Sequence; elements of a Sequence have a fixed "
            "size"
        )
    if isinstance(leaf, Image):
        return _vector(leaf.path, leaf.spec.name, leaf.spec.raw.shape if leaf.spec.raw else leaf.spec.shape)
    return leaf


def gathered(
    leaves: Sequence[Leaf], observations: Sequence[Any], env: str, areas: Sequence[int] | None = None
) -> tuple[np.ndarray, ...]:
    """Returns an array (N, ...) for each leaf of N single observations. `env` and the `areas` of the observations are
    for messages.

    Raises EnvError for one that does not fit its space.
    """
    try:
        arrays = tuple([leaf.gather([pick(leaf, observation) for observation in observations]) for leaf in leaves])
    except ObservationMisfit as error:
        raise error.of(env, areas) from None
    except Exception as error:
        raise _unreadable(leaves, observations, error).of(env, areas) from error
    for array in arrays:
        if array.dtype.kind not in NUMBERS:
            raise _unreadable(leaves, observations, None).of(env, areas)
    return arrays


def _unreadable(leaves: Sequence[Leaf], observations: Sequence[Any], error: Exception | None) -> ObservationMisfit:
    """Returns the error for the first observation that does not fit its space."""
    found = next(
        (wrong for row, one in enumerate(observations) for leaf in leaves if (wrong := misfit(leaf, row, one))), None
    )
    return found or ObservationMisfit(
        None, leaves[0].spec.name, f"cannot be read: {error or 'expected numbers, as its space says'}"
    )


def misfit(leaf: Leaf, row: int, observation: Any) -> ObservationMisfit | None:
    """Describes how a single observation does not fit its space; None if it does."""
    try:
        value = pick(leaf, observation)
    except (KeyError, IndexError, TypeError):
        keys = f" with {', '.join(map(str, observation))}" if isinstance(observation, dict) else ""
        return ObservationMisfit(
            row, leaf.spec.name, f"is missing from what the environment returned, a {type(observation).__name__}{keys}"
        )
    if isinstance(leaf, Elements):
        return None
    shape = given_shape(leaf)
    if value is None:
        return ObservationMisfit(row, leaf.spec.name, f"is None; expected an array of shape {shape}, as its space says")
    try:
        array = as_numbers(value)
    except ValueError:
        return ObservationMisfit(
            row, leaf.spec.name, f"is no array of shape {shape}: it has parts of different lengths"
        )
    if array.shape != shape:
        return ObservationMisfit(row, leaf.spec.name, f"has shape {array.shape}; its space says {shape}")
    if array.dtype.kind not in NUMBERS:
        return ObservationMisfit(row, leaf.spec.name, _no_number(array))
    return None


def _no_number(array: np.ndarray) -> str:
    """Says which entry of an array is no number."""
    at = next((at for at, one in np.ndenumerate(array) if not isinstance(one, Number)), None)
    if at is None:
        return f"has dtype {array.dtype}; expected numbers, as its space says"
    place = f"entry [{', '.join(map(str, at))}] of an array" if at else "an array"
    return f"is {np.asarray(array[at]).item()!r}; expected numbers, as its space says ({place} of dtype {array.dtype})"
