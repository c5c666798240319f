"""The voice of messages: flags where the command line called, keywords where a Python program did.

Messages are written once, with flags and commands. Where they reach a program, `voiced` turns these into Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IN_PYTHON: ContextVar[bool] = ContextVar("palaestra in Python", default=False)


@contextmanager
def python_voice() -> Iterator[None]:
    """Within the block messages speak to a Python program."""
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


def voiced(text: str) -> str:
    """Returns a message in the words of the caller."""
    return text
