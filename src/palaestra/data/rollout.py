"""On-policy experience of one behavior, the only unit of it that crosses a boundary, and minibatches of its rows.

Shapes: see ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.timestep import Action
from palaestra.data.group_ticks import GroupTicks
from palaestra.parallel.rank_group import ALONE, RankGroup


@dataclass(frozen=True, slots=True)
class RolloutNeeds:
    """Optional parts that a trainer needs in its rollouts."""

    terminal_obs: bool = False
    """Whether `final_rows` and `final_obs` include terminated episodes, not only truncated ones."""
    group_ticks: bool = False
    """Whether rollouts have `group_ticks`: at which tick decisions were made, and in which group."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """A table of decisions: a column of time for each slot, all starting in row 0.

    A slot's decisions fill its first `lengths` rows. Where slots decide at different times a row is not one tick, only
    the slot's next decision.
    """

    obs: tuple[Tensor, ...]  # each (T, S, *shape)
    sample: Action  # (T, S, continuous), (T, S, B): as drawn
    log_prob: Tensor  # (T, S, A)
    action_mask: Tensor | None  # (T, S, choices) bool
    recurrent_state: Tensor  # (T, S, L) before the decision
    reward: Tensor  # (T, S)
    group_reward: Tensor  # (T, S)
    terminated: Tensor  # (T, S) bool
    truncated: Tensor  # (T, S) bool
    lengths: Tensor | None  # (S,) int64 decisions of each slot; None: T in every slot
    last_obs: tuple[Tensor, ...]  # each (S, *shape): what followed each slot's last decision
    last_mask: Tensor | None  # (S, choices) bool: what was allowed there
    final_rows: Tensor  # (E,) int64 rows in T * S of decisions that a truncation closed (`RolloutNeeds`: or any end)
    final_obs: tuple[Tensor, ...]  # each (E, *shape): the final observations of those episodes
    area: Tensor  # (S,) int64
    team: Tensor  # (S,) int64
    group: Tensor  # (S,) int64
    group_ticks: GroupTicks | None = None  # where `RolloutNeeds.group_ticks` asks for them
    anew: Tensor | None = None
    """(S,) bool: whether the slot's last episode was lost or dropped, so that its next decisions do not continue it;
    None: for no slot."""

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (T, S), the numbers of ticks and slots."""
        return self.reward.shape[0], self.reward.shape[1]

    @property
    def completed_rows(self) -> Tensor | None:
        """Returns the rows of completed decisions, counted in T * S, (N,) rising; None: all of them."""
        if self.lengths is None:
            return None
        row = torch.arange(self.shape[0], device=self.lengths.device).unsqueeze(1)
        return (row < self.lengths).flatten().nonzero().squeeze(1)

    def completed(self, column: Tensor) -> Tensor:
        """Returns the completed decisions of a column (T, S, ...), (N, ...)."""
        rows = self.completed_rows
        return column.flatten(0, 1) if rows is None else column.flatten(0, 1).index_select(0, rows)

    def spread(self, values: Tensor) -> Tensor:
        """Returns values of the completed decisions (N, ...) as a column (T, S, ...), 0 in other rows."""
        rows = self.completed_rows
        time, slots = self.shape
        if rows is not None:
            values = values.new_zeros((time * slots, *values.shape[1:])).index_copy_(0, rows, values)
        return values.unflatten(0, (time, slots))


@dataclass(frozen=True, slots=True)
class Minibatch:
    """N completed decisions, in any order. K: reward signals, A: action components."""

    inputs: tuple[Tensor, ...]  # prepared observations, each (N, ...)
    continuous: Tensor  # (N, continuous) as drawn
    discrete: Tensor  # (N, B) int64
    log_prob: Tensor  # (N, A) when it was drawn
    advantage: Tensor  # (N,)
    value: Tensor  # (N, K) before the update
    target: Tensor  # (N, K) what the critic should have said
    mask: Tensor | None  # (N, choices) bool
    sequences: Sequences | None = None
    """Sequences of decisions that follow one another, where the network has memory."""

    def columns(self) -> list[Tensor]:
        """Returns all columns, for `with_columns`."""
        rest = [self.continuous, self.discrete, self.log_prob, self.advantage, self.value, self.target]
        return [*self.inputs, *rest] if self.mask is None else [*self.inputs, *rest, self.mask]

    def with_columns(self, columns: Sequence[Tensor], sequences: Sequences | None = None) -> Minibatch:
        """Returns a minibatch of these columns, in the order of `columns`."""
        count = len(self.inputs)
        rest = columns[count : count + 6]
        mask = None if self.mask is None else columns[count + 6]
        return Minibatch(tuple(columns[:count]), *rest, mask=mask, sequences=sequences)

    def take(self, rows: Tensor, sequences: Sequences | None = None) -> Minibatch:
        """Returns these rows, (n,), in this order."""
        return self.with_columns([column.index_select(0, rows) for column in self.columns()], sequences)


def passes(
    rows: Minibatch, *, size: int, epochs: int, generator: torch.Generator, group: RankGroup = ALONE
) -> Iterator[Iterator[Minibatch]]:
    """Yields `epochs` passes over all rows, each in a new order, as minibatches of `size` rows; as many as every rank
    of `group`.

    The rest of an epoch is dropped; fewer rows than `size` are one minibatch. Each pass is laid out once, so that a
    minibatch is a view and costs no copy. All passes share their memory: a minibatch is valid until the next pass.
    """
    columns = rows.columns()
    total = len(rows.advantage)
    size = min(size, total)
    count = group.least(total // size)
    laid_out = [column.new_empty((count * size, *column.shape[1:])) for column in columns]
    for order in _orders(total, size, epochs, generator, count):
        for column, pass_of in zip(columns, laid_out, strict=True):
            torch.index_select(column, 0, order, out=pass_of)
        yield map(rows.with_columns, zip(*(column.split(size) for column in laid_out), strict=True))


def index_minibatches(
    total: int, *, size: int, epochs: int, generator: torch.Generator, group: RankGroup = ALONE
) -> Iterator[Tensor]:
    """Yields minibatches as row numbers, each (size,), without copies; as many as every rank of `group`."""
    size = min(size, total)
    for order in _orders(total, size, epochs, generator, group.least(total // size)):
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]


def _orders(total: int, size: int, epochs: int, generator: torch.Generator, count: int) -> Iterator[Tensor]:
    """Yields the rows that each pass takes, for `count` minibatches."""
    for _ in range(epochs):
        yield torch.randperm(total, generator=generator, device=generator.device)[: count * size]
