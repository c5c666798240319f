"""Reads files of a results folder: never through a link that leads out of the folder, and never more than a bounded
part."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from palaestra.core.files import regular

MOST_JSON = 4 * 2**20
"""Largest JSON file that is read."""
LOG_TAIL = 64 * 2**10
"""Bytes at the end of a log that are shown."""

Signature = tuple[int, int, int]
"""Modification time, size and inode of a file; they stay the same while the file does not change."""


def signature(path: Path | str) -> Signature | None:
    """Returns a file's signature; None if there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class ResultsFiles:
    """Files under one folder. Methods return None or an empty value for files that are missing, unreadable, or
    outside the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real = os.path.realpath(root)

    def contains(self, path: Path) -> bool:
        """Whether a path is inside the folder after all links are followed."""
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return real == self._real or real.startswith(self._real.rstrip(os.sep) + os.sep)

    def part(self, path: Path, start: int = 0, most: int = MOST_JSON) -> bytes | None:
        """Returns up to `most` bytes from `start` on; a negative start counts from the end."""
        if not self.contains(path):
            return None
        try:
            with open(path, "rb", opener=regular) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size + start) if start < 0 else start)
                return file.read(most)
        except (OSError, ValueError):
            return None

    def text(self, path: Path, most: int = MOST_JSON) -> str | None:
        """Returns a whole text; None if it has more than `most` bytes."""
        data = self.part(path, 0, most + 1)
        return None if data is None or len(data) > most else data.decode("utf-8", "replace")

    def json(self, path: Path) -> dict[str, Any]:
        """Returns a JSON object; an empty one if there is none."""
        text = self.text(path)
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def last_lines(self, path: Path, most: int = LOG_TAIL) -> str:
        """Returns the end of a text file, starting at the beginning of a line."""
        data = self.part(path, -most, most)
        if data is None:
            return ""
        text = data.decode("utf-8", "replace")
        cut = len(data) == most and "\n" in text
        return text.partition("\n")[2] if cut else text
