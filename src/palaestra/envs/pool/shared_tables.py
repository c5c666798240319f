"""Tables and actions of one copy in memory that two processes share: a tick writes columns, without pickle.

Letters in shapes: S slots, E ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.parallel.shared_memory import ALIGNMENT, LocalBlock, SharedBlock

FLAGS = 6
HAS_MASK, HAS_LOST, HAS_SUCCESS, PRESENT, QUIET, SETTLED = range(FLAGS)
"""Flags of a table. QUIET: the columns `ENDS` are all zeros. SETTLED: the columns `PLACES` are as on the tick
before."""
ENDS, PLACES = ("group_reward", "terminated", "truncated"), ("area", "team", "group")
BUSY = FLAGS
"""Place after the flags, with the microseconds that the copy has been busy with requests."""
OPTIONAL = ((HAS_MASK, "action_mask"), (HAS_LOST, "lost"), (HAS_SUCCESS, "success"))
"""Columns that a table may lack, each with its flag."""
PLAIN = ("acting", "reward", *ENDS, *PLACES)


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

    path: Path | None  # None: the memory is not shared
    size: int
    slots: Mapping[str, int]
    columns: Mapping[str, tuple[Column, ...]]


class SharedTables:
    """The arrays of a layout, by behavior and name."""

    def __init__(self, layout: Layout, block: LocalBlock) -> None:
        self.layout = layout
        self.shared = isinstance(block, SharedBlock)
        """Whether the other process sees these arrays."""
        self._written: dict[str, TimeStep] = {}
        """Tables that were written last."""
        self.arrays: dict[str, dict[str, NDArray[Any]]] = {
            behavior: {
                column.name: block.array(column.offset, np.dtype(column.dtype), column.shape) for column in columns
            }
            for behavior, columns in layout.columns.items()
        }

    @classmethod
    def create(
        cls, steps: Mapping[str, TimeStep], specs: Mapping[str, BehaviorSpec], block: type[LocalBlock] = SharedBlock
    ) -> SharedTables:
        """Reserves memory for these tables, by default shared memory. Raises OSError if there is no room."""
        offset = 0
        columns = dict[str, tuple[Column, ...]]()
        for behavior, step in steps.items():
            placed = list[Column]()
            for name, dtype, shape in _shapes(step, specs[behavior]):
                placed.append(Column(name, offset, dtype.str, shape))
                size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                offset = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
            columns[behavior] = tuple(placed)
        memory = block(max(offset, 1))
        slots = {behavior: len(step.reward) for behavior, step in steps.items()}
        path = memory.path if isinstance(memory, SharedBlock) else None
        return cls(Layout(path, memory.size, slots, columns), memory)

    @classmethod
    def open(cls, layout: Layout) -> SharedTables:
        """Opens the tables that the other side made; if memory is not shared, makes tables of the same layout. Raises
        OSError or ValueError if the tables are gone."""
        if layout.path is None:
            return cls(layout, LocalBlock(layout.size))
        block = SharedBlock(layout.size, layout.path)
        block.unlink()  # both processes have it open now
        return cls(layout, block)

    def holds(self, steps: Mapping[str, TimeStep]) -> bool:
        """Whether these tables have the sizes in the layout."""
        slots = self.layout.slots
        return all(slots.get(behavior) == len(step.reward) for behavior, step in steps.items())

    def forget(self) -> None:
        """Makes the next tables complete, because the previous tables may not have been read."""
        self._written = {}

    def write(self, steps: Mapping[str, TimeStep]) -> None:
        """Writes the tables of a tick; behaviors without a table are marked."""
        for behavior, arrays in self.arrays.items():
            step = steps.get(behavior)
            if step is None:
                arrays["flags"][PRESENT] = 0
                continue
            ends = _host(step.final_obs.slots)
            self._write_plain(arrays, step, self._written.get(behavior))
            self._written[behavior] = step
            if len(ends) == len(step.reward) and step.reward.device.type != "cpu":  # a row for every slot
                ends = np.flatnonzero(arrays["terminated"] | arrays["truncated"])
            count = arrays["ends"][0] = len(ends)
            for i, obs in enumerate(step.obs):
                arrays[f"obs{i}"][...] = _host(obs)
                if count:
                    final = _host(step.final_obs.obs[i])
                    arrays[f"final{i}"][:count] = final if len(final) == count else final[ends]
            if count:
                arrays["end_slots"][:count] = ends

    def mark_quiet(self) -> None:
        """Records that the arrays hold a tick without an episode's end or a group reward, on which all agents act as
        before."""
        for arrays in self.arrays.values():
            arrays["flags"][:FLAGS] = _QUIET_TICK
            arrays["ends"][0] = 0

    @property
    def busy_seconds(self) -> float:
        """Seconds that the copy has been busy."""
        return max((int(arrays["flags"][BUSY]) for arrays in self.arrays.values()), default=0) / 1e6

    def write_busy_seconds(self, seconds: float) -> None:
        """Writes the seconds that the copy has been busy."""
        for arrays in self.arrays.values():
            arrays["flags"][BUSY] = int(1e6 * seconds)

    @staticmethod
    def _write_plain(arrays: dict[str, NDArray[Any]], step: TimeStep, before: TimeStep | None) -> None:
        """Writes the flags and all columns but observations. Columns that are the same objects as on the tick `before`
        are already there."""
        flags = [0] * FLAGS
        changed = set[str]()
        for name in PLAIN:
            column = getattr(step, name)
            if before is None or name == "reward" or column is not getattr(before, name):
                new = _host(column)
                if before is None or name not in PLACES or not np.array_equal(arrays[name], new):
                    changed.add(name)
                    arrays[name][...] = new
        for flag, name in OPTIONAL:
            given = getattr(step, name)
            if given is not None and name in arrays:
                flags[flag] = 1
                arrays[name][...] = _host(given)
        quiet = (
            not any(arrays[name].any() for name in ENDS) if changed.intersection(ENDS) else bool(arrays["flags"][QUIET])
        )
        flags[PRESENT] = 1
        flags[QUIET] = quiet
        flags[SETTLED] = not changed.intersection(PLACES)
        arrays["flags"][:FLAGS] = flags

    def write_actions(self, actions: Mapping[str, Action], slots_of: Mapping[str, NDArray[np.int64]]) -> None:
        """Writes the actions of the copy's slots; `slots_of` has the rows of these slots in `actions`, by behavior."""
        for behavior, arrays in self.arrays.items():
            action = actions.get(behavior)
            if action is not None:
                rows = slots_of[behavior][: len(arrays["acting"])]
                for name, values in (("continuous", action.continuous), ("discrete", action.discrete)):
                    if arrays[name].size:
                        arrays[name][...] = values.numpy()[rows]

    def read_actions(self) -> dict[str, Action]:
        """Returns copies of the actions for all behaviors."""
        return {
            behavior: Action(torch.from_numpy(arrays["continuous"].copy()), torch.from_numpy(arrays["discrete"].copy()))
            for behavior, arrays in self.arrays.items()
        }


_QUIET_TICK = np.isin(np.arange(FLAGS), (PRESENT, QUIET, SETTLED)).astype(np.int64)


def _shapes(step: TimeStep, spec: BehaviorSpec) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
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
        ("flags", np.dtype(np.int64), (FLAGS + 1,)),
        ("ends", np.dtype(np.int64), (1,)),
        ("end_slots", np.dtype(np.int64), (slots,)),
        ("continuous", np.dtype(np.float32), (slots, spec.action.continuous)),
        ("discrete", np.dtype(np.int64), (slots, len(spec.action.branches))),
    ]
    return shapes


def _host(tensor: Tensor) -> NDArray[Any]:
    return tensor.numpy(force=True)
