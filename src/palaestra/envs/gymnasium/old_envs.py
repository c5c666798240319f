"""Recognizes environments of the interface before Gymnasium 0.26, whose `step` returned four values."""

from __future__ import annotations

import traceback
from typing import Any

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


def check_reset(result: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """Returns the observation and info that `reset` returned. Raises EnvError for an old environment."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result
    if isinstance(result, tuple) and len(result) == 2 and result[1] is None:
        return result[0], {}
    if isinstance(result, tuple) and len(result) == 2:
        raise EnvError(
            f"{name}: the info that `reset` returned, its second value, is {result[1]!r:.80}; expected a dictionary "
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
