"""Types and ranges of an environment's options, as the signature of its factory declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from math import inf
from numbers import Integral, Real
from typing import Any

from palaestra.core.errors import EnvError

NO_RANGES: Mapping[str, tuple[float, float]] = {}


def check_option_types(
    name: str,
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] = NO_RANGES,
) -> None:
    """Raises EnvError for an option that is no flag or number although the factory takes one ('no' would count as
    true), or that is out of its range.

    `ranges`: smallest and largest value of an option, by its name.
    """
    takes = signature(factory).parameters
    for option, value in options.items():
        kind = str(getattr(takes[option].annotation, "__name__", takes[option].annotation)) if option in takes else ""
        least, most = ranges.get(option, (-inf, inf))
        if kind == "bool":
            expected = "true or false"
            fits = isinstance(value, bool)
        elif kind in ("int", "float"):
            expected = ("a whole number" if kind == "int" else "a number") + _within(least, most)
            fits = _number(value, whole=kind == "int") and least <= value <= most
        else:
            continue
        if not fits:
            raise EnvError(f"{name}, option '{option}' is {value!r}; expected {expected}")


def _number(value: Any, *, whole: bool) -> bool:
    return isinstance(value, Integral if whole else Real) and not isinstance(value, bool)


def _within(least: float, most: float) -> str:
    if (least, most) == (-inf, inf):
        return ""
    return f" of at least {least:g}" if most == inf else f" of {least:g} to {most:g}"
