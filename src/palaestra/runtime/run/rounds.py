"""Meetings of the ranks of a run: which rollouts they learn from together, and what they tell each other.

A rank collects by itself until a rollout is full, it has made its share of the decisions until something is due, or it is stopped. Then
all meet. Everything that a meeting decides follows from numbers that all ranks have, so that all go on alike. A single process meets
nobody, and decides by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palaestra.parallel import ranks
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.journal import Journal
from palaestra.runtime.self_play.sides import SelfPlay

REPORT_EVERY = 1000
"""Decisions after which ranks exchange episodes and measurements again."""


class Rounds:
    """Decides when the ranks of a run meet, and what they do then."""

    def __init__(self, collector: Collector, learners: Mapping[str, Learner], journal: Journal, self_play: SelfPlay) -> None:
        self._collector, self._learners, self._journal, self._self_play = collector, learners, journal, self_play
        self.names: list[str] = []
        """Behaviors that the ranks have agreed on, in one order."""
        self.stopping = False
        """Whether a rank was stopped, so that all save and end."""
        self.late = False
        """Whether rank 0 says that a checkpoint is due by the clock."""
        self.meets_first = False
        """Whether this rank was stopped when it had to meet the others, and does so before it collects again."""
        self._reported = 0

    def due(self, stopped: bool) -> bool:
        """Whether this rank must meet the others now."""
        if ranks.size() == 1:
            return True
        return stopped or bool(self._collector.full) or any(learner.due for learner in self._learners.values())

    def meet(self, *, stopped: bool, late: Callable[[], bool]) -> list[str]:
        """Meets the other ranks. Returns the behaviors whose rollouts are full on all ranks. `late`: rank 0's clock."""
        if ranks.size() == 1:
            self.stopping = stopped
            return self._collector.full
        found = self._exchange(stopped, ranks.leads() and late())
        if any(row[0] for row in found):
            self._agree_on_names()
            found = self._exchange(stopped, ranks.leads() and late())
        self.stopping = any(row[1] for row in found)
        if self.stopping:  # nothing else changes, so that a resumed run goes on as if it had never been stopped
            self.meets_first = self.due(stopped=False)
            return []
        self.meets_first, self.late = False, bool(found[0][2])
        full = [name for i, name in enumerate(self.names) if all(row[3 + 2 * i] for row in found)]
        for i, name in enumerate(self.names):
            if name in self._learners:
                learner = self._learners[name]
                learner.agreed, learner.met = int(sum(row[4 + 2 * i] for row in found)), learner.collector.decisions
        if sum(learner.agreed for learner in self._learners.values()) >= self._reported + REPORT_EVERY:
            self.report()
        self._self_play.met()
        return full

    def report(self) -> None:
        """Lets all ranks take in what each of them has measured since the last report."""
        if ranks.size() > 1:
            self._reported = sum(learner.agreed for learner in self._learners.values())
            self._journal.deliver(ranks.gather(self._journal.take()))

    def _exchange(self, stopped: bool, late: bool) -> list[list[float]]:
        collectors = self._collector.collectors
        row: list[float] = [any(name not in self.names for name in collectors), stopped, late]
        for name in self.names:
            collector = collectors.get(name)
            row += [collector is not None and collector.full, 0 if collector is None else collector.decisions]
        return ranks.gather_numbers(row)

    def _agree_on_names(self) -> None:
        for names in ranks.gather(list(self._collector.collectors)):
            self.names += [name for name in names if name not in self.names]

    def state_dict(self) -> dict[str, Any]:
        """Returns what the next meeting depends on."""
        met = {name: [learner.agreed, learner.met] for name, learner in self._learners.items()}
        # a sum that all ranks take part in: decisions since the last meeting count too
        decisions = {name: learner.collector.decisions for name, learner in self._learners.items()}
        found = ranks.gather(decisions)
        now = {name: [sum(one.get(name, 0) for one in found)] for name in decisions}
        return {
            "names": list(self.names),
            "met": met,
            "now": now,
            "meets_first": self.meets_first,
            "reported": self._reported,
            "journal": self._journal.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.names, self._reported = list(state["names"]), state["reported"]
        for name, (agreed, met) in state["met"].items():
            if name in self._learners:
                self._learners[name].agreed, self._learners[name].met = agreed, met
        self.meets_first = state["meets_first"]
        self._journal.load_state_dict(state["journal"])
