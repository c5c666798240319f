"""The contract of a run's features: self-play, lessons, checkpoints, the page's requests and so on are its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from palaestra.core.timestep import TimeStep
    from palaestra.runtime.collect.episodes import Episodes
    from palaestra.runtime.collect.learner import Learner
    from palaestra.runtime.control.goals import Course
    from palaestra.runtime.control.run_requests import RunRequest
    from palaestra.runtime.logging.tracker import Summary


class RunPart:
    """A feature of a run. It owns its state and its messages, and knows no other part.

    A run tells all its parts of the same few moments, in the order in which `runtime/run/training_run.py` lists them. A
    part takes part in those that it overrides: `tick`, `ended`, `updated`, `summarized`, `round_ended` and so on. With
    several ranks all moments but `tick`, `joined` and `paused` come at the same decision on every rank, so that a part
    may gather and average there.
    """

    name: ClassVar[str] = ""
    """Key of its state in checkpoints; empty: it has none."""

    what_is_closed: ClassVar[str] = "a part of the run"
    """Names in a warning what `close` has failed to close."""

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do for now, so that it is told of no `tick`, `ended`, `summarized` or
        `round_ended`.
        """
        return False

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """All areas begin new episodes with these tables."""

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """The environment has made a tick; actions for its tables are chosen next."""

    def ticks_ahead(self) -> int | None:
        """Returns after how many ticks it must be told `round_ended` at the latest; None: whenever."""
        return None

    def joined(self, learner: Learner) -> None:
        """A behavior has appeared, at the start or later. Its network is ready, and has not acted yet."""

    def started(self) -> None:
        """The run is ready, and begins to collect."""

    def ended(self, learner: Learner, episodes: Episodes) -> None:
        """Episodes of a behavior have ended, on this rank."""

    def collected(self) -> None:
        """Collecting has paused, on this rank."""

    def met(self) -> None:
        """All ranks have met, before they update."""

    def updated(self, learner: Learner) -> None:
        """A policy was updated."""

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """A summary was written."""

    def lesson_began(self) -> None:
        """The environment has other parameters from now on: what was measured before cannot be compared."""

    def round_ended(self) -> None:
        """The updates and the summaries that were due are done."""

    def paused(self) -> None:
        """Something may be shown or asked for, before this rank collects again: a few times a second."""

    def asked(self, request: RunRequest) -> str | None:
        """Carries out a request if it is for this part. Returns what was done; None: it is for another. Raises
        Refused.
        """

    def endings(self) -> Mapping[str, Course]:
        """Returns the behaviors that need no more training, and why, once no behavior does; empty: the run goes on."""
        return {}

    def finished(self) -> None:
        """The run has ended by itself, and is saved next."""

    def saved(self) -> None:
        """A checkpoint was written: files that belong to it follow. On rank 0 alone."""

    def concluded(self) -> None:
        """The run has ended and is saved: last files may be written. On rank 0 alone."""

    def progress(self) -> Mapping[str, Any]:
        """Returns what `progress.json` has of it."""
        return {}

    def remarks(self) -> list[str]:
        """Returns lines that are shown below the progress line."""
        return []

    def report(self) -> Iterator[str]:
        """Yields lines for the report at the end."""
        yield from ()

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state for a checkpoint."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores its state. `restored`: the environment goes on with the same episodes; else new ones have begun."""

    def close(self) -> None:
        """Frees what it has opened."""


class Refused(Exception):
    """A request that cannot be carried out; the text says why."""
