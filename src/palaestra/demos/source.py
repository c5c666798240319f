"""The contract of sources of demonstrations: files, or datasets of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from palaestra.core.specs import BehaviorSpec
from palaestra.demos.format import DemoRecord, ReadTiming
from palaestra.demos.pairs import Episode, Neighbours, Pairs, episodes_of, neighbours_of, pairs_of
from palaestra.demos.record_columns import DemoColumns, records_of


@dataclass(frozen=True, kw_only=True)
class DemoSource(ABC):
    """Records of one behavior. Each iteration reads the demonstration again, with DemoError for a damaged record."""

    title: str
    """Its name in messages: a file's path."""
    name: str
    """The recording's own name."""
    behavior: str
    team: int
    spec: BehaviorSpec
    timing: ReadTiming
    records: int
    """Number of records to read."""
    most_decisions: int
    """Largest number of decisions that the recording can hold."""
    warnings: tuple[str, ...] = ()
    """Messages about unusual but readable content."""

    @property
    def key(self) -> str:
        """The behavior with its team, such as 'Ball?team=0'."""
        return f"{self.behavior}?team={self.team}"

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """A fingerprint that changes with the recording or its contents. Raises DemoError if the recording is gone."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Returns facts of the demonstration's metadata."""

    @abstractmethod
    def metadata_problems(self, decisions: int, done: int, reward: float) -> list[str]:
        """Returns a line for each fact of the metadata that disagrees with the decisions, ends and rewards read."""

    @abstractmethod
    def chunks(self) -> Iterator[DemoColumns]:
        """Yields all records in order, a chunk at a time."""

    def must_fit(self, own: BehaviorSpec, spec: BehaviorSpec) -> None:
        """Raises DemoError if the demonstration's numbers (spec `own`) mean something else than the behavior's numbers
        (`spec`), despite equal shapes."""
        return  # files store the numbers and choices of the policy, whatever they mean to its environment

    def pairs(self) -> Iterator[Pairs]:
        """Yields decisions and their next observations in chunks. Raises DemoError for NaN and infinity, too."""
        return pairs_of(self.chunks(), self.timing, self.title)

    def episodes(self) -> Iterator[Episode]:
        """Yields decisions episode by episode; the last episode may be unfinished. Holds one episode in memory."""
        return episodes_of(self.chunks(), self.timing, self.title)

    def neighbours(self) -> Iterator[Neighbours]:
        """Yields observations, and whether each follows the previous one in the same episode, a chunk at a time. Raises
        DemoError."""
        return neighbours_of(self.chunks(), self.timing, self.title)

    def __iter__(self) -> Iterator[DemoRecord]:
        """Yields all records in order, one by one."""
        return records_of(self.chunks())

    def __len__(self) -> int:
        return self.records
