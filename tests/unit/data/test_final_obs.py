from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from tiny_envs import PlainBuffer, Stream, decide, plainly, table

from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.data import steady_buffer
from palaestra.data.steady_buffer import FinalObsList, SteadyBuffer


def with_every_row(step: TimeStep) -> TimeStep:
    """As an accelerator shows its ends: a row for each slot."""
    obs = tuple(x + 0.25 for x in step.obs)
    for x, seen in zip(obs, step.final_obs.obs, strict=True):
        x[step.final_obs.slots] = seen
    return replace(step, final_obs=FinalObs(torch.arange(len(step.reward)), obs))


@pytest.mark.parametrize("room", [3, 5, 20])
def test_a_buffer_on_an_accelerator_takes_the_same_final_observations(room: int, monkeypatch: pytest.MonkeyPatch):
    """It grows, and goes on from its state in a buffer of another length."""
    monkeypatch.setattr(steady_buffer, "is_accelerator", lambda device: True)
    stream = Stream(0, steady=True)
    step = with_every_row(stream.next())
    buffer = SteadyBuffer(step, decide(step, torch.Generator()), room)
    plain = PlainBuffer()
    generator = torch.Generator().manual_seed(99)
    ends = 0
    for tick in range(24):
        decision = decide(step, generator)
        buffer.open(step, decision)
        plain.open(step, decision)
        following = stream.next()
        step = with_every_row(following)
        buffer.complete(step)
        plain.complete(following)
        if tick == 4:
            saved = copy.deepcopy(buffer.state_dict())
            buffer = SteadyBuffer(step, decide(step, torch.Generator()), room)
            buffer.load_state_dict(saved)
        if tick % 12 == 11:
            rollout = buffer.take(step)
            assert plainly(rollout) == plain.take(following)
            ends += len(rollout.final_rows)
    assert ends


def test_a_list_is_empty_after_it_was_taken():
    ends = FinalObsList()
    step = table(torch.rand(2, 3), truncated=[1])
    ends.add(torch.arange(2), step)
    assert ends.take(step.obs)[0].tolist() == [1]
    rows, obs = ends.take(step.obs)
    assert (len(rows), obs[0].shape) == (0, (0, 3))


def test_rows_are_counted_anew_when_slots_grow():
    ends = FinalObsList()
    step = table(torch.rand(2, 1), truncated=[0, 1])
    ends.add(torch.tensor([4, 5]), step)  # row 2 of two slots
    ends.widen(2, 6)
    assert ends.take(step.obs)[0].tolist() == [12, 13]
