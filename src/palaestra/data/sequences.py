"""Sequences of one slot's decisions each, cut from a rollout, and minibatches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.data.device_copies import permutations, to_device
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.parallel.rank_group import ALONE, RankGroup


class SequenceTable:
    """Completed decisions of a rollout that follow one another: a row is a sequence of at most `longest` decisions.

    A sequence begins with a slot's first decision, after the end of an episode, and after `longest` decisions: an
    episode of at most `longest` decisions is one sequence, so gradients at its end reach its beginning. The table is on
    the host, where its sizes are known without waiting; making it waits for the device once a rollout.
    """

    def __init__(self, rollout: Rollout, longest: int, recurrent_state: Tensor | None = None) -> None:
        """`recurrent_state`: (N, L), before each decision; None: the rollout's."""
        self.recurrent_state = (
            rollout.completed(rollout.recurrent_state) if recurrent_state is None else recurrent_state
        )
        time, _ = rollout.shape
        longest = min(longest, time)
        ended = (rollout.terminated | rollout.truncated).cpu().numpy()
        ticks = np.arange(time)[:, None]
        completed = np.ones_like(ended) if rollout.lengths is None else ticks < rollout.lengths.cpu().numpy()
        first = np.concatenate([np.ones_like(ended[:1]), ended[:-1]])
        age = ticks - np.maximum.accumulate(np.where(first, ticks, 0), axis=0)
        begins = completed & (age % longest == 0)
        row = np.cumsum(completed).reshape(completed.shape) - 1  # of each decision among the completed ones
        sequence = np.cumsum(begins.T).reshape(begins.T.shape).T - 1  # a slot's lie side by side
        self.rows = np.full((int(begins.sum()), longest), -1, np.int64)  # (sequences, longest) -1: padding
        self.rows[sequence[completed], (age % longest)[completed]] = row[completed]
        self.lengths = (self.rows >= 0).sum(1)

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, parts: Iterable[NDArray[np.int64]]) -> Iterator[tuple[Tensor, Sequences]]:
        """Yields for each part the rows (N,) of its sequences, and their `Sequences`.

        All tables are copied to the device together, before the first part.
        """
        layouts = [self._layout(which) for which in parts]
        tables = to_device(
            np.concatenate([table for _, *tables in layouts for table in tables]), self.recurrent_state.device
        )
        pieces = iter(tables.split([len(table) for _, *tables in layouts for table in tables]))
        for (steps, *_), rows, place, starts in zip(layouts, pieces, pieces, pieces, strict=True):
            yield rows, Sequences(steps, place, self.recurrent_state.index_select(0, starts))

    def _layout(self, which: NDArray[np.int64]) -> tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the longest sequence's length, all rows, where they lie in the grid, and the first row of each."""
        steps = int(self.lengths[which].max())
        table = self._rows_of(which, steps)
        grid = table.T.reshape(-1)
        place = np.flatnonzero(grid >= 0)
        return steps, grid[place], place, table[:, 0]

    def _rows_of(self, which: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
        """Returns the rows of these sequences, (sequences, steps); -1: padding."""
        return self.rows[which, :steps]

    def in_parts(self, rows: int) -> Iterator[NDArray[np.int64]]:
        """Returns all sequences in their order, in parts of about `rows` decisions."""
        parts = max(1, -(-int(self.lengths.sum()) // rows))
        yield from (part for part in np.array_split(np.arange(len(self)), parts) if len(part))


class StreamTable(SequenceTable):
    """Sequences of decisions in one stream: keeps where sequences begin, and takes no memory for each decision."""

    def __init__(self, last: NDArray[np.bool_], longest: int, recurrent_state: Tensor) -> None:
        """`last` (N,): the next decision is in another episode; `recurrent_state`: (N, L), before each decision."""
        self.recurrent_state = recurrent_state
        longest = min(longest, len(last))
        ends = np.flatnonzero(last) + 1
        begins = np.concatenate([[0], ends[:-1]])
        counts = -(-(ends - begins) // longest)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # within its episode
        self._starts = np.repeat(begins, counts) + number * longest
        self.lengths = np.minimum(longest, np.repeat(ends, counts) - self._starts)

    def _rows_of(self, which: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
        step = np.arange(steps)
        return np.where(step < self.lengths[which, None], self._starts[which, None] + step, -1)


def sequence_passes(
    rows: Minibatch,
    table: SequenceTable,
    *,
    size: int,
    epochs: int,
    generator: torch.Generator,
    group: RankGroup = ALONE,
) -> Iterator[Iterator[Minibatch]]:
    """Yields `epochs` passes, each in a new order, as minibatches of whole sequences, of about `size` decisions.

    A pass drops nothing: minibatches differ a little in size instead. All ranks of `group` yield equally many.
    """
    parts = max(1, int(table.lengths.sum()) // size)
    parts = group.least(min(parts, len(table)))
    for order in permutations(len(table), epochs, generator):
        yield (rows.take(chosen, sequences) for chosen, sequences in table.take(np.array_split(order, parts)))
