"""Returns and lengths of the episodes that end, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import TimeStep


@dataclass(frozen=True, slots=True)
class Episodes:
    """Those that ended, in the order of their ends. E episodes."""

    returns: NDArray[np.float64]  # (E,) sum of the agent's own rewards
    group_returns: NDArray[np.float64]  # (E,) sum of its group's
    lengths: NDArray[np.int64]  # (E,) decisions
    mates: NDArray[np.bool_]  # (E,) it played in a group
    last: NDArray[np.bool_]  # (E,) which ended with it: its group_returns are what the whole group earned
    older: NDArray[np.bool_]  # (E,) it had begun when `mark` was last called
    success: NDArray[np.float64]  # (E,) whether it reached its aim, 1 or 0; NaN where the environment did not say


class EpisodeMeter:
    """Sums rewards over the episodes of one behavior.

    A tick only keeps references to its columns; the sums are made many ticks at a time, so that
    they cost next to nothing and an accelerator is not waited for.
    """

    def __init__(self, slots: int) -> None:
        self._ticks: list[tuple[Tensor, ...]] = []
        self._lost: list[Tensor | None] = []
        self._counted: list[Tensor | None] = []
        self._success: list[Tensor | None] = []
        self._resize(slots)

    def _resize(self, slots: int) -> None:
        self._returns, self._group = np.zeros(slots), np.zeros(slots)
        self._lengths, self._waiting = np.zeros(slots, np.int64), np.zeros(slots, bool)
        self._living, self._groups = np.zeros(slots, bool), np.full(slots, -1, np.int64)
        self._older, self._partial = np.zeros(slots, bool), np.zeros(slots, bool)

    def mark(self) -> None:
        """Notes whose episodes are under way. Call `take` first."""
        assert not self._ticks
        self._older = self._waiting | (self._lengths > 0)

    def begin(self, step: TimeStep, *, partial: bool = False) -> None:
        """The first tables after a reset: every open episode is dropped. `partial`: those that begin are not whole, and not told of."""
        self._ticks.clear()
        self._lost.clear()
        self._counted.clear()
        self._success.clear()
        self._resize(len(step.reward))
        self._waiting = step.acting.cpu().numpy().copy()
        self._living, self._groups = self._waiting.copy(), step.group.cpu().numpy().copy()
        self._partial[:] = partial

    def add(self, step: TimeStep, counted: Tensor | None = None) -> None:
        """One tick. `counted` (S,): whose episodes are told of where they end; None: all."""
        self._ticks.append((step.reward, step.group_reward, step.acting, step.terminated, step.truncated, step.group))
        self._lost.append(step.lost)
        self._counted.append(counted)
        self._success.append(step.success)

    @property
    def slots(self) -> int:
        """Seats it sums over."""
        return len(self._returns)

    def __len__(self) -> int:
        """Ticks not yet summed."""
        return len(self._ticks)

    def take(self) -> Episodes:
        """Sums the ticks since the last call; waits for the device once."""
        returns, groups, lengths, mates, last, older, success = [], [], [], [], [], [], []
        ticks, self._ticks = self._ticks, []
        lost, self._lost = self._lost, []
        counted, self._counted = self._counted, []
        aims, self._success = self._success, []
        columns = [[] if not ticks else host(column) for column in zip(*ticks, strict=True)] or [[]] * 6
        for reward, group, acting, terminated, truncated, plays_in, gone, told, aim in zip(*columns, lost, counted, aims, strict=True):
            self._widen(len(reward))
            if gone is not None:
                self._forget(gone.cpu().numpy())
            ended = terminated | truncated
            settled = self._waiting & (acting | ended)
            self._returns += reward * settled
            self._group += group * settled
            self._lengths += settled
            self._waiting = (self._waiting & ~settled) | acting
            if ended.any():
                own = ended if told is None else ended & told.cpu().numpy()
                slots = (own & ~self._partial & (self._lengths > 0)).nonzero()[0]  # one that ends before its first decision is none
                returns.append(self._returns[slots])
                groups.append(self._group[slots])
                lengths.append(self._lengths[slots])
                mates.append(self._groups[slots] >= 0)
                last.append(np.isin(slots, last_of_groups(ended, self._living, self._groups, self._lengths)))
                older.append(self._older[slots])
                success.append(np.full(len(slots), np.nan) if aim is None else aim.cpu().numpy()[slots])
                self._returns[ended] = self._group[ended] = self._lengths[ended] = self._older[ended] = self._partial[ended] = 0
            self._living = (self._living & ~ended) | acting
            self._groups = np.where(acting, plays_in, self._groups)
        nothing = np.zeros(0)
        return Episodes(
            np.concatenate([nothing, *returns]),
            np.concatenate([nothing, *groups]),
            np.concatenate([nothing.astype(np.int64), *lengths]),
            np.concatenate([nothing.astype(np.bool_), *mates]),
            np.concatenate([nothing.astype(np.bool_), *last]),
            np.concatenate([nothing.astype(np.bool_), *older]),
            np.concatenate([nothing, *success]),
        )

    def _forget(self, lost: NDArray[np.bool_]) -> None:
        """Their episodes are none."""
        self._returns[lost] = self._group[lost] = self._lengths[lost] = self._older[lost] = self._partial[lost] = 0
        self._waiting &= ~lost
        self._living &= ~lost

    def _widen(self, slots: int) -> None:
        more = slots - len(self._returns)
        if more > 0:
            self._returns, self._group = np.pad(self._returns, (0, more)), np.pad(self._group, (0, more))
            self._lengths, self._waiting = np.pad(self._lengths, (0, more)), np.pad(self._waiting, (0, more))
            self._living, self._groups = np.pad(self._living, (0, more)), np.pad(self._groups, (0, more), constant_values=-1)
            self._older, self._partial = np.pad(self._older, (0, more)), np.pad(self._partial, (0, more))

    def state_dict(self) -> dict[str, Any]:
        """Open sums. Call `take` first."""
        assert not self._ticks
        arrays = {"returns": self._returns, "group": self._group, "lengths": self._lengths, "waiting": self._waiting}
        arrays |= {"living": self._living, "groups": self._groups, "older": self._older, "partial": self._partial}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Open sums as they were."""
        self._ticks.clear()
        self._lost.clear()
        self._counted.clear()
        self._success.clear()
        self._returns, self._group, self._lengths, self._waiting = (
            state[name].numpy().copy() for name in ("returns", "group", "lengths", "waiting")
        )
        if "living" in state:  # not in checkpoints of earlier versions
            self._living, self._groups = state["living"].numpy().copy(), state["groups"].numpy().copy()
        else:
            self._living, self._groups = self._waiting.copy(), np.full(len(self._waiting), -1, np.int64)
        none = np.zeros(len(self._waiting), bool)
        self._older, self._partial = (state[name].numpy().copy() if name in state else none.copy() for name in ("older", "partial"))


def host(column: tuple[Tensor, ...]) -> list[NDArray[Any]]:
    """A column of many ticks as arrays, fetched in one piece where they are all of one size."""
    if len({len(x) for x in column}) == 1:
        return list(torch.stack(column).cpu().numpy())
    return [x.cpu().numpy() for x in column]


def last_of_groups(
    ended: NDArray[np.bool_], living: NDArray[np.bool_], group: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Of each group that nobody is left of after these ends, the slot of the member who decided most, (G,).

    What that one got with its group is what the group earned: members that left early got a part of it only. All columns (S,);
    `living`: whose episodes were open before; `group`: that in which they played, -1 on their own.
    """
    slots = (ended & (group >= 0)).nonzero()[0]
    slots = slots[~np.isin(group[slots], group[living & ~ended])]
    slots = slots[np.lexsort((-length[slots], group[slots]))]
    return slots[np.concatenate([np.ones(min(len(slots), 1), bool), np.diff(group[slots]) != 0])]
