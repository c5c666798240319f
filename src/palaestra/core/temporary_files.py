"""Temporary files for large data that a run needs only while it trains."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

_folder: ContextVar[Path | None] = ContextVar("scratch_folder", default=None)


@contextmanager
def scratch_in(folder: Path | None) -> Iterator[None]:
    """Whatever is made within puts its scratch files into this folder; None: into the system's temporary one."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def scratch_folder() -> Path:
    """The folder for scratch files."""
    return _folder.get() or Path(tempfile.gettempdir())


def scratch_file() -> IO[bytes]:
    """A new file without a name, which the system removes once it is closed, or with the process, however that ends. Raises OSError."""
    folder = scratch_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder, prefix=".palaestra-")
