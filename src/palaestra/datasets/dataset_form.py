"""Converts the arrays of datasets to observations and actions of a behavior, as environments' spaces are converted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec, RawAction
from palaestra.envs.spaces.action_masks import ActionMasks
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.spaces.mask_source import MaskSource
from palaestra.envs.spaces.observation_leaves import Leaf, pick
from palaestra.envs.spaces.observation_spaces import Elements, observation_leaves


class DatasetForm:
    """Spaces of a dataset, and the behavior's spec that follows from them.

    `own` is the spec of a dataset in Palaestra's own form, whose arrays are the behavior's columns; without `own`, the
    spaces are those of a Gymnasium environment, and are converted as for training in it. Raises EnvError for an
    unsupported space.
    """

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], own: BehaviorSpec | None = None
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.own = own is not None
        self._actions = SpaceActions(action_space)
        self._leaves: list[Leaf] = []
        self.mask: tuple[Hashable, ...] | None = None
        """Keys of the observation's entry that is the mask of the actions; None: there is none."""
        if own is None:
            source = MaskSource("the dataset", observation_space, action_space, self._actions.spec, Conventions())
            self.mask = source.path
            self._leaves = observation_leaves(observation_space, leave_out=[] if source.name is None else [source.name])
            own = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec)
        self.spec = own
        self._masks = ActionMasks(action_space, self._actions.spec)

    @property
    def row_bytes(self) -> int:
        """Bytes of one step's observations and actions, as they are stored."""
        return _row_bytes(self.observation_space) + _row_bytes(self.action_space)

    def read_observations(self, values: Any, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], ...]:
        """Returns these rows of an episode's observations as columns. Raises EnvError."""
        if self.own:
            keys = [""] if not isinstance(self.observation_space, spaces.Dict) else list(self.observation_space.spaces)
            arrays = [np.asarray(values[key] if key else values) for key in keys]
            return tuple(
                _shaped(obs, array, obs.shape)[rows].astype(np.float32)
                for obs, array in zip(self.spec.obs, arrays, strict=True)
            )
        columns = []
        for leaf in self._leaves:
            shape = leaf.spec.shape if leaf.spec.raw is None else leaf.spec.raw.shape
            gathered = leaf.gather(pick(leaf, values))
            given = gathered if isinstance(leaf, Elements) else _shaped(leaf.spec, gathered, shape)
            columns.append(leaf.column(given[rows]).numpy())
        return tuple(columns)

    def read_actions(self, values: Any, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns continuous actions (N, numbers) and choices (N, branches). Raises what `policy_actions` does."""
        return policy_actions(self._actions, values, count)

    def read_masks(self, values: Any, count: int, last: NDArray[np.bool_], source: str) -> NDArray[np.bool_] | None:
        """Returns the masks of N observations; None without choices. After an end (`last`) all may be forbidden."""
        if not self._masks.choices:
            return None
        rows = (
            values
            if isinstance(values, np.ndarray) and values.dtype != object
            else [_entry(values, i) for i in range(count)]
        )
        if len(rows) != count:
            raise EnvError(f"{len(rows)} masks received for {count} observations")
        with suppress(EnvError):
            return self._masks.rows(rows, source)
        return self._masks.rows(rows, source, ~last, "step {}".format)  # after an end nothing may be possible


def form_of_our_env(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> DatasetForm | None:
    """Returns the form of a dataset of a Palaestra environment, `palaestra/...`; None if a wrapper changed it."""
    boxes = (
        observation_space.spaces if isinstance(observation_space, spaces.Dict) else {"observation": observation_space}
    )
    if not all(isinstance(box, spaces.Box) and len(box.shape) in (1, 2, 3) for box in boxes.values()):
        return None
    actions = SpaceActions(action_space).spec
    spec = BehaviorSpec(tuple(ObsSpec(str(name), box.shape) for name, box in boxes.items()), actions)  # pyright: ignore[reportArgumentType]
    return DatasetForm(observation_space, action_space, spec)


def in_file_order(space: spaces.Space[Any], written: Any) -> spaces.Space[Any]:
    """Returns the space with its keys in the order of the file, which is the order of the environment."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(key, in_file_order(space[key], one)) for key, one in written["subspaces"].items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple(
            [in_file_order(one, other) for one, other in zip(space.spaces, written["subspaces"], strict=True)]
        )
    return space


def unit_differences(there: BehaviorSpec, here: BehaviorSpec) -> list[str]:
    """Returns a line for each difference in ranges of actions and first integers, between specs of equal shapes."""
    lines = []
    one = there.action
    other = here.action
    if (one.low, one.high) != (other.low, other.high):
        lines.append(f"  continuous actions   {_bounds(one)}   {_bounds(other)}   <- differs")
    if (one.starts or (0,) * len(one.branches)) != (other.starts or (0,) * len(other.branches)):
        lines.append(f"  discrete actions begin with   {one.starts or 0}   {other.starts or 0}   <- differs")
    for a, b in zip(there.obs, here.obs, strict=True):
        ours, theirs = (((), ()) if obs.raw is None else (obs.raw.sizes, obs.raw.starts) for obs in (a, b))
        if ours != theirs and (ours[0] or theirs[0]):
            lines.append(f"  observation '{a.name}'   {_integers(*ours)}   {_integers(*theirs)}   <- differs")
    return lines


def _bounds(action: ActionSpec) -> str:
    if action.low is None or action.high is None:
        return "-1..1"
    pairs = list(dict.fromkeys(zip(action.low, action.high, strict=True)))
    return ", ".join(f"{low:g}..{high:g}" for low, high in pairs[:4]) + (", ..." if len(pairs) > 4 else "")


def _integers(sizes: tuple[int, ...], starts: tuple[int, ...]) -> str:
    texts = [f"{start}..{start + size - 1}" for size, start in zip(sizes, starts, strict=True)]
    return f"integers {', '.join(texts[:4])}{', ...' if len(texts) > 4 else ''}" if texts else "numbers"


def _shaped(obs: ObsSpec, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if array.shape[1:] not in (shape, shape or (1,)):
        raise EnvError(f"observation '{obs.name}' has shape {array.shape[1:]}; its space says {shape}")
    return array


def _entry(values: Any, i: int) -> Any:
    if isinstance(values, Mapping):
        return {key: _entry(one, i) for key, one in values.items()}
    if isinstance(values, tuple):
        return tuple(_entry(one, i) for one in values)
    return values[i]


def _row_bytes(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Dict):
        return sum(map(_row_bytes, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(_row_bytes, space.spaces))
    return int(np.prod(space.shape or ())) * (8 if space.dtype is None else np.dtype(space.dtype).itemsize)


def policy_actions(actions: SpaceActions, batched: Any, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns continuous actions (N, numbers), scaled to -1..1, and choices (N, branches) from 0. Raises EnvError."""
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
    if form.parts is None:
        array = np.asarray(value)
        if array.shape not in ((count, *form.shape), (count, *(form.shape or (1,)))):
            raise EnvError(f"actions have shape {array.shape}; expected {(count, *form.shape)}")
        (numbers if form.continuous else choices).append(array.reshape(count, -1))
        return
    for key, part in zip(range(len(form.parts)) if form.keys is None else form.keys, form.parts, strict=True):
        _collect(part, value[key], count, numbers, choices)
