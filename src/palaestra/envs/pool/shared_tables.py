"""Tables and actions of one copy in memory that two processes share: a tick writes columns, nothing is pickled.

Letters in shapes: S slots, E ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.parallel.shared_memory import ALIGNMENT, LocalBlock, SharedBlock

HAS_MASK, HAS_LOST, HAS_SUCCESS, PRESENT = range(4)
"""Numbers of the flags of a table."""
PLAIN = ("acting", "reward", "group_reward", "terminated", "truncated", "area", "team", "group")


@dataclass(frozen=True, slots=True)
class Column:
    """Place of an array in the shared memory."""

    name: str
    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of all arrays: the table of each behavior, and the actions for it."""

    path: str
    size: int
    slots: Mapping[str, int]
    columns: Mapping[str, tuple[Column, ...]]

    @property
    def fits(self) -> Mapping[str, int]:
        """The slots of each behavior that the memory has room for."""
        return self.slots


class SharedTables:
    """The arrays of a layout, by behavior and name."""

    def __init__(self, layout: Layout, block: SharedBlock | LocalBlock) -> None:
        self.layout, self._block = layout, block
        self.arrays: dict[str, dict[str, NDArray[Any]]] = {
            behavior: {column.name: block.array(column.offset, np.dtype(column.dtype), column.shape) for column in columns}
            for behavior, columns in layout.columns.items()
        }

    @classmethod
    def create(
        cls, steps: Mapping[str, TimeStep], specs: Mapping[str, BehaviorSpec], block: type[SharedBlock] | type[LocalBlock] = SharedBlock
    ) -> SharedTables:
        """Reserves memory for these tables, by default memory that can be shared. Raises OSError if there is no room."""
        offset, columns = 0, dict[str, tuple[Column, ...]]()
        for behavior, step in steps.items():
            placed = list[Column]()
            for name, dtype, shape in _shapes(step, specs[behavior]):
                placed.append(Column(name, offset, dtype.str, shape))
                size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                offset = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
            columns[behavior] = tuple(placed)
        memory = block(max(offset, 1))
        slots = {behavior: len(step.reward) for behavior, step in steps.items()}
        return cls(Layout(str(memory.path), memory.size, slots, columns), memory)

    def holds(self, steps: Mapping[str, TimeStep]) -> bool:
        """Whether these tables have the sizes of the layout."""
        slots = self.layout.slots
        return all(slots.get(behavior) == len(step.reward) for behavior, step in steps.items())

    def write(self, steps: Mapping[str, TimeStep]) -> None:
        """Writes the tables of a tick; behaviors without a table are marked."""
        for behavior, arrays in self.arrays.items():
            step = steps.get(behavior)
            arrays["flags"][:] = 0
            if step is None:
                continue
            optional = {HAS_MASK: ("action_mask", step.action_mask), HAS_LOST: ("lost", step.lost), HAS_SUCCESS: ("success", step.success)}
            arrays["flags"][PRESENT] = 1
            for name in PLAIN:
                arrays[name][...] = _host(getattr(step, name))
            for flag, (name, column) in optional.items():
                if column is not None and name in arrays:
                    arrays["flags"][flag] = 1
                    arrays[name][...] = _host(column)
            ends = _host(step.final_obs.slots)
            if len(ends) == len(step.reward) and step.reward.device.type != "cpu":  # a row for every slot
                ends = np.flatnonzero(arrays["terminated"] | arrays["truncated"])
            arrays["ends"][0] = len(ends)
            arrays["end_slots"][: len(ends)] = ends
            for i, obs in enumerate(step.obs):
                arrays[f"obs{i}"][...] = _host(obs)
                final = _host(step.final_obs.obs[i])
                arrays[f"final{i}"][: len(ends)] = final if len(final) == len(ends) else final[ends]

    def write_actions(self, actions: Mapping[str, Action], slots_of: Mapping[str, NDArray[np.int64]]) -> None:
        """Writes the actions of the copy's slots; `slots_of` has, by behavior, their rows in `actions`."""
        for behavior, arrays in self.arrays.items():
            action = actions.get(behavior)
            if action is not None:
                rows = slots_of[behavior][: len(arrays["acting"])]
                arrays["continuous"][...] = action.continuous.numpy()[rows]
                arrays["discrete"][...] = action.discrete.numpy()[rows]

    def read_actions(self) -> dict[str, Action]:
        """Returns copies of the actions for all behaviors."""
        return {
            behavior: Action(torch.from_numpy(arrays["continuous"].copy()), torch.from_numpy(arrays["discrete"].copy()))
            for behavior, arrays in self.arrays.items()
        }


