"""The contract of a run's features: self-play, lessons, checkpoints, the page's requests and so on are its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from palaestra.core.timestep import TimeStep
    from palaestra.runtime.collect.episodes import Episodes
    from palaestra.runtime.collect.learner import Learner
    from palaestra.runtime.control.goals import Course
    from palaestra.runtime.control.run_requests import RunRequest
    from palaestra.runtime.logging.tracker import Summary


P = TypeVar("P", bound="RunPart")


class RunPart:
    """A feature of a run. It owns its state and its messages, and knows no other part.

    A run tells all its parts about the same few moments, in the order in which `runtime/run/learning.py` (`parts_of`)
    lists the parts; a part overrides the moments at which it acts. With several ranks some moments come at the same
    decision on every rank ("on all ranks"), so that a part may exchange data with the other ranks then; at other
    moments, and in `__init__`, it must not. A part chooses the arguments of its constructor: a `RunContext` if that is
    enough, else the run itself, whose environment, collector and clock exist from `joined` on.
    """

    name: ClassVar[str] = ""
    """Key of the part's state in checkpoints; empty: it has none."""

    what_is_closed: ClassVar[str] = "a part of the run"
    """Name, in a warning, of what `close` has failed to close."""

    @property
    def idle(self) -> bool:
        """Whether the part has nothing to do until another behavior joins, even if lessons begin or requests arrive
        before. Neither `tick` nor any of `MOMENTS` is then called. Asked when a behavior has joined, and after a reset.
        A part that overrides a moment on all ranks must answer the same on all of them."""
        return False

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """All areas begin new episodes with these tables. On this rank."""

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """The environment has made a tick; actions for its tables are chosen next. On this rank."""

    def ticks_ahead(self) -> int | None:
        """Returns the largest number of ticks until the part's next `round_ended`; None: any number."""
        return None

    def joined(self, learner: Learner) -> None:
        """A behavior has appeared, at the start or later. Its network is ready, and has not acted yet. On this rank."""

    def started(self) -> None:
        """The run is ready, and begins to collect. On all ranks."""

    def episodes_ended(self, learner: Learner, episodes: Episodes) -> None:
        """Episodes of a behavior have ended. On this rank."""

    def collected(self) -> None:
        """Collecting has paused. On this rank."""

    def met(self) -> None:
        """Several ranks have met, before they update; not called in a single process. On all ranks."""

    def updated(self, learner: Learner) -> None:
        """A policy was updated. On all ranks."""

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """A summary was written; `summary.mean` is the mean reward in it. On all ranks."""

    def lesson_began(self) -> None:
        """The environment's parameters have changed: earlier measurements are not comparable. On all ranks."""

    def round_ended(self) -> None:
        """The updates and the summaries that were due are done. On all ranks."""

    def paused(self) -> None:
        """The part may show something before this rank collects again: a few times a second. On this rank."""

    def asked(self, request: RunRequest) -> str | None:
        """Carries out a request if it is for this part. Returns a text about the change; None if the request is not for
        this part. Raises Refused."""

    def endings(self) -> Mapping[str, Course]:
        """Returns the behaviors that need no more training, and why, once all are done; empty: the run continues."""
        return {}

    def loop_ended(self) -> None:
        """The training loop has ended, and the run is saved next. On all ranks."""

    def saved(self) -> None:
        """A checkpoint was written; the part may write files that belong to it. On rank 0 alone."""

    def concluded(self) -> None:
        """The run has ended and is saved; the part may write its last files. On rank 0 alone."""

    def progress(self) -> Mapping[str, Any]:
        """Returns the part's entry for `progress.json`."""
        return {}

    def remarks(self) -> list[str]:
        """Returns lines that are shown below the progress line."""
        return []

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields lines about files, each with its label, which are printed at the end of the run."""
        yield from ()

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state for a checkpoint."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores its state. `restored`: the environment continues the same episodes; else new episodes have begun."""

    def close(self) -> None:
        """Closes the resources that the part has opened."""


class Refused(Exception):
    """A request that cannot be carried out; the text says why."""


MOMENTS = ("ticks_ahead", "episodes_ended", "collected", "met", "updated", "summarized", "round_ended", "endings")
"""Moments that a run reports only to the parts that override the method and are not idle."""


def at_work(parts: Sequence[RunPart]) -> dict[str, list[RunPart]]:
    """Returns for each moment the parts that override it and are not idle, in their order."""
    awake = [part for part in parts if not part.idle]
    return {moment: [part for part in awake if overrides(part, moment)] for moment in MOMENTS}


def observers(parts: Sequence[RunPart]) -> list[RunPart]:
    """Returns the parts that process the tables of every tick."""
    return [part for part in parts if overrides(part, "tick") or overrides(part, "begin")]


def overrides(part: RunPart, moment: str) -> bool:
    """Whether a part overrides a moment."""
    return getattr(type(part), moment) is not getattr(RunPart, moment)


def part_of(parts: Iterable[RunPart], kind: type[P]) -> P:
    """Returns the part of a class."""
    return next(part for part in parts if isinstance(part, kind))


def endings_of(parts: Iterable[RunPart]) -> Mapping[str, Course]:
    """Returns the behaviors that need no more training, and why; empty while others still train."""
    return next((found for part in parts if (found := part.endings())), {})
