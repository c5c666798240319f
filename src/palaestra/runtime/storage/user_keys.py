"""Secrets of the user, in files that no other user can read: the key of signatures, and the page's token."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import platformdirs

from palaestra.core.files import read_whole

KEY_BYTES = 32


def user_key(name: str) -> bytes | None:
    """Returns a secret of the user, created at the first call; None if no folder is writable by the user alone."""
    with suppress(OSError):  # no folder for temporary files at all
        for folder in _key_folders():
            with suppress(OSError):
                return _key_in(folder, name)
    return None


def _key_folders() -> Iterator[Path]:
    """Yields the user's configuration folder, then a folder for this user among temporary files."""
    with suppress(RuntimeError):  # there is no home folder
        configuration = platformdirs.user_config_path("palaestra", appauthor=False)
        if configuration.is_absolute():
            yield configuration
    user = str(os.getuid()) if sys.platform != "win32" else "user"
    yield Path(tempfile.gettempdir()) / f"palaestra-{user}"


def _key_in(folder: Path, name: str) -> bytes:
    """Reads the key, or makes it. Raises OSError if it cannot be made, or other users may have read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _must_be_private(folder, stat.S_IWGRP | stat.S_IWOTH)
    file = folder / name
    if not file.exists():
        _make_key(file)
    _must_be_private(file, stat.S_IRWXG | stat.S_IRWXO)
    key = read_whole(file)
    if len(key) != KEY_BYTES:
        raise OSError(f"{file} is damaged")
    return key


def _make_key(file: Path) -> None:
    beside = file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as out:
            out.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(beside, file)
    finally:
        with suppress(OSError):
            beside.unlink()


def _must_be_private(path: Path, forbidden: int) -> None:
    if sys.platform == "win32":  # both folders belong to the user there
        return
    found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & forbidden:
        raise OSError(f"{path} can be changed or read by other users")
