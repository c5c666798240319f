"""Minibatches of whole group steps: the features of an observation are computed once for all agents of the group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from palaestra.core.row_index import Groups, Sequences
from palaestra.data.device_copies import permutations, to_device
from palaestra.data.group_steps import GroupSteps
from palaestra.data.timeline import NOBODY, Numbers, ranges
from palaestra.parallel.rank_group import ALONE, RankGroup


@dataclass(frozen=True, slots=True)
class GroupMinibatch:
    """A few group steps: M group steps (see `group_steps`), with their R decisions and U observations."""

    chosen: Tensor  # (U,) int64, as `GroupSteps` numbers observations
    groups: Groups  # the group steps, as indices of these observations
    decisions: Tensor  # (R,) int64, as the rollout's completed ones are counted
    group_steps: Tensor  # (M,) int64
    deciding: Tensor  # (R,) int64 which of these observations each decision was made at
    places: Tensor  # (R,) int64 its place, counted in M * P
    sequences: tuple[int, Tensor, Tensor] | None
    """Sequences if the network has memory; each has the index of the observation before which its state is stored."""

    def sequences_with(self, recurrent_state: Tensor) -> Sequences | None:
        """Returns the sequences with their recurrent states, taken from the states before each observation, (V, L)."""
        if self.sequences is None:
            return None
        steps, place, starts = self.sequences
        return Sequences(steps, place, recurrent_state.index_select(0, starts))


class GroupMinibatches:
    """Group steps in blocks that stay together.

    Without memory a block is one group step. With memory a block is at most `longest` consecutive steps of a group,
    from its beginning or the end of the previous block: each agent's decisions in a block are a sequence. An agent
    whose last decision was made before the block is a sequence of one observation, with its memory of that time.
    """

    def __init__(self, table: GroupSteps, longest: int | None) -> None:
        self.table = table
        self._decisions = np.argsort(table.group_step, kind="stable")
        self._of_group_step = np.searchsorted(table.group_step[self._decisions], np.arange(len(table.members) + 1))
        begins = np.arange(len(table.members)) if longest is None else _blocks(table, longest)
        self._group_steps = np.append(begins, len(table.members))
        self._sequences, self._of_block = (None, None) if longest is None else self._in_sequence(begins, longest)
        self._place_of = np.zeros(table.timeline.observations, np.int64)

    def __len__(self) -> int:
        """Returns the number of blocks."""
        return len(self._group_steps) - 1

    def shuffled(
        self, size: int, epochs: int, generator: torch.Generator, group: RankGroup = ALONE
    ) -> Iterator[Iterator[GroupMinibatch]]:
        """Yields `epochs` passes over all blocks, each in a new order, as minibatches of about `size` decisions.

        Nothing is dropped unless another rank of `group` has fewer minibatches."""
        for order in permutations(len(self), epochs, generator):
            parts = self._parts(order, max(1, len(self._decisions) // size))
            yield self._laid_out(parts[: group.least(len(parts))], generator.device)

    def in_order(self, size: int, device: torch.device) -> Iterator[GroupMinibatch]:
        """Yields all blocks once, at most about `size` decisions at a time."""
        return self._laid_out(self._parts(np.arange(len(self)), -(-len(self._decisions) // size)), device)

    def _parts(self, order: Numbers, parts: int) -> list[Numbers]:
        """Cuts blocks in this order into parts of about as many decisions each."""
        decisions = np.diff(self._of_group_step[self._group_steps])[order].cumsum()
        cuts = np.searchsorted(decisions, np.arange(1, parts) * len(self._decisions) / parts)
        return [part for part in np.split(order, cuts) if len(part)]

    def _laid_out(self, parts: Iterable[Numbers], device: torch.device) -> Iterator[GroupMinibatch]:
        """Moves all tables to the device at once."""
        layouts = [self._layout(part) for part in parts]
        sizes = [len(table) for tables, *_ in layouts for table in tables]
        pieces = iter(
            to_device(np.concatenate([table for tables, *_ in layouts for table in tables]), device).split(sizes)
        )
        for tables, most, steps, in_order in layouts:
            chosen, members, here, decisions, group_steps, deciding, places, *rest = (next(pieces) for _ in tables)
            groups = Groups(members.view(-1, most), here.view(-1, most).bool(), in_order)
            sequences = (steps, rest[0], rest[1]) if rest else None
            yield GroupMinibatch(chosen, groups, decisions, group_steps, deciding, places, sequences)

    def _layout(self, blocks: Numbers) -> tuple[list[Numbers], int, int, bool]:
        """Returns the columns of a batch, its places, the decisions of its longest sequence, and `Groups.in_order`."""
        table = self.table
        group_steps = ranges(self._group_steps[blocks], self._group_steps[blocks + 1])
        counts = self._of_group_step[group_steps + 1] - self._of_group_step[group_steps]
        decisions = self._decisions[ranges(self._of_group_step[group_steps], self._of_group_step[group_steps + 1])]
        members = table.members[group_steps]
        members = members[:, : int((members != NOBODY).sum(1).max())]
        here = members != NOBODY
        most = members.shape[1]
        chosen, steps, rest = self._observations(blocks, members[here])
        self._place_of[chosen] = np.arange(len(chosen))
        places = np.repeat(np.arange(len(group_steps)), counts) * most + table.place[decisions]
        local = self._place_of[np.where(here, members, members[:, :1])].reshape(-1)
        flat = here.reshape(-1).astype(np.int64)
        in_order = len(local) == len(chosen) and bool((local[1:] > local[:-1]).all())
        return (
            [chosen, local, flat, decisions, group_steps, self._place_of[decisions], places, *rest],
            most,
            steps,
            in_order,
        )

    def _observations(self, blocks: Numbers, members: Numbers) -> tuple[Numbers, int, list[Numbers]]:
        """Returns the present observations, in the order of group steps or, with memory, of sequences, and these."""
        if self._sequences is None or self._of_block is None:
            return _once(members), 1, []
        there = np.zeros(self.table.timeline.observations, np.bool_)
        there[members] = True
        sequences = self._sequences[ranges(self._of_block[blocks], self._of_block[blocks + 1])]
        there[sequences[sequences != NOBODY]] = False
        before = np.flatnonzero(there)
        alone = np.full((len(before), sequences.shape[1]), NOBODY)
        alone[:, 0] = before
        sequences = np.concatenate([sequences, alone])
        steps = int((sequences != NOBODY).sum(1).max())
        grid = sequences[:, :steps].T.reshape(-1)
        place = np.flatnonzero(grid != NOBODY)
        return grid[place], steps, [place, sequences[:, 0]]

    def _in_sequence(self, begins: Numbers, longest: int) -> tuple[Numbers, Numbers]:
        """Returns a row for each sequence of a slot's decisions in a block, and the first row of each block."""
        table = self.table
        line = self.table.timeline
        block = np.searchsorted(begins, table.group_step, side="right") - 1
        order = np.lexsort((line.made, line.slot, block))
        slot = line.slot[order]
        block = block[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (slot[1:] != slot[:-1]) | (block[1:] != block[:-1]) | line.begins[order][1:]
        sequence = np.cumsum(first) - 1
        starts = np.flatnonzero(first)
        rows = np.full((len(starts), longest), NOBODY)
        rows[sequence, np.arange(len(order)) - starts[sequence]] = order
        return rows, np.searchsorted(block[starts], np.arange(len(begins) + 1))


def _blocks(table: GroupSteps, longest: int) -> Numbers:
    """Returns the first step of each block: where a group or all its agents begin, and after each `longest` steps."""
    group_steps = np.arange(len(table.members))
    fresh = table.fresh.copy()
    fresh[:1] = True
    age = group_steps - np.maximum.accumulate(np.where(fresh, group_steps, 0))
    return np.flatnonzero(age % longest == 0)


def _once(numbers: Numbers) -> Numbers:
    """Returns each value where it occurs first."""
    _, first = np.unique(numbers, return_index=True)
    return numbers[np.sort(first)]
