"""Times of a rollout's decisions, and how long each observation was an agent's newest: arrays on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palaestra.data.rollout import Rollout

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Timeline:
    """N completed decisions in their order, S slots, E final observations of episodes, V = N + S observations before
    decisions.

    Ticks count from the earliest, groups are numbered; an agent without a group is a group of its own.
    """

    slot: Numbers  # (N,)
    made: Numbers  # (N,) ticks
    until: Numbers  # (N,)
    terminated: Marks  # (N,)
    goes_on: Marks  # (N,) the episode did not end
    next: Numbers  # (N,) the slot's next decision in the same episode; NOBODY: not in this rollout
    group: Numbers  # (V,)
    begin: Numbers  # (V,) the tick from which an observation is its agent's last
    end: Numbers  # (V,) and the first from which it is not
    begins: Marks  # (V,) the first of its episode
    final: Numbers  # (E,) the decision before each final observation
    was_truncated: Marks  # (E,) whether the episode was truncated
    earlier: tuple[Numbers, Numbers, NDArray[np.float32]]  # `GroupTicks.earlier`: group, until, reward
    width: int  # more than the last tick

    @property
    def decisions(self) -> int:
        """Returns N, the number of completed decisions."""
        return len(self.slot)

    @property
    def observations(self) -> int:
        """Returns V, the number of observations before decisions."""
        return len(self.group)

    def key(self, group: Numbers, tick: Numbers) -> Numbers:
        """Returns one number for group and tick, which rises with the group, then with the tick."""
        return group * self.width + tick

    @classmethod
    def of(cls, rollout: Rollout) -> Timeline:
        """Reads a rollout with `group_ticks`; waits for the device."""
        ticks = rollout.group_ticks
        assert ticks is not None
        time, slots = rollout.shape
        lengths = np.full(slots, time) if rollout.lengths is None else host(rollout.lengths)
        rows = np.flatnonzero(np.arange(time)[:, None] < lengths)
        slot = rows % slots
        of_slot = np.arange(slots)
        position = np.full((time + 1) * slots, NOBODY)  # a row more: what would follow the last
        position[rows] = np.arange(len(rows))
        made, until, group, terminated, truncated = (
            host(column).reshape(-1)[rows]
            for column in (ticks.made, ticks.until, ticks.group, rollout.terminated, rollout.truncated)
        )
        last_made, last_group, here = (host(column) for column in (ticks.last_made, ticks.last_group, ticks.last_here))
        begin = np.concatenate([made, last_made])
        ended = terminated | truncated
        first = begin.min(initial=0 if not len(begin) else begin[0])
        never = max(until.max(initial=0), last_made.max(initial=0)) + 1
        earlier = tuple(host(column) for column in (ticks.earlier.group, ticks.earlier.until, ticks.earlier.reward))
        own = np.where(group < 0, NOBODY - slot, group), np.where(last_group < 0, NOBODY - of_slot, last_group)
        group = np.unique(np.concatenate([*own, earlier[0]]), return_inverse=True)[1]
        observations = len(slot) + slots
        # by row: the slot's decision before it ended an episode, or there was none
        over = np.ones((time + 1) * slots, np.bool_)
        over[rows + slots] = ended
        final = position[host(rollout.final_rows)]
        return cls(
            slot=slot,
            made=made - first,
            until=until - first,
            terminated=terminated,
            goes_on=~ended,
            next=np.where(ended, NOBODY, position[rows + slots]),
            group=group[:observations],
            begin=begin - first,
            end=np.concatenate([until, np.where(here, never, last_made)]) - first,
            begins=np.concatenate([over[rows], over[lengths * slots + of_slot]]),
            final=final,
            was_truncated=truncated[final],
            earlier=(group[observations:], np.maximum(earlier[1] - first, 0), earlier[2]),
            width=int(never - first) + 1,
        )


def host(column: Tensor) -> NDArray[Any]:
    """Returns a tensor as an array."""
    return column.cpu().numpy()


def ranges(begins: Numbers, ends: Numbers) -> Numbers:
    """Returns all whole numbers from each begin to its end (exclusive), one range after another."""
    count = ends - begins
    return np.arange(count.sum()) + np.repeat(begins - (np.cumsum(count) - count), count)
