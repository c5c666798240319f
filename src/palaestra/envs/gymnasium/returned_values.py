"""Checks what the methods of environments return, and recognizes the interface of Gym before Gymnasium 0.26."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from palaestra.core.errors import EnvError

ADAPT = (
    "Change the environment, or adapt it: pip install shimmy, then gymnasium.make('GymV21Environment-v0', "
    "env=env) in a function for python:module:function"
)
OLD_STEP = (
    "`step` returned {}; expected five: obs, reward, terminated, truncated, info. In an old environment of four "
    "values `done` becomes "
    "`terminated` where nothing follows, and `truncated` where a time limit cut the episode. " + ADAPT
)
OLD_RESET = (
    "`reset` {}; expected `reset(*, seed=None, options=None)` that returns two values: obs, info (a dictionary, {{}} "
    "will do), "
    "as in Gymnasium since 0.26. " + ADAPT
)
FLAGS = frozenset((bool, np.bool_))
"""Types of `terminated` and `truncated` that need no conversion."""


def check_reset(result: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """Returns the observation and info that `reset` returned. Raises EnvError for the old Gym interface."""
    if isinstance(result, tuple) and len(result) == 2:
        obs, info = result
        if info is None or isinstance(info, dict):
            return obs, info or {}
        raise EnvError(
            f"{name}: the info that `reset` returned, its second value, is {info!r:.80}; expected a dictionary "
            "({} will do)"
        )
    if result is None:
        raise EnvError(f"{name}: `reset` returned None; expected obs, info: does it end without `return`?")
    given = (
        f"{len(result)} values"
        if isinstance(result, tuple)
        else f"a single value, an instance of {type(result).__name__}"
    )
    raise EnvError(f"{name}: {OLD_RESET.format(f'returned {given}')}")


def is_old_step(error: BaseException) -> bool:
    """Whether a wrapper of Gymnasium failed to unpack the values of an environment's `step`."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = (
        bool(frames)
        and "gymnasium" in frames[-1].filename
        and frames[-1].name == "step"
        and ".step(" in (frames[-1].line or "")
    )
    return isinstance(error, ValueError) and "values to unpack" in str(error) and inside


def rewards(given: Any, count: int, name: str) -> np.ndarray:
    """Converts rewards to a new array (N,); each may be an array of one number. Raises EnvError for anything else."""
    try:
        array = np.array(given)
    except (TypeError, ValueError):
        array = np.array([None])
    if array.dtype.kind not in "biuf" or (array.size != count and isinstance(given, list)):
        for i, one in enumerate(given):
            if np.asarray(one).dtype.kind not in "biuf":
                raise EnvError(f"{name}, area {i}: the reward is {one!r}; expected a number")
            if np.size(one) != 1:
                raise EnvError(f"{name}, area {i}: the reward has shape {np.shape(one)}; expected a number")
        array = np.array([np.reshape(one, ()) for one in given], np.float64)
    if array.size != count:
        raise EnvError(f"{name} returned rewards of shape {array.shape}; expected {count}, one for each area")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # torch has no longer numbers
    return array.reshape(count)


def flags(given: Sequence[Any], what: str, name: str) -> np.ndarray:
    """Converts flags of N areas to a new array (N,) bool. Raises EnvError for anything but booleans, 0 and 1."""
    for i, one in enumerate(given):
        array = np.asarray(one)
        if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
            raise EnvError(f"{name}, area {i}: `{what}` is {one!r}; expected True or False")
    return np.array([np.asarray(one).item() for one in given], np.bool_)


def batched_flags(given: Any, count: int, what: str, name: str) -> np.ndarray:
    """Converts flags of a vector environment to an array (N,) bool. Raises EnvError as `flags` does, or for a wrong
    number of flags."""
    try:
        array = np.array(given)
    except ValueError:  # parts of different lengths
        array = np.array(list(given), object)
    if array.shape[:1] != (count,):
        raise EnvError(f"{name} returned `{what}` of shape {array.shape}; expected ({count},), one for each area")
    if array.shape == (count,) and array.dtype == np.bool_:
        return array
    return flags(list(array), what, name)
