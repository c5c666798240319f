"""Converts columns back to arrays of Gymnasium's spaces, and actions of a space to those of a policy: for recorded
data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.core.specs import RawAction
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.observation_spaces import Elements, Image, Leaf, OneHot


def space_observations(space: spaces.Space[Any], leaves: Sequence[Leaf], columns: Sequence[NDArray[np.float32]]) -> Any:
    """Returns N observations as arrays (N, *shape), in a dictionary or tuple as in the space, from a column for each
    leaf.

    Raises EnvError for a Sequence.
    """
    by_path = {leaf.path: _restored(leaf, column) for leaf, column in zip(leaves, columns, strict=True)}
    return _assembled(space, (), by_path, len(columns[0]))


def policy_actions(actions: SpaceActions, batched: Any, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns the continuous actions (N, numbers), scaled to -1..1, and the choices (N, branches) from 0, of N actions
    of the space.

    Raises EnvError for arrays of other shapes, KeyError, IndexError or TypeError for actions of another form.
    """
    spec = actions.spec
    numbers = list[NDArray[Any]]()
    choices = list[NDArray[Any]]()
    if spec.raw is not None:
        _collect(spec.raw, batched, count, numbers, choices)
    continuous = np.concatenate(numbers, 1) if numbers else np.zeros((count, 0))
    discrete = np.concatenate(choices, 1).astype(np.int64) if choices else np.zeros((count, 0), np.int64)
    if spec.starts is not None:
        discrete = discrete - np.array(spec.starts, np.int64)
    if spec.low is None or spec.high is None:
        return continuous.astype(np.float32), discrete
    low = np.array(spec.low, np.float64)
    high = np.array(spec.high, np.float64)
    middle = low / 2 + high / 2
    half = high / 2 - low / 2
    return np.where(half > 0, (continuous - middle) / np.where(half > 0, half, 1), 0).astype(np.float32), discrete


def _collect(form: RawAction, value: Any, count: int, numbers: list[NDArray[Any]], choices: list[NDArray[Any]]) -> None:
    """Adds the columns of an action's arrays to `numbers` or `choices`, in the order of the spec."""
    if form.parts is None:
        array = np.asarray(value)
        if array.shape not in ((count, *form.shape), (count, *(form.shape or (1,)))):
            raise EnvError(f"actions have shape {array.shape}; expected {(count, *form.shape)}")
        (numbers if form.continuous else choices).append(array.reshape(count, -1))
        return
    for key, part in zip(range(len(form.parts)) if form.keys is None else form.keys, form.parts, strict=True):
        _collect(part, value[key], count, numbers, choices)


def _restored(leaf: Leaf, column: NDArray[np.float32]) -> NDArray[Any]:
    """Returns the column of a leaf in the environment's own form, (N, *shape), as floats or integers."""
    if isinstance(leaf, Elements):
        raise EnvError(f"observation '{leaf.spec.name}' is a {leaf.space}, which cannot be stored")
    raw = leaf.spec.raw
    shape = leaf.spec.shape if raw is None else raw.shape
    if isinstance(leaf, OneHot):
        starts = np.cumsum(leaf.sizes) - leaf.sizes
        chosen = [
            column[:, at : at + size].argmax(1) for at, size in zip(starts.tolist(), leaf.sizes.tolist(), strict=True)
        ]
        return (np.stack(chosen, 1) + starts - leaf.offset).reshape(len(column), *shape)
    if isinstance(leaf, Image):
        values = column.astype(np.float64) / leaf.scale
        if leaf.channels is None:
            return values.reshape(len(column), *shape)
        first = (
            *(size for axis, size in enumerate(shape) if axis < len(shape) - 3),
            shape[leaf.channels],
            *leaf.spec.shape[1:],
        )
        return np.moveaxis(values.reshape(len(column), *first), -3, leaf.channels + 1)
    return column.reshape(len(column), *shape)


def _assembled(
    space: spaces.Space[Any], path: tuple[Any, ...], by_path: Mapping[tuple[Any, ...], NDArray[Any]], count: int
) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _assembled(one, (*path, key), by_path, count) for key, one in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_assembled(one, (*path, i), by_path, count) for i, one in enumerate(space.spaces))
    values = by_path.get(path)
    if values is None:  # it holds no number
        return np.zeros((count, *(space.shape or ())), space.dtype)
    dtype = np.dtype(space.dtype)
    return (np.rint(values) if dtype.kind in "iu" and values.dtype.kind == "f" else values).astype(dtype)
