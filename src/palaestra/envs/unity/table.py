"""Table of one behavior: assigns the agents of all copies and teams to slots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.envs.slots import Ids, Slots
from palaestra.wire.decode import AgentInfos

FORGET_AFTER = 1000
"""Messages of a game after which an agent that is not in them may lose its slot to a new agent."""
NO_GROUP = -1
_ID = (1 << 32) - 1
"""Bits of an agent's global number that are its id in the game."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Decoded agents of one behavior key in one message."""

    name: str  # the behavior
    key: str  # behavior and team, as in the protocol
    copy: int
    source: int  # number of the copy's current game; a restarted game has another
    team: int
    infos: AgentInfos
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: nothing is forbidden
    areas: NDArray[np.int64] | None = None  # (N,) in a game with several areas; None: the copy is one area


class _GameAgents:
    def __init__(self) -> None:
        # sorted by id
        self._id = _NO_SLOTS
        self._group = _NO_SLOTS
        self._slots = _NO_SLOTS
        # of the last message, in its order; the next message usually has the same agents
        self._last = _NO_SLOTS, _NO_SLOTS, _NO_SLOTS

    def find(self, infos: AgentInfos) -> Ids | None:
        """Returns the slot of each row, (N,); None if an agent is new or has changed its group."""
        id, group, slots = self._last
        if len(id) == len(infos.id) and bool((id == infos.id).all()) and bool((group == infos.group).all()):
            return slots
        if not len(self._id):
            return None
        at = self._id.searchsorted(infos.id)
        at[at == len(self._id)] = 0
        if bool((self._id[at] != infos.id).any()) or bool((self._group[at] != infos.group).any()):
            return None
        self._last = infos.id, infos.group, self._slots[at]
        return self._last[2]

    def assign(self, infos: AgentInfos, slots: Ids) -> None:
        """Assigns slots to agents; an agent that ended and requests a decision gets the group of its new episode."""
        # decision requests first, since np.unique keeps the first of equals
        rows = np.argsort(infos.done, kind="stable")
        id, first = np.unique(infos.id[rows], return_index=True)
        rows = rows[first]
        others = ~np.isin(self._id, id)
        id = np.concatenate([self._id[others], id])
        order = np.argsort(id)
        self._id = id[order]
        self._group = np.concatenate([self._group[others], infos.group[rows]])[order]
        self._slots = np.concatenate([self._slots[others], slots[rows]])[order]
        self._last = infos.id, infos.group, slots

    def leave(self, ids: Ids) -> None:
        """Removes agents from their slots."""
        stay = ~np.isin(self._id, ids)
        self._id = self._id[stay]
        self._group = self._group[stay]
        self._slots = self._slots[stay]
        self._last = _NO_SLOTS, _NO_SLOTS, _NO_SLOTS


_NO_SLOTS: Ids = np.zeros(0, np.int64)


