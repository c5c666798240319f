"""The table of one behavior over all copies of an environment.

Letters in shapes: S slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.envs.pool.shared_tables import ENDS, HAS_LOST, HAS_MASK, HAS_SUCCESS, PLACES, PRESENT, QUIET, SETTLED

TYPES: Mapping[str, type] = {
    "acting": np.bool_,
    "reward": np.float32,
    "group_reward": np.float32,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "lost": np.bool_,
    "success": np.float32,
}
"""Types of the columns that begin anew on every tick."""
GROUPS_OF_A_COPY = 48
"""Number of low bits for a group's number within its copy; the copy's number is in the bits above."""
Rows = slice | NDArray[np.int64]


class MergedTable:
    """Joins the tables of the copies that are ready. Each copy keeps its own slots."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self.slots = 0
        self.slots_of: dict[int, NDArray[np.int64]] = {}
        """By copy, the slots of its rows (slots of the copy,)."""
        self._rows: dict[int, tuple[int, Rows]] = {}
        """By copy, the number of its rows now, and their places: a slice if they are side by side."""
        self._obs = [f"obs{i}" for i in range(len(spec.obs))]
        self._kept: dict[str, NDArray[Any]] = {}
        """Columns whose rows keep their values until the copy changes them."""
        self._shared: dict[str, Tensor] = {}
        """The kept columns that earlier tables also hold, so that a change needs a new column."""
        self._now: dict[str, NDArray[Any]] = {}
        """Columns of this tick in which something happened."""
        self._nothing: dict[str, Tensor] = {}
        """Columns for a tick in which nothing happened."""
        self._begun = self._masked = False
        self._ends: list[tuple[NDArray[np.int64], list[NDArray[Any]]]] = []

    def clear(self) -> None:
        """Removes all tables added on this tick."""
        self._now = {}
        self._ends = []
        self._begun = False

    def take(self, copy: int, arrays: Mapping[str, NDArray[Any]], first_area: int) -> None:
        """Adds the table of one copy."""
        flags = arrays["flags"].tolist()
        if not flags[PRESENT]:
            return
        if not self._begun:
            self._begun = True
            self._kept |= {name: self._kept[name].copy() for name in self._obs if name in self._kept}
        rows = self._rows_of(copy, arrays)
        for name in self._obs:
            self._kept[name][rows] = arrays[name]
        self._column("acting")[rows] = arrays["acting"]
        self._column("reward")[rows] = arrays["reward"]
        if not flags[QUIET]:
            for name in ENDS:
                self._column(name)[rows] = arrays[name]
        if not flags[SETTLED]:
            self._place(copy, arrays, rows, first_area)
        if flags[HAS_MASK] or (self._masked and "action_mask" in arrays):
            self._masked = True
            self._own("action_mask")[rows] = arrays["action_mask"] if flags[HAS_MASK] else True
        if flags[HAS_LOST]:
            self._column("lost")[rows] = arrays["lost"]
        if flags[HAS_SUCCESS]:
            self._column("success")[rows] = arrays["success"]
        count = int(arrays["ends"][0])
        if count:
            ended = self.slots_of[copy][arrays["end_slots"][:count]]
            self._ends.append((ended, [arrays[f"final{i}"][:count].copy() for i in range(len(self._obs))]))

    def _place(self, copy: int, arrays: Mapping[str, NDArray[Any]], rows: Rows, first_area: int) -> None:
        """Writes areas, teams and groups; groups of different copies get different numbers."""
        group = arrays["group"]
        self._own("area")[rows] = arrays["area"] + first_area
        self._own("team")[rows] = arrays["team"]
        self._own("group")[rows] = group + np.where(group >= 0, copy << GROUPS_OF_A_COPY, 0)

    def lose(self, copy: int) -> None:
        """Records that the agents of a copy are lost, as the copy has stopped."""
        if copy in self.slots_of:
            self._column("lost")[self.slots_of[copy]] = True

    def table(self) -> TimeStep:
        """Returns the table of the tick, and begins the next table. The returned columns are not written to again."""
        shared = self._shared
        now = self._now
        for name in (*PLACES, "action_mask") if self._masked else PLACES:
            if name not in shared:
                shared[name] = torch.from_numpy(self._kept[name])
        obs = tuple(torch.from_numpy(self._kept[name]) for name in self._obs)
        columns = {
            name: torch.from_numpy(now[name]) if name in now else self._quiet(name)
            for name in ("acting", "reward", *ENDS)
        }
        step = TimeStep(
            obs=obs,
            final_obs=self._final_obs(obs),
            action_mask=shared["action_mask"] if self._masked else None,
            lost=torch.from_numpy(now["lost"]) if "lost" in now else None,
            success=torch.from_numpy(now["success"]) if "success" in now else None,
            **{name: shared[name] for name in PLACES},
            **columns,
        )
        self.clear()
        return step

    def _column(self, name: str) -> NDArray[Any]:
        column = self._now.get(name)
        if column is None:
            column = self._now[name] = self._new(name, self.slots)
        return column

    @staticmethod
    def _new(name: str, slots: int) -> NDArray[Any]:
        return np.full(slots, np.nan, np.float32) if name == "success" else np.zeros(slots, TYPES[name])

    def _quiet(self, name: str) -> Tensor:
        if name not in self._nothing:
            self._nothing[name] = torch.from_numpy(self._new(name, self.slots))
        return self._nothing[name]

    def _own(self, name: str) -> NDArray[Any]:
        """Returns a lasting column that no earlier table has."""
        if self._shared.pop(name, None) is not None:
            self._kept[name] = self._kept[name].copy()
        return self._kept[name]

    def _final_obs(self, obs: tuple[Tensor, ...]) -> FinalObs:
        if not self._ends:
            return FinalObs(torch.zeros(0, dtype=torch.int64), tuple(x[:0] for x in obs))
        slots = np.concatenate([ended for ended, _ in self._ends])
        order = np.argsort(slots, kind="stable")
        columns = [np.concatenate(parts)[order] for parts in zip(*(final for _, final in self._ends), strict=True)]
        return FinalObs(torch.from_numpy(slots[order]), tuple(torch.from_numpy(column) for column in columns))

    def _rows_of(self, copy: int, arrays: Mapping[str, NDArray[Any]]) -> Rows:
        """Returns the rows of a copy; new ones are at the end."""
        wanted, (had, rows) = len(arrays["acting"]), self._rows.get(copy, (-1, slice(0)))
        if had == wanted:
            return rows
        slots = self.slots_of.get(copy, np.zeros(0, np.int64))
        more = wanted - len(slots)
        if more > 0:
            slots = self.slots_of[copy] = np.concatenate([slots, np.arange(self.slots, self.slots + more)])
            self._widen(more, arrays)
        slots = slots[:wanted]
        first = int(slots[0]) if wanted else 0
        side_by_side = wanted == 0 or int(slots[-1]) == first + wanted - 1
        self._rows[copy] = wanted, slice(first, first + wanted) if side_by_side else slots
        return self._rows[copy][1]

    def _widen(self, more: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in (*self._obs, *PLACES, *(["action_mask"] if "action_mask" in arrays else [])):
            fill = np.ones if name == "action_mask" else np.zeros
            new = fill((more, *arrays[name].shape[1:]), arrays[name].dtype)
            before = self._kept.get(name)
            self._kept[name] = new if before is None else np.concatenate([before, new])
        self._now = {name: np.concatenate([column, self._new(name, more)]) for name, column in self._now.items()}
        self._shared = {}
        self._nothing = {}
        self.slots += more
