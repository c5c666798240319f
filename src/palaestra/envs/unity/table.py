"""The table of one behavior: agents of every copy and team in slots of their own."""

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

SILENT = 1000
"""Messages of its game after which an agent that was never heard of again gives up its seat to a newcomer."""
NO_GROUP = -1
_ID = (1 << 32) - 1
"""The part of a number unique over all games and teams that is the agent's id."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Agents of one behavior key in one message, read."""

    name: str  # the behavior
    key: str  # and with its team, as the game names it
    copy: int
    source: int  # the copy's present game; a game that took its place has another number
    team: int
    infos: AgentInfos
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: nothing is forbidden
    areas: NDArray[np.int64] | None = None  # (N,) of a game that has several; None: the copy is one


class _Side:
    """Those agents of one game and behavior key that hold seats."""

    def __init__(self) -> None:
        self._id, self._group, self._slots = _NOBODY, _NOBODY, _NOBODY  # rising ids
        self._last = _NOBODY, _NOBODY, _NOBODY  # of the last message, in its order: mostly the next one speaks of the same

    def find(self, infos: AgentInfos) -> Ids | None:
        """The slot of each row, (N,). None where someone is new, or has changed its group."""
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

    def seat(self, infos: AgentInfos, slots: Ids) -> None:
        """From now on these sit there; one that ends and asks stands in its new episode's group."""
        rows = np.argsort(infos.done, kind="stable")  # those that ask first, as np.unique takes the first of equals
        id, first = np.unique(infos.id[rows], return_index=True)
        rows, others = rows[first], ~np.isin(self._id, id)
        id = np.concatenate([self._id[others], id])
        order = np.argsort(id)
        self._id = id[order]
        self._group = np.concatenate([self._group[others], infos.group[rows]])[order]
        self._slots = np.concatenate([self._slots[others], slots[rows]])[order]
        self._last = infos.id, infos.group, slots

    def leave(self, ids: Ids) -> None:
        """These gave up their seats."""
        stay = ~np.isin(self._id, ids)
        self._id, self._group, self._slots = self._id[stay], self._group[stay], self._slots[stay]
        self._last = _NOBODY, _NOBODY, _NOBODY


_NOBODY: Ids = np.zeros(0, np.int64)


