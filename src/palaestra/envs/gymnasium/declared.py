"""Reads what the class of a Gymnasium environment declares: its spaces and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import gymnasium.vector
import numpy as np
from gymnasium.envs.registration import EnvSpec

from palaestra.core.errors import STOPS, EnvError, exception_summary
from palaestra.core.plugins import nearest

MISSING = object()
SPACES = ("observation_space", "action_space", "single_observation_space", "single_action_space")
"""Attributes that are never proposed for one another in a message."""


def space_of(env: Any, attribute: str, name: str) -> gymnasium.Space:
    """Returns a space of an environment. Raises EnvError if the environment has no such space, or one that is not a
    Gymnasium space."""
    example = "spaces.Discrete(2)" if "action" in attribute else "spaces.Box(-1.0, 1.0, (4,))"
    expected = f"expected a space of gymnasium.spaces, such as self.{attribute} = {example} in __init__"
    space = attribute_of(env, attribute, name, MISSING)
    if space is MISSING:
        has = [each for each in vars(inner_of(env, name)) if not each.startswith("_") and each not in SPACES]
        raise EnvError(f"{name} has no `{attribute}`{nearest(attribute, has)} ({expected})")
    if isinstance(space, gymnasium.Space):
        return space
    if isinstance(space, type):
        given = f"the class {space.__name__}, not an instance of it"
    elif type(space).__module__.partition(".")[0] == "gym":
        given = f"a {type(space).__name__} of the package gym, the forerunner of gymnasium"
    elif callable(space):
        given = "a method: make it a property, with @property above it"
    else:
        given = f"{space!r:.80}"
    raise EnvError(f"{name}: `{attribute}` is {given}; {expected}")


def attribute_of(env: Any, attribute: str, name: str, missing: Any = None) -> Any:
    """Returns an attribute of a user's environment, or `missing`. Raises EnvError if it cannot be read."""
    try:
        return getattr(env, attribute)
    except STOPS:
        raise
    except BaseException as error:  # a property may raise anything
        inner = getattr(env, "unwrapped", env)
        if isinstance(error, AttributeError) and not hasattr(type(inner), attribute):
            return missing
        raise EnvError(f"{name}: `{attribute}` cannot be read: {exception_summary(error)}") from error


def inner_of(env: Any, name: str) -> Any:
    """Returns an environment without its wrappers. Raises EnvError if its `unwrapped` is no environment."""
    inner = attribute_of(env, "unwrapped", name)
    if not isinstance(inner, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise EnvError(f"{name}: `unwrapped` is {inner!r:.80}; expected the environment itself: do not define it")
    return inner


def registered_of(env: Any, name: str) -> EnvSpec | None:
    """Returns the spec under which an environment is registered; None if it is not registered. Raises EnvError for
    anything else."""
    spec = attribute_of(env, "spec", name)
    if not isinstance(spec, EnvSpec | None):
        raise EnvError(f"{name}: `spec` is {spec!r:.80}; gymnasium.make sets it: leave it out, or set it to None")
    return spec


def count_of(env: Any, name: str) -> int:
    """Returns the number of environments of a vector environment. Raises EnvError unless the environment is a vector
    environment."""
    count = attribute_of(env, "num_envs", name)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        given = "has no `num_envs`" if count is None else f"has `num_envs` = {count!r:.80}"
        raise EnvError(f"{name} {given}; expected how many environments it steps, such as self.num_envs = 16")
    return int(count)


def metadata_of(env: Any, name: str) -> Mapping[str, Any]:
    """Returns an environment's metadata; {} if they are None. Raises EnvError for anything but a dictionary."""
    given = attribute_of(env, "metadata", name)
    if not isinstance(given, Mapping | None):
        raise EnvError(
            f"{name}: `metadata` is {given!r:.80}; expected a dictionary, such as {{'render_modes': ['rgb_array']}}"
        )
    return given or {}


def check_methods(env: Any, name: str) -> None:
    """Raises EnvError for an environment whose class defines no `reset` or no `step`."""
    inner = inner_of(env, name)
    base = gymnasium.vector.VectorEnv if isinstance(inner, gymnasium.vector.VectorEnv) else gymnasium.Env
    actions = "actions" if base is gymnasium.vector.VectorEnv else "action"
    for method, form in (("reset", "reset(self, *, seed=None, options=None)"), ("step", f"step(self, {actions})")):
        if getattr(type(inner), method) is getattr(base, method) and method not in vars(inner):
            own = [each for each in vars(type(inner)) if each != method and callable(getattr(inner, each, None))]
            there = nearest(method, own)
            raise EnvError(f"{name}: its class defines no `{method}`{there} (expected a method {form})")
