"""Gives functions, classes and objects of a program to another process, also those of a notebook or of a script, which
the other process cannot import.
"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from palaestra.core.errors import ConfigError, exception_summary


def packed(what: object, title: str) -> bytes:
    """Returns an object as bytes: what the program itself defines by value, what a module defines by its name.

    `title` begins the message. Raises ConfigError for what cannot be given to another process.
    """
    try:
        return cloudpickle.dumps(what)
    except Exception as error:  # an object of a program may raise anything
        raise ConfigError(
            f"{title} cannot be given to another process: {exception_summary(error)}. Make what cannot be copied, such "
            "as files and locks, inside the function or the constructor; or define it in a module of its own"
        ) from error


def unpacked(data: bytes) -> Any:
    """Returns what was `packed`."""
    return pickle.loads(data)
