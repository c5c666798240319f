"""Cutting a rollout into sequences, on tables small enough to be read."""

import dataclasses
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rollouts import experience

from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.sequences import SequenceTable, StreamTable, sequence_passes


def rollout(terminated: list[str], truncated: list[str] | None = None, lengths: list[int] | None = None) -> Rollout:
    """One of as many ticks and slots as these lines have letters; an x is an end."""
    ends = [
        torch.tensor([[letter == "x" for letter in line] for line in lines])
        for lines in (terminated, truncated or terminated)
    ]
    return dataclasses.replace(
        experience(0, slots=len(terminated[0])),
        reward=torch.zeros_like(ends[0], dtype=torch.float32),
        recurrent_state=torch.zeros(*ends[0].shape, 2),
        terminated=ends[0],
        truncated=ends[1] if truncated else torch.zeros_like(ends[0]),
        lengths=None if lengths is None else torch.tensor(lengths),
    )


def test_a_sequence_ends_with_its_episode_and_after_the_longest():
    table = SequenceTable(rollout(["..", "x.", "..", "..", ".x"], truncated=["..", "..", "..", ".x", ".."]), longest=3)
    # rows are counted tick by tick: slot 0 has 0 2 4 6 8, slot 1 has 1 3 5 7 9
    assert table.rows.tolist() == [[0, 2, -1], [4, 6, 8], [1, 3, 5], [7, -1, -1], [9, -1, -1]]
    assert table.lengths.tolist() == [2, 3, 3, 1, 1]


def test_rows_are_counted_among_the_settled_ones_alone():
    table = SequenceTable(rollout(["...", "...", "..."], lengths=[3, 0, 1]), longest=2)
    assert table.rows.tolist() == [[0, 2], [3, -1], [1, -1]]


def test_a_length_beyond_any_episode_makes_no_larger_table():
    assert SequenceTable(rollout(["..", "x.", ".."]), longest=10**12).rows.tolist() == [
        [0, 2, -1],
        [4, -1, -1],
        [1, 3, 5],
    ]


def test_a_grid_has_time_down_and_its_rows_in_rising_places():
    two_slots = rollout(["..", "x.", "..", "..", ".x"], truncated=["..", "..", "..", ".x", ".."])
    table = SequenceTable(two_slots, 3, torch.arange(10.0).unsqueeze(1))
    parts = [np.array([1, 0]), np.array([0, 1])]
    (rows, sequences), other = table.take(parts)
    assert rows.tolist() == [4, 0, 6, 2, 8]
    assert sequences.steps == 3
    assert sequences.place.tolist() == [0, 1, 2, 3, 4]
    assert sequences.recurrent_state.tolist() == [[4], [0]]
    rows, sequences = other
    assert rows.tolist() == [0, 4, 2, 6, 8]
    assert sequences.place.tolist() == [0, 1, 2, 3, 5]


def test_every_decision_is_in_one_minibatch_of_each_pass_with_its_sequence_whole():
    taken = experience(3, ticks=40)
    assert taken.lengths is not None
    count = int(taken.lengths.sum())
    numbers = torch.arange(float(count)).unsqueeze(1)
    table = SequenceTable(taken, 5, numbers)
    assert sorted(table.rows[table.rows >= 0].tolist()) == list(range(count))
    rows = Minibatch((numbers,), numbers, numbers.long(), numbers, numbers.squeeze(1), numbers, numbers, None)
    batches = list(
        chain.from_iterable(sequence_passes(rows, table, size=16, epochs=2, generator=torch.Generator().manual_seed(0)))
    )
    per_pass = len(batches) // 2
    assert per_pass == count // 16
    orders = []
    for batch_of_pass in (batches[:per_pass], batches[per_pass:]):
        orders.append([number for batch in batch_of_pass for number in batch.advantage.tolist()])
        assert sorted(orders[-1]) == list(range(count))
    assert orders[0] != orders[1]
    for batch in batches:
        assert batch.sequences is not None
        grid = torch.full((batch.sequences.steps * len(batch.sequences.recurrent_state),), -1.0)
        grid[batch.sequences.place] = batch.advantage
        columns = grid.view(batch.sequences.steps, -1).T
        known = {tuple(number for number in sequence if number >= 0) for sequence in table.rows.tolist()}
        assert {tuple(number for number in column if number >= 0) for column in columns.tolist()} <= known
        assert torch.equal(columns[:, 0], batch.sequences.recurrent_state[:, 0])


def test_a_stream_is_cut_where_a_table_of_all_its_rows_is():
    rng = np.random.default_rng(0)
    for rows in (1, 2, 7, 200):
        last = rng.random(rows) < 0.2
        last[-1] = True
        ends = torch.from_numpy(last).unsqueeze(1)
        rollout: Any = SimpleNamespace(shape=(rows, 1), terminated=ends, truncated=ends, lengths=None)
        for longest in (1, 3, 16):
            whole = SequenceTable(rollout, longest, torch.zeros(rows, 2))
            light = StreamTable(last, longest, torch.zeros(rows, 2))
            assert whole.lengths.tolist() == light.lengths.tolist()
            order = np.array_split(rng.permutation(len(whole)), 3)
            parts = [part for part in order if len(part)]
            for one, other in zip(whole.take(parts), light.take(parts), strict=True):
                assert one[0].tolist() == other[0].tolist()
                assert one[1].place.tolist() == other[1].place.tolist()
