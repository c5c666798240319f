"""Handles standard streams that are closed, full or no longer read."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from palaestra.core.display import flush
from palaestra.core.files import explain, silence

BROKEN_PIPE = 141
"""Exit status of a command whose output is no longer read, as in shells: 128 plus SIGPIPE's number."""


def open_missing() -> None:
    """Replaces closed standard streams by the null device: a service may start a program with closed streams.

    Otherwise the next file that is opened takes a closed stream's number, and the output of libraries ends up in that
    file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        with suppress(OSError):
            os.fstat(number)
            continue  # open, but not for this use
        if os.open(os.devnull, os.O_RDWR) != number:
            continue
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        setattr(sys, f"__{name}__", getattr(sys, name))


class _WholeStream(io.TextIOBase):
    """A stream over an object that has `write` alone."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a text."""
        self._stream.write(text)
        return len(text)


@contextmanager
def whole_streams() -> Iterator[None]:
    """Lets a command print to an object that a program has put in place of a standard stream, even if that object has
    only `write`; the library rich needs more."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if stream is None or hasattr(stream, "flush") else _WholeStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def settle(status: int) -> int:
    """Flushes the streams, so that Python reports no error at exit. Returns the exit status."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            flush(stream)
        except OSError as error:
            status = failed(stream, error) if status == 0 else status
    return status


def broken(stream: TextIO, error: OSError) -> int | None:
    """Returns the exit status if an error is about a stream that can no longer be written; else None."""
    of_streams = error.filename is None and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EPIPE,
        errno.EIO,
        errno.EBADF,
    )
    return failed(stream, error) if of_streams else None


def failed(stream: TextIO, error: OSError) -> int:
    """Stops using a stream that cannot be written, and says why. Returns the exit status."""
    silence(stream)
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    name = "standard error" if stream is sys.stderr else "standard output"
    with suppress(OSError, AttributeError):
        os.write(2, f"palaestra: error: {name} cannot be written: {explain(error)}\n".encode())
    return 1


def shorten_warnings() -> None:
    """Prints warnings for users (UserWarning) as one line, without the place in the code that gave them."""
    import re
    import warnings

    whole = warnings.formatwarning

    def line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = re.sub(r"\x1b\[\d+m", "", str(message)).removeprefix("WARN: ")  # Gymnasium's are colored
        if category is UserWarning:
            return f"palaestra: warning: {text}\n"
        return whole(message, category, filename, lineno, line)

    warnings.formatwarning = line
