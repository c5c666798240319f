"""Calls from Python: the voice of their messages, and short tracebacks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import ParamSpec, TypeVar

from palaestra.core.errors import STOPS, CallError, PalaestraError
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
                must_fit(function.__name__, accepted, args, kwargs)
                return function(*args, **kwargs)
            except (PalaestraError, *STOPS) as error:
                raised = spoken(error)
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


def must_fit(name: str, accepted: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Raises CallError if a function has no such arguments, or needs others."""
    try:
        given = accepted.bind(*args, **kwargs).arguments
        if "settings" not in accepted.parameters:  # numbers among settings are checked with the others
            must_be_numbers(given, accepted)
    except TypeError as error:
        if isinstance(error, CallError):
            raise
        known = [one for one in accepted.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        names = [one.name for one in known]
        first = [one.name for one in known if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
        if unknown := [key for key in kwargs if key not in names]:
            hint = nearest(unknown[0], names)
            what = f"has no argument '{unknown[0]}'{hint} (it has: {', '.join(names)})"
        elif len(args) > len(first):
            what = f"takes {' and '.join(first) or 'nothing'} without a name; write the others as NAME=VALUE"
            what += f" (it has: {', '.join(names)})"
        else:
            missing = [one.name for one in known if one.default is Parameter.empty and one.name not in kwargs]
            wrong = " and ".join(missing[len(args) :])
            what = f"needs {wrong} (it has: {', '.join(names)})" if wrong else f"is called wrongly: {error}"
        raise CallError(f"{name}() {what}") from None


def must_be_numbers(given: Mapping[str, object], accepted: Signature) -> None:
    """Raises CallError for an argument that is no number where one is expected."""
    for name, value in given.items():
        wanted = str(accepted.parameters[name].annotation).removesuffix(" | None")
        convert = {"int": "__index__", "float": "__float__"}.get(wanted)
        if value is not None and convert is not None and not hasattr(value, convert):
            what = "a whole number" if wanted == "int" else "a number"
            raise CallError(f"{name}: expected {what}, got {value!r:.80}")
