from types import SimpleNamespace
from typing import Any

import pytest
from tiny_envs import CPU, Scripted, behavior_settings

from palaestra.core.specs import BehaviorSpec
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.parts.journal import RankJournal
from palaestra.runtime.parts.rank_meetings import ABSENT, FULL, RankMeetings
from palaestra.runtime.parts.rank_warnings import RankWarnings


class FirstOfTwo(RankGroup):
    """Rank 0 of two; `others` has, of each behavior that rank 1 has, the state of its rollout and its decisions."""

    size = 2

    def __init__(self) -> None:
        self.meetings: Any = None
        self.others: dict[str, tuple[float, int]] = {}

    def known(self, now: Any, when_met: Any) -> Any:
        return when_met

    def gather(self, value: Any) -> list[Any]:
        return [value, list(self.others) if isinstance(value, list) else value]

    def gather_numbers(self, values: Any) -> list[list[float]]:
        states = [self.others.get(name, (ABSENT, 0)) for name in self.meetings.names]
        return [list(values), [0.0, 0.0, 0.0, *(number for state in states for number in state)]]


class Rank:
    """Meetings of rank 0, with what they need. `sizes`: rollouts of each of its behaviors."""

    def __init__(self, **sizes: int) -> None:
        self.group = FirstOfTwo()
        self.learners: dict[str, Learner] = {}
        self.printed: list[str] = []
        self.sizes = sizes
        console = SimpleNamespace(warning=self.printed.append)
        context: Any = SimpleNamespace(group=self.group, console=console, learners=self.learners)
        self.meetings = RankMeetings(context, RankJournal(Statistics({})), RankWarnings())
        self.group.meetings = self.meetings
        self.meetings.time_use = lambda: context
        self.collector = Collector(Scripted({name: {"steady": True} for name in sizes}), self._join, 0)

    def _join(self, name: str, spec: BehaviorSpec) -> BehaviorCollector:
        block = behavior_settings({"buffer_size": 2 * self.sizes[name]}, summary_freq=2000, max_steps=10_000)
        self.learners[name] = Learner(name, spec, block, CPU, 3, False, group=self.group)
        return self.learners[name].collector

    def collect(self) -> bool:
        """Collects until a rollout is full. Returns whether this rank must meet the other."""
        self.collector.advance(1000, lambda: False)
        return self.meetings.due(self.collector, stopped=False)

    def meet(self) -> list[str]:
        return self.meetings.meet(self.collector, stopped=False, lost=lambda: False)


def test_ranks_that_share_no_behavior_meet_and_nothing_is_due_until_they_share_one():
    rank = Rank(A=64)
    rank.group.others = {"B": (FULL, 64)}
    rank.meetings.begin(rank.collector)
    learner = rank.learners["A"]
    for _ in range(20):
        assert rank.collect()
        assert rank.meet() == []
        assert rank.collector.full == []
        assert not rank.meetings.due(rank.collector, stopped=False)
    assert rank.meetings.shared() == []
    assert learner.agreed == 0
    assert learner.left > 0
    assert rank.printed == ["'A' does not learn: rank 1 of 2 has not seen it so far, and a behavior learns once every "
                            "process has it", "'B' does not learn: rank 0 of 2 has not seen it so far, and a behavior "
                            "learns once every process has it"]  # fmt: skip
    rank.group.others["A"] = (FULL, 64)
    assert rank.collect()
    assert rank.meet() == ["A"]
    assert rank.meetings.shared() == [learner]
    assert learner.agreed == learner.collector.decisions + 64 == 21 * 64 + 64


def test_full_rollouts_of_a_behavior_that_others_lack_are_dropped_without_a_meeting():
    rank = Rank(A=256, B=64)
    rank.group.others = {"A": (FULL, 256)}
    rank.meetings.begin(rank.collector)
    assert [learner.name for learner in rank.meetings.shared()] == ["A"]
    for _ in range(3):
        assert not rank.collect()
        assert rank.collector.full == []
    assert rank.collect()
    assert rank.meet() == ["A"]
    assert rank.learners["B"].agreed == 0


@pytest.mark.parametrize("others", [{"B": (FULL, 64)}, {"A": (FULL, 64)}])
def test_a_resumed_rank_knows_what_is_shared(others: dict[str, tuple[float, int]]):
    rank = Rank(A=64)
    rank.group.others = others
    rank.meetings.begin(rank.collector)
    rank.collect()
    rank.meet()
    again = Rank(A=64)
    again.group.others = {"A": (FULL, 64)}
    again.meetings.load_state_dict(rank.meetings.state_dict({})["meetings"])
    again.meetings.begin(again.collector)
    assert [one.name for one in again.meetings.shared()] == [one.name for one in rank.meetings.shared()]
