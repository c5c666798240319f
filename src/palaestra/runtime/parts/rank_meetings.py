"""Meetings of several ranks of a run: when they meet, the rollouts from which they learn together, and the data that
they exchange.

A rank collects on its own until a rollout is full, until it has made its share of the decisions before something is
due, or until it is stopped. Then all meet. Everything that a meeting decides follows from numbers that all ranks have,
so all ranks decide the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.bottleneck import TimeUse
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.parts.journal import Journal, RankJournal
from palaestra.runtime.parts.meetings import Meetings
from palaestra.runtime.parts.rank_warnings import RankWarnings
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.storage.run_folder import RunFolder

REPORT_EVERY = 1000
"""Decisions after which ranks exchange episodes and measurements again."""

ABSENT, OPEN, FULL, DROPPED = 0.0, 1.0, 2.0, 3.0
"""States of a behavior's rollout on a rank: it has not seen the behavior; it collects; the rollout is complete; it
collects, and has dropped complete rollouts since the ranks last met."""
FLAGS = 3
"""Columns of a rank's message before the columns of the first behavior."""
PATIENCE = 10
"""Meetings at which this rank has a full rollout and others do not, after which a warning is shown."""


class RankMeetings(Meetings):
    """Decides when the ranks of a run meet, and what they do at a meeting."""

    may_put_off = False

    def __init__(self, context: RunContext, journal: RankJournal, warnings: RankWarnings) -> None:
        """`journal`, `warnings`: this rank's."""
        super().__init__(context)
        self._group = context.group
        self._journal = journal
        self._warn = context.console.warning
        self._warnings = warnings
        self.names: list[str] = []
        """Behaviors that the ranks have agreed on, in one order."""
        self._total = 0
        self._reported = 0
        self._shared: set[str] | None = None
        """Behaviors that all ranks have, as known when the ranks last met; None: they have not begun."""
        self._dropped = set[str]()
        """Behaviors of which rollouts were dropped since the ranks last met."""
        self._waits = Counter[str]()

    def begin(self, collector: Collector) -> None:
        """Tells the ranks, when they begin, which behaviors all of them have. All ranks take part."""
        found = self._agree_on_names(collector)
        here = {name for name in self.names if all(name in names for names in found)}
        self._shared = here if self._shared is None else self._shared & here

    def due(self, collector: Collector, stopped: bool) -> bool:
        """Whether this rank must meet the other ranks now. If not, drops full rollouts that no rank may learn from."""
        # also where the rollout that was full is lost, because its environment cannot be saved
        if stopped or self.meets_first:
            return True
        full = any(not self._shared or name in self._shared for name in collector.full)
        if full or any(learner.left <= 0 for learner in self.awaited()):
            return True
        self._drop(collector)
        return False

    def shared(self) -> list[Learner]:
        """Returns the learners of the behaviors that all ranks have, in one order."""
        if self._shared is None:
            return list(self._learners.values())
        return [self._learners[name] for name in self.names if name in self._shared and name in self._learners]

    def awaited(self) -> list[Learner]:
        """Returns the learners for which work may be due; all while the ranks share none, so that they meet."""
        return self.shared() if self._shared else list(self._learners.values())

    def _drop(self, collector: Collector) -> None:
        for name in collector.full:
            if self._shared is not None and name not in self._shared:
                collector.take(name)
                self._dropped.add(name)

    def meet(self, collector: Collector, *, stopped: bool, lost: Callable[[], bool]) -> list[str]:
        """Meets the other ranks. Returns the behaviors whose rollouts are full on all ranks."""
        flags = (stopped, bool(self._group.first(lost)))
        found = self._exchange(collector, flags)
        if any(row[0] for row in found):
            self._agree_on_names(collector)
            found = self._exchange(collector, flags)
        self.stopping = any(row[1] for row in found)
        self.lost = bool(found[0][2])
        self.have_met = not (self.stopping or self.lost)
        # nothing else changes, so that a resumed run goes on as if it had never been stopped
        if not self.have_met:
            self.meets_first = self.due(collector, stopped=False)
            return []
        self.meets_first = False
        states = {name: [row[FLAGS + 2 * i] for row in found] for i, name in enumerate(self.names)}
        decisions = {name: [row[FLAGS + 2 * i + 1] for row in found] for i, name in enumerate(self.names)}
        for name, state in states.items():
            self._note_absence(name, state)
        self._shared = {name for name, state in states.items() if ABSENT not in state}
        self._drop(collector)
        self._dropped.clear()
        for name, learner in self._learners.items():
            learner.meet(int(sum(decisions[name])) if name in self._shared else learner.agreed)
        self._total = sum(learner.step for learner in self.shared())
        if self._total >= self._reported + REPORT_EVERY:
            self.report()
        return [name for name, state in states.items() if all(one == FULL for one in state)]

    def report(self) -> None:
        """Gives all ranks the measurements of each rank since the last report."""
        assert self.time_use is not None
        self._reported = self._total
        found = self._group.gather((self._journal.take(), self._warnings.take(), self.time_use()))
        self._journal.deliver([entries for entries, _, _ in found])
        self._group.first(lambda: self._warnings.show([texts for _, texts, _ in found], self._warn))
        self.times = [use for _, _, use in found]

    def check_folder(self, folder: RunFolder) -> None:
        """Does nothing: ranks find out about a lost folder when they meet."""

    def newest_times(self) -> list[TimeUse]:
        """Returns the times of each rank at the last report; before the first report, only this rank's times."""
        return self.times or super().newest_times()

    def _exchange(self, collector: Collector, flags: Sequence[bool]) -> list[list[float]]:
        row: list[float] = [any(name not in self.names for name in collector.collectors), *flags]
        for name in self.names:
            one = collector.collectors.get(name)
            state = DROPPED if name in self._dropped else OPEN
            row += [ABSENT, 0] if one is None else [FULL if one.full else state, one.decisions]
        return self._group.gather_numbers(row)

    def _note_absence(self, name: str, states: Sequence[float]) -> None:
        if ABSENT not in states or not {FULL, DROPPED} & set(states):
            return
        self._waits[name] += 1
        if self._waits[name] == PATIENCE:
            absent = [str(rank) for rank, one in enumerate(states) if one == ABSENT]
            text = (
                f"'{name}' does not learn: rank{'s' if len(absent) > 1 else ''} {', '.join(absent)} of {len(states)} "
                f"{'have' if len(absent) > 1 else 'has'} not seen it so far, and a behavior learns once every process "
                "has it"
            )
            self._group.first(lambda: self._warn(text))

    def _agree_on_names(self, collector: Collector) -> list[list[str]]:
        found = self._group.gather(list(collector.collectors))
        for names in found:
            self.names += [name for name in names if name not in self.names]
        return found

    def state_dict(self, unseen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the state on which the next meeting depends, for the state of a run. All ranks take part. `unseen`:
        collectors of saved behaviors that have not appeared yet."""
        own = {name: learner.collector.decisions for name, learner in self._learners.items()}
        found = self._group.gather(own)
        met = {name: [learner.agreed, learner.met] for name, learner in self._learners.items()}
        met |= {name: [one["agreed"], one["met"]] for name, one in unseen.items()}
        # decisions since the last meeting count too
        total = {name: one["agreed"] for name, one in unseen.items()}
        total |= {name: sum(one.get(name, 0) for one in found) for name in own}
        state = {
            "names": list(self.names),
            "shared": sorted(self._shared or ()),
            "met": met,
            "total": total,
            "meets_first": self.meets_first,
            "reported": self._reported,
            "journal": self._journal.state_dict(),
        }
        return {"meetings": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of a run with the same number of ranks."""
        self.names = list(state["names"])
        self._shared = set(state["shared"])
        self._total = state["reported"]
        self._reported = state["reported"]
        self.meets_first = state["meets_first"]
        self._journal.load_state_dict(state["journal"])


def journal_of(statistics: Statistics, group: RankGroup) -> Journal:
    """Returns the object to which this rank adds its measurements."""
    return Journal(statistics) if group.size == 1 else RankJournal(statistics)


def meetings_of(context: RunContext, warnings: RankWarnings) -> Meetings:
    """Returns the meetings of the ranks of a run. `warnings`: this rank's."""
    journal = context.journal
    return RankMeetings(context, journal, warnings) if isinstance(journal, RankJournal) else Meetings(context)
