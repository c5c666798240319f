"""Buffers against a slow one that keeps a list of decisions for each slot."""

import copy
import dataclasses
import itertools
from collections.abc import Callable

import pytest
import torch
from small_runs import differences
from tiny_envs import PlainBuffer, Stream, decide, fill, plainly, table

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Decision, FinalObs, TimeStep
from palaestra.data import steady_buffer
from palaestra.data.slotted_buffer import RolloutBuffer, SlottedBuffer
from palaestra.data.steady_buffer import SteadyBuffer

Make = Callable[[TimeStep, Decision, int], RolloutBuffer]


def start(stream: Stream, make: Make, ticks: int = 8) -> tuple[RolloutBuffer, TimeStep, torch.Generator]:
    generator = torch.Generator().manual_seed(99)
    step = stream.next()
    return make(step, decide(step, torch.Generator()), ticks), step, generator


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("masked", [False, True])
def test_a_steady_buffer_holds_what_a_plain_one_does(seed: int, masked: bool):
    stream = Stream(seed, steady=True, masked=masked)
    buffer, step, generator = start(stream, SteadyBuffer)
    plain = PlainBuffer()
    for _ in range(3):
        step = fill([buffer, plain], stream, step, 8, generator)
        assert buffer.decisions == plain.decisions == 32
        assert plainly(buffer.take(step)) == plain.take(step)
        assert buffer.decisions == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("grows_at", [None, 5, 17])
@pytest.mark.parametrize("room", [1, 3, 40])
def test_a_slotted_buffer_holds_what_a_plain_one_does(seed: int, grows_at: int | None, room: int):
    stream = Stream(seed, masked=seed % 2 == 0, grows_at=grows_at)
    buffer, step, generator = start(stream, SlottedBuffer, room)
    plain = PlainBuffer()
    for ticks in (9, 1, 14, 30):
        step = fill([buffer, plain], stream, step, ticks, generator)
        assert buffer.decisions == plain.decisions
        assert plainly(buffer.take(step)) == plain.take(step)
        assert buffer.decisions == 0


def with_every_row(step: TimeStep) -> TimeStep:
    """As an accelerator shows its ends: a row for each slot, or none where an environment knows that nothing ended."""
    if not len(step.final_obs.slots):
        return step
    obs = tuple(x + 0.25 for x in step.obs)
    for x, seen in zip(obs, step.final_obs.obs, strict=True):
        x[step.final_obs.slots] = seen
    return dataclasses.replace(step, final_obs=FinalObs(torch.arange(len(step.reward)), obs))


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


def test_these_streams_have_what_is_hard():
    stream = Stream(0, grows_at=20)
    alive = []
    steps = []
    for _ in range(40):
        alive.append(stream.alive)
        steps.append(stream.next())
    assert any((step.truncated[: len(seen)] & ~seen).any() for step, seen in zip(steps, alive, strict=True))
    assert any((step.terminated & step.acting).any() for step in steps)
    assert any((step.truncated & ~step.acting).any() for step in steps)
    assert any((~step.acting & ~step.terminated & ~step.truncated).any() for step in steps)
    assert {len(step.acting) for step in steps} == {4, 8}


def test_a_taken_slotted_rollout_is_not_written_to_again():
    stream = Stream(2)
    buffer, step, generator = start(stream, SlottedBuffer)
    step = fill([buffer], stream, step, 8, generator)
    rollout = buffer.take(step)
    before = plainly(rollout)
    fill([buffer], stream, step, 8, generator)
    assert plainly(rollout) == before


@pytest.mark.parametrize("make", [SteadyBuffer, SlottedBuffer])
@pytest.mark.parametrize("ticks", [0, 1, 5])
def test_an_open_rollout_goes_on_from_its_state(make: Make, ticks: int):
    stream = Stream(4, steady=make is SteadyBuffer, masked=True)
    old, step, generator = start(stream, make)
    step = fill([old], stream, step, ticks, generator)
    state = copy.deepcopy(old.state_dict())
    new = make(step, decide(step, torch.Generator()), 8)
    new.load_state_dict(state)
    assert new.decisions == old.decisions
    step = fill([old, new], stream, step, 8 - ticks, generator)
    assert new.decisions == old.decisions
    assert plainly(new.take(step)) == plainly(old.take(step))


