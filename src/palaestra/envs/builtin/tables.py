"""The tables that a world's columns make: one a behavior, copied, since a returned TimeStep is never written to again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from palaestra.core.timestep import Ends, TimeStep
from palaestra.envs.builtin.copies import Copies


class Tables:
    """A table of all slots; where there are several behaviors, each one's share of it.

    Agent j of area i sits in slot i * agents + j, on team `teams[j]`. With a column `group_reward` those of a team in an
    area are a group, else they are on their own. With a column `acting` it says who awaits an action, else all do.
    """

    def __init__(self, columns: Mapping[str, Tensor], names: Iterable[str], teams: Sequence[int]) -> None:
        self._columns, self._names = columns, tuple(names)
        obs = tuple(column for name, column in columns.items() if name.startswith("obs") and column.shape[1])
        self._obs = tuple(Copies(column) for column in obs)
        self._final_obs = tuple(column for name, column in columns.items() if name.startswith("final_obs") and column.shape[1])
        self._slots = torch.arange(len(columns["reward"]), device=columns["reward"].device)
        self._area = self._slots // len(teams)
        self._team = torch.tensor(teams, device=self._slots.device).repeat(len(self._slots) // len(teams))
        in_groups = "group_reward" in columns
        self._group = self._area * (max(teams) + 1) + self._team if in_groups else torch.full_like(self._slots, -1)
        self._acting = torch.ones_like(self._slots, dtype=torch.bool)
        self._no_group_reward = torch.zeros_like(columns["reward"])
        self._no_ends = Ends(self._slots[:0], tuple(column[:0].clone() for column in obs))
        self._on_host = self._slots.device.type == "cpu"

    def make(self, ended: bool) -> dict[str, TimeStep]:
        """By behavior, as the columns stand. `ended`: whether an episode did, which on an accelerator goes unread."""
        whole = self._whole(self._ends(ended))
        if len(self._names) == 1:
            return {self._names[0]: whole}
        plays, played = self._columns["plays"], self._columns["played"]
        return {name: self._share(whole, plays == k, played == k) for k, name in enumerate(self._names)}

    def _ends(self, ended: bool) -> Ends:
        if not self._on_host:
            return Ends(self._slots, tuple([column.clone() for column in self._final_obs]))
        if not ended:
            return self._no_ends
        slots = (self._columns["terminated"] | self._columns["truncated"]).nonzero()[:, 0]
        return Ends(slots, tuple([column[slots] for column in self._final_obs]))

    def _whole(self, ends: Ends) -> TimeStep:
        columns = self._columns
        return TimeStep(
            obs=tuple([copies.take() for copies in self._obs]),
            acting=columns["acting"].clone() if "acting" in columns else self._acting,
            reward=columns["reward"].clone(),
            group_reward=columns["group_reward"].clone() if "group_reward" in columns else self._no_group_reward,
            terminated=columns["terminated"].clone(),
            truncated=columns["truncated"].clone(),
            ends=ends,
            action_mask=columns["mask"].clone() if "mask" in columns else None,
            area=self._area,
            team=self._team,
            group=self._group,
        )

    def _share(self, whole: TimeStep, plays: Tensor, played: Tensor) -> TimeStep:
        """The slots stay; acting is who belongs to it now (S,), and what was earned and ended is that of who did so before (S,)."""
        ends = whole.ends
        if self._on_host:  # elsewhere there is a row for every slot
            mine = played[ends.slots]
            ends = Ends(ends.slots[mine], tuple(obs[mine] for obs in ends.obs))
        return replace(
            whole,
            acting=whole.acting & plays,
            reward=whole.reward * played,
            group_reward=whole.group_reward * played,
            terminated=whole.terminated & played,
            truncated=whole.truncated & played,
            ends=ends,
        )
