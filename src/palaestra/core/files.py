"""How the files of a run are named and written: whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TextIO

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "there is no permission to write there",
    errno.EPERM: "there is no permission to write there",
    errno.EFBIG: "the file would be larger than is allowed here",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
}
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # device names on Windows


RUN_FILES = frozenset(
    [
        "run",
        "checkpoints",
        "run_logs",
        "configuration.yaml",
        "metrics.jsonl",
        "curves.png",
        "training_status.json",
        "timers.json",
        "league.json",
        "league.png",
    ]
)
"""Names of files and folders that a run keeps beside those of its behaviors, in lower case."""


def belongs_to_run(behavior: str) -> bool:
    """Whether a behavior's files would be mixed up with a run's own, or with another behavior's model, on any file system."""
    name = behavior.strip(" .").casefold()
    return name in RUN_FILES or name.endswith(".onnx")


def explain(error: OSError) -> str:
    """Why a file could not be written, in words."""
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def silence(stream: TextIO) -> None:
    """Sends all that is written to a stream from now on, and what it still holds, nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def file_name(name: str) -> str:
    """A behavior's name as a file name: itself wherever every file system takes it, else a likeness with a hash that keeps it unique."""
    plain = re.sub(r'[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069<>:"/\\|?*\ud800-\udfff]', "_", name)[:120].strip(" .")
    if plain == name and plain and not _RESERVED.fullmatch(plain) and len(plain.encode()) <= 200:
        return plain
    likeness = re.sub(r"[^\w-]", "_", plain, flags=re.ASCII)[:80]
    return f"{likeness}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def write_whole(file: Path, data: bytes) -> None:
    """Puts `data` in place of `file` in one move: a reader, or a crash, sees the old file or the new one. Raises OSError."""
    beside = file.with_name(f".{file.name}.tmp-{os.getpid()}")
    try:
        with beside.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames within the folder outlast a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems cannot sync a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


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
