"""Wraps the functions of the Python API: messages name their keywords, and tracebacks are short."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import BoundArguments, Parameter, Signature, signature
from operator import index
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from palaestra.core.errors import STOPS, CallError, PalaestraError
from palaestra.core.files import of_the_machine
from palaestra.core.plugins import nearest
from palaestra.core.wording.short_errors import spoken, texts, users_part
from palaestra.core.wording.voice import python_voice

P = ParamSpec("P")
T = TypeVar("T")


def python_call(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function of the Python API: its messages name Python keywords, and its errors show the caller's own line.

    An error's cause is shown only where code of the user raised it, without the frames that called that code.
    """
    accepted = spelled_out(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True  # IPython leaves this frame out
        with python_voice(texts((*args, *kwargs.values()))):
            try:
                given = bound(function.__name__, accepted, args, kwargs)
                return function(*given.args, **given.kwargs)
            except (PalaestraError, SystemExit, *STOPS) as error:
                raised = spoken(error)
            except (OSError, MemoryError, RuntimeError) as error:
                if (refused := of_the_machine(error)) is None:
                    raise
                raised = spoken(refused)
        try:
            raise raised.with_traceback(None) from users_part(raised.__cause__)
        finally:
            del raised  # its traceback holds this frame

    call.__signature__ = accepted  # pyright: ignore[reportAttributeAccessIssue] (shown by help)
    return call


def spelled_out(function: Callable[..., object]) -> Signature:
    """Returns a function's signature with the keywords that `**options: Unpack[...]` stands for. The keywords of
    `**game` stay in the function's docstring: few programs need them."""
    form = signature(function)
    forms: list[Parameter] = []
    for parameter in form.parameters.values():
        kind = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if kind is not None:
            module = vars(sys.modules[function.__module__])
            options = module[kind[1]].__annotations__ if parameter.name == "options" else {}
            taken = [other.name for other in forms]
            forms += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=f"{what.__forward_arg__} | None")
                for name, what in options.items()
                if name not in taken
            ]
            parameter = parameter.replace(annotation="Any")
        forms.append(parameter)
    return form.replace(parameters=forms)


KINDS = {
    "bool": "True or False",
    "int": "a whole number",
    "int | Literal['best']": "'best' or a count of decisions",
    "float": "a number",
    "str": "text",
    "str | Path": "a path",
    "Path | str": "a path",
    "str | Sequence[str]": "text, or a list of texts",
    "str | Sequence[str] | Mapping[str, str | Sequence[str]]": "text, a list of texts, or a dictionary",
    "Sequence[int]": "a list of whole numbers",
    "str | Path | Mapping[str, Any]": "text, a path or a dictionary",
    "Mapping[str, Any]": "a dictionary",
}
"""The words for an annotation (a type) in messages."""


def converted(given: object, kind: str) -> Any:
    """Returns an argument as one of `KINDS`, of Python's own types. Raises TypeError for any other value."""
    value = cast(Any, given)
    if kind == "bool" and value == bool(value):
        return bool(value)
    if kind == "int" and not isinstance(value, bool | str):
        return int(value) if hasattr(value, "is_integer") and value.is_integer() else index(value)
    if kind == "int | Literal['best']":
        return value if value == "best" else converted(value, "int")
    if kind == "float" and not isinstance(value, bool) and hasattr(value, "__float__"):
        return value if isinstance(value, int) else float(value)
    if kind == "str" and (isinstance(value, str | os.PathLike | int) or type(value).__name__ == "device"):
        return str(value)
    if "Mapping[str, str" in kind and isinstance(value, Mapping):
        return {str(name): converted(one, "str | Sequence[str]") for name, one in value.items()}
    if ("|" in kind and isinstance(value, str | Path)) or ("Mapping" in kind and isinstance(value, Mapping)):
        return value
    if "Sequence[" in kind and not isinstance(value, str | bytes | Mapping):
        return [converted(one, "int" if "int" in kind else "str") for one in cast(Any, given)]
    raise TypeError


def bound(name: str, accepted: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundArguments:
    """Returns the arguments of a call, with NumPy's numbers turned into Python's; None means the default. Raises
    CallError if an argument is unknown, missing, or has a wrong type."""
    try:
        given = accepted.bind(*args, **kwargs)
    except TypeError as error:
        raise CallError(f"{name}() {_misfit(accepted, args, kwargs, error)}") from None
    has_settings = "settings" in accepted.parameters
    for key, value in [*given.arguments.items()]:
        form = accepted.parameters[key]
        wanted = str(form.annotation).removesuffix(" | None")
        if isinstance(value, str | Path) and "\0" in str(value):
            raise CallError(f"{key}: a text with a NUL character, which names and paths cannot contain")
        if value is None and form.default is not Parameter.empty:
            given.arguments[key] = form.default
        elif has_settings and wanted in ("int", "float", "Mapping[str, Any]") and form.annotation != wanted:
            continue  # checked with the other settings
        elif wanted in KINDS:
            try:
                given.arguments[key] = converted(value, wanted)
            except (TypeError, ValueError, OverflowError):
                raise CallError(f"{key}: expected {KINDS[wanted]}, got {value!r:.80}") from None
        elif wanted.startswith("Callable[") and " | " not in wanted and not callable(value):
            raise CallError(f"{key}: {value!r:.80} cannot be called; expected a function")
        elif wanted.startswith("Literal") and value not in (choices := re.findall(r"\w+", wanted)[1:]):
            raise CallError(
                f"{key}: expected one of {', '.join(choices)}, got {value!r:.80}{nearest(str(value), choices)}"
            )
    return given


def _misfit(accepted: Signature, args: tuple[object, ...], kwargs: Mapping[str, object], error: TypeError) -> str:
    """Says why a function cannot be called so."""
    known = [one for one in accepted.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    names = [one.name for one in known]
    first = [one.name for one in known if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    has = f"(it has: {', '.join(names)})"
    if unknown := [key for key in kwargs if key not in names]:
        return f"has no argument '{unknown[0]}'{nearest(unknown[0], names)} {has}"
    if len(args) > len(first):
        return f"takes {' and '.join(first) or 'nothing'} without a name; write the others as NAME=VALUE {has}"
    missing = [one.name for one in known if one.default is Parameter.empty and one.name not in kwargs]
    wrong = " and ".join(missing[len(args) :])
    return f"needs {wrong} {has}" if wrong else f"is called wrongly: {error}"
