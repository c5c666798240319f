from __future__ import annotations

import copy

import torch
from tiny_envs import Stream, table

from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.data.buffers import FinalObsList, FinalObsTable, column


def with_every_row(step: TimeStep) -> TimeStep:
    """As an accelerator shows its ends: a row for each slot."""
    obs = tuple(x + 0.25 for x in step.obs)
    for x, seen in zip(obs, step.final_obs.obs, strict=True):
        x[step.final_obs.slots] = seen
    values = {name: getattr(step, name) for name in step.__slots__}
    return TimeStep(**{**values, "final_obs": FinalObs(torch.arange(len(step.reward)), obs)})


def test_a_list_and_a_table_keep_the_same_views_of_truncated_episodes():
    stream = Stream(0, steady=True)
    steps = [stream.next() for _ in range(12)]
    ends = FinalObsList()
    every = FinalObsTable(steps[0], 12)
    for tick, step in enumerate(steps):
        rows = torch.arange(4) + tick * 4
        ends.add(rows, step)
        every.add(rows, with_every_row(step))
    truncated = torch.stack([step.truncated for step in steps])
    assert truncated.any()
    rows, obs = ends.take(truncated, steps[0].obs)
    same_rows, same_obs = every.take(truncated, steps[0].obs)
    assert rows.tolist() == same_rows.tolist() == truncated.flatten().nonzero()[:, 0].tolist()
    assert all(torch.equal(x, y) for x, y in zip(obs, same_obs, strict=True))


def test_a_list_is_empty_after_it_was_taken():
    ends = FinalObsList()
    step = table(torch.rand(2, 3), truncated=[1])
    ends.add(torch.arange(2), step)
    assert ends.take(step.truncated, step.obs)[0].tolist() == [1]
    rows, obs = ends.take(step.truncated, step.obs)
    assert (len(rows), obs[0].shape) == (0, (0, 3))


def test_rows_are_counted_anew_when_slots_grow():
    ends = FinalObsList()
    step = table(torch.rand(2, 1), truncated=[0, 1])
    ends.add(torch.tensor([4, 5]), step)  # row 2 of two slots
    ends.widen(2, 6)
    assert ends.take(step.truncated, step.obs)[0].tolist() == [12, 13]


def test_a_table_goes_on_from_a_state_with_more_or_fewer_ticks():
    step = with_every_row(table(torch.rand(2, 3), truncated=[1], final_obs=(torch.full((1, 3), 7.0),)))
    old = FinalObsTable(step, 3)
    old.add(torch.arange(2) + 2, step)
    for ticks in (1, 3, 5):
        new = FinalObsTable(step, ticks)
        new.load_state_dict(copy.deepcopy(old.state_dict()))
        truncated = torch.zeros(3, 2, dtype=torch.bool)
        truncated[1, 1] = True
        rows, obs = new.take(truncated, step.obs)
        assert rows.tolist() == [3]
        assert obs[0].tolist() == [[7.0] * 3]


def test_a_column_has_the_type_and_shape_of_its_values():
    made = column(torch.ones(4, 2, dtype=torch.int64), 3)
    assert (made.shape, made.dtype) == ((3, 4, 2), torch.int64)
