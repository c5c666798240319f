"""Sums the returns and lengths of the episodes of one behavior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import TimeStep
from palaestra.runtime.collect.episodes import NONE, Episodes, Flags, OpenEpisodes


class EpisodeMeter:
    """Sums rewards over the episodes of one behavior.

    A tick only stores references to its columns. The columns are summed for many ticks together, which is fast and does
    not wait for an accelerator.
    """

    def __init__(self, slots: int) -> None:
        self._ticks: list[tuple[Tensor, ...]] = []
        self._optional: list[tuple[Tensor | None, ...]] = []
        self._decisions = self._summed = 0
        self.forget()
        self._widen(slots)

    def forget(self) -> None:
        """Drops all episodes and slots."""
        self._ticks.clear()
        self._optional.clear()
        self._open = OpenEpisodes(0)
        self._older = np.zeros(0, bool)
        self._partial = np.zeros(0, bool)

    def mark(self) -> None:
        """Records which episodes are unfinished now. Call `take` first."""
        assert not self._ticks
        self._older = self._open.waiting | (self._open.lengths > 0)

    def begin(self, step: TimeStep, *, partial: bool = False) -> None:
        """Starts with the first tables after a reset. `partial`: the episodes that begin now are not counted."""
        self.forget()
        self._widen(len(step.reward))
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
        """Number of slots in the newest tables."""
        return len(self._open)

    @property
    def agents(self) -> float:
        """Mean number of agents that decided in a tick, over the ticks summed so far; 0 if no tick was."""
        return self._decisions / max(self._summed, 1)

    def __len__(self) -> int:
        """Number of ticks not yet summed."""
        return len(self._ticks)

    def take(self) -> Episodes:
        """Sums the ticks since the last call; waits once for the device."""
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


def host(column: tuple[Tensor, ...]) -> list[NDArray[Any]]:
    """Returns a column of many ticks as arrays, fetched in one piece if all have one size."""
    if len({len(x) for x in column}) == 1:
        return list(torch.stack(column).cpu().numpy())
    return [x.cpu().numpy() for x in column]