class BehaviorTable:
    """Turns what arrives on a tick into a TimeStep. Agents are told apart by their game, their team and their id."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self._no_ends = FinalObs(torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *obs.shape) for obs in spec.obs))
        self._seats = Slots()
        self._seen = np.zeros(0, np.int64)  # (S,) messages of its game that had come when the slot's agent was last heard of
        self._places = _places(0)
        self._seated: defaultdict[int, _Side] = defaultdict(_Side)
        self._sides: dict[tuple[int, str], int] = {}  # a number for each source and key, with which its agents' ids are made unique
        self._numbers = count()
        self._idle: TimeStep | None = None

    def __len__(self) -> int:
        """S."""
        return len(self._seats)

    def tick(
        self, arrivals: Sequence[Arrival], lost_sources: Sequence[int], messages: NDArray[np.int64]
    ) -> tuple[TimeStep, dict[tuple[int, str], Ids]]:
        """The table, and by copy and key the slots that wait for an action, in the order in which they asked.

        `messages` (copies,): how many have come of each copy's present game. Agents of `lost_sources` broke off.
        """
        if not arrivals and not lost_sources:
            return self._nothing(), {}
        found, lost, strangers = [self._find(arrival) for arrival in arrivals], list[Ids](), list[Arrival]()
        if any(slots is None for slots in found):
            lost = self._make_room([arrival for arrival, slots in zip(arrivals, found, strict=True) if slots is None], messages)
            strangers = [arrival for arrival in arrivals if self._find(arrival) is None]  # of some, a seat may have been given up
            for arrival in strangers:
                self._seat(arrival)
            found = [self._find(arrival) for arrival in arrivals]
        rows, asked = _Rows(self.spec, len(self), self._no_ends), dict[tuple[int, str], Ids]()
        for arrival, slots in zip(arrivals, found, strict=True):
            assert slots is not None
            asked[arrival.copy, arrival.key] = rows.add(arrival, slots)
            self._seen[slots] = messages[arrival.copy]
        if strangers:
            self._note_places(strangers)
        if lost_sources:
            lost.append(self._broken_off(lost_sources))
        gone = rows.gone()
        step = rows.step(self._places, lost)
        self._dismiss(gone, lost_sources)
        return step, asked

    def _nothing(self) -> TimeStep:
        """The table where nothing came for this behavior."""
        if self._idle is None or self._idle.area is not self._places[0]:
            self._idle = _Rows(self.spec, len(self), self._no_ends).step(self._places, [])
        return self._idle

    def _find(self, arrival: Arrival) -> Ids | None:
        return self._seated[self._side(arrival)].find(arrival.infos)

    def _side(self, arrival: Arrival) -> int:
        """The number of a source and key."""
        at = arrival.source, arrival.key
        if at not in self._sides:
            self._sides[at] = next(self._numbers)
        return self._sides[at]

    def _ids(self, arrival: Arrival) -> Ids:
        """(N,) unique over all games and teams."""
        return (self._side(arrival) << 32) | arrival.infos.id

    def _seat(self, arrival: Arrival) -> None:
        slots = self._seats.seat(self._ids(arrival))
        more = len(self._seats) - len(self._seen)
        if more > 0:
            self._seen = np.pad(self._seen, (0, more))
            self._places = tuple(torch.cat([x, new]) for x, new in zip(self._places, _places(more), strict=True))
        self._seated[self._side(arrival)].seat(arrival.infos, slots)

    def _make_room(self, strangers: Sequence[Arrival], messages: NDArray[np.int64]) -> list[Ids]:
        """Before the table grows, the seats of agents that vanished without a word are given up. Their slots."""
        ids = np.unique(np.concatenate([self._ids(arrival) for arrival in strangers]))
        newcomers = len(ids) - int(np.isin(self._seats.agent, ids).sum())
        taken = self._seats.taken
        if newcomers <= len(self) - int(taken.sum()):
            return []
        silent = taken & (messages[self._places[0].numpy()] - self._seen > SILENT) & ~np.isin(self._seats.agent, ids)
        slots = silent.nonzero()[0]
        self._leave(self._seats.agent[slots])
        return [slots]

    def _note_places(self, strangers: Sequence[Arrival]) -> None:
        """Copy, team and group of each slot; the columns are made anew, since the former may be in someone's hands."""
        area, team, group = (column.numpy().copy() for column in self._places)
        for arrival in strangers:
            infos, slots = arrival.infos, self._find(arrival)
            assert slots is not None
            area[slots], team[slots] = arrival.copy if arrival.areas is None else arrival.areas, arrival.team
            groups = np.where(infos.group > 0, (arrival.source << 32) | infos.group, NO_GROUP)
            group[slots[infos.done]] = groups[infos.done]
            group[slots[~infos.done]] = groups[~infos.done]  # one that ends and asks stands in its new episode's group
        self._places = torch.from_numpy(area), torch.from_numpy(team), torch.from_numpy(group)

    def _broken_off(self, sources: Sequence[int]) -> Ids:
        """Slots of agents of games that are gone."""
        sides = [side for (source, _), side in self._sides.items() if source in sources]
        return (self._seats.taken & np.isin(self._seats.agent >> 32, sides)).nonzero()[0]

    def _dismiss(self, gone: Ids, lost_sources: Sequence[int]) -> None:
        """The slots of those that ended and do not go on are free again, and those of agents that broke off."""
        self._leave(self._seats.agent[gone])
        if lost_sources:
            self._leave(self._seats.agent[self._broken_off(lost_sources)])
            self._sides = {at: side for at, side in self._sides.items() if at[0] not in lost_sources}

    def _leave(self, ids: Ids) -> None:
        if len(ids):
            self._seats.leave(ids)
            for side in np.unique(ids >> 32).tolist():
                self._seated[side].leave(ids[ids >> 32 == side] & _ID)


