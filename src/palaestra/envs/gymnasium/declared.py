"""Reads what the class of a Gymnasium environment declares: its spaces and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest


def space_of(env: Any, attribute: str, name: str) -> gymnasium.Space:
    """Returns a space of an environment. Raises EnvError if it has none, or one that is no space of Gymnasium."""
    example = "spaces.Discrete(2)" if "action" in attribute else "spaces.Box(-1.0, 1.0, (4,))"
    expected = f"expected a space of gymnasium.spaces, such as self.{attribute} = {example} in __init__"
    try:
        space = getattr(env, attribute)
    except AttributeError:
        has = [each for each in vars(env.unwrapped) if not each.startswith("_")]
        raise EnvError(f"{name} has no `{attribute}`{nearest(attribute, has)} ({expected})") from None
    if isinstance(space, gymnasium.Space):
        return space
    if isinstance(space, type):
        given = f"the class {space.__name__}, not an instance of it"
    elif type(space).__module__.partition(".")[0] == "gym":
        given = f"a {type(space).__name__} of the package gym, the forerunner of gymnasium"
    else:
        given = f"{space!r:.80}"
    raise EnvError(f"{name}: `{attribute}` is {given}; {expected}")


def metadata_of(env: Any, name: str) -> Mapping[str, Any]:
    """Returns an environment's metadata, {} for None. Raises EnvError for anything but a dictionary."""
    given = getattr(env, "metadata", None)
    if not isinstance(given, Mapping | None):
        raise EnvError(
            f"{name}: `metadata` is {given!r:.80}; expected a dictionary, such as {{'render_modes': ['rgb_array']}}"
        )
    return given or {}


def check_methods(env: gymnasium.Env, name: str) -> None:
    """Raises EnvError for an environment whose class defines no `reset` or no `step`."""
    inner = env.unwrapped
    for method, form in (("reset", "reset(self, *, seed=None, options=None)"), ("step", "step(self, action)")):
        if getattr(type(inner), method) is getattr(gymnasium.Env, method) and method not in vars(inner):
            there = nearest(method, [each for each in vars(type(inner)) if callable(getattr(inner, each, None))])
            raise EnvError(f"{name}: its class defines no `{method}`{there} (expected a method {form})")
