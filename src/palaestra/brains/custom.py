"""Brain `python`: a function or class of the user.

A function `f(obs, mask)` or `f(obs)` returns actions: `obs` is a list of arrays, each (R, *shape), `mask` (R, choices)
or None. A function `make(role)` returns a brain, or a function that chooses actions. A class has `decide(seen)`; its
constructor gets the role if it takes one argument.

Actions are an array: (R, numbers) if all are continuous, (R, branches) of whole numbers if all are discrete, or a pair
of both for mixed actions. An object with `continuous` and `discrete`, such as a policy's answer, is always accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, isclass, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Brain, Choice, Role, Seen
from palaestra.core.errors import PalaestraError, PolicyError, exception_summary
from palaestra.core.specs import ActionSpec


def user_brain(thing: Any, name: str, role: Role) -> Brain:
    """Makes a brain of the user's function, class or instance. Raises PolicyError, which begins with `name`."""
    if isclass(thing):
        made = _called(thing, name, role)
        if not hasattr(made, "decide"):
            raise PolicyError(
                f"{name}: class {thing.__name__} has no method 'decide(self, seen)', which returns a Choice"
            )
        return made
    if hasattr(thing, "decide"):
        return thing
    if not callable(thing):
        raise PolicyError(
            f"{name} is an instance of {type(thing).__name__}; expected a function, or a class with 'decide(self, "
            "seen)'"
        )
    if list(_takes(thing)) == ["role"]:
        made = _called(thing, name, role)
        if hasattr(made, "decide"):
            return made
        if not callable(made):
            raise PolicyError(
                f"{name} gave an instance of {type(made).__name__}; expected a brain or a function of (obs, mask)"
            )
        thing = made
    return FunctionBrain(thing, name, role)


class FunctionBrain:
    """Brain that calls a function of the observations."""

    def __init__(self, function: Callable[..., Any], name: str, role: Role) -> None:
        """Raises PolicyError unless the function takes one or two arguments."""
        takes = list(_takes(function))
        if len(takes) not in (1, 2):
            raise PolicyError(f"{name} takes ({', '.join(takes)}); expected (obs, mask) or (obs)")
        self._function = function
        self._masked = len(takes) == 2
        self._action = role.spec.action
        self._where = f"behavior '{role.behavior}', brain {name}"

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Does nothing: a function has no memory of an episode."""

    def decide(self, seen: Seen) -> Choice:
        """Calls the function once, for all agents."""
        obs = list(seen.obs)
        answer = self._function(obs, seen.mask) if self._masked else self._function(obs)
        continuous, discrete = self._parts(answer)
        rows = len(seen.slots)
        action = self._action
        return Choice(self._rows(continuous, rows, action.continuous), self._rows(discrete, rows, len(action.branches)))

    def _parts(self, answer: Any) -> tuple[Any, Any]:
        if hasattr(answer, "continuous") and hasattr(answer, "discrete"):
            return answer.continuous, answer.discrete
        if answer is None:
            raise PolicyError(f"{self._where} returned None (is a 'return' missing?); expected {_wanted(self._action)}")
        if not self._action.branches:
            return answer, None
        if not self._action.continuous:
            return None, answer
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise PolicyError(
                f"{self._where} returned an instance of {type(answer).__name__}; expected {_wanted(self._action)}"
            )
        return answer

    def _rows(self, given: Any, rows: int, size: int) -> Any:
        """Returns an array (R, size), also of (R,) with one number an agent and of a single agent's (size,)."""
        if given is None:
            return np.zeros((rows, 0), np.int64)
        try:
            array = np.asarray(given)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"{self._where}: its answer is no array of numbers: {error}") from error
        alone = (rows == 1 and array.shape == (size,)) or (size == 1 and array.shape == (rows,))
        return array.reshape(rows, size) if alone else array


def _wanted(action: ActionSpec) -> str:
    parts = [f"numbers of shape (R, {action.continuous})"] if action.continuous else []
    if action.branches:
        parts.append(f"whole numbers of shape (R, {len(action.branches)}), choices of branches {list(action.branches)}")
    return " and ".join(parts) if len(parts) == 1 else f"a pair: {parts[0]}, and {parts[1]}"


def _takes(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the required and of the optional positional arguments."""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:  # some written in C have no signature
        return ["obs", "mask"]
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in positional]


def _called(make: Callable[..., Any], name: str, role: Role) -> Any:
    try:
        return make(role) if _takes(make) else make()
    except PalaestraError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        raise PolicyError(f"{name} could not be made: {exception_summary(error)}") from error
