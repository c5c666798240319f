"""Errors of the Python API: worded for Python, with a traceback that ends in the program's own line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from palaestra.core.errors import CallError, PalaestraError, is_users
from palaestra.core.wording.voice import python_voice, voiced

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def short_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Makes a method of the Python API: if the user's code calls it, its errors name keywords and end in the user's
    line. Calls from Palaestra's own code are left unchanged."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True  # IPython leaves this frame out
        try:
            return method(*args, **kwargs)
        except (PalaestraError, TypeError) as error:
            if not isinstance(error, PalaestraError):
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                known = ", ".join([*signature(method).parameters][1:])  # the arguments do not fit
                error = CallError(f"{error} (it has: {known})")
            if not is_users(sys._getframe(1).f_code.co_filename):
                raise
            with python_voice(texts((*args, *kwargs.values()))):
                raised = spoken(error)
        try:
            raise raised.with_traceback(None) from users_part(raised.__cause__)
        finally:
            del raised  # its traceback holds this frame

    return call


def spoken(error: E) -> E:
    """Returns the error with its message worded for the caller."""
    error.args = tuple(voiced(part) if isinstance(part, str) else part for part in error.args)
    return error


def users_part(cause: BaseException | None) -> BaseException | None:
    """Returns the exception with the traceback of the user's code only; None if no frame is the user's code."""
    seen: list[BaseException] = []  # code of a user may raise the same exception again and again
    while isinstance(cause, PalaestraError) and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__
    if cause is None or isinstance(cause, PalaestraError):
        return None
    trace = None
    for frame in reversed([*_frames(cause.__traceback__)]):
        if is_users(frame.tb_frame.f_code.co_filename):
            trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return None if trace is None else cause.with_traceback(trace)


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def texts(values: Iterable[Any], depth: int = 8) -> Iterator[str]:
    """Yields the texts in arguments, which messages may quote."""
    for value in values:
        if isinstance(value, str | Path):
            yield str(value)
        elif depth and isinstance(value, Mapping):
            yield from texts([*value, *value.values()], depth - 1)
        elif depth and isinstance(value, list | tuple):
            yield from texts(value, depth - 1)
