"""The table of one behavior: agents of every copy and team in slots of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Ends, TimeStep
from palaestra.envs.slots import Ids, Slots
from palaestra.envs.unity.decode import Infos

SILENT = 1000
"""Messages of its game after which an agent that was never heard of again gives up its seat to a newcomer."""
NO_GROUP = -1


@dataclass(frozen=True, slots=True)
class Arrival:
    """Agents of one behavior key in one message, read."""

    name: str  # the behavior
    key: str  # and with its team, as the game names it
    copy: int
    source: int  # the copy's present game; a game that took its place has another number
    team: int
    infos: Infos
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: nothing is forbidden


class Table:
    """Turns what arrives on a tick into a TimeStep. Agents are told apart by their game and their id."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self._seats = Slots()
        self._seen = np.zeros(0, np.int64)  # (S,) messages of its game that had come when the slot's agent was last heard of
        self._of = np.zeros(0, np.int64)  # (S,) copy
        self._columns = (torch.zeros(0, dtype=torch.int64),) * 3
        self._known: dict[tuple[int, str], tuple[Ids, Ids]] = {}  # ids of the last message of a source and key, and their slots
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
        if not arrivals and not lost_sources and self._idle is not None and len(self._idle.reward) == len(self):
            return self._idle, {}
        evicted = self._make_room(arrivals, messages)
        found = [self._slots(arrival) for arrival in arrivals]
        lost = self._broken_off(lost_sources) | self._mark(evicted)
        rows = _Rows(self.spec, len(self))
        asked: dict[tuple[int, str], Ids] = {}
        for arrival, slots in zip(arrivals, found, strict=True):
            asked[arrival.copy, arrival.key] = rows.add(arrival, slots)
            self._seen[slots] = messages[arrival.copy]
        self._note_places(arrivals, found)
        self._dismiss(arrivals, lost_sources)
        lost &= ~(rows.terminated | rows.truncated)
        step = rows.step(self._columns, lost if lost.any() else None)
        if not arrivals and not lost_sources:
            self._idle = step
        return step, asked

    def _slots(self, arrival: Arrival) -> Ids:
        """Of each info, (N,)."""
        at, ids = (arrival.source, arrival.key), arrival.infos.id
        known = self._known.get(at)
        if known is not None and len(known[0]) == len(ids) and (known[0] == ids).all():
            return known[1]
        slots = self._seats.seat(global_ids(arrival))
        self._widen()
        self._known[at] = ids, slots
        return slots

    def _widen(self) -> None:
        more = len(self._seats) - len(self._seen)
        if more > 0:
            self._seen, self._of = np.pad(self._seen, (0, more)), np.pad(self._of, (0, more))
            fills = (0, 0, NO_GROUP)
            self._columns = tuple(torch.cat([x, x.new_full((more,), fill)]) for x, fill in zip(self._columns, fills, strict=True))

    def _make_room(self, arrivals: Sequence[Arrival], messages: NDArray[np.int64]) -> Ids:
        """Before the table grows, the seats of agents that vanished without a word are given up. The slots."""
        nobody = np.zeros(0, np.int64)
        unknown = [arrival for arrival in arrivals if not self._expected(arrival)]
        if not unknown or not len(self):
            return nobody
        ids = np.unique(np.concatenate([global_ids(arrival) for arrival in unknown]))
        newcomers = len(np.setdiff1d(ids, self._seats.agent, assume_unique=True))
        if newcomers <= int((~self._seats.taken).sum()):
            return nobody
        silent = self._seats.taken & (messages[self._of] - self._seen > SILENT) & ~np.isin(self._seats.agent, ids)
        slots = silent.nonzero()[0]
        self._leave(self._seats.agent[slots])
        return slots

    def _expected(self, arrival: Arrival) -> bool:
        known = self._known.get((arrival.source, arrival.key))
        return known is not None and len(known[0]) == len(arrival.infos.id) and bool((known[0] == arrival.infos.id).all())

    def _broken_off(self, sources: Sequence[int]) -> NDArray[np.bool_]:
        if not sources:
            return np.zeros(len(self), np.bool_)
        return self._seats.taken & np.isin(self._seats.agent >> 32, np.asarray(sources))

    def _mark(self, slots: Ids) -> NDArray[np.bool_]:
        marked = np.zeros(len(self), np.bool_)
        marked[slots] = True
        return marked

    def _note_places(self, arrivals: Sequence[Arrival], found: Sequence[Ids]) -> None:
        """Copy, team and group of each slot; the columns are made anew only where one changed."""
        news = [np.array(column) for column in self._columns]
        for arrival, slots in zip(arrivals, found, strict=True):
            group = arrival.infos.group
            # an agent that ends and asks stands in its new episode's group: infos that ask come last
            order = np.argsort(~arrival.infos.done, kind="stable")
            ids = np.where(group > 0, (arrival.source << 32) | group, NO_GROUP)
            news[0][slots], news[1][slots] = arrival.copy, arrival.team
            news[2][slots[order]] = ids[order]
        if any((new != old.numpy()).any() for new, old in zip(news, self._columns, strict=True)):
            self._columns = tuple(torch.from_numpy(new) for new in news)
            self._of = news[0]

    def _dismiss(self, arrivals: Sequence[Arrival], lost_sources: Sequence[int]) -> None:
        """Those that ended and do not go on, and those that broke off."""
        for arrival in arrivals:
            done = arrival.infos.done
            if done.any():
                ids = global_ids(arrival)
                self._leave(np.setdiff1d(ids[done], ids[~done]))
        if lost_sources:
            self._leave(self._seats.agent[self._broken_off(lost_sources)])
            self._known = {at: known for at, known in self._known.items() if at[0] not in lost_sources}

    def _leave(self, ids: Ids) -> None:
        if not len(ids):
            return
        self._seats.leave(ids)
        gone = {int(source) for source in np.unique(ids >> 32)}
        self._known = {at: known for at, known in self._known.items() if at[0] not in gone}


