"""Tensors that never change, such as snapshots of self-play: one file each, `checkpoints/shared/<SHA-256>.safetensors`.

Any number of checkpoints refer to a file by its hash. A file is complete before the first checkpoint that uses it, and
removed after the last one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from palaestra.core.files import sync_folder
from palaestra.runtime.storage.tensor_files import digest_of, read_tensors, write_tensors

SHARED = "shared"
SUFFIX = ".safetensors"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Shared:
    """Tensors, by name, that never change again."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        # in a fixed order, so that saving them again gives the same hash
        self.tensors = {name: tensors[name] for name in sorted(tensors)}
        self.digest = ""
        """SHA-256 of the file; empty until it is written."""


class SharedFiles:
    """Shared files of one run's checkpoints."""

    def __init__(self, checkpoints: Path) -> None:
        """Creates nothing before the first `keep`."""
        self.folder = checkpoints / SHARED
        self._whole: dict[str, int] = {}
        """Sizes, by hash, of the files that this process has written or verified."""

    def path(self, digest: str) -> Path:
        """Returns the path of the file with a hash."""
        return self.folder / f"{digest}{SUFFIX}"

    def keep(self, shared: Shared) -> tuple[str, int]:
        """Writes the file if it is missing or damaged; returns its hash and size. Raises OSError."""
        if shared.digest not in self._whole or not self.path(shared.digest).exists():
            self.folder.mkdir(exist_ok=True)
            beside = self.folder / f".new.tmp-{os.getpid()}"
            try:
                beside.unlink(missing_ok=True)
                shared.digest, size = write_tensors(beside, shared.tensors)
                if not self._is_whole(shared.digest):
                    os.replace(beside, self.path(shared.digest))
                    sync_folder(self.folder)
            finally:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
            self._whole[shared.digest] = size
        return shared.digest, self._whole[shared.digest]

    def load(self, digest: object, size: object) -> dict[str, Tensor]:
        """Loads the tensors of a file, on the CPU. Raises ValueError or OSError if it is damaged or missing."""
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is not the hash of a shared file")
        if self.path(digest).stat().st_size != size or digest_of(self.path(digest))[0] != digest:
            raise ValueError(f"{SHARED}/{digest}{SUFFIX} was changed after it was written")
        return read_tensors(self.path(digest))

    def drop_all_but(self, used: set[str]) -> None:
        """Removes all files except those whose hashes are in `used`."""
        for file in self.folder.glob(f"*{SUFFIX}"):
            if _DIGEST.fullmatch(file.stem) and file.stem not in used:
                with suppress(OSError):  # another process may be reading it
                    file.unlink()
                    self._whole.pop(file.stem, None)
        with suppress(OSError):  # not empty, or missing
            self.folder.rmdir()

    def sweep(self, is_being_written: Callable[[Path], bool]) -> None:
        """Removes files that writers left behind when they were killed."""
        for half in self.folder.glob(".new.tmp-*"):
            if half.name.rpartition("-")[2].isdecimal() and not is_being_written(half):
                shutil.rmtree(half) if half.is_dir() else half.unlink(missing_ok=True)

    def _is_whole(self, digest: str) -> bool:
        try:
            return digest_of(self.path(digest))[0] == digest
        except OSError:
            return False
