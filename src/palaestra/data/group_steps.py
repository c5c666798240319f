"""Group steps: which agents of a group are present when one of them decides.

A group step is a group and a tick on which one of its agents decided. An agent is present if it has made a decision by
then and its episode has not ended: agents may decide at different ticks, and groups change in size.

Letters in shapes: In shapes: N completed decisions, S slots, E final observations of episodes, M group steps, P places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.row_index import Groups
from palaestra.data.device_copies import to_device
from palaestra.data.rollout import Rollout
from palaestra.data.timeline import NOBODY, Marks, Numbers, Timeline, ranges


class Presences(NamedTuple):
    """Observations of present agents, each with its group step, in any order."""

    group_step: Numbers  # (X,)
    obs: Numbers  # (X,)


class GroupSteps:
    """The group steps of a rollout, and the observations that followed each of its decisions.

    Observations are numbered: first the completed decisions' (N), then each slot's `last_obs` (S), then `final_obs`
    (E). The tables live on the host; making them waits for the device once a rollout.
    """

    def __init__(self, rollout: Rollout) -> None:
        """Reads a rollout with `group_ticks`."""
        self.timeline = line = Timeline.of(rollout)
        self._group = line.group[: line.decisions]
        self._keys, self.group_step = np.unique(line.key(self._group, line.made), return_inverse=True)
        self.group_step: Numbers
        """Group step at which each decision was made, (N,)."""
        there = self._there(self._keys)
        self.members, places = _table(there, len(self._keys))
        """Observations that exist at each group step, (M, P): their indices, rising, then NOBODY."""
        own = np.flatnonzero(there.obs < line.decisions)
        own = own[self.group_step[there.obs[own]] == there.group_step[own]]
        self.place = np.zeros(line.decisions, np.int64)
        """Place of each decision's own observation in `members`, (N,)."""
        self.place[there.obs[own]] = places[own]
        self._follow()
        self.fresh = self._begun(there)
        """Whether a group step is the first of its group, or all its agents begin anew there, (M,)."""

    def __len__(self) -> int:
        """Returns M, the number of group steps."""
        return len(self.members)

    def _there(self, keys: Numbers, late: Marks | None = None) -> Presences:
        """Returns the agents that are present at group steps with rising keys; agents of `late` (V,) only after
        their observation."""
        line = self.timeline
        begin = line.begin if late is None else line.begin + late
        low, high = (np.searchsorted(keys, line.key(line.group, tick)) for tick in (begin, line.end))
        high = np.maximum(low, high)
        return Presences(ranges(low, high), np.repeat(np.arange(line.observations), high - low))

    def _begun(self, there: Presences) -> Marks:
        line = self.timeline
        group, tick = np.divmod(self._keys, line.width)
        goes_on = ~line.begins[there.obs] | (line.begin[there.obs] < tick[there.group_step])
        fresh = np.ones(len(self), np.bool_)
        fresh[there.group_step[goes_on]] = False
        fresh[1:] |= group[1:] != group[:-1]
        return fresh

    def _follow(self) -> None:
        """Finds the observations that each decision led to.

        An agent goes on to the next group step at which it decides. The last decision of an episode led to the current
        observations of the mates that continue, and to the final observations of truncated agents. If there are any
        such observations, a terminated agent's decision also led to the final observations of all agents that ended on
        that tick.
        """
        line = self.timeline
        total = len(self)
        last = line.goes_on & (line.next == NOBODY)
        lasts, at_last = np.unique(
            line.key(line.group[line.decisions + line.slot[last]], line.until[last]), return_inverse=True
        )
        over = ~line.goes_on
        left = line.key(self._group, line.until)
        ends, at_end = np.unique(left[over], return_inverse=True)
        staying = self._there(ends, line.begins)
        numbers = line.observations + np.arange(len(line.final))
        final = Presences(np.searchsorted(ends, left[line.final]), numbers)
        truncated = Presences(final.group_step[line.was_truncated], numbers[line.was_truncated])
        tables = [
            _table(presences, count)[0]
            for presences, count in (
                (self._there(lasts), len(lasts)),
                (_joined(staying, truncated), len(ends)),
                (_joined(staying, final), len(ends)),
            )
        ]
        self.later = _stacked(tables)
        """Observations that are there at steps that follow, but are none of `members`, (R, P)."""
        self.following = np.where(line.next == NOBODY, NOBODY, self.group_step[line.next])
        """Group step that each decision led to, (N,), counted in `members` and on in `later`; NOBODY: nothing left."""
        self.following[last] = total + at_last
        self.following_endless = self.following.copy()
        """The same for rewards that do not end with an episode: terminated agents count with final observations."""
        first = total + len(lasts)
        for column, table in ((self.following, tables[1]), (self.following_endless, tables[2])):
            column[over] = np.where(table[:, 0] == NOBODY, NOBODY, first + np.arange(len(ends)))[at_end]
            first += len(ends)
        left_mates = line.terminated & (self.following != NOBODY)
        self.following[left_mates] = self.following_endless[left_mates]

    def shared(self, reward: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the summed reward of each agent and its group until the agent's next decision, (N,), from each
        agent's own reward, (N,)."""
        line = self.timeline
        completed = line.key(self._group, line.until)
        made = line.key(self._group, line.made)
        group, until, earlier = line.earlier
        keys = np.concatenate([completed, line.key(group, until)])
        order = np.argsort(keys, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(np.concatenate([reward, earlier])[order], dtype=np.float64)])
        to, after = (np.searchsorted(keys[order], key, side="right") for key in (completed, made))
        return (sums[to] - sums[after]).astype(np.float32)


def groups_of(table: Numbers, device: torch.device) -> tuple[Tensor, Groups]:
    """Returns the distinct observations of a table (M, P), and the table as indices into them."""
    distinct, places = np.unique(table, return_inverse=True)
    members, here = (to_device(column.reshape(table.shape), device) for column in (places, table != NOBODY))
    return to_device(np.maximum(distinct, 0), device), Groups(members, here)


def _joined(some: Presences, others: Presences) -> Presences:
    return Presences(np.concatenate([some.group_step, others.group_step]), np.concatenate([some.obs, others.obs]))


def _table(there: Presences, group_steps: int) -> tuple[Numbers, Numbers]:
    """Returns each group step's observations, rising, then NOBODY; and the place (X,) of each presence in its row."""
    order = np.lexsort((there.obs, there.group_step))
    begins = np.searchsorted(there.group_step[order], np.arange(group_steps))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - begins[there.group_step[order]]
    table = np.full((group_steps, int(place.max(initial=0)) + 1), NOBODY)
    table[there.group_step, place] = there.obs
    return table, place


def _stacked(tables: list[Numbers]) -> Numbers:
    """Stacks tables, as wide as the widest."""
    most = max(table.shape[1] for table in tables)
    return np.concatenate(
        [np.pad(table, ((0, 0), (0, most - table.shape[1])), constant_values=NOBODY) for table in tables]
    )
