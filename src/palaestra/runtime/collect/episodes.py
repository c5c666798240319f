"""Sums the returns and lengths of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import TimeStep

Flags = NDArray[np.bool_]
Numbers = NDArray[np.floating]


class Episodes(NamedTuple):
    """E finished episodes, in the order in which they ended."""

    returns: NDArray[np.float64]  # (E,) sum of the agent's own rewards
    group_returns: NDArray[np.float64]  # (E,) sum of its group's
    lengths: NDArray[np.int64]  # (E,) decisions
    in_group: Flags  # (E,) whether the agent was in a group
    last_of_group: Flags  # (E,) whether its group ended with it: its group_returns are what the whole group earned
    older: Flags  # (E,) whether it had begun when `mark` was last called
    success: NDArray[np.float64]  # (E,) 1 if it succeeded, else 0; NaN where the environment does not report success

    @property
    def together(self) -> NDArray[np.float64]:
        """Returns what agents earned themselves and with their groups, (E,)."""
        return self.returns + self.group_returns

    @property
    def judged(self) -> NDArray[np.float64]:
        """Returns that runs are compared by: of agents on their own, and one for each group that ended."""
        return self.together[self.last_of_group | ~self.in_group]


class OpenEpisodes:
    """Sums over the unfinished episodes of S slots."""

    def __init__(self, slots: int) -> None:
        self.returns = np.zeros(slots)
        self.group_returns = np.zeros(slots)
        # waiting: decided, outcome not known yet
        self.lengths = np.zeros(slots, np.int64)
        self.waiting = np.zeros(slots, bool)
        self.living = np.zeros(slots, bool)
        self.groups = np.full(slots, -1, np.int64)

    def __len__(self) -> int:
        return len(self.returns)

    def widen(self, slots: int) -> None:
        """Adds slots up to the number `slots`."""
        more = slots - len(self)
        if more > 0:
            for name in ("returns", "group_returns", "lengths", "waiting", "living"):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))
            self.groups = np.pad(self.groups, (0, more), constant_values=-1)

    def add_rewards(self, acting: Flags, ended: Flags, reward: Numbers, group_reward: Numbers) -> None:
        """Adds a tick's rewards, each (S,), where a decision's outcome is known now: its agent acts again or its
        episode ended.
        """
        completed = self.waiting & (acting | ended)
        self.returns += reward * completed
        self.group_returns += group_reward * completed
        self.lengths += completed
        self.waiting &= ~completed

    def last_of_groups(self, ended: Flags) -> NDArray[np.int64]:
        """Returns the slots whose `group_returns` are what a whole group earned, of the groups that `ended` (S,) leaves
        empty.
        """
        return last_of_groups(ended, self.living, self.groups, self.lengths)

    def close(self, ended: Flags) -> None:
        """Clears the sums of episodes that ended."""
        self.returns[ended] = self.group_returns[ended] = self.lengths[ended] = 0
        self.living &= ~ended

    def open(self, slots: Flags, groups: NDArray[np.int64]) -> None:
        """Begins the episodes of the agents in these slots (S,), which belong to these groups (S,)."""
        self.living |= slots
        self.groups = np.where(slots, groups, self.groups)

    def forget(self, lost: Flags) -> None:
        """Drops the episodes of agents that were lost, (S,)."""
        self.close(lost)
        self.waiting &= ~lost


class EpisodeMeter:
    """Sums rewards over the episodes of one behavior.

    A tick only stores references to its columns. They are summed many ticks at a time, which costs little and
    does not wait for an accelerator.
    """

    def __init__(self, slots: int) -> None:
        self._ticks: list[tuple[Tensor, ...]] = []
        self._optional: list[tuple[Tensor | None, ...]] = []
        self._decisions = self._summed = 0
        self._resize(slots)

    def _resize(self, slots: int) -> None:
        self._open = OpenEpisodes(slots)
        self._older = np.zeros(slots, bool)
        self._partial = np.zeros(slots, bool)

    def mark(self) -> None:
        """Remembers which episodes are unfinished now. Call `take` first."""
        assert not self._ticks
        self._older = self._open.waiting | (self._open.lengths > 0)

    def begin(self, step: TimeStep, *, partial: bool = False) -> None:
        """Starts with the first tables after a reset. `partial`: the episodes that begin now are incomplete and not
        counted.
        """
        self._ticks.clear()
        self._optional.clear()
        self._resize(len(step.reward))
        self._open.waiting = step.acting.cpu().numpy().copy()
        self._open.living = self._open.waiting.copy()
        self._open.groups = step.group.cpu().numpy().copy()
        self._partial[:] = partial

    def add(self, step: TimeStep, counted: Tensor | None = None) -> None:
        """Adds a tick. `counted` (S,): slots whose episodes count if they end; None: all."""
        self._ticks.append((step.reward, step.group_reward, step.acting, step.terminated, step.truncated, step.group))
        self._optional.append((step.lost, counted, step.success))

    @property
    def slots(self) -> int:
        """Number of slots in the tables that it has seen."""
        return len(self._open)

    @property
    def agents(self) -> float:
        """Mean number of agents that decided in a tick, of the ticks summed so far; 0 if there are none."""
        return self._decisions / max(self._summed, 1)

    def __len__(self) -> int:
        """Number of ticks not yet summed."""
        return len(self._ticks)

    def take(self) -> Episodes:
        """Sums the ticks since the last call; waits for the device once."""
        columns = zip(*map(host, zip(*self._ticks, strict=True)), strict=True)
        found = [NONE, *(self._add(*both) for both in zip(columns, self._optional, strict=True))]
        self._ticks.clear()
        self._optional.clear()
        return Episodes(*map(np.concatenate, zip(*found, strict=True)))

    def _add(self, tick: Sequence[NDArray[Any]], optional: Sequence[Tensor | None]) -> Episodes:
        """Sums a tick, whose columns are those of `add`. Returns the episodes that ended with it."""
        reward, group_reward, acting, terminated, truncated, groups = tick
        lost, counted, success = optional
        self._widen(len(reward))
        self._decisions += int(acting.sum())
        self._summed += 1
        if lost is not None:
            gone = lost.cpu().numpy()
            self._open.forget(gone)
            self._older[gone] = self._partial[gone] = False
        ended = terminated | truncated
        self._open.add_rewards(acting, ended, reward, group_reward)
        self._open.waiting |= acting
        found = self._close(ended, counted, success) if ended.any() else NONE
        self._open.open(acting, groups)
        return found

    def _close(self, ended: Flags, counted: Tensor | None, success: Tensor | None) -> Episodes:
        counts = ended if counted is None else ended & counted.cpu().numpy()
        # an episode without a decision does not count
        slots = (counts & ~self._partial & (self._open.lengths > 0)).nonzero()[0]
        found = Episodes(
            self._open.returns[slots],
            self._open.group_returns[slots],
            self._open.lengths[slots],
            self._open.groups[slots] >= 0,
            np.isin(slots, self._open.last_of_groups(ended)),
            self._older[slots],
            np.full(len(slots), np.nan) if success is None else success.cpu().numpy()[slots],
        )
        self._open.close(ended)
        self._older[ended] = self._partial[ended] = False
        return found

    def _widen(self, slots: int) -> None:
        more = slots - len(self._open)
        if more > 0:
            self._open.widen(slots)
            self._older = np.pad(self._older, (0, more))
            self._partial = np.pad(self._partial, (0, more))

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the open sums. Call `take` first."""
        assert not self._ticks
        arrays = {**vars(self._open), "older": self._older, "partial": self._partial}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores the open sums."""
        self._ticks.clear()
        self._optional.clear()
        arrays = {name: column.numpy().copy() for name, column in state.items()}
        self._older = arrays.pop("older")
        self._partial = arrays.pop("partial")
        self._open = OpenEpisodes(len(self._older))
        vars(self._open).update(arrays)


NONE = Episodes(
    np.zeros(0),
    np.zeros(0),
    np.zeros(0, np.int64),
    np.zeros(0, np.bool_),
    np.zeros(0, np.bool_),
    np.zeros(0, np.bool_),
    np.zeros(0),
)


def host(column: tuple[Tensor, ...]) -> list[NDArray[Any]]:
    """Returns a column of many ticks as arrays, fetched in one piece if all have one size."""
    if len({len(x) for x in column}) == 1:
        return list(torch.stack(column).cpu().numpy())
    return [x.cpu().numpy() for x in column]


def last_of_groups(
    ended: NDArray[np.bool_], living: NDArray[np.bool_], group: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns, for each group that these ends leave empty, the slot of the member that decided most, (G,).

    That member's group return is what the whole group earned: members that left earlier received only part of it. All
    columns are (S,);
    `living`: slots whose episodes were open before; `group`: the group of each, -1 without one.
    """
    slots = (ended & (group >= 0)).nonzero()[0]
    slots = slots[~np.isin(group[slots], group[living & ~ended])]
    slots = slots[np.lexsort((-length[slots], group[slots]))]
    return slots[np.concatenate([np.ones(min(len(slots), 1), bool), np.diff(group[slots]) != 0])]
