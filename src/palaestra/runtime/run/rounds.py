"""Meetings of the ranks of a run: which rollouts they learn from together, and what they tell each other.

A rank collects by itself until a rollout is full, it has made its share of the decisions until something is due, or it
is stopped. Then all meet. Everything that a meeting decides follows from numbers that all ranks have, so that all go on
alike. A single process meets nobody, and decides by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaestra.parallel import ranks
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.bottleneck import TimeUse
from palaestra.runtime.logging.journal import Journal
from palaestra.runtime.logging.rank_warnings import RankWarnings
from palaestra.runtime.self_play.sides import SelfPlay

REPORT_EVERY = 1000
"""Decisions after which ranks exchange episodes and measurements again."""

ABSENT, OPEN, FULL = 0.0, 1.0, 2.0
"""States of a behavior's rollout on a rank: it has not seen the behavior; it collects; the rollout is complete."""
NAMES = 5
"""Column of what a rank tells where the first behavior is."""
PATIENCE = 10
"""Meetings with a full rollout that others lack before there is a warning."""


class Rounds:
    """Decides when the ranks of a run meet, and what they do then."""

    def __init__(
        self,
        collector: Collector,
        learners: Mapping[str, Learner],
        journal: Journal,
        self_play: SelfPlay,
        warn: Callable[[str], object],
        time_use: Callable[[], TimeUse],
    ) -> None:
        """`warn` shows a warning of another rank. `time_use` returns this rank's times."""
        self._time_use = time_use
        self.times: list[TimeUse] = []
        """Times of each rank at the last report."""
        self._collector = collector
        self._learners = learners
        self._journal = journal
        self._self_play = self_play
        self._warn = warn
        self.names: list[str] = []
        """Behaviors that the ranks have agreed on, in one order."""
        self.stopping = False
        """Whether a rank was stopped, so that all save and end."""
        self.late = False
        """Whether rank 0 says that a checkpoint is due by the clock."""
        self.saves_much = False
        """Whether rank 0 says that checkpoints have taken their share of the time."""
        self.lost = False
        """Whether rank 0 can no longer write to the run's folder."""
        self.meets_first = False
        """Whether this rank was stopped when it had to meet the others, and does so before it collects again."""
        self.later: dict[str, list[int]] = {}
        """Decisions of all ranks, and of this one, when the ranks last met, for saved behaviors that have not appeared
        since.
        """
        self.warnings = RankWarnings()
        self._total = 0
        self._reported = 0
        self._shared = set[str]()
        self._waits = Counter[str]()

    def due(self, stopped: bool) -> bool:
        """Whether this rank must meet the others now."""
        if ranks.size() == 1:
            return True
        if (
            stopped or self.meets_first
        ):  # also where the rollout that was full is lost, because its environment cannot be saved
            return True
        return any(self.counts(name) for name in self._collector.full) or any(
            learner.due for name, learner in self._learners.items() if self.counts(name)
        )

    def counts(self, name: str) -> bool:
        """Whether all ranks have a behavior, as far as they knew when they last met. Only then it is learned, and
        anything of it is due.
        """
        return not self._shared or name in self._shared

    def meet(
        self, *, stopped: bool, late: Callable[[], bool], lost: Callable[[], bool], saves_much: Callable[[], bool]
    ) -> list[str]:
        """Meets the other ranks. Returns the behaviors whose rollouts are full on all ranks.

        `late` and `saves_much`: what rank 0's clock says of checkpoints; `lost`: its folder.
        """
        if ranks.size() == 1:
            self.stopping = stopped
            return self._collector.full
        told = (stopped, *(ranks.leads() and one() for one in (late, lost, saves_much)))
        found = self._exchange(told)
        if any(row[0] for row in found):
            self._agree_on_names()
            found = self._exchange(told)
        self.stopping = any(row[1] for row in found)
        self.lost = bool(found[0][3])
        if (
            self.stopping or self.lost
        ):  # nothing else changes, so that a resumed run goes on as if it had never been stopped
            self.meets_first = self.due(stopped=False)
            return []
        self.meets_first = False
        self.late = bool(found[0][2])
        self.saves_much = bool(found[0][4])
        full = [name for i, name in enumerate(self.names) if all(row[NAMES + 2 * i] == FULL for row in found)]
        for i, name in enumerate(self.names):
            self._note_absence(name, [row[NAMES + 2 * i] for row in found])
        self._shared = {name for i, name in enumerate(self.names) if all(row[NAMES + 2 * i] != ABSENT for row in found)}
        for name in self._collector.full:
            if not self.counts(name):
                self._collector.take(name)
        for i, name in enumerate(self.names):
            if name in self._learners and self.counts(name):
                learner = self._learners[name]
                learner.agreed = int(sum(row[NAMES + 2 * i + 1] for row in found))
                learner.met = learner.collector.decisions
        self._total = sum(self._learners[name].agreed for name in self._shared if name in self._learners)
        if self._total >= self._reported + REPORT_EVERY:
            self.report()
        self._self_play.met()
        return full

    def report(self) -> None:
        """Lets all ranks take in what each of them has measured since the last report."""
        if ranks.size() == 1:
            self.times = [self._time_use()]
            return
        self._reported = self._total
        found = ranks.gather((self._journal.take(), self.warnings.take(), self._time_use()))
        self._journal.deliver([entries for entries, _, _ in found])
        self.warnings.show([texts for _, texts, _ in found], self._warn)
        self.times = [use for _, _, use in found]

    def joined(self, learner: Learner) -> None:
        """Restores what the ranks agreed on for a saved behavior that appears."""
        if learner.name in self.later:
            learner.agreed, learner.met = self.later.pop(learner.name)

    def _exchange(self, told: tuple[bool, ...]) -> list[list[float]]:
        collectors = self._collector.collectors
        row: list[float] = [any(name not in self.names for name in collectors), *told]
        for name in self.names:
            collector = collectors.get(name)
            row += [ABSENT, 0] if collector is None else [FULL if collector.full else OPEN, collector.decisions]
        return ranks.gather_numbers(row)

    def _note_absence(self, name: str, states: Sequence[float]) -> None:
        """Warns once if the rollouts of a behavior are full and cannot be learned from, since other ranks do not have
        the behavior.
        """
        if FULL not in states or ABSENT not in states:
            return
        self._waits[name] += 1
        if self._waits[name] == PATIENCE and ranks.leads():
            absent = [str(rank) for rank, one in enumerate(states) if one == ABSENT]
            self._warn(
                f"'{name}' does not learn: rank{'s' if len(absent) > 1 else ''} {', '.join(absent)} of {len(states)} "
                f"{'have' if len(absent) > 1 else 'has'} not seen it so far, and a behavior learns once every process "
                "has it"
            )

    def _agree_on_names(self) -> None:
        for names in ranks.gather(list(self._collector.collectors)):
            self.names += [name for name in names if name not in self.names]

    def state_dict(self) -> dict[str, Any]:
        """Returns what the next meeting depends on."""
        met = {**self.later, **{name: [learner.agreed, learner.met] for name, learner in self._learners.items()}}
        # a sum that all ranks take part in: decisions since the last meeting count too
        decisions = {name: learner.collector.decisions for name, learner in self._learners.items()}
        found = ranks.gather(decisions)
        now = {name: [agreed] for name, (agreed, _) in self.later.items()}
        now |= {name: [sum(one.get(name, 0) for one in found)] for name in decisions}
        return {
            "names": list(self.names),
            "shared": sorted(self._shared),
            "met": met,
            "now": now,
            "meets_first": self.meets_first,
            "reported": self._reported,
            "journal": self._journal.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.names = list(state["names"])
        self._shared = set(state.get("shared", ()))
        self._total = self._reported = state["reported"]
        self.later = {name: list(met) for name, met in state["met"].items()}
        for learner in self._learners.values():
            self.joined(learner)
        self.meets_first = state["meets_first"]
        self._journal.load_state_dict(state["journal"])
