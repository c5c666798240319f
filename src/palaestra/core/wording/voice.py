"""Wording of messages: with flags for the command line, with keywords for a Python program.

Messages are written once, with flags and commands. For a program, `voiced` turns flags into keywords, and commands into
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from palaestra.core.wording.python_words import in_python, speaks_of_flags

Voice = Callable[[str], str]


def as_written(text: str) -> str:
    """Returns the text unchanged, as the command line shows it."""
    return text


_VOICE: ContextVar[Voice] = ContextVar("palaestra's voice", default=as_written)


@contextmanager
def python_voice(theirs: Iterable[str] = ()) -> Iterator[None]:
    """Words messages within the block for a Python program; the program's own texts (`theirs`) stay unchanged."""
    token = _VOICE.set(partial(in_python, theirs=tuple(filter(speaks_of_flags, theirs))))
    try:
        yield
    finally:
        _VOICE.reset(token)


def voiced(text: str) -> str:
    """Returns a message worded for the caller."""
    return _VOICE.get()(text)


def voice() -> Voice:
    """Returns a context manager that words messages for the current caller, also in other threads."""
    return _VOICE.get()
