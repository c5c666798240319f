"""Sums the returns and lengths of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import TimeStep

Flags = NDArray[np.bool_]
Numbers = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Episodes:
    """E finished episodes, in the order in which they ended."""

    returns: NDArray[np.float64]  # (E,) sum of the agent's own rewards
    group_returns: NDArray[np.float64]  # (E,) sum of its group's
    lengths: NDArray[np.int64]  # (E,) decisions
    in_group: NDArray[np.bool_]  # (E,) whether the agent was in a group
    # (E,) whether its group ended with it: its group_returns are what the whole group earned
    last_of_group: NDArray[np.bool_]
    older: NDArray[np.bool_]  # (E,) whether it had begun when `mark` was last called
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
        self._lost: list[Tensor | None] = []
        self._counted: list[Tensor | None] = []
        self._success: list[Tensor | None] = []
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
        self._lost.clear()
        self._counted.clear()
        self._success.clear()
        self._resize(len(step.reward))
        self._open.waiting = step.acting.cpu().numpy().copy()
        self._open.living = self._open.waiting.copy()
        self._open.groups = step.group.cpu().numpy().copy()
        self._partial[:] = partial

    def add(self, step: TimeStep, counted: Tensor | None = None) -> None:
        """Adds a tick. `counted` (S,): slots whose episodes count if they end; None: all."""
        self._ticks.append((step.reward, step.group_reward, step.acting, step.terminated, step.truncated, step.group))
        self._lost.append(step.lost)
        self._counted.append(counted)
        self._success.append(step.success)

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
        returns = []
        groups = []
        lengths = []
        in_group = []
        last = []
        older = []
        success = []
        ticks = self._ticks
        self._ticks = []
        lost = self._lost
        self._lost = []
        counted = self._counted
        self._counted = []
        successes = self._success
        self._success = []
        columns = [[] if not ticks else host(column) for column in zip(*ticks, strict=True)] or [[]] * 6
        for reward, group, acting, terminated, truncated, ids, gone, counts, succeeded in zip(
            *columns, lost, counted, successes, strict=True
        ):
            self._widen(len(reward))
            self._decisions += int(acting.sum())
            self._summed += 1
            if gone is not None:
                self._forget(gone.cpu().numpy())
            ended = terminated | truncated
            open_ = self._open
            open_.add_rewards(acting, ended, reward, group)
            open_.waiting |= acting
            if ended.any():
                counted_ends = ended if counts is None else ended & counts.cpu().numpy()
                # an episode without a decision does not count
                slots = (counted_ends & ~self._partial & (open_.lengths > 0)).nonzero()[0]
                returns.append(open_.returns[slots])
                groups.append(open_.group_returns[slots])
                lengths.append(open_.lengths[slots])
                in_group.append(open_.groups[slots] >= 0)
                last.append(np.isin(slots, open_.last_of_groups(ended)))
                older.append(self._older[slots])
                success.append(np.full(len(slots), np.nan) if succeeded is None else succeeded.cpu().numpy()[slots])
                open_.close(ended)
                self._older[ended] = self._partial[ended] = False
            open_.open(acting, ids)
        nothing = np.zeros(0)
        return Episodes(
            np.concatenate([nothing, *returns]),
            np.concatenate([nothing, *groups]),
            np.concatenate([nothing.astype(np.int64), *lengths]),
            np.concatenate([nothing.astype(np.bool_), *in_group]),
            np.concatenate([nothing.astype(np.bool_), *last]),
            np.concatenate([nothing.astype(np.bool_), *older]),
            np.concatenate([nothing, *success]),
        )

    def _forget(self, lost: Flags) -> None:
        """Drops the episodes of agents that were lost."""
        self._open.forget(lost)
        self._older[lost] = self._partial[lost] = False

    def _widen(self, slots: int) -> None:
        more = slots - len(self._open)
        if more > 0:
            self._open.widen(slots)
            self._older = np.pad(self._older, (0, more))
            self._partial = np.pad(self._partial, (0, more))

    def state_dict(self) -> dict[str, Any]:
        """Returns the open sums. Call `take` first."""
        assert not self._ticks
        sums = self._open
        arrays = {
            "returns": sums.returns,
            "group": sums.group_returns,
            "lengths": sums.lengths,
            "waiting": sums.waiting,
        }
        arrays |= {"living": sums.living, "groups": sums.groups, "older": self._older, "partial": self._partial}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the open sums."""
        self._ticks.clear()
        self._lost.clear()
        self._counted.clear()
        self._success.clear()
        sums = self._open = OpenEpisodes(len(state["waiting"]))
        sums.returns, sums.group_returns, sums.lengths, sums.waiting, sums.living, sums.groups = (
            state[name].numpy().copy() for name in ("returns", "group", "lengths", "waiting", "living", "groups")
        )
        self._older, self._partial = (state[name].numpy().copy() for name in ("older", "partial"))


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