class _Rows:
    """The columns of one tick while they are filled."""

    def __init__(self, spec: BehaviorSpec, slots: int, no_ends: FinalObs) -> None:
        self._spec, self._no_ends = spec, no_ends
        self._slots = slots
        self._obs: list[NDArray[np.float32]] = []
        self._acting = np.zeros(slots, np.bool_)
        self._reward, self._group_reward = np.zeros(slots, np.float32), np.zeros(slots, np.float32)
        self.terminated, self.truncated = np.zeros(slots, np.bool_), np.zeros(slots, np.bool_)
        self._mask: NDArray[np.bool_] | None = np.ones((slots, spec.action.choices), np.bool_) if spec.action.branches else None
        self._ended: list[Ids] = []
        self._last: list[tuple[NDArray[np.float32], ...]] = []

    def add(self, arrival: Arrival, slots: Ids) -> Ids:
        """The slots that ask, in order. An ended episode's reward stands before that which its successor begins with."""
        infos, ended = arrival.infos, arrival.infos.done
        ends = bool(ended.any())
        asks = slice(None) if not ends else ~ended
        asking = slots[asks]
        self._reward[asking], self._group_reward[asking] = infos.reward[asks], infos.group_reward[asks]
        self._acting[asking] = True
        self._write(asking, [values[asks] for values in arrival.obs])
        if self._mask is not None and arrival.mask is not None:
            self._mask[asking] = arrival.mask[asks]
        if ends:
            ending = slots[ended]
            self._reward[ending], self._group_reward[ending] = infos.reward[ended], infos.group_reward[ended]
            self.terminated[ending], self.truncated[ending] = ~infos.truncated[ended], infos.truncated[ended]
            self._ended.append(ending)
            self._last.append(tuple(values[ended] for values in arrival.obs))
        return asking

    def gone(self) -> Ids:
        """The slots whose agents ended and do not go on."""
        ended = np.concatenate(self._ended) if self._ended else _NOBODY
        return ended[~self._acting[ended]]

    def _write(self, slots: Ids, views: list[NDArray[np.float32]]) -> None:
        if not self._obs and len(slots) == self._slots and (slots == np.arange(self._slots)).all():
            self._obs = views  # the whole table at once: its own arrays will do
            return
        if not self._obs:
            self._obs = self._blank()
        for column, values in zip(self._obs, views, strict=True):
            column[slots] = values

    def _blank(self) -> list[NDArray[np.float32]]:
        return [np.zeros((self._slots, *obs.shape), np.float32) for obs in self._spec.obs]

    def step(self, places: Sequence[Tensor], lost: Sequence[Ids]) -> TimeStep:
        """The table. An end in a slot of `lost` is that of an agent never seen, who took the seat on this very tick: it is left out."""
        marks = None
        if lost:
            marks = np.zeros(self._slots, np.bool_)
            marks[np.concatenate(lost)] = True
            self.terminated[marks] = self.truncated[marks] = False
        area, team, group = places
        return TimeStep(
            obs=tuple(torch.from_numpy(x) for x in self._obs or self._blank()),
            acting=torch.from_numpy(self._acting),
            reward=torch.from_numpy(self._reward),
            group_reward=torch.from_numpy(self._group_reward),
            terminated=torch.from_numpy(self.terminated),
            truncated=torch.from_numpy(self.truncated),
            ends=self._ends(),
            action_mask=None if self._mask is None else torch.from_numpy(self._mask),
            area=area,
            team=team,
            group=group,
            lost=None if marks is None else torch.from_numpy(marks),
        )

    def _ends(self) -> FinalObs:
        if not self._ended:
            return self._no_ends
        slots = np.concatenate(self._ended)
        shown = (self.terminated | self.truncated)[slots].nonzero()[0]
        order = shown[np.argsort(slots[shown])]
        views = (np.concatenate(column)[order] for column in zip(*self._last, strict=True))
        return FinalObs(torch.from_numpy(slots[order]), tuple(torch.from_numpy(x) for x in views))


def _places(slots: int) -> tuple[Tensor, ...]:
    """Area, team and group of slots in which nobody has sat."""
    return torch.zeros(slots, dtype=torch.int64), torch.zeros(slots, dtype=torch.int64), torch.full((slots,), NO_GROUP)
