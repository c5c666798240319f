"""Converts masks of Gymnasium environments, in any of the forms in use, to one row of choices for each agent.

A mask for a Discrete is an array; for a MultiDiscrete the choices of all integers in one array, or one array for each
integer; for a Dict or Tuple a dictionary or tuple, or the choices of all branches in one array. For a MultiBinary it
may also hold 0, 1 or 2 (free) for each bit, as Gymnasium's `sample` accepts it. True, or a number other than 0, means
that the choice is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec

KEY = "action_mask"
"""Usual name of the mask of the next action."""


class ActionMasks:
    """Reads masks for an action space."""

    def __init__(self, space: spaces.Space, spec: ActionSpec) -> None:
        self._space = space
        self._sizes = spec.branches
        self.choices = spec.choices
        """Length of a row; 0: the space has no masks."""
        self._starts = np.cumsum((0, *spec.branches[:-1]))

    def rows(
        self, masks: Any, source: str, acting: np.ndarray | None = None, who: Callable[[int], str] = "area {}".format
    ) -> np.ndarray:
        """Returns the masks of N agents as (N, choices) bool; an agent's mask may be None. Raises EnvError.

        `acting` (N,) leaves out agents whose masks are not used; `source` names the masks and `who` the agents in
        messages.
        """
        if self._is_plain(masks):
            allowed = masks != 0
        else:
            used = [mask if acting is None or acting[i] else None for i, mask in enumerate(masks)]
            allowed = np.stack([self._row(mask, f"{who(i)}: the mask {source}") for i, mask in enumerate(used)])
        if acting is not None:
            allowed[~acting] = True
        possible = np.logical_or.reduceat(allowed, self._starts, axis=1)
        if not possible.all():
            area, branch = np.argwhere(~possible)[0].tolist()
            raise EnvError(
                f"{who(area)}: the mask {source} forbids all {self._sizes[branch]} choices of branch {branch}; it "
                "must allow at least one (if an agent can do nothing, end the episode or allow a choice without effect)"
            )
        return allowed

    def _is_plain(self, masks: Any) -> bool:
        """Whether masks are one array of numbers, (N, choices), without NaN."""
        if not isinstance(masks, np.ndarray) or masks.shape[1:] != (self.choices,):
            return False
        return masks.dtype.kind in "biu" or (masks.dtype.kind == "f" and not np.isnan(masks.sum()))

    def _row(self, mask: Any, what: str) -> np.ndarray:
        if mask is None:
            return np.ones(self.choices, np.bool_)
        try:
            if (
                isinstance(self._space, spaces.Dict | spaces.Tuple)
                and not isinstance(mask, Mapping)
                and np.shape(mask) == (self.choices,)
            ):
                return _allowed(np.asarray(mask), what)
        except ValueError:
            pass  # arrays of different lengths: a tuple of masks
        row = np.concatenate(self._flat(self._space, mask, what))
        assert row.shape == (self.choices,)
        return row

    def _flat(self, space: spaces.Space, mask: Any, what: str) -> list[np.ndarray]:
        """Returns the parts of a mask in the order of the branches."""
        if isinstance(space, spaces.Dict):
            if mask is not None and (not isinstance(mask, Mapping) or set(mask) - set(space.spaces)):
                given = ", ".join(map(str, mask)) if isinstance(mask, Mapping) else type(mask).__name__
                raise EnvError(
                    f"{what} should be a dictionary with some of the keys {', '.join(map(str, space.spaces))}; it is: "
                    f"{given}"
                )
            entries = [(key, one, None if mask is None else mask.get(key)) for key, one in space.spaces.items()]
            return [part for key, one, entry in entries for part in self._flat(one, entry, f"{what}['{key}']")]
        if isinstance(space, spaces.Tuple):
            if mask is not None and (not isinstance(mask, Sequence | np.ndarray) or len(mask) != len(space)):
                raise EnvError(
                    f"{what} should have a part for each of {len(space)} entries of the action, None for one without "
                    "choices"
                )
            entries = enumerate(zip(space.spaces, [None] * len(space) if mask is None else mask, strict=True))
            return [part for i, (one, entry) in entries for part in self._flat(one, entry, f"{what}[{i}]")]
        sizes = _branch_sizes(space)
        if mask is None or not sizes.size:
            return [np.ones(int(sizes.sum()), np.bool_)]
        flat = np.array(_numbers(mask))
        allowed = _allowed(flat, what)
        if isinstance(space, spaces.MultiBinary) and flat.size == sizes.size:
            return [np.stack([flat != 1, flat != 0], 1).ravel()]
        if flat.size != sizes.sum():
            each = f" ({' + '.join(map(str, sizes.tolist()))})" if 1 < sizes.size <= 8 else ""
            raise EnvError(
                f"{what} has {flat.size} entries; expected {int(sizes.sum())}{each}, one for each choice of a {space}"
            )
        return [allowed]


def _allowed(mask: np.ndarray, what: str) -> np.ndarray:
    """Returns the choices that a mask allows. Raises EnvError for NaN or a value that is no number."""
    wrong = np.isnan(mask) if mask.dtype.kind == "f" else np.full(mask.shape, mask.dtype.kind not in "biu")
    if wrong.any():
        raise EnvError(f"{what} holds {mask[wrong].tolist()[0]!r}; expected True or False (or 1 or 0) for each choice")
    return mask != 0


def _branch_sizes(space: spaces.Space) -> np.ndarray:
    """Returns the number of choices of each branch of a leaf."""
    from palaestra.envs.spaces.action_spaces import SpaceActions

    return np.zeros(0, np.int64) if 0 in (space.shape or ()) else np.array(SpaceActions(space).spec.branches, np.int64)


def _numbers(mask: Any) -> list[Any]:
    """Returns the numbers of nested tuples, lists and arrays in order."""
    if isinstance(mask, tuple | list) or (isinstance(mask, np.ndarray) and mask.dtype == object):
        return [number for part in mask for number in _numbers(part)]
    return np.asarray(mask).ravel().tolist()
