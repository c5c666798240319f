"""Finds where an environment gives the masks of its agents' next actions: Gymnasium and PettingZoo share these
conventions.

A mask is an entry of the observation (hidden from the agent), an entry of an info, or the result of a method. An entry
`action_mask` is always a mask; entries with the other names must have the form of a mask, since these names can mean
something else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from inspect import Parameter, signature
from operator import getitem
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec
from palaestra.envs.spaces.action_masks import KEY, ActionMasks
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.spaces.option_names import ALLOW_ALL, MASK_KEY

LISTS = ("legal_actions", "legal_moves", "valid_actions", "avail_actions", "available_actions")
"""Names under which an info has a mask, or the numbers of the allowed choices of a Discrete."""
KEYS = (KEY, "action_masks", "mask", "valid_action_mask", "legal_action_mask", "legal_actions_mask", *LISTS)
"""Names of a mask in an observation or an info, in the order in which they are looked for."""
METHODS = ("action_masks", "valid_action_mask", "valid_action_masks", "get_action_mask", "action_mask")
"""Methods of an environment that return the mask of the next action, in the order in which they are looked for."""

Who = Callable[[int], str]
"""Names the area or agent of a row in messages."""


class MaskSource:
    """Reads the masks of N agents from their environment's observations, infos or method."""

    def __init__(
        self, where: str, observation: spaces.Space, action: spaces.Space, spec: ActionSpec, conventions: Conventions
    ) -> None:
        """`where` begins messages; `conventions` are complete."""
        self._where = where
        self._action = action
        self._masks = ActionMasks(action, spec)
        self.choices = self._masks.choices
        """Length of a row; 0: the actions have no masks."""
        own = conventions.mask_key
        self._keys = KEYS if own is None else (str(own),) if own else ()
        self.methods = METHODS if own is None else self._keys
        """Names of methods that may return masks."""
        self._allows_all = bool(conventions.missing_mask_allows_all)
        self._key: str | None = None
        self._warned = set[str]()
        self.path: tuple[Hashable, ...] | None = None
        """Keys of the observation's entry that is the mask; None: the mask is elsewhere, or there is none."""
        if self.choices:
            found = [
                (self._keys.index(path[-1]), len(path), path, space)
                for path, space in _entries(observation)
                if path[-1] in self._keys
            ]
            fitting = sorted(
                (order, depth, path)
                for order, depth, path, space in found
                if self._sure(path[-1]) or self._fits_space(space)
            )
            self.path = fitting[0][2] if fitting else None
        self._space: Any = None if self.path is None else dict(_entries(observation))[self.path]

    @property
    def name(self) -> str | None:
        """The name of the observation's entry that is the mask."""
        return None if self.path is None else ".".join(map(str, self.path))

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for users, if the mask is an entry of the observation."""
        if self.name is None:
            return ()
        return (
            f"'{self.name}' in the observation is the mask of the actions, not observed "
            f"(env_options.{MASK_KEY}=false: observed)",
        )

    def in_observations(self, observations: Sequence[Any], acting: np.ndarray | None, who: Who) -> np.ndarray:
        """Returns the masks in N single observations, (N, choices). Raises EnvError."""
        assert self.path is not None
        try:
            masks = [
                reduce(getitem, self.path, one) if acting is None or acting[i] else None
                for i, one in enumerate(observations)
            ]
        except (KeyError, IndexError, TypeError):
            lacking = next(i for i, one in enumerate(observations) if not _has(one, self.path))
            raise EnvError(f"{who(lacking)}: the observation has no '{self.name}', although its space has") from None
        return self._rows(masks, f"in the observation's '{self.name}'", acting, who)

    def in_batch(self, observation: Any, count: int, acting: np.ndarray | None, who: Who) -> np.ndarray:
        """Returns the masks in a batched observation of N environments, (N, choices). Raises EnvError."""
        assert self.path is not None
        if not _has(observation, self.path):
            raise EnvError(f"{self._where}: the observation has no '{self.name}', although its space has")
        given = reduce(getitem, self.path, observation)
        masks = given if isinstance(given, np.ndarray) else list(iterate(batch_space(self._space, count), given))
        return self._rows(masks, f"in the observation's '{self.name}'", acting, who)

    def method(self, env: Any, most: int = 0) -> tuple[str, Callable[..., Any]] | None:
        """Returns the method of an environment that gives its mask, with its name; the member may be an attribute.

        None if the environment has no mask, or if the mask is in the observation. `most`: the largest number of
        arguments that the method may need.
        """
        for name in self.methods if self.choices and self.path is None else ():
            found = _attribute(env, name)
            if callable(found) and arguments(found) <= most:
                return name, found
            if found is not None and not callable(found) and name in self.methods[:1]:
                return name, lambda name=name: _attribute(env, name)
        return None

    def of_method(self, name: str, masks: Any, acting: np.ndarray | None, who: Who) -> np.ndarray:
        """Returns the masks of N environments that a method returned, (N, choices). Raises EnvError."""
        return self._rows(masks, f"{name}()", acting, who)

    def in_infos(
        self,
        infos: Sequence[Any],
        column: Callable[[str], Any],
        who: Who,
        *,
        first: bool,
        acting: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """Returns the masks in infos, (N, choices); None if the infos have no masks.

        `column` returns the entries of all N infos for a key, None for infos without it; `infos` has one info for each
        environment, or a list with one info for all. `first`: the infos of `reset`, which decide whether the
        environment has masks. Raises EnvError for masks that appear later.
        """
        if not self.choices:
            return None
        if first or (self._key is None and self._allows_all):
            self._key = self._key_of(infos, column, acting, who)
        if self._key is None:
            if not self._allows_all and (late := self._key_of(infos, column, acting, who)) is not None:
                raise self._late(late)
            return self._rows([None] * len(column(KEY)), "", acting, who) if self._allows_all else None
        key = self._key
        masks = column(key)
        if not isinstance(masks, np.ndarray):
            masks = self._noticed(key, [self._unlisted(key, mask) for mask in masks], acting, who)
        return self._rows(masks, f"in info['{key}']", acting, who)

    def _key_of(
        self, infos: Sequence[Any], column: Callable[[str], Any], acting: np.ndarray | None, who: Who
    ) -> str | None:
        """Returns the first key under which an info has a mask; warns about other values under such a key."""
        there = set[Any]().union(*(info for info in infos if isinstance(info, (dict, Mapping))))
        for key in self._keys:
            if key not in there:
                continue
            given = column(key)
            row = next((i for i, one in enumerate(given) if one is not None and (acting is None or acting[i])), None)
            if row is None:
                continue
            if self._sure(key) or self._fits(self._unlisted(key, given[row])):
                return key
            if key != "mask" and key not in self._warned:
                self._warned.add(key)
                warnings.warn(
                    f"{who(row)}: info['{key}'] is no mask of the actions, and is ignored: expected "
                    f"{self._masks.choices} times True or False, one for each choice",
                    stacklevel=2,
                )
        return None

    def _sure(self, key: Hashable) -> bool:
        """Whether an entry of this name is always a mask."""
        return key == KEY or self._keys is not KEYS

    def _fits(self, mask: Any) -> bool:
        try:
            values = np.asarray(mask)
        except ValueError:
            return False
        return (
            values.size == self.choices and values.dtype.kind in "biuf" and bool(((values == 0) | (values == 1)).all())
        )

    def _fits_space(self, space: spaces.Space) -> bool:
        """Whether a space holds zeros and ones, one for each choice."""
        if isinstance(space, spaces.Box):
            return int(np.prod(space.shape)) == self.choices and bool(
                (space.low >= 0).all() and (space.high <= 1).all()
            )
        if isinstance(space, spaces.MultiDiscrete):
            return space.nvec.size == self.choices and bool((space.nvec <= 2).all() and (space.start == 0).all())
        return isinstance(space, spaces.MultiBinary) and int(np.prod(space.shape)) == self.choices

    def _unlisted(self, key: str, mask: Any) -> Any:
        """Returns a mask as it is, or from the numbers of allowed choices. Raises EnvError if it may be both."""
        if (
            key not in LISTS
            or mask is None
            or not isinstance(self._action, spaces.Discrete)
            or isinstance(mask, Mapping)
        ):
            return mask
        values = np.asarray(mask if isinstance(mask, Sequence | np.ndarray) else list(mask)).ravel()
        if values.size and values.dtype.kind not in "iu":
            return mask
        choices = values.astype(np.int64) - int(self._action.start)
        is_list = len(np.unique(choices)) == len(choices) and bool(((choices >= 0) & (choices < self.choices)).all())
        if is_list and self._fits(values) and values.itemsize == 8 and values.tolist() == sorted(values.tolist()):
            raise EnvError(
                f"{self._where}: info['{key}'] is {values.tolist()}, which may be a mask or the numbers of the "
                "allowed choices; give True or False for each choice"
            )
        return np.isin(np.arange(self.choices), choices) if is_list and not self._fits(values) else mask

    def _rows(self, masks: Any, source: str, acting: np.ndarray | None, who: Who) -> np.ndarray:
        if (
            isinstance(masks, list)
            and acting is None
            and all(isinstance(one, np.ndarray) and one.shape == (self.choices,) for one in masks)
        ):
            masks = np.array(masks)
        return self._masks.rows(masks, source, acting, who)

    def _late(self, key: str) -> EnvError:
        return EnvError(
            f"{self._where} gives info['{key}'] in `step` but not in `reset`, so the first decision of each episode "
            "would have no mask: give it in the info of `reset` too. If everything is allowed there, say so: --set "
            f"env_settings.env_options.{ALLOW_ALL}=true (or metadata['{ALLOW_ALL}'] = True in the environment's class)"
        )

    def _noticed(self, key: str, masks: list[Any], acting: np.ndarray | None, who: Who) -> list[Any]:
        """Returns masks; warns once if an acting agent's mask is None, unless the conventions allow it."""
        missing = [i for i, mask in enumerate(masks) if mask is None and (acting is None or acting[i])]
        if missing and not self._allows_all and ALLOW_ALL not in self._warned:
            self._warned.add(ALLOW_ALL)
            warnings.warn(
                f"{who(missing[0])}: an info has no '{key}', though others have: every choice is allowed there "
                f"(env_settings.env_options.{ALLOW_ALL}=true says that this is meant)",
                stacklevel=2,
            )
        return masks


def _entries(
    space: spaces.Space, path: tuple[Hashable, ...] = ()
) -> Iterator[tuple[tuple[Hashable, ...], spaces.Space]]:
    """Yields each entry of a Dict and of the Dicts in it, with its keys."""
    for key, one in space.spaces.items() if isinstance(space, spaces.Dict) else ():
        yield (*path, key), one
        yield from _entries(one, (*path, key))


def _has(observation: Any, path: tuple[Hashable, ...]) -> bool:
    try:
        reduce(getitem, path, observation)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _attribute(env: Any, name: str) -> Any:
    """Returns an attribute of an environment or of one of its wrappers; None if it has none."""
    found = getattr(env, "get_wrapper_attr", None)
    try:
        return getattr(env, name) if found is None else found(name)
    except AttributeError:
        return None


def arguments(method: Callable[..., Any]) -> int:
    """Returns the number of arguments that a method needs."""
    try:
        takes = signature(method).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(
        one.default is Parameter.empty and one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        for one in takes
    )
