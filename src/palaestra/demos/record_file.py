"""Undecoded records of a demonstration file, and their number in a file that was never closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.files import regular
from palaestra.demos.format import DemoMeta, Pair, spans
from palaestra.demos.old_records import Block, OldRecords
from palaestra.demos.record_columns import read_pair
from palaestra.wire.messages import DecodeError

BLOCK = 1 << 20
"""Bytes of the file read at once."""


@dataclass(frozen=True, slots=True)
class RecordFile:
    """Records of a file, which begin at `start`; `old` converts records of ML-Agents 0.6 to 0.11."""

    path: Path
    start: int
    old: OldRecords | None = None

    def parsed(self, most: int) -> Iterator[Any]:
        """Yields the messages of at most `most` records. Raises DemoError for a damaged record."""
        for number, raw in enumerate(self.raw(most)):
            yield read_pair(f"{self.path}, record {number}", raw)

    def raw(self, most: int) -> Iterator[bytes]:
        """Yields at most `most` complete records, each an AgentInfoActionPairProto."""
        for data, begins, ends in self.blocks(most):
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                yield data[begin:end]

    def blocks(self, most: int) -> Iterator[Block]:
        """Yields pieces of the file with the begins and ends of their complete records."""
        stored = self.stored(most)
        return self.old.convert(stored) if self.old else stored

    def stored(self, most: int | None) -> Iterator[Block]:
        """Yields the stored bytes of the records, each piece beginning with a record; `most` None: all records."""
        left = most if most is not None else 1 << 62
        rest = b""
        wanted = BLOCK
        with open(self.path, "rb", opener=regular) as file:
            file.seek(self.start)
            while left:
                came = file.read(wanted)
                data = rest + came
                begins, ends = spans(data, left)
                if not len(begins):
                    if not came:
                        return
                    rest = data
                    wanted = max(BLOCK, len(data))
                    continue
                yield data, begins, ends
                left -= len(begins)
                rest = data[ends[-1] :]
                wanted = BLOCK


def count_unclosed(file: RecordFile, meta: DemoMeta, observations: int, warnings: list[str]) -> int:
    """Returns the number of records to read from a file that does not end with its metadata.

    A recording that was never closed, for example because its game was killed, keeps all complete records: its metadata
    may count no records, too few, or too many.
    """
    path = file.path
    size = path.stat().st_size
    places = [(int(ends[-1]), len(begins)) for _, begins, ends in file.stored(None)]
    # a block's rest begins the next block
    found = sum(count for _, count in places)
    at = file.start + sum(end for end, _ in places)
    counted_end = file.start + sum(int(ends[-1]) for _, _, ends in file.stored(meta.steps))
    with open(path, "rb", opener=regular) as opened:
        opened.seek(counted_end)
        after = opened.read(1)
    if 0 < meta.steps <= found and after in (b"", b"\x08"):
        return meta.steps  # closed: the metadata's copy at the end differs or is missing
    used = 0
    for number, raw in enumerate(file.raw(found), 1):
        # a full disk may leave zeros, which look like records
        used = number if _observations(raw) == observations else used
    if used == meta.steps:
        warnings.append(
            f"{path}: {size - counted_end} bytes follow its {meta.steps} records, from byte {counted_end} on; they "
            "are not read"
        )
        return used
    counted = f"{meta.steps} records" if meta.steps else "no records yet, as while it is recorded"
    lost = f" ({meta.steps - used} are lost)" if meta.steps > used else ""
    what = f"is cut off at byte {size}" if lost or at < size or used < found else "was never closed"
    warnings.append(f"{path} {what}: its metadata counts {counted}; its {used} complete records are used{lost}")
    return used


def _observations(raw: bytes) -> int:
    try:
        return len(Pair.FromString(raw).agent_info.observations)
    except DecodeError:
        return -1