@pytest.mark.parametrize("make", [SteadyBuffer, SlottedBuffer])
def test_a_state_holds_what_was_written_and_nothing_of_earlier_rollouts(make: Make):
    """At every tick up to a full table, and beyond where it grows: one that was loaded before saves the same as one
    that was not.
    """
    stream = Stream(7, steady=make is SteadyBuffer, masked=True)
    old, step, generator = start(stream, make)
    step = fill([old], stream, step, 8, generator)
    old.take(step)
    new = make(step, decide(step, torch.Generator()), 8)
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    for _ in range(8 if make is SteadyBuffer else 20):
        assert differences(old.state_dict(), new.state_dict()) == []
        step = fill([old, new], stream, step, 1, generator)
    assert differences(old.state_dict(), new.state_dict()) == []


def test_a_slotted_buffer_goes_on_from_a_state_with_more_slots_than_it_began_with():
    stream = Stream(5, grows_at=4)
    old, first, generator = start(stream, SlottedBuffer, 2)
    step = fill([old], stream, first, 7, generator)
    new = SlottedBuffer(step, decide(step, torch.Generator()), 2)
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    step = fill([old, new], stream, step, 9, generator)
    assert plainly(new.take(step)) == plainly(old.take(step))


def test_a_state_that_is_loaded_is_not_written_to():
    stream = Stream(6)
    old, step, generator = start(stream, SlottedBuffer)
    step = fill([old], stream, step, 4, generator)
    state = copy.deepcopy(old.state_dict())
    again = copy.deepcopy(state)
    new = SlottedBuffer(step, decide(step, torch.Generator()), 8)
    new.load_state_dict(state)
    fill([new], stream, step, 6, generator)
    for part in ("decided", "outcomes"):
        torch.testing.assert_close(state[part], again[part], rtol=0, atol=0)
    assert torch.equal(state["cursor"], again["cursor"])


@pytest.mark.parametrize("room", [2, 6, 12])
def test_a_steady_rollout_goes_on_where_rollouts_have_another_length_now(room: int):
    stream = Stream(7, steady=True)
    old, step, generator = start(stream, SteadyBuffer, 9)
    step = fill([old], stream, step, 6, generator)
    new = SteadyBuffer(step, decide(step, torch.Generator()), room)
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    step = fill([old, new], stream, step, 1, generator)
    assert new.decisions == 28
    assert plainly(new.take(step)) == plainly(old.take(step))


