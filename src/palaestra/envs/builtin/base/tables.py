"""Tables of a built-in environment: copies of its columns after every tick, and actions written to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.builtin.base.world_columns import ImageBuffers, column_prefix
from palaestra.envs.given_actions import lacking

WORTH_KEEPING = 1 << 18  # bytes; smaller copies come from the allocator's own pool
MOST_KEPT = 4  # copies of a column that a reader may hold before more of them cost fresh memory


class PooledCopies:
    """Copies one column repeatedly, into the memory of earlier copies that are no longer in use; with fresh memory on
    the host a copy takes six times as long."""

    def __init__(self, column: Tensor) -> None:
        self._column = column
        self._kept: list[np.ndarray] = []
        self._array = column.numpy() if column.device.type == "cpu" else np.empty(0)
        self._keeps = column.device.type == "cpu" and column.numel() * column.element_size() >= WORTH_KEEPING

    def take(self) -> Tensor:
        """Returns a copy of the column's current content. The copy is not written to while anything references it or a
        view of it."""
        return torch.from_numpy(self.take_array()) if self._keeps else self._column.clone()

    def take_array(self) -> np.ndarray:
        """Returns the result of `take` as an array; only on the host."""
        if self._keeps:
            for k in range(len(self._kept)):
                if sys.getrefcount(self._kept[k]) == 2:  # our list's and the call's: nothing else refers to this memory
                    return self._filled(self._kept[k])
            if len(self._kept) < MOST_KEPT:
                self._kept.append(np.empty_like(self._array))
                return self._filled(self._kept[-1])
        return self._array.copy()

    def _filled(self, memory: np.ndarray) -> np.ndarray:
        np.copyto(memory, self._array)
        return memory


class Table:
    """Table of all agents of each area, or of some of them.

    The k-th of the `agents` of area i is in slot i * len(agents) + k, on team `teams[agents[k]]`. If there is a column
    `group_reward`, the agents of a team in an area form a group. If there is a column `acting`, it marks the agents
    that wait for an action; otherwise all agents do.
    """

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        teams: Sequence[int],
        agents: Sequence[int],
        prefix: str = "",
        images: ImageBuffers | None = None,
    ) -> None:
        """`teams`: the teams of an area's agents; `prefix` begins the columns' names; `images`: alternating buffers of
        `obs_image`."""
        device = columns["reward"].device
        areas = len(columns["reward"]) // len(teams)
        self._columns = columns
        self._on_host = device.type == "cpu"
        obs = {name: column for name, column in columns.items() if name.startswith(f"{prefix}obs") and column.shape[1]}
        self.obs = tuple(
            images if images and name == "obs_image" else PooledCopies(column) for name, column in obs.items()
        )
        self._final_obs = tuple(
            column for name, column in columns.items() if name.startswith(f"{prefix}final_obs") and column.shape[1]
        )
        self._area = torch.arange(areas, device=device).repeat_interleave(len(agents))
        self._team = torch.tensor([teams[agent] for agent in agents], device=device).repeat(areas)
        self._slots = torch.arange(len(self._area), device=device)
        self._group = (
            self._area * (max(teams) + 1) + self._team
            if "group_reward" in columns
            else torch.full_like(self._slots, -1)
        )
        self.rows = (
            None
            if len(agents) == len(teams)
            else self._area * len(teams) + torch.tensor(agents, device=device).repeat(areas)
        )
        """(S,) int64: rows of its agents in columns with a row per agent; None: all rows."""
        self._acting = torch.ones_like(self._slots, dtype=torch.bool)
        self._no_group_reward = torch.zeros(len(self._slots), device=device)
        self._no_final_obs = FinalObs(self._slots[:0], tuple(column[:0].clone() for column in obs.values()))

    def make(self, ended: bool) -> TimeStep:
        """Returns the current TimeStep. `ended` tells whether an episode ended; it is ignored on an accelerator."""
        terminated = self._copied("terminated")
        truncated = self._copied("truncated")
        return TimeStep(
            obs=tuple([copies.take() for copies in self.obs]),
            acting=self._copied("acting") if "acting" in self._columns else self._acting,
            reward=self._copied("reward"),
            group_reward=self._copied("group_reward") if "group_reward" in self._columns else self._no_group_reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=self._take_final_obs(terminated, truncated) if ended or not self._on_host else self._no_final_obs,
            action_mask=self._copied("mask") if "mask" in self._columns else None,
            area=self._area,
            team=self._team,
            group=self._group,
        )

    def _copied(self, name: str) -> Tensor:
        return self._columns[name].clone() if self.rows is None else self._columns[name][self.rows]

    def _take_final_obs(self, terminated: Tensor, truncated: Tensor) -> FinalObs:
        if not self._on_host:
            return FinalObs(self._slots, tuple([column.clone() for column in self._final_obs]))
        slots = (terminated | truncated).nonzero()[:, 0]
        rows = slots.numpy()  # torch's threads, which would gather them, keep their cores busy for a while afterwards
        return FinalObs(slots, tuple([torch.from_numpy(column.numpy()[rows]) for column in self._final_obs]))


class Tables:
    """One table for each behavior: a separate table for each role, or each behavior's share of all slots."""

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        behaviors: Mapping[str, BehaviorSpec],
        teams: Sequence[int],
        roles: Sequence[str] = (),
        images: ImageBuffers | None = None,
    ) -> None:
        """`roles` are the fixed behaviors of an area's agents, if any; `images`: image buffers that alternate."""
        self._columns = columns
        self._behaviors = behaviors
        self._names = tuple(behaviors)
        self._shared = len(self._names) > 1 and not roles
        self._tables: dict[str, Table] = {}
        for name in self._names if roles else self._names[:1]:
            agents = [agent for agent in range(len(teams)) if not roles or roles[agent] == name]
            self._tables[name] = Table(columns, teams, agents, column_prefix(name) if roles else "", images)
        self._on_host = columns["reward"].device.type == "cpu"

    def make(self, ended: bool) -> dict[str, TimeStep]:
        """Returns the current TimeStep of each behavior. `ended` tells whether an episode ended; it is ignored on an
        accelerator."""
        steps = {name: table.make(ended) for name, table in self._tables.items()}
        if len(steps) == len(self._names):
            return steps
        (whole,) = steps.values()
        plays = self._columns["plays"]
        played = self._columns["played"]
        return {name: self._share(whole, plays == k, played == k) for k, name in enumerate(self._names)}

    def write_actions(self, name: str, number: int, actions: Mapping[str, Action]) -> None:
        """Writes the actions of one behavior, the `number`th, into the columns of its slots. Raises EnvError if the
        actions do not fit."""
        rows = self.rows(name)
        mine = self._columns["plays"] == number if self._shared else None
        if name not in actions:
            if mine is None or mine.any():
                raise lacking(name, actions)
            return
        for column, values in self.action_columns(name, actions[name]):
            shape = column.shape if rows is None else (len(rows), *column.shape[1:])
            if values.shape != shape:
                raise EnvError(f"behavior '{name}': actions have shape {tuple(values.shape)}, expected {tuple(shape)}")
            if rows is not None:
                column.index_copy_(0, rows, values.to(column.dtype))
            else:
                column.copy_(values if mine is None else torch.where(mine[:, None], values, column))

    def action_columns(self, name: str, action: Action) -> list[tuple[Tensor, Tensor]]:
        """Returns the action columns, each with the values to write."""
        columns = self._columns
        if "action" in columns:
            is_continuous = self._behaviors[name].action.continuous > 0
            return [(columns["action"], action.continuous if is_continuous else action.discrete)]
        return [(columns["action_continuous"], action.continuous), (columns["action_discrete"], action.discrete)]

    def obs_copies(self) -> list[Callable[[], np.ndarray]]:
        """Returns a copier for each observation of the first behavior, on the host."""
        return [copies.take_array for copies in next(iter(self._tables.values())).obs]

    def rows(self, name: str) -> Tensor | None:
        """(S,) int64: the rows of a behavior's slots in columns with a row per agent; None for all rows."""
        return self._tables[name].rows if name in self._tables else None

    def _share(self, whole: TimeStep, plays: Tensor, played: Tensor) -> TimeStep:
        """Returns one behavior's share: agents act by `plays` (S,), while rewards and ends belong to `played` (S,)."""
        final_obs = whole.final_obs
        if self._on_host:  # on an accelerator there is a row for every slot
            mine = played[final_obs.slots]
            final_obs = FinalObs(final_obs.slots[mine], tuple(obs[mine] for obs in final_obs.obs))
        return replace(
            whole,
            acting=whole.acting & plays,
            reward=whole.reward * played,
            group_reward=whole.group_reward * played,
            terminated=whole.terminated & played,
            truncated=whole.truncated & played,
            final_obs=final_obs,
        )
