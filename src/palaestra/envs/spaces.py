"""Gymnasium's spaces as our specs, and their arrays as our columns.

An observation space has leaves (a plain space has one, a Dict or Tuple one for each
entry), each of which becomes one observation; an action space becomes continuous
numbers or discrete branches.
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

MAX_CHANNELS = 4  # a uint8 array with a last axis longer than this may have its channels first


@dataclass(frozen=True)
class Vector:
    """Numbers of any shape, flattened."""

    path: tuple[Hashable, ...]
    spec: ObsSpec

    def column(self, values: np.ndarray) -> Tensor:
        """(N, *spec.shape) float32 in memory of its own, from N batched values."""
        return torch.from_numpy(np.array(values, np.float32, order="C").reshape(len(values), -1))


@dataclass(frozen=True)
class OneHot:
    """Integers, each as a one-hot; they stand one after the other."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    offset: np.ndarray  # what turns each integer into its place in the row

    def column(self, values: np.ndarray) -> Tensor:
        """(N, sum of sizes) of zeros and ones."""
        places = np.reshape(values, (len(values), -1)).astype(np.int64) + self.offset
        return torch.zeros(len(values), *self.spec.shape).scatter_(1, torch.from_numpy(places), 1.0)


@dataclass(frozen=True)
class Image:
    """A picture, as channels, height, width within 0..1."""

    path: tuple[Hashable, ...]
    spec: ObsSpec
    channels: int | None  # axis of the channels in one picture, or None where it is gray
    scale: float

    def column(self, values: np.ndarray) -> Tensor:
        """(N, C, H, W) in memory of its own."""
        image = torch.from_numpy(np.require(values, requirements="W"))
        image = image.unsqueeze(1) if self.channels is None else image.movedim(self.channels + 1, 1)
        return image.to(torch.float32, copy=True, memory_format=torch.contiguous_format).mul_(self.scale)


Leaf: TypeAlias = Vector | OneHot | Image
"""One array of an observation: the `path` of keys that leads to it, and how it becomes a column."""


def pick(leaf: Leaf, observation: Any) -> Any:
    """The leaf's part of an observation, batched or single."""
    return reduce(getitem, leaf.path, observation)


def observation_leaves(space: spaces.Space, path: tuple[Hashable, ...] = ()) -> list[Leaf]:
    """Raises EnvError for a space that has no column."""
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
        f"observation '{name}' is a {space}, which has no column; supported are Box (vectors; images as uint8 or floats within 0..1), "
        f"Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these; a Gymnasium wrapper can turn it into one of them"
    )


def _leaves_of(entries: Iterable[tuple[Hashable, spaces.Space]], path: tuple[Hashable, ...]) -> list[Leaf]:
    return [leaf for key, space in entries for leaf in observation_leaves(space, (*path, key))]


def _one_hot(path: tuple[Hashable, ...], name: str, sizes: np.ndarray, start: np.ndarray) -> OneHot:
    raw = RawObs(sizes.shape, tuple(sizes.ravel().tolist()), tuple(start.ravel().tolist()))
    sizes, start = sizes.ravel(), start.ravel()
    return OneHot(path, ObsSpec(name, (int(sizes.sum()),), raw=raw), np.cumsum(sizes) - sizes - start)


def _image(path: tuple[Hashable, ...], name: str, space: spaces.Box) -> Image | None:
    """None where the box is no picture."""
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
    """A Box: our -1..1 is its low..high; numbers beyond are clipped."""

    def __init__(self, space: spaces.Box) -> None:
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        scaled = bool((low != -1).any() or (high != 1).any())
        bounds = {"low": tuple(low.ravel().tolist()), "high": tuple(high.ravel().tolist())} if scaled else {}
        self.spec = ActionSpec(continuous=low.size, **bounds)
        self._shape, self._dtype, self._low, self._high = space.shape, space.dtype, low, high
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2

    def batch(self, action: Action) -> np.ndarray:
        """(N, *shape) in the space's dtype, from N rows."""
        values = action.continuous.cpu().numpy()
        values = self._middle + self._half * values.reshape(len(values), *self._shape)
        return np.clip(values, self._low, self._high).astype(self._dtype, copy=False)


class Branches:
    """Integers of one shape; each is a branch."""

    def __init__(self, sizes: np.ndarray, start: np.ndarray | int, dtype: Any) -> None:
        starts = tuple(np.broadcast_to(start, sizes.shape).ravel().tolist())
        self.spec = ActionSpec(branches=tuple(sizes.ravel().tolist()), starts=starts if any(starts) else None)
        self._shape, self._start, self._dtype = sizes.shape, start, dtype

    def batch(self, action: Action) -> np.ndarray:
        """(N, *shape) in the space's dtype, from N rows."""
        values = action.discrete.cpu().numpy()
        return (values.reshape(len(values), *self._shape) + self._start).astype(self._dtype, copy=False)


def actions_of(space: spaces.Space) -> Continuous | Branches:
    """Raises EnvError for a space that no policy of ours answers."""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise EnvError(
                f"the actions are a {space} without bounds; our numbers are -1..1 and need a finite low and high to be scaled to"
            )
        return Continuous(space)
    if isinstance(space, spaces.Discrete):
        return Branches(np.array(space.n), space.start, space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return Branches(space.nvec, space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Branches(np.full(space.shape, 2), 0, space.dtype)
    raise EnvError(f"the actions are a {space}; supported are Box (bounded floats), Discrete, MultiDiscrete and MultiBinary")