def test_a_behavior_may_begin_without_any_slot():
    stream = Stream(8, slots=0)
    buffer, step, generator = start(stream, SlottedBuffer)
    step = fill([buffer], stream, step, 3, generator)
    assert buffer.decisions == 0
    other = SlottedBuffer(step, decide(step, torch.Generator()), 8)
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    stream.alive = torch.zeros(2, dtype=torch.bool)
    plain = PlainBuffer()
    step = fill([buffer, other, plain], stream, step, 12, generator)
    expected = plain.take(step)
    assert expected
    assert plainly(buffer.take(step)) == plainly(other.take(step)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("losses", [0.02, 0.3])
def test_a_ledger_of_thousands_of_ticks_with_losses_ends_and_waiting_is_right_to_the_row(seed: int, losses: float):
    stream = Stream(seed, slots=5, masked=seed % 2 == 0, grows_at=400, losses=losses)
    buffer, step, generator = start(stream, SlottedBuffer, 4)
    plain = PlainBuffer()
    taken = 0
    for tick in range(1, 1201):
        decision = decide(step, generator)
        buffer.open(step, decision)
        plain.open(step, decision)
        step = stream.next()
        assert buffer.complete(step) == plain.complete(step)
        assert buffer.decisions == plain.decisions
        if tick % 90 == 0:  # through a checkpoint
            saved = copy.deepcopy(buffer.state_dict())
            buffer = SlottedBuffer(step, decide(step, torch.Generator()), 1 + tick % 7)
            buffer.load_state_dict(saved)
        if tick % 37 == 0:
            rollout = buffer.take(step)
            assert plainly(rollout) == plain.take(step)
            times = rollout.final_rows // rollout.shape[1]
            slots = rollout.final_rows % rollout.shape[1]
            assert rollout.lengths is not None
            assert bool((times < rollout.lengths[slots]).all() and rollout.truncated[times, slots].all())
            taken += len(times)
    assert taken > 100


def test_what_is_lost_is_only_the_open_episode_of_the_lost_slot():
    view = torch.arange(6.0).reshape(2, 3)
    steps = [
        table(view),
        table(view + 10, reward=[1.0, 2.0], truncated=[0]),
        table(view + 20, reward=[3.0, 4.0]),
        table(view + 30, reward=[5.0, 6.0]),
    ]
    buffer = SlottedBuffer(steps[0], decide(steps[0], torch.Generator()), 2)
    for step, following in itertools.pairwise(steps):
        buffer.open(step, decide(step, torch.Generator()))
        buffer.complete(following)
    assert buffer.decisions == 6
    buffer.open(steps[3], decide(steps[3], torch.Generator()))
    lost = dataclasses.replace(table(view + 40, reward=[7.0, 8.0]), lost=torch.tensor([True, False]))
    assert buffer.complete(lost) == 1  # slot 1's fourth; slot 0 begins anew with what it sees now
    assert buffer.decisions == 5
    buffer.open(lost, decide(lost, torch.Generator()))
    after = table(view + 50, reward=[9.0, 10.0])
    assert buffer.complete(after) == 2
    rollout = buffer.take(after)
    assert rollout.lengths is not None
    assert rollout.lengths.tolist() == [2, 5]
    assert rollout.reward[:2, 0].tolist() == [1, 9]
    assert rollout.obs[0][1, 0].tolist() == [40, 41, 42]
    assert rollout.reward[:, 1].tolist() == [2, 4, 6, 8, 10]
    assert rollout.final_rows.tolist() == [0]
    assert rollout.final_obs[0].tolist() == [[10, 11, 12]]


def test_what_was_taken_before_an_episode_is_lost_stays_taken():
    stream = Stream(3)
    buffer, step, generator = start(stream, SlottedBuffer)
    step = fill([buffer], stream, step, 5, generator)
    before = plainly(buffer.take(step))
    assert before
    buffer.open(step, decide(step, generator))
    quiet = table((torch.zeros(4, 2), torch.zeros(4, 1)), acting=[False] * 4)
    assert buffer.complete(dataclasses.replace(quiet, lost=torch.ones(4, dtype=torch.bool))) == 0
    assert buffer.decisions == 0
    rollout = buffer.take(quiet)
    assert rollout.lengths is not None
    assert rollout.lengths.tolist() == [0, 0, 0, 0]


def test_a_steady_behavior_that_loses_an_episode_is_refused():
    stream = Stream(0, steady=True)
    buffer, step, generator = start(stream, SteadyBuffer)
    buffer.open(step, decide(step, generator))
    with pytest.raises(EnvError, match="steady behavior came with a column `lost`"):
        buffer.complete(dataclasses.replace(stream.next(), lost=torch.zeros(4, dtype=torch.bool)))


def test_growing_slots_do_not_multiply_the_room_of_a_long_rollout():
    stream = Stream(9, slots=1, grows_at=2)
    buffer, step, generator = start(stream, SlottedBuffer, 1000)
    assert isinstance(buffer, SlottedBuffer)
    fill([buffer], stream, step, 5, generator)
    assert buffer.state_dict()["outcomes"]["reward"].numel() <= 1000
    assert buffer._outcomes.reward.numel() <= 1000


def test_rows_double_only_when_a_slot_needs_them():
    view = torch.zeros(3, 2)
    buffer = SlottedBuffer(table(view), decide(table(view), torch.Generator()), 8)
    for tick in range(21):  # in turns: each slot has decided seven times
        step = table(view, acting=[slot == tick % 3 for slot in range(3)])
        buffer.complete(step)
        buffer.open(step, decide(step, torch.Generator()))
    assert buffer.decisions == 18
    assert len(buffer._outcomes.reward) == 8


@pytest.mark.parametrize("kind", [SteadyBuffer, SlottedBuffer])
def test_a_saved_rollout_has_its_columns_by_name_and_one_with_others_is_refused(
    kind: type[SteadyBuffer] | type[SlottedBuffer],
):
    stream = Stream(3, steady=True)
    buffer, step, generator = start(stream, kind)
    fill([buffer], stream, step, 2, generator)
    state = buffer.state_dict()
    assert state["outcomes"].keys() == {"reward", "group_reward", "terminated", "truncated"}
    assert {"obs", "log_prob"} <= state["decided"].keys()
    del state["decided"]["log_prob"]
    with pytest.raises(ValueError, match="expected obs, log_prob"):
        buffer.load_state_dict(state)
