"""What an episode that was truncated would have gone on to see: its last views, aside; where asked for, those of every episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.timestep import TimeStep


class FinalObsList:
    """Last views of truncated episodes, kept one by one: their number is known at no cost on the CPU."""

    def __init__(self, terminal_views: bool = False) -> None:
        self.terminal_views = terminal_views
        self._rows: list[Tensor] = []
        self._obs: list[tuple[Tensor, ...]] = []

    def add(self, rows: Tensor, step: TimeStep, settled: Tensor | None = None) -> None:
        """`rows` (S,): the row of each slot's decision, in T * S counting; `settled` (S,): only where one was."""
        slots = step.ends.slots
        kept = step.truncated | step.terminated if self.terminal_views else step.truncated
        cut = kept[slots] if settled is None else (kept & settled)[slots]
        if not cut.any():
            return
        self._rows.append(rows[slots[cut]])
        self._obs.append(tuple(obs[cut] for obs in step.ends.obs))

    def take(self, ended: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows (E,) and views, each (E, *shape), of the episodes whose views are kept: `ended` (T, S)."""
        rows = torch.cat([torch.empty(0, dtype=torch.int64, device=ended.device), *self._rows])
        obs = tuple(torch.cat([x[:0], *(views[i] for views in self._obs)]) for i, x in enumerate(like))
        self._rows, self._obs = [], []
        return rows, obs

    def widen(self, slots: int, more: int) -> None:
        """Counts its rows anew once a row of the rollout has `more` slots."""
        self._rows = [torch.div(rows, slots, rounding_mode="floor") * more + rows % slots for rows in self._rows]

    def state_dict(self) -> dict[str, Any]:
        """What was kept."""
        return {"rows": list(self._rows), "obs": [list(views) for views in self._obs]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What had been kept."""
        self._rows, self._obs = list(state["rows"]), [tuple(views) for views in state["obs"]]


class FinalObsTable:
    """Last views of every slot at every tick: on an accelerator nothing waits to learn which ended.

    Costs a second copy of the observations there. Those of truncated episodes are picked out once a rollout.
    """

    def __init__(self, step: TimeStep, ticks: int) -> None:
        self._columns = [column(x, ticks) for x in step.obs]

    def add(self, rows: Tensor, step: TimeStep) -> None:
        """`rows` (S,): the row of each slot's decision, in T * S counting; all of one tick."""
        for x, value in zip(self._columns, step.ends.obs, strict=True):
            x.view(-1, *x.shape[2:]).index_copy_(0, rows, value)

    def take(self, ended: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows (E,) and views, each (E, *shape), of the episodes whose views are kept: `ended` (T, S)."""
        rows = ended.flatten().nonzero().squeeze(1)
        return rows, tuple(x.view(-1, *x.shape[2:])[rows] for x in self._columns)

    def state_dict(self) -> dict[str, Any]:
        """The whole table."""
        return {"columns": self._columns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The whole table, with room for at least as many ticks as it had."""
        for i, value in enumerate(state["columns"]):
            if len(value) > len(self._columns[i]):
                self._columns[i] = column(self._columns[i][0], len(value))
            self._columns[i][: len(value)].copy_(value)


def column(value: Tensor, ticks: int) -> Tensor:
    """An empty column (ticks, S, ...) for values like this one."""
    return torch.zeros((ticks, *value.shape), dtype=value.dtype, device=value.device)