def _shapes(step: TimeStep, spec: BehaviorSpec) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Returns name, type and shape of each array of a behavior."""
    slots = len(step.reward)
    shapes: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    for i, obs in enumerate(step.obs):
        kind = _host(obs[:0]).dtype
        shapes += [(f"obs{i}", kind, tuple(obs.shape)), (f"final{i}", kind, tuple(obs.shape))]
    shapes += [(name, _host(getattr(step, name)[:0]).dtype, (slots,)) for name in PLAIN]
    if spec.action.choices:
        shapes.append(("action_mask", np.dtype(np.bool_), (slots, spec.action.choices)))
    shapes += [
        ("lost", np.dtype(np.bool_), (slots,)),
        ("success", np.dtype(np.float32), (slots,)),
        ("flags", np.dtype(np.int64), (4,)),
        ("ends", np.dtype(np.int64), (1,)),
        ("end_slots", np.dtype(np.int64), (slots,)),
        ("continuous", np.dtype(np.float32), (slots, spec.action.continuous)),
        ("discrete", np.dtype(np.int64), (slots, len(spec.action.branches))),
    ]
    return shapes


def _host(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy()


class MergedTable:
    """The table of one behavior over all copies. Each copy has slots of its own, which it keeps."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self.slots_of: dict[int, NDArray[np.int64]] = {}
        """By copy, the slots (S of the copy,) of its rows."""
        self._columns: dict[str, NDArray[Any]] = {}
        self._masked = False
        self._ends: list[tuple[NDArray[np.int64], list[NDArray[Any]]]] = []

    @property
    def slots(self) -> int:
        """Number of slots of all copies."""
        return len(self._columns["acting"]) if self._columns else 0

    def begin(self) -> None:
        """Starts a tick on which no agent acts and nothing has happened yet."""
        self._columns = {name: column.copy() for name, column in self._columns.items()}
        for name in ("acting", "terminated", "truncated", "lost", "reward", "group_reward"):
            if name in self._columns:
                self._columns[name][...] = 0
        if "success" in self._columns:
            self._columns["success"][...] = np.nan
        self._ends = []

    def take(self, copy: int, arrays: Mapping[str, NDArray[Any]], first_area: int) -> None:
        """Takes in the table of one copy."""
        flags = arrays["flags"]
        if not flags[PRESENT]:
            return
        rows = self._rows(copy, arrays)
        mask = arrays["action_mask"] if flags[HAS_MASK] else None
        for name, column in arrays.items():
            if name in self._columns and name not in ("lost", "success", "action_mask", "area"):
                self._columns[name][rows] = column
        self._columns["area"][rows] = arrays["area"] + first_area
        if copy:  # groups of different copies have different numbers
            self._columns["group"][rows] += np.where(arrays["group"] >= 0, copy << 48, 0)
        if "action_mask" in self._columns:
            self._masked |= mask is not None
            self._columns["action_mask"][rows] = True if mask is None else mask
        if flags[HAS_LOST]:
            self._columns["lost"][rows] = arrays["lost"]
        if flags[HAS_SUCCESS]:
            self._columns["success"][rows] = arrays["success"]
        count = int(arrays["ends"][0])
        if count:
            ended = rows[arrays["end_slots"][:count]]
            self._ends.append((ended, [arrays[f"final{i}"][:count].copy() for i in range(len(self.spec.obs))]))

    def lose(self, copy: int) -> None:
        """Notes that the agents of a copy are gone."""
        if copy in self.slots_of:
            self._columns["lost"][self.slots_of[copy]] = True

    def table(self) -> TimeStep:
        """Returns the table of the tick. Its columns are not written to again."""
        columns = {name: torch.from_numpy(column) for name, column in self._columns.items()}
        obs = tuple(columns[f"obs{i}"] for i in range(len(self.spec.obs)))
        return TimeStep(
            obs=obs,
            final_obs=self._final_obs(obs),
            action_mask=columns["action_mask"] if self._masked else None,
            lost=columns["lost"] if bool(self._columns["lost"].any()) else None,
            success=None if bool(np.isnan(self._columns["success"]).all()) else columns["success"],
            **{name: columns[name] for name in PLAIN},
        )

    def _final_obs(self, obs: tuple[Tensor, ...]) -> FinalObs:
        if not self._ends:
            return FinalObs(torch.zeros(0, dtype=torch.int64), tuple(x[:0] for x in obs))
        slots = np.concatenate([ended for ended, _ in self._ends])
        order = np.argsort(slots, kind="stable")
        columns = [np.concatenate(parts)[order] for parts in zip(*(final for _, final in self._ends), strict=True)]
        return FinalObs(torch.from_numpy(slots[order]), tuple(torch.from_numpy(column) for column in columns))

    def _rows(self, copy: int, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Returns the slots of a copy's rows; new rows get new slots at the end."""
        rows, wanted = self.slots_of.get(copy, np.zeros(0, np.int64)), len(arrays["acting"])
        more = wanted - len(rows)
        if more > 0:
            rows = self.slots_of[copy] = np.concatenate([rows, np.arange(self.slots, self.slots + more)])
            self._widen(more, arrays)
        return rows[:wanted]

    def _widen(self, more: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        names = [f"obs{i}" for i in range(len(self.spec.obs))] + [*PLAIN, "lost", "success"]
        names += ["action_mask"] if "action_mask" in arrays else []
        for name in names:
            new = np.zeros((more, *arrays[name].shape[1:]), arrays[name].dtype)
            if name == "success":
                new[...] = np.nan
            if name == "action_mask":
                new[...] = True
            before = self._columns.get(name)
            self._columns[name] = new if before is None else np.concatenate([before, new])
