"""Finds and sets members of Gymnasium and PettingZoo environments by a path, such as `physics.gravity`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

import numpy as np

NUMBERS = (bool, int, float, np.number, np.bool_)


def layers(env: Any) -> Iterator[Any]:
    """Yields an environment's wrappers, the outermost first, then the environment itself."""
    seen: list[Any] = []
    while env is not None and not any(env is one for one in seen):
        yield env
        seen.append(env)
        held = getattr(env, "__dict__", {})
        env = next((held[key] for key in ("env", "aec_env", "par_env") if held.get(key) is not None), None)


def has_itself(layer: Any, name: str) -> bool:
    """Whether a layer has a member itself, since some wrappers pass on members of the wrapped environment."""
    return name in getattr(layer, "__dict__", {}) or hasattr(type(layer), name)


def numbers_of(env: Any) -> list[str]:
    """Lists the public attributes of an environment and its wrappers that are numbers."""
    found = [pair for layer in layers(env) for pair in getattr(layer, "__dict__", {}).items()]
    numbers = {name for name, value in found if isinstance(value, NUMBERS) and not isinstance(value, bool)}
    return sorted(name for name in numbers if not name.startswith("_"))


def member(env: Any, path: str) -> Any:
    """Returns the member that a path names, in the outermost wrapper that has it; None if there is none.

    After the first name, a part of a path may be a key of a dictionary or an index of an array: `model.opt.gravity.2`.
    """
    owner, key = _owner(env, path)
    return None if owner is None else _get(owner, key)


def put(env: Any, path: str, value: Any) -> None:
    """Sets the member that a path names."""
    owner, key = _owner(env, path)
    if isinstance(owner, MutableMapping):
        owner[key] = value
    elif key.isdecimal():
        owner[int(key)] = value
    else:
        setattr(owner, key, value)


def _owner(env: Any, path: str) -> tuple[Any, str]:
    """Returns the object that has the member of a path (None if none has) and the member's name in it."""
    key, *rest = path.split(".")
    around = [*layers(env)]
    owner: Any = next((one for one in around if has_itself(one, key)), None)
    if owner is None and hasattr(around[-1], key):
        owner = around[-1]
    for following in rest:
        owner = None if owner is None else _get(owner, key)
        key = following
    return owner, key


def _get(owner: Any, key: str) -> Any:
    if isinstance(owner, Mapping):
        return owner.get(key)
    if not key.isdecimal():
        return getattr(owner, key, None)
    has_rows = isinstance(owner, MutableSequence | np.ndarray) and int(key) < len(owner)
    return owner[int(key)] if has_rows else None


def number_like(current: Any, value: float) -> Any:
    """Returns a value in the type of the number that it replaces; only a whole number becomes an int."""
    if isinstance(current, bool | np.bool_):
        return type(current)(value != 0)
    if isinstance(current, int | np.integer):
        return type(current)(value) if value.is_integer() else value
    return type(current)(value) if isinstance(current, np.floating) else value
