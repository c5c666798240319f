"""The table of one behavior: slots of its agents in all areas, filled anew on each tick."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import count

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import NotFinite
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.given_actions import lacking
from palaestra.envs.pettingzoo.agent_spaces import AgentSpaces
from palaestra.envs.pettingzoo.area import AgentView
from palaestra.envs.pettingzoo.roster import NO_GROUP, Roster
from palaestra.envs.slots import Slots

Member = tuple[int, Hashable]
"""An area and an agent in it."""


class AgentTable:
    """Assigns the agents of a behavior to slots and turns a tick's views into a TimeStep.

    Agents that the environment listed from the start keep their slots; other agents free their slots when their episode
    ends.
    """

    def __init__(self, behavior: str, spaces: AgentSpaces, roster: Roster, lasting: Sequence[Member]) -> None:
        self.behavior = behavior
        self.spaces = spaces
        self._roster = roster
        self._slots = Slots(len(lasting))
        self._slot_of: dict[Member, int] = {}
        self._numbers = count()
        self._ids = dict[Member, int]()
        # area, team, group of each slot
        self._membership = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.full(0, NO_GROUP)]
        self._lasting = set(lasting)
        self._begun = set[Member]()
        """Agents that have acted in their present episode."""
        self.asking: list[Member] = []
        """Agents that wait for an action, and their slots."""
        self.asking_slots = np.zeros(0, np.int64)
        self._assign(list(lasting))

    def restart(self) -> None:
        """Forgets all episodes, because every area was reset."""
        self._leave([member for member in self._slot_of if member not in self._lasting])
        self._begun.clear()
        self.asking = []

    def actions(self, given: Mapping[str, Action]) -> list[tuple[Member, object]]:
        """Returns the actions of the agents that asked for one. Raises EnvError without actions for this behavior."""
        if not self.asking:
            return []
        if (action := given.get(self.behavior)) is None:
            raise lacking(self.behavior, given)
        self._begun.update(self.asking)
        return list(zip(self.asking, self.spaces.actions(action, self.asking_slots), strict=True))

    def tick(self, ended: Sequence[tuple[int, AgentView]], asking: Sequence[tuple[int, AgentView]]) -> TimeStep:
        """Returns the table after a tick, from the views of each area's agents of this behavior.

        An end counts if the agent acted in that episode. Raises NotFinite and EnvError for invalid values from the
        environment.
        """
        ended = [(area, view) for area, view in ended if (area, view.agent) in self._begun]
        members = [(area, view.agent) for area, view in asking]
        over = [(area, view.agent) for area, view in ended]
        self._begun.difference_update(over)
        self._assign([*over, *members])
        size = len(self._slots)
        slots = np.array([self._slot_of[member] for member in members], np.int64)
        final = np.array([self._slot_of[member] for member in over], np.int64)
        reward = np.zeros(size, np.float32)
        group_reward = np.zeros(size, np.float32)
        for at, rows in ((slots, asking), (final, ended)):  # an end's reward comes last: the next episode has none yet
            reward[at] = [view.reward for _, view in rows]
            group_reward[at] = [view.group_reward for _, view in rows]
        if not np.isfinite(reward.sum() + group_reward.sum()):
            self._refuse([*asking, *ended])
        terminated = np.zeros(size, np.bool_)
        truncated = np.zeros(size, np.bool_)
        cut = np.array([view.truncated for _, view in ended], np.bool_)
        terminated[final] = ~cut
        truncated[final] = cut
        acting = np.zeros(size, np.bool_)
        acting[slots] = True
        area, team, group = (torch.from_numpy(column) for column in self._membership)
        step = TimeStep(
            obs=self._spread(slots, asking, size),
            acting=torch.from_numpy(acting),
            reward=torch.from_numpy(reward),
            group_reward=torch.from_numpy(group_reward),
            terminated=torch.from_numpy(terminated),
            truncated=torch.from_numpy(truncated),
            final_obs=self._final_obs(final, ended),
            action_mask=self._mask(slots, asking, size),
            area=area,
            team=team,
            group=group,
        )
        order = np.argsort(slots)
        self.asking = [members[i] for i in order]
        self.asking_slots = slots[order]
        self._leave([member for member in over if member not in self._lasting and member not in set(members)])
        return step

    def _spread(self, slots: np.ndarray, rows: Sequence[tuple[int, AgentView]], size: int) -> tuple[Tensor, ...]:
        columns = tuple(torch.zeros(size, *obs.shape) for obs in self.spaces.spec.obs)
        if rows:
            for column, values in zip(columns, self._columns(rows), strict=True):
                column[torch.from_numpy(slots)] = values
        return columns

    def _final_obs(self, slots: np.ndarray, rows: Sequence[tuple[int, AgentView]]) -> FinalObs:
        if not rows:
            return FinalObs(
                torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *obs.shape) for obs in self.spaces.spec.obs)
            )
        order = np.argsort(slots)
        columns = self._columns([rows[i] for i in order])
        return FinalObs(torch.from_numpy(slots[order]), columns)

    def _columns(self, rows: Sequence[tuple[int, AgentView]]) -> tuple[Tensor, ...]:
        return self.spaces.columns(
            [(view.obs, view.state) for _, view in rows],
            [_name(area, view.agent) for area, view in rows],
            self.behavior,
        )

    def _mask(self, slots: np.ndarray, rows: Sequence[tuple[int, AgentView]], size: int) -> Tensor | None:
        allowed = self.spaces.masks(
            [view.obs for _, view in rows],
            [view.info for _, view in rows],
            [_name(area, view.agent) for area, view in rows],
        )
        if allowed is None:
            return None
        mask = np.ones((size, allowed.shape[1]), np.bool_)
        mask[slots] = allowed
        return torch.from_numpy(mask)

    def _refuse(self, rows: Sequence[tuple[int, AgentView]]) -> None:
        for area, view in rows:
            for value in (view.reward, view.group_reward):
                if not np.isfinite(np.float32(value)):
                    raise NotFinite(self.behavior, _name(area, view.agent), "reward", value)

    def _assign(self, members: Sequence[Member]) -> None:
        """Gives slots to agents that have none."""
        new = list(dict.fromkeys(member for member in members if member not in self._slot_of))
        if not new:
            return
        self._ids.update((member, next(self._numbers)) for member in new)
        slots = self._slots.assign(np.array([self._ids[member] for member in new], np.int64))
        self._slot_of.update(zip(new, slots.tolist(), strict=True))
        had = len(self._membership[0])
        more = len(self._slots) - had
        # new columns: earlier tables keep theirs
        area, team, group = (np.pad(column, (0, more)) for column in self._membership)
        group[had:] = NO_GROUP
        for (where, agent), slot in zip(new, slots.tolist(), strict=True):
            role = self._roster[agent]
            area[slot] = where
            team[slot] = role.team
            group[slot] = NO_GROUP if role.group == NO_GROUP else where * self._roster.num_groups + role.group
        self._membership = [area, team, group]

    def _leave(self, members: Sequence[Member]) -> None:
        if members:
            self._slots.release(np.array([self._ids.pop(member) for member in members], np.int64))
            for member in members:
                del self._slot_of[member]


def _name(area: int, agent: Hashable) -> str:
    return f"'{agent}' of area {area}"
