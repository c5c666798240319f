"""Recognizes registered Gymnasium environments that a program passes, as `lambda: gymnasium.make("CartPole-v1")`.

An object that equals the environment of its id is opened by this id: training gives the same numbers, commands can open
it again, and the environment's own vector version is used. Other objects are used directly; if their spaces equal the
id's spaces, the settings that are shipped for the id are used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

import numpy as np

from palaestra.core.errors import EnvError
from palaestra.parallel.closing import close_safely
from palaestra.runtime.environments.custom_envs import NO_OPTIONS, OURS, FirstMade, call

DIFFERENT, ALIKE, SAME = range(3)
"""Results of a comparison of two environments: different; alike, as far as can be seen; or the same in all that they
hold."""
VALUES = (int, float, complex, str, bytes, type(None), np.generic)
"""Types whose values can be compared."""
OF_A_COPY = ("env", "_np_random", "_np_random_seed", "spec", "_cached_spec")
"""Attributes of environments that differ from copy to copy, or that are compared separately."""
THEIRS = "gymnasium.envs."
"""Begin of the entry points of environments that come with Gymnasium, which every process can open by id."""
PICTURES = "ale_py"
"""Begin of the entry points of Atari games, whose pictures are made smaller if a game is opened by its id."""


Form = Literal["function", "one", "several"]
"""Form of a given environment: a function that is called once for each area, a single environment, or an object with a
number of areas."""


@dataclass(frozen=True)
class GivenEnv:
    """An environment that a program has given, and its registered id and settings."""

    env: object | None
    """The environment to train in; None: it is opened by `name`."""
    label: str
    """The environment's id or class, after which runs are named."""
    name: str | None = None
    """The name that `--env` takes, if it is a registered environment."""
    shipped_for: str | None = None
    """The registered environment whose shipped settings fit it."""
    form: Form = "function"


def recognized(given: object, options: Mapping[str, Any] = NO_OPTIONS) -> GivenEnv:
    """Inspects an environment that a program has passed. A function or class that takes no number of areas is called
    once; training uses the environment that it makes as the first one. Raises EnvError if the call fails."""
    label = str(getattr(given, "__name__", type(given).__name__)).strip("<>")
    if not callable(given) or (callable(getattr(given, "step", None)) and not isinstance(given, type)):
        first = given[0] if isinstance(given, list | tuple) and given else given
        return _recognized(given, first, label, "one" if _is_single(given) else "several")
    try:
        takes = signature(given).parameters
    except ValueError as error:  # one that is written in C
        raise EnvError(f"env ({label}) cannot be trained in: {error}; expected a function that makes one") from None
    if "areas" in takes:
        return GivenEnv(given, label)
    own = {key: value for key, value in options.items() if key not in OURS or key in takes}
    made = call(given, f"env ({label})", None, "cpu", own)
    found = _recognized(FirstMade(given, made), made, label, "function" if _is_single(made) else "several")
    if found.env is None:
        close_safely(made.close, "the environment", ignored)
    return found


def ignored(_: str) -> None:
    """Drops the warning of an environment that was opened only to find out its kind."""


def _is_single(made: object) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(made, gymnasium.Env)


def _recognized(given: object, one: Any, label: str, form: Form) -> GivenEnv:
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None or not isinstance(one, gymnasium.Env | gymnasium.vector.VectorEnv):
        return GivenEnv(given, label, form=form)
    spec = getattr(one.unwrapped, "spec", None)
    label = type(one.unwrapped).__name__ if spec is None else spec.id.replace("/", "-")
    unknown = GivenEnv(given, label, form=form)
    if spec is None or spec.id not in gymnasium.registry or str(spec.entry_point).startswith(PICTURES):
        return unknown
    name = f"gymnasium:{spec.id}"
    drawn = {"render_mode": "rgb_array"} if spec.kwargs.get("render_mode") == "rgb_array" else {}
    try:
        usual = gymnasium.make(spec.id, **drawn)
    except Exception:  # it may do anything, or need what this one was given
        return unknown
    try:
        fits = all(_space(one, what) == getattr(usual, what) for what in ("observation_space", "action_space"))
        likeness = _likeness(one, usual) if str(spec.entry_point).startswith(THEIRS) else DIFFERENT
    finally:
        close_safely(usual.close, "the environment", ignored)
    if likeness == SAME and form == "function":
        return GivenEnv(None, label, name, name)
    return GivenEnv(given, label, None if likeness == DIFFERENT else name, name if fits else None, form)


def _space(env: Any, what: str) -> Any:
    return getattr(env, f"single_{what}") if hasattr(env, f"single_{what}") else getattr(env, what)


def _likeness(one: Any, usual: Any) -> int:
    """Compares the wrappers of two environments, and all of their attributes."""
    own, others = _layers(one), _layers(usual)
    if [type(layer) for layer in own] != [type(layer) for layer in others]:
        return DIFFERENT
    return min(_alike(_held(mine), _held(theirs)) for mine, theirs in zip(own, others, strict=True))


def _layers(env: Any) -> list[Any]:
    """Returns the wrappers and the environment inside, without wrappers that only check results."""
    layers = [env]
    while layers[-1] is not env.unwrapped:
        layers.append(layers[-1].env)
    return [layer for layer in layers if type(layer).__name__ != "PassiveEnvChecker"]


def _held(layer: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(layer).items() if key not in OF_A_COPY}


def _alike(one: Any, other: Any) -> int:
    """Compares two values; objects of another library are compared by class only."""
    if type(one) is not type(other):
        return DIFFERENT
    if isinstance(one, Mapping):
        same = one.keys() == other.keys()
        return min((_alike(one[key], other[key]) for key in one), default=SAME) if same else DIFFERENT
    if isinstance(one, list | tuple):
        return min(map(_alike, one, other), default=SAME) if len(one) == len(other) else DIFFERENT
    if isinstance(one, np.ndarray):
        return SAME if one.dtype == other.dtype and np.array_equal(one, other) else DIFFERENT
    if isinstance(one, (*VALUES, sys.modules["gymnasium"].Space)):
        return SAME if one == other else DIFFERENT
    return ALIKE
