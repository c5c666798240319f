"""Agents that share a group step, and what each decision led to, against one decision and one agent at a time."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from grouped_stream import KEEPS, Grouped
from rollouts import answers, rollouts_of
from tiny_envs import Stream
from torch import Tensor

from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.group_steps import GroupSteps
from palaestra.data.rollout import Rollout
from palaestra.data.timeline import NOBODY

View = tuple[float, float]
"""What an agent of `Stream` sees: the tick and its slot."""


@dataclass
class Plain:
    """A decision."""

    seen: View
    slot: int
    made: float
    group: int
    first: bool
    until: float = float("inf")
    end: str = ""
    reward: float = 0.0


@dataclass
class PlainGroups:
    """What a GroupSteps must say, one agent at a time."""

    waiting: dict[int, Plain] = field(default_factory=dict)
    settled: list[Plain] = field(default_factory=list)
    past: list[Plain] = field(default_factory=list)  # of the rollouts before
    begun: set[int] = field(default_factory=set)

    def open(self, step: TimeStep) -> None:
        for slot in step.acting.nonzero()[:, 0].tolist():
            group = int(step.group[slot])
            made = float(step.obs[0][slot, 0])
            self.waiting[slot] = Plain(
                (made, slot), slot, made, group if group >= 0 else -1 - slot, slot not in self.begun
            )
            self.begun.add(slot)

    def complete(self, step: TimeStep) -> None:
        now = float(step.obs[0][0, 0])
        for slot in [] if step.lost is None else step.lost.nonzero()[:, 0].tolist():
            self.waiting.pop(slot, None)
            while (rows := [row for row in self.settled if row.slot == slot]) and not rows[-1].end:
                self.settled.remove(rows[-1])
            self.begun.discard(slot)
        for slot in list(self.waiting):
            end = "terminated" if step.terminated[slot] else "truncated" if step.truncated[slot] else ""
            if end or step.acting[slot]:
                row = self.waiting.pop(slot)
                row.until = now
                row.end = end
                row.reward = float(step.reward[slot])
                self.settled.append(row)
        self.begun -= set((step.terminated | step.truncated).nonzero()[:, 0].tolist())

    def everyone(self, step: TimeStep) -> list[Plain]:
        """Those who have decided, and those who are about to."""
        upcoming = PlainGroups(begun=set(self.begun))
        upcoming.open(step)
        return [*self.settled, *self.waiting.values(), *upcoming.waiting.values()]


def there(rows: list[Plain], group: int, tick: float) -> set[View]:
    return {row.seen for row in rows if row.group == group and row.made <= tick < row.until}


def left(rows: list[Plain], group: int, tick: float, *ends: str) -> set[View]:
    """Those who stay when one of a group ends, and the last views of those who end there too."""
    stay = {
        row.seen
        for row in rows
        if row.group == group and row.made <= tick < row.until and not (row.first and row.made == tick)
    }
    return stay | {
        (tick + 0.5, row.slot + 0.5) for row in rows if row.group == group and row.until == tick and row.end in ends
    }


def views_of(rollout: Rollout) -> Tensor:
    time, slots = rollout.shape
    lengths = torch.full((slots,), time) if rollout.lengths is None else rollout.lengths
    here = (torch.arange(time).unsqueeze(1) < lengths).flatten()
    return torch.cat([rollout.obs[0].flatten(0, 1)[here], rollout.last_obs[0], rollout.final_obs[0]])


def shown(views: Tensor, table: np.ndarray) -> list[set[View]]:
    return [{(views[i, 0].item(), views[i, 1].item()) for i in row if i != NOBODY} for row in table.tolist()]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("steady", "grows_at", "losses"),
    [(True, None, 0.0), (False, None, 0.0), (False, 13, 0.05)],
    ids=("steady", "slotted", "growing, lossy"),
)
def test_a_table_says_what_plain_bookkeeping_does(seed: int, steady: bool, grows_at: int | None, losses: float):
    stream = Grouped(seed, Stream(seed, slots=6, steady=steady, grows_at=grows_at, losses=losses))
    plain = PlainGroups()
    steps = list[TimeStep]()
    answer = answers(seed)

    def following() -> TimeStep:
        steps.append(stream.next())
        if len(steps) > 1:
            plain.complete(steps[-1])
        return steps[-1]

    def answered(step: TimeStep) -> Decision:
        plain.open(step)
        return answer(step)

    for rollout in rollouts_of(following, [10] * 3, answered, KEEPS, steady=steady):
        compare(GroupSteps(rollout), rollout, plain, steps[-1])
        plain.past = plain.past + plain.settled
        plain.settled = []


def compare(table: GroupSteps, rollout: Rollout, plain: PlainGroups, step: TimeStep) -> None:
    views = views_of(rollout)
    everyone = plain.everyone(step)
    row_of = {row.seen: row for row in plain.settled}
    rows = [row_of[view[0].item(), view[1].item()] for view in views[: len(plain.settled)]]
    members = shown(views, table.members)
    later = shown(views, table.later)
    every = members + later
    shared = table.shared(np.array([row.reward for row in rows], np.float32))
    assert len(rows) == len(table.group_step)
    for n, row in enumerate(rows):
        assert members[table.group_step[n]] == there(everyone, row.group, row.made)
        assert tuple(views[table.members[table.group_step[n], table.place[n]]].tolist()) == row.seen
        mates = [
            other.reward
            for other in plain.past + rows
            if other.group == row.group and row.made < other.until <= row.until
        ]
        assert shared[n] == pytest.approx(sum(mates), abs=1e-5)
        goes_on = next((other for other in everyone if other.seen == (row.until, row.slot) and not row.end), None)
        if goes_on is None:
            with_ended = left(everyone, row.group, row.until, "truncated", "terminated")
            led_to = left(everyone, row.group, row.until, "truncated")
            # a leaver's mates go on: it is counted with them
            led_to = with_ended if led_to and row.end == "terminated" else led_to
        else:
            led_to = with_ended = there(everyone, goes_on.group, row.until)
        for column, expected in ((table.following, led_to), (table.following_endless, with_ended)):
            assert (set() if column[n] == NOBODY else every[column[n]]) == expected
        then = table.timeline.next[n]
        assert (None if then == NOBODY else rows[then].seen) == (
            goes_on.seen if goes_on and goes_on.seen in row_of else None
        )
