"""Calls from Python: the voice of their messages, and short tracebacks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import BoundArguments, Parameter, Signature, signature
from operator import index
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from palaestra.core.errors import STOPS, CallError, PalaestraError, RunError, out_of_memory
from palaestra.core.files import explain
from palaestra.core.plugins import nearest
from palaestra.core.wording.short_errors import spoken, texts, users_part
from palaestra.core.wording.voice import python_voice

P = ParamSpec("P")
T = TypeVar("T")


def python_call(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function of the Python API: its messages speak Python, and its errors end in the caller's own line.

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
                if not isinstance(error, OSError) and not out_of_memory(error):
                    raise
                raised = spoken(of_the_machine(error))
        try:
            raise raised.with_traceback(None) from users_part(raised.__cause__)
        finally:
            del raised  # its traceback holds this frame

    call.__signature__ = accepted  # pyright: ignore[reportAttributeAccessIssue] (shown by help)
    return call


def spelled_out(function: Callable[..., object]) -> Signature:
    """Returns a function's signature with the keywords that `**options: Unpack[...]` stands for. Those of `**game` stay
    in their docstring: few programs need them.
    """
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


def of_the_machine(error: Exception) -> RunError:
    """Returns the error for a file that the system refuses, or for memory that is used up."""
    if isinstance(error, OSError):
        raised = RunError(f"{'' if error.filename is None else f'{error.filename!s:.100}: '}{explain(error)}")
    else:
        reason = str(error).partition("\n")[0][:200]
        raised = RunError(f"the memory is used up: fewer areas or a smaller buffer_size need less ({reason})")
    raised.__cause__ = error
    return raised


def _whole(value: Any) -> int:
    if isinstance(value, bool | str):
        raise TypeError
    return int(value) if hasattr(value, "is_integer") and value.is_integer() else index(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError
    return value if isinstance(value, int) else float(value)


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str | os.PathLike | int) and type(value).__name__ != "device":
        raise TypeError
    return str(value)


def _one_of(*kinds: type) -> Callable[[Any], Any]:
    def same(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return same


def _several(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_text(one) for one in value]


def _patterns(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return _several(value)
    return {str(name): one if isinstance(one, str) else _several(one) for name, one in value.items()}


KINDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("True or False", _truth),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "str": ("text", _text),
    "str | Path": ("a path", _one_of(str, Path)),
    "Path | str": ("a path", _one_of(str, Path)),
    "str | Sequence[str]": ("text, or a list of texts", _several),
    "str | Sequence[str] | Mapping[str, str | Sequence[str]]": ("text, a list of texts, or a dictionary", _patterns),
    "Sequence[int]": ("a list of whole numbers", lambda value: [_whole(one) for one in value]),
    "str | Path | Mapping[str, Any]": ("text, a path or a dictionary", _one_of(str, Path, Mapping)),
    "Mapping[str, Any]": ("a dictionary", _one_of(Mapping)),
}
"""By annotation: how messages name it, and what makes a value one."""


def bound(name: str, accepted: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundArguments:
    """Returns the arguments of a call, with Python's own numbers for those of NumPy; None means the default. Raises
    CallError if a function has no such arguments, needs others, or takes others there.
    """
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
            what, convert = KINDS[wanted]
            try:
                given.arguments[key] = convert(value)
            except (TypeError, ValueError, OverflowError):
                raise CallError(f"{key}: expected {what}, got {value!r:.80}") from None
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
