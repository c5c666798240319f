"""Converts Gymnasium's spaces to specs, and their arrays to columns.

Each leaf of an observation space becomes one observation: a plain space has one leaf, a Dict or Tuple one for each entry. An action
space becomes continuous actions or discrete branches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, ObsSpec, RawObs
from palaestra.core.timestep import Action

MAX_CHANNELS = 4  # an image with a longer last axis may have its channels first


@dataclass(frozen=True)
class Vector:
    """An array of numbers, flattened."""

    path: tuple[Hashable, ...]
    spec: ObsSpec

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to a new tensor (N, *spec.shape) float32."""
        return torch.from_numpy(np.array(values, np.float32, order="C").reshape(len(values), -1))

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column (N, *spec.shape) float32."""
        column[...] = values.reshape(len(values), -1)


@dataclass(frozen=True)
class OneHot:
    """Integers, converted to concatenated one-hots."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    offset: np.ndarray  # added to each integer to give its index in the row

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched values to zeros and ones, (N, sum of sizes)."""
        places = np.reshape(values, (len(values), -1)).astype(np.int64) + self.offset
        return torch.zeros(len(values), *self.spec.shape).scatter_(1, torch.from_numpy(places), 1.0)

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched values to a column (N, sum of sizes)."""
        column[...] = self.column(values).numpy()


@dataclass(frozen=True)
class Image:
    """An image, converted to (C, H, W) within 0..1."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    channels: int | None  # channel axis of one image, or None if it has none
    scale: float

    def column(self, values: np.ndarray) -> Tensor:
        """Converts N batched images to a new tensor (N, C, H, W)."""
        image = torch.from_numpy(np.require(values, requirements="W"))
        image = image.unsqueeze(1) if self.channels is None else image.movedim(self.channels + 1, 1)
        return image.to(torch.float32, copy=True, memory_format=torch.contiguous_format).mul_(self.scale)

    def write(self, values: np.ndarray, column: np.ndarray) -> None:
        """Writes N batched images to a column (N, C, H, W)."""
        column[...] = self.column(values).numpy()


Leaf: TypeAlias = Vector | OneHot | Image
"""One array of an observation: the `path` of keys to it, and its conversion to a column."""


def pick(leaf: Leaf, observation: Any) -> Any:
    """Returns the leaf's part of an observation, batched or single."""
    return reduce(getitem, leaf.path, observation)


def observation_leaves(space: spaces.Space, path: tuple[Hashable, ...] = ()) -> list[Leaf]:
    """Returns the leaves of an observation space. Raises EnvError for an unsupported space."""
    if isinstance(space, spaces.Dict):
        return _leaves_of(space.spaces.items(), path)
    if isinstance(space, spaces.Tuple):
        return _leaves_of(enumerate(space.spaces), path)
    name = ".".join(map(str, path)) or "observation"
    if isinstance(space, spaces.Discrete):
        return [_one_hot(path, name, np.array(space.n), np.array(space.start))]
    if isinstance(space, spaces.MultiDiscrete):
        return [_one_hot(path, name, space.nvec, space.start)]
    if isinstance(space, spaces.Box) and (image := _image(path, name, space)):
        return [image]
    if isinstance(space, spaces.MultiBinary) or (isinstance(space, spaces.Box) and len(space.shape) < 3):
        shape = (int(np.prod(space.shape)),)
        return [Vector(path, ObsSpec(name, shape, raw=None if space.shape == shape else RawObs(space.shape)))]
    raise EnvError(
        f"observation '{name}' is a {space}; supported are Box (vectors; images as uint8 or floats within 0..1), "
        f"Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these; a Gymnasium wrapper can turn it into one of them"
    )


def _leaves_of(entries: Iterable[tuple[Hashable, spaces.Space]], path: tuple[Hashable, ...]) -> list[Leaf]:
    return [leaf for key, space in entries for leaf in observation_leaves(space, (*path, key))]


