"""Meetings of a run with a single process; for several ranks: `runtime/parts/rank_meetings.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.bottleneck import TimeUse
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.storage.run_folder import RunFolder


class Meetings:
    """Decides when a run updates. A single process has no meetings, and decides on its own."""

    may_put_off: ClassVar[bool] = True
    """Whether a checkpoint may wait for trainers: with several ranks, all must save at the same moment."""

    def __init__(self, context: RunContext) -> None:
        self._learners = context.learners
        self.time_use: Callable[[], TimeUse] | None = None
        """Returns this process's times; set once its clock runs."""
        self.times: list[TimeUse] = []
        """Times of each rank at the last report."""
        self.stopping = False
        """Whether a rank was stopped, so that all save and end."""
        self.lost = False
        """Whether rank 0 can no longer write to the run's folder."""
        self.meets_first = False
        """Whether this rank was stopped when it had to meet the others, and meets them before it collects again."""
        self.have_met = False
        """Whether several ranks have met and continue."""

    def begin(self, collector: Collector) -> None:
        """Tells the ranks, when they begin, which behaviors all of them have. All ranks take part."""

    def due(self, collector: Collector, stopped: bool) -> bool:
        """Whether updates, summaries and other due work are checked after this round; several ranks meet then."""
        return True

    def shared(self) -> list[Learner]:
        """Returns the learners of the behaviors that all ranks had when they last met, in the same order on all ranks.
        Only these behaviors learn, and have summaries and checkpoints."""
        return list(self._learners.values())

    def awaited(self) -> list[Learner]:
        """Returns the learners for which work may be due, so that this rank must meet the other ranks."""
        return list(self._learners.values())

    def meet(self, collector: Collector, *, stopped: bool, lost: Callable[[], bool]) -> list[str]:
        """Meets the other ranks. Returns the behaviors whose rollouts are full on all ranks. `lost`: whether rank 0 can
        no longer write to the run's folder."""
        self.stopping = stopped
        return collector.full

    def check_folder(self, folder: RunFolder) -> None:
        """Raises FolderLost if the run's folder can no longer be written to; several ranks notice when they meet."""
        if folder.may_be_lost():
            folder.must_be_writable()

    def report(self) -> None:
        """Gives all ranks the measurements of each rank since the last report."""
        self.times = self.newest_times()

    def newest_times(self) -> list[TimeUse]:
        """Returns the newest times of each rank that this rank knows."""
        assert self.time_use is not None
        return [self.time_use()]

    def state_dict(self, unseen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the state on which the next meeting depends, for the state of a run. All ranks take part. `unseen`:
        collectors of saved behaviors that have not appeared yet."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of a run with the same number of ranks."""