class _Rows:
    """The columns of one tick while they are filled."""

    def __init__(self, spec: BehaviorSpec, slots: int) -> None:
        self._spec = spec
        self._obs: list[NDArray[np.float32] | None] = [None] * len(spec.obs)
        self._slots = slots
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
        for i, values in enumerate(arrival.obs):
            self._write(i, asking, values[asks])
        if self._mask is not None and arrival.mask is not None:
            self._mask[asking] = arrival.mask[asks]
        if ends:
            ending = slots[ended]
            self._reward[ending], self._group_reward[ending] = infos.reward[ended], infos.group_reward[ended]
            self.terminated[ending], self.truncated[ending] = ~infos.cut[ended], infos.cut[ended]
            self._ended.append(ending)
            self._last.append(tuple(values[ended] for values in arrival.obs))
        return asking

    def _write(self, i: int, slots: Ids, values: NDArray[np.float32]) -> None:
        column = self._obs[i]
        if column is None and len(slots) == self._slots and (slots == np.arange(self._slots)).all():
            self._obs[i] = values  # the whole table at once: its own array will do
            return
        if column is None:
            column = self._obs[i] = np.zeros((self._slots, *self._spec.obs[i].shape), np.float32)
        column[slots] = values

    def step(self, columns: Sequence[Tensor], lost: NDArray[np.bool_] | None) -> TimeStep:
        obs = [x if x is not None else np.zeros((self._slots, *self._spec.obs[i].shape), np.float32) for i, x in enumerate(self._obs)]
        area, team, group = columns
        return TimeStep(
            obs=tuple(torch.from_numpy(x) for x in obs),
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
            lost=None if lost is None else torch.from_numpy(lost),
        )

    def _ends(self) -> Ends:
        if not self._ended:
            return Ends(torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *obs.shape) for obs in self._spec.obs))
        slots = np.concatenate(self._ended)
        order = np.argsort(slots)
        views = (np.concatenate(column)[order] for column in zip(*self._last, strict=True))
        return Ends(torch.from_numpy(slots[order]), tuple(torch.from_numpy(x) for x in views))


def global_ids(arrival: Arrival) -> Ids:
    """(N,) unique over all games."""
    return (arrival.source << 32) | arrival.infos.id
