"""Index of a replay's rows: observations, decisions, each decision's next observation. The index consists of NumPy
arrays on the host.

A row of observations belongs to the decision that was made at it or to the slot that waits at it; if an episode ended
or was lost, the row belongs to the decision before. Each row has one owner, so no row is stored twice or freed while it
is in use. Decisions are numbered from 0 in order of arrival; number n is stored at n % size, until n + size is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core.errors import ConfigError

NONE = -1
Ints = NDArray[np.int64]


class ReplayIndex:
    """Index of `size` decisions and `rows` observations. `stretch`: decisions of a slot in a sequence; 0: none."""

    def __init__(self, size: int, rows: int, stretch: int) -> None:
        self.size = size
        self.rows = rows
        self.stretch = stretch
        self.obs = np.zeros(size, np.int32)
        self.after = np.zeros(size, np.int32)
        """Row of each decision's observation, and of the observation after it; after an end without a stored final
        observation, the same row."""
        self.following = np.full(size, NONE, np.int64)  # number of the slot's next decision in the same episode
        self._owns_after = np.zeros(size, np.bool_)
        self._begins = np.zeros(size, np.bool_)  # a sequence
        self.oldest = 0
        self.end = 0
        """Numbers of the oldest stored decision, and of the next decision to be stored."""
        # a stack, and its height
        self._free = np.arange(rows - 1, -1, -1, dtype=np.int32)
        self._freed = rows
        self._starts = np.zeros(size, np.int64)  # numbers of decisions that begin a sequence: the n-th at n % size
        self._oldest_start = 0
        self._end_start = 0
        self.waiting = np.zeros(0, np.int32)
        """Row of the observation at which each slot's next decision is expected, (S,); -1: none."""
        self._last = np.zeros(0, np.int64)  # (S,) number of each slot's last decision; -1 if its episode ended
        self._age = np.zeros(0, np.int64)  # (S,) decisions that each slot's episode has had
        self.highest = 0
        """Highest row of observations that was ever used, as an upper bound."""

    def __len__(self) -> int:
        return self.end - self.oldest

    @property
    def sequences(self) -> int:
        """Number of sequences whose first decision is still stored."""
        return self._end_start - self._oldest_start

    def sequence_starts(self, which: Ints) -> Ints:
        """Returns the number of the first decision of each sequence in `which`; sequence 0 is the oldest one stored."""
        return self._starts[(self._oldest_start + which) % self.size]

    def resize(self, slots: int) -> None:
        """Changes the number of slots; surplus slots are dropped. Raises ConfigError if the replay is too small."""
        if slots == len(self.waiting):
            return
        if slots > self.size or 3 * slots > self.rows:  # each may wait somewhere, end somewhere, and wait anew
            least = max(slots, 3 * slots - (self.rows - self.size))
            raise ConfigError(
                f"buffer_size is {self.size}, but {slots} agents may exist at once; expected at least {least}"
            )
        if slots * self.stretch > self.size:  # where all begin at once, none of their sequences' beginnings may be left
            raise ConfigError(
                f"buffer_size is {self.size}, but {slots} agents may exist at once, each with sequences of "
                f"{self.stretch} decisions; expected at least {slots * self.stretch}, or a shorter "
                "memory.sequence_length"
            )
        if slots < len(self.waiting):
            self.part(np.arange(slots, len(self.waiting)))
        more = max(slots - len(self.waiting), 0)
        self.waiting = np.concatenate([self.waiting[:slots], np.full(more, NONE, np.int32)])
        self._last = np.concatenate([self._last[:slots], np.full(more, NONE, np.int64)])
        self._age = np.concatenate([self._age[:slots], np.zeros(more, np.int64)])

    def part(self, slots: Ints) -> None:
        """Breaks off the episodes of these slots: the observation at which a slot waits becomes the end of its last
        decision."""
        slots = slots[self.waiting[slots] != NONE]
        rows = self.waiting[slots]
        last = self._last[slots]
        led = last >= self.oldest
        self._owns_after[last[led] % self.size] = True
        self._release(rows[~led])
        self.waiting[slots] = NONE
        self._begin(slots)

    def _begin(self, slots: Ints) -> None:
        self._last[slots] = NONE
        self._age[slots] = 0

    def begin(self, slots: Ints) -> None:
        """Begins new episodes in these slots, although no added data ended the old ones."""
        self._begin(slots)

    def welcome(self, slots: Ints) -> NDArray[np.int32]:
        """Returns rows for the first observations of slots without one."""
        self._reserve(0, len(slots))
        rows = self.waiting[slots] = self._take(len(slots))
        return rows

    def decide(
        self, slots: Ints, ended: NDArray[np.bool_], kept: NDArray[np.bool_]
    ) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
        """Adds a decision of each of these slots (n,), made at the observation where the slot waited.

        `ended`: the episode ended with the decision; `kept`: the final observation is kept. Returns positions of the
        decisions, rows of each slot's next observation, and rows of final observations, if `kept`.
        """
        count = len(slots)
        self._reserve(count, count + int(kept.sum()))
        numbers = self.end + np.arange(count)
        places = numbers % self.size
        seen = self._take(count)
        final = self._take(int(kept.sum()))
        self.obs[places] = self.waiting[slots]
        after = np.where(ended, self.waiting[slots], seen)
        after[kept] = final
        self.after[places] = after
        self._owns_after[places] = kept
        self.following[places] = NONE
        last = self._last[slots]
        follows = last >= self.oldest
        self.following[last[follows] % self.size] = numbers[follows]
        if self.stretch:
            self._note_starts(slots, numbers, places)
        self._age[slots] = np.where(ended, 0, self._age[slots] + 1)
        self._last[slots] = np.where(ended, NONE, numbers)
        self.waiting[slots] = seen
        self.end += count
        return places, seen, final

    def _note_starts(self, slots: Ints, numbers: Ints, places: Ints) -> None:
        begins = self._age[slots] % self.stretch == 0
        self._begins[places] = begins
        starts = numbers[begins]
        self._starts[(self._end_start + np.arange(len(starts))) % self.size] = starts
        self._end_start += len(starts)

    def _reserve(self, decisions: int, rows: int) -> None:
        """Drops the oldest decisions until there is room."""
        crowded = len(self) + decisions - self.size
        if crowded > 0:
            self._forget(crowded)
        while self._freed < rows and len(self):
            self._forget(min(rows - self._freed, len(self)))

    def _forget(self, count: int) -> None:
        places = np.arange(self.oldest, self.oldest + count) % self.size
        self._release(self.obs[places])
        self._release(self.after[places[self._owns_after[places]]])
        if self.stretch:
            self._oldest_start += int(self._begins[places].sum())
        self.oldest += count

    def _take(self, count: int) -> NDArray[np.int32]:
        assert self._freed >= count
        self._freed -= count
        rows = self._free[self._freed : self._freed + count].copy()
        if count:
            self.highest = max(self.highest, int(rows.max()) + 1)
        return rows

    def _release(self, rows: NDArray[np.int32]) -> None:
        self._free[self._freed : self._freed + len(rows)] = rows
        self._freed += len(rows)

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole index as tensors and numbers, without places that were never used."""
        used = min(self.end, self.size)
        arrays = {
            "obs": self.obs[:used],
            "after": self.after[:used],
            "following": self.following[:used],
            "owns_after": self._owns_after[:used],
            "begins": self._begins[:used],
            "starts": self._starts[: min(self._end_start, self.size)],
            "free": self._free[: self._freed],
            "waiting": self.waiting,
            "last": self._last,
            "age": self._age,
        }
        counts = {
            "oldest": self.oldest,
            "end": self.end,
            "starts": [self._oldest_start, self._end_start],
            "highest": self.highest,
        }
        return {"arrays": {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, "counts": counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of an index of the same size."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in state["arrays"].items()}
        used = len(arrays["obs"])
        self.obs[:used] = arrays["obs"]
        self.after[:used] = arrays["after"]
        self.following[:used] = arrays["following"]
        self._owns_after[:used] = arrays["owns_after"]
        self._begins[:used] = arrays["begins"]
        self._starts[: len(arrays["starts"])] = arrays["starts"]
        self._freed = len(arrays["free"])
        self._free[: self._freed] = arrays["free"]
        self.waiting, self._last, self._age = (arrays[name].copy() for name in ("waiting", "last", "age"))
        counts = state["counts"]
        self.oldest = counts["oldest"]
        self.end = counts["end"]
        self.highest = counts["highest"]
        self._oldest_start, self._end_start = counts["starts"]