def _one_hot(path: tuple[Hashable, ...], name: str, sizes: np.ndarray, start: np.ndarray) -> OneHot:
    raw = RawObs(sizes.shape, tuple(sizes.ravel().tolist()), tuple(start.ravel().tolist()))
    sizes, start = sizes.ravel(), start.ravel()
    return OneHot(path, ObsSpec(name, (int(sizes.sum()),), raw=raw), np.cumsum(sizes) - sizes - start)


def _image(path: tuple[Hashable, ...], name: str, space: spaces.Box) -> Image | None:
    """Returns an Image leaf, or None if the box is no image."""
    is_uint8 = space.dtype == np.uint8
    if len(space.shape) == 2 and is_uint8:
        return Image(path, ObsSpec(name, (1, *space.shape), raw=RawObs(space.shape, scale=1 / 255)), None, 1 / 255)
    within_one = bool((space.low >= 0).all() and (space.high <= 1).all())
    if len(space.shape) != 3 or not (is_uint8 or within_one):
        return None
    first, _, last = space.shape
    channels = 0 if last > MAX_CHANNELS >= first else 2
    height, width = np.delete(space.shape, channels).tolist()
    scale = 1 / 255 if is_uint8 else 1.0
    raw = RawObs(space.shape, channels=channels, scale=scale)
    return Image(path, ObsSpec(name, (space.shape[channels], height, width), raw=raw), channels, scale)


class Continuous:
    """Converts actions within -1..1 to the low..high of a Box; larger ones are clipped."""

    def __init__(self, space: spaces.Box) -> None:
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        scaled = bool((low != -1).any() or (high != 1).any())
        bounds = {"low": tuple(low.ravel().tolist()), "high": tuple(high.ravel().tolist())} if scaled else {}
        self.spec = ActionSpec(continuous=low.size, **bounds)
        self._shape, self._dtype, self._low, self._high = space.shape, space.dtype, low, high
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2

    def batch(self, action: Action) -> np.ndarray:
        """Converts N rows to an array (N, *shape) in the space's dtype."""
        return self.batch_arrays(action.continuous.cpu().numpy(), action.discrete.cpu().numpy())

    def batch_arrays(self, values: np.ndarray, discrete: np.ndarray) -> np.ndarray:
        """Converts N rows of each column of an action."""
        values = self._middle + self._half * values.reshape(len(values), *self._shape)
        return np.clip(values, self._low, self._high).astype(self._dtype, copy=False)


class Branches:
    """Converts discrete branches to integers of a shape."""

    def __init__(self, sizes: np.ndarray, start: np.ndarray | int, dtype: Any) -> None:
        starts = tuple(np.broadcast_to(start, sizes.shape).ravel().tolist())
        self.spec = ActionSpec(branches=tuple(sizes.ravel().tolist()), starts=starts if any(starts) else None)
        self._shape, self._start, self._dtype = sizes.shape, start, dtype

    def batch(self, action: Action) -> np.ndarray:
        """Converts N rows to an array (N, *shape) in the space's dtype."""
        return self.batch_arrays(action.continuous.cpu().numpy(), action.discrete.cpu().numpy())

    def batch_arrays(self, continuous: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Converts N rows of each column of an action."""
        return (values.reshape(len(values), *self._shape) + self._start).astype(self._dtype, copy=False)


def actions_of(space: spaces.Space) -> Continuous | Branches:
    """Returns the conversion for an action space. Raises EnvError for an unsupported space."""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise EnvError(
                f"the actions are a {space} without bounds; actions of -1..1 are scaled to its low and high, which must be finite"
            )
        return Continuous(space)
    if isinstance(space, spaces.Discrete):
        return Branches(np.array(space.n), space.start, space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return Branches(space.nvec, space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Branches(np.full(space.shape, 2), 0, space.dtype)
    raise EnvError(f"the actions are a {space}; supported are Box (bounded floats), Discrete, MultiDiscrete and MultiBinary")
