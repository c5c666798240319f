"""Sends functions, classes and objects of a program to another process, including those of a notebook or script, which
the other process cannot import.
"""

from __future__ import annotations

import pickle
from collections import ChainMap
from io import BytesIO
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

from palaestra.core.errors import ConfigError, exception_summary

_REDUCERS: Any = cloudpickle.Pickler.dispatch_table


def _code(code: CodeType) -> tuple[Any, ...]:
    """Reduces code as cloudpickle does, but keeps the name of its file, which errors in the other process show."""
    make, args = _REDUCERS[CodeType](code)
    return make, tuple(code.co_filename if isinstance(one, str) and one == "<dynamic-code>" else one for one in args)


class _ProgramPickler(cloudpickle.Pickler):
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _code}, _REDUCERS)


def packed(what: object, title: str) -> bytes:
    """Returns an object as bytes: definitions of the program itself by value, definitions of modules by name.

    `title` begins the message. Raises ConfigError for an object that cannot be given to another process.
    """
    try:
        file = BytesIO()
        _ProgramPickler(file).dump(what)
        return file.getvalue()
    except Exception as error:  # an object of a program may raise anything
        raise ConfigError(
            f"{title} cannot be given to another process: {exception_summary(error)}. Make what cannot be copied, such "
            "as files and locks, inside the function or the constructor; or define it in a module of its own"
        ) from error


def unpacked(data: bytes) -> Any:
    """Returns what was `packed`."""
    return pickle.loads(data)
