"""The contract of what demonstrations are read from: files, or datasets of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from palaestra.core.specs import BehaviorSpec
from palaestra.demos.format import DemoRecord, ReadTiming
from palaestra.demos.pairs import Episode, Pairs
from palaestra.demos.record_columns import DemoColumns


class DemoSource(Protocol):
    """Records of one behavior, which are read on demand. Iterations raise DemoError for a damaged record."""

    @property
    def title(self) -> str:
        """Its name in messages: a file's path."""
        ...

    @property
    def name(self) -> str:
        """The recording's own name."""
        ...

    @property
    def behavior(self) -> str:
        """The behavior's name."""
        ...

    @property
    def team(self) -> int:
        """The agents' team."""
        ...

    @property
    def key(self) -> str:
        """The behavior with its team, such as 'Ball?team=0'."""
        ...

    @property
    def spec(self) -> BehaviorSpec:
        """Observations and actions of the recorded agents."""
        ...

    @property
    def timing(self) -> ReadTiming:
        """Which record stores the action for an observation."""
        ...

    @property
    def records(self) -> int:
        """Number of records to read."""
        ...

    @property
    def most_decisions(self) -> int:
        """Largest number of decisions that it can hold."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages about unusual but readable content."""
        ...

    @property
    def identity(self) -> tuple[object, ...]:
        """Changes when it is another recording or has other contents. Raises DemoError if it is gone."""
        ...

    def must_fit(self, spec: BehaviorSpec) -> None:
        """Raises DemoError if its numbers mean something else than those of a behavior with the same shapes."""
        ...

    def metadata_problems(self, decisions: int, done: int, reward: float) -> list[str]:
        """Returns a line for each fact of its metadata that disagrees with the decisions, ends and rewards read."""
        ...

    def chunks(self) -> Iterator[DemoColumns]:
        """Yields all records in order, some at a time."""
        ...

    def pairs(self) -> Iterator[Pairs]:
        """Yields decisions with what followed, a chunk at a time. Raises DemoError for NaN and infinity, too."""
        ...

    def episodes(self) -> Iterator[Episode]:
        """Yields decisions episode by episode."""
        ...

    def __iter__(self) -> Iterator[DemoRecord]:
        """Yields all records in order, one by one."""
        ...

    def __len__(self) -> int: ...
