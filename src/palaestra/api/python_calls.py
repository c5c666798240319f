"""Calls from Python: the voice of their messages, and short tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from palaestra.core.errors import PalaestraError
from palaestra.core.wording.voice import python_voice, voiced

P = ParamSpec("P")
T = TypeVar("T")


def python_call(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function of the Python API: its messages speak Python, and its errors end in the caller's own line."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with python_voice():
                return function(*args, **kwargs)
        except PalaestraError as error:
            error.args = tuple(voiced(part) if isinstance(part, str) else part for part in error.args)
            raise error.with_traceback(None) from error.__cause__

    return call