class BehaviorTable:
    """Turns the arrivals of a tick into a TimeStep. An agent is identified by its game, team and id."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self._no_final_obs = FinalObs(
            torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *obs.shape) for obs in spec.obs)
        )
        self._slots = Slots()
        # (S,) number of the game's message in which the slot's agent last appeared
        self._last_messages = np.zeros(0, np.int64)
        self._membership = _membership(0)
        self._agents: defaultdict[int, _GameAgents] = defaultdict(_GameAgents)
        # by source and key, the high bits of its agents' global numbers
        self._key_numbers = dict[tuple[int, str], int]()
        self._numbers = count()
        self._idle: TimeStep | None = None

    def __len__(self) -> int:
        """Number of slots, S."""
        return len(self._slots)

    def tick(
        self, arrivals: Sequence[Arrival], lost_sources: Sequence[int], messages: NDArray[np.int64]
    ) -> tuple[TimeStep, dict[tuple[int, str], Ids]]:
        """Returns the TimeStep, and for each copy and key the slots that wait for an action, in the order of their
        requests.

        `messages` (areas,) counts the messages of each area's current game; a copy of a Unity game is one area. The
        episodes of agents of `lost_sources` are lost.
        """
        if not arrivals and not lost_sources:
            if self._idle is None or self._idle.area is not self._membership[0]:
                self._idle = _TickColumns(self.spec, len(self), self._no_final_obs).step(self._membership, [])
            return self._idle, {}
        found = [self._find(arrival) for arrival in arrivals]
        lost = list[Ids]()
        new_arrivals = list[Arrival]()
        if any(slots is None for slots in found):
            lost = self._free_silent(
                [arrival for arrival, slots in zip(arrivals, found, strict=True) if slots is None], messages
            )
            # searches again, because agents of other arrivals may have lost their slots
            new_arrivals = [arrival for arrival in arrivals if self._find(arrival) is None]
            for arrival in new_arrivals:
                self._add_agents(arrival)
            found = [self._find(arrival) for arrival in arrivals]
        rows = _TickColumns(self.spec, len(self), self._no_final_obs)
        waiting = dict[tuple[int, str], Ids]()
        for arrival, slots in zip(arrivals, found, strict=True):
            assert slots is not None
            waiting[arrival.copy, arrival.key] = rows.add(arrival, slots)
            self._last_messages[slots] = messages[arrival.copy]
        if new_arrivals:
            self._update_membership(new_arrivals)
        if lost_sources:
            lost.append(self._lost_slots(lost_sources))
        gone = rows.gone()
        step = rows.step(self._membership, lost)
        self._free(gone, lost_sources)
        return step, waiting

    def _find(self, arrival: Arrival) -> Ids | None:
        return self._agents[self._key_number(arrival)].find(arrival.infos)

    def _key_number(self, arrival: Arrival) -> int:
        at = arrival.source, arrival.key
        if at not in self._key_numbers:
            self._key_numbers[at] = next(self._numbers)
        return self._key_numbers[at]

    def _ids(self, arrival: Arrival) -> Ids:
        """Returns global numbers of the agents, (N,), unique over all games and teams."""
        return (self._key_number(arrival) << 32) | arrival.infos.id

    def _add_agents(self, arrival: Arrival) -> None:
        slots = self._slots.assign(self._ids(arrival))
        more = len(self._slots) - len(self._last_messages)
        if more > 0:
            self._last_messages = np.pad(self._last_messages, (0, more))
            self._membership = tuple(
                torch.cat([x, new]) for x, new in zip(self._membership, _membership(more, arrival.team), strict=True)
            )
        self._agents[self._key_number(arrival)].assign(arrival.infos, slots)

    def _free_silent(self, new_arrivals: Sequence[Arrival], messages: NDArray[np.int64]) -> list[Ids]:
        """Frees slots of agents that have long been absent, if the table would have to grow. Returns these slots."""
        ids = np.unique(np.concatenate([self._ids(arrival) for arrival in new_arrivals]))
        num_new = len(ids) - int(np.isin(self._slots.agent, ids).sum())
        taken = self._slots.taken
        if num_new <= len(self) - int(taken.sum()):
            return []
        silent = (
            taken
            & (messages[self._membership[0].numpy()] - self._last_messages > FORGET_AFTER)
            & ~np.isin(self._slots.agent, ids)
        )
        slots = silent.nonzero()[0]
        self._leave(self._slots.agent[slots])
        return [slots]

    def _update_membership(self, new_arrivals: Sequence[Arrival]) -> None:
        """Updates area, team and group of slots in new columns, since earlier TimeSteps hold the old ones."""
        area, team, group = (column.numpy().copy() for column in self._membership)
        for arrival in new_arrivals:
            infos = arrival.infos
            slots = self._find(arrival)
            assert slots is not None
            area[slots] = arrival.copy if arrival.areas is None else arrival.areas
            team[slots] = arrival.team
            groups = np.where(infos.group > 0, (arrival.source << 32) | infos.group, NO_GROUP)
            group[slots[infos.done]] = groups[infos.done]
            # an agent that ended and requests a decision has its new episode's group
            group[slots[~infos.done]] = groups[~infos.done]
        self._membership = torch.from_numpy(area), torch.from_numpy(team), torch.from_numpy(group)

    def _lost_slots(self, sources: Sequence[int]) -> Ids:
        numbers = [number for (source, _), number in self._key_numbers.items() if source in sources]
        return (self._slots.taken & np.isin(self._slots.agent >> 32, numbers)).nonzero()[0]

    def _free(self, gone: Ids, lost_sources: Sequence[int]) -> None:
        self._leave(self._slots.agent[gone])
        if lost_sources:
            self._leave(self._slots.agent[self._lost_slots(lost_sources)])
            self._key_numbers = {at: number for at, number in self._key_numbers.items() if at[0] not in lost_sources}

    def _leave(self, ids: Ids) -> None:
        if len(ids):
            self._slots.release(ids)
            for number in np.unique(ids >> 32).tolist():
                self._agents[number].leave(ids[ids >> 32 == number] & _ID)


class _TickColumns:
    def __init__(self, spec: BehaviorSpec, slots: int, no_final_obs: FinalObs) -> None:
        self._spec = spec
        self._no_final_obs = no_final_obs
        self._slots = slots
        self._obs: list[NDArray[np.float32]] = []
        self._acting = np.zeros(slots, np.bool_)
        self._reward = np.zeros(slots, np.float32)
        self._group_reward = np.zeros(slots, np.float32)
        self.terminated = np.zeros(slots, np.bool_)
        self.truncated = np.zeros(slots, np.bool_)
        self._mask: NDArray[np.bool_] | None = (
            np.ones((slots, spec.action.choices), np.bool_) if spec.action.branches else None
        )
        self._ended: list[Ids] = []
        self._last: list[tuple[NDArray[np.float32], ...]] = []

    def add(self, arrival: Arrival, slots: Ids) -> Ids:
        """Adds agents and returns the slots that request decisions, in order.

        If an agent's episode ends and a new one begins, the agent's row has the reward of the ended episode.
        """
        infos = arrival.infos
        ended = arrival.infos.done
        ends = bool(ended.any())
        asks = slice(None) if not ends else ~ended
        asking = slots[asks]
        self._reward[asking] = infos.reward[asks]
        self._group_reward[asking] = infos.group_reward[asks]
        self._acting[asking] = True
        self._write(asking, [values[asks] for values in arrival.obs])
        if self._mask is not None and arrival.mask is not None:
            self._mask[asking] = arrival.mask[asks]
        if ends:
            ending = slots[ended]
            self._reward[ending] = infos.reward[ended]
            self._group_reward[ending] = infos.group_reward[ended]
            self.terminated[ending] = ~infos.truncated[ended]
            self.truncated[ending] = infos.truncated[ended]
            self._ended.append(ending)
            self._last.append(tuple(values[ended] for values in arrival.obs))
        return asking

    def gone(self) -> Ids:
        """Returns the slots whose agents ended an episode and did not begin another."""
        ended = np.concatenate(self._ended) if self._ended else _NO_SLOTS
        return ended[~self._acting[ended]]

    def _write(self, slots: Ids, obs: list[NDArray[np.float32]]) -> None:
        if not self._obs and len(slots) == self._slots and (slots == np.arange(self._slots)).all():
            self._obs = obs  # one message holds the whole table: its arrays are used as they are
            return
        if not self._obs:
            self._obs = self._blank()
        for column, values in zip(self._obs, obs, strict=True):
            column[slots] = values

    def _blank(self) -> list[NDArray[np.float32]]:
        return [np.zeros((self._slots, *obs.shape), np.float32) for obs in self._spec.obs]

    def step(self, membership: Sequence[Tensor], lost: Sequence[Ids]) -> TimeStep:
        """Returns the TimeStep. An end in a slot of `lost` belongs to an agent that got the slot on this tick, and is
        ignored."""
        marks = None
        if lost:
            marks = np.zeros(self._slots, np.bool_)
            marks[np.concatenate(lost)] = True
            self.terminated[marks] = self.truncated[marks] = False
        area, team, group = membership
        return TimeStep(
            obs=tuple(torch.from_numpy(x) for x in self._obs or self._blank()),
            acting=torch.from_numpy(self._acting),
            reward=torch.from_numpy(self._reward),
            group_reward=torch.from_numpy(self._group_reward),
            terminated=torch.from_numpy(self.terminated),
            truncated=torch.from_numpy(self.truncated),
            final_obs=self._final_obs(),
            action_mask=None if self._mask is None else torch.from_numpy(self._mask),
            area=area,
            team=team,
            group=group,
            lost=None if marks is None else torch.from_numpy(marks),
        )

    def _final_obs(self) -> FinalObs:
        if not self._ended:
            return self._no_final_obs
        slots = np.concatenate(self._ended)
        shown = (self.terminated | self.truncated)[slots].nonzero()[0]
        order = shown[np.argsort(slots[shown])]
        obs = (np.concatenate(column)[order] for column in zip(*self._last, strict=True))
        return FinalObs(torch.from_numpy(slots[order]), tuple(torch.from_numpy(x) for x in obs))


def _membership(slots: int, team: int = 0) -> tuple[Tensor, ...]:
    """Returns area, team and group of unused slots, whose `team` is one that agents have."""
    return torch.zeros(slots, dtype=torch.int64), torch.full((slots,), team), torch.full((slots,), NO_GROUP)
