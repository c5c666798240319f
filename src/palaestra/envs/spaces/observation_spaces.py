"""Converts Gymnasium's observation spaces to specs, and their arrays to columns.

Each leaf of a space becomes one observation: a plain space has one leaf, a Dict or Tuple one for each entry.
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
from palaestra.core.specs import ObsSpec, RawObs

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
