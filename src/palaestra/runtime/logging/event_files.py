"""TensorBoard's reader for event files of unknown origin: refuses content that would make the reader wait or fill
memory."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.core.files import MOST_LINES, regular

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ANY_EVENTS = "tfevents"
"""Part of the names of files that TensorBoard's reader opens in a folder."""
MOST_RECORD = 64 * 2**20
"""Most bytes of a record: the reader allocates as much memory as a record states."""


class GuardedEvents:
    """TensorBoard's reader of one folder, which reads files only after they were checked."""

    def __init__(self, folder: Path, reader: EventAccumulator) -> None:
        self.reader = reader
        self._folder = folder
        self._checked: dict[Path, int] = {}

    def reload(self) -> EventAccumulator:
        """Reads the new records; returns the reader. Raises OSError for files that are too large or damaged."""
        for entry in sorted(self._folder.iterdir()):
            if ANY_EVENTS in entry.name:
                self._checked[entry] = check_records(entry, self._checked.get(entry, 0))
        try:
            self.reader.Reload()
        except Exception as error:  # whatever the reader, and protobuf, make of a damaged file
            raise OSError(errno.EINVAL, f"event files are damaged ({error})", str(self._folder)) from error
        return self.reader


def check_records(file: Path, at: int = 0) -> int:
    """Checks the sizes of a file's records, beginning with the record at `at`; returns where the next record begins.

    Raises OSError for a file that is not regular, and for sizes that no program writes. The reader stops at a record
    whose size has an invalid checksum.
    """
    with open(file, "rb", opener=regular) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > MOST_LINES:
            raise OSError(errno.EINVAL, f"{file.name} has more than {MOST_LINES:,} bytes", str(file))
        opened.seek(at)
        while len(head := opened.read(12)) == 12:
            length, checksum = struct.unpack("<QI", head)
            if length > MOST_RECORD:
                from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

                if masked_crc32c(head[:8]) != checksum:
                    return at
                raise OSError(
                    errno.EINVAL,
                    f"{file.name} has a record of {length:,} bytes; expected at most {MOST_RECORD:,}",
                    str(file),
                )
            if at + 16 + length > size:
                return at
            at = opened.seek(at + 16 + length)
    return at
