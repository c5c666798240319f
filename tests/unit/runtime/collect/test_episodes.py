import copy
from dataclasses import replace

import pytest
import torch
from tiny_envs import Stream, episodes_of, same_episodes, slow_episodes, table

import palaestra
from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.collect.area_episodes import AreaEpisodes
from palaestra.runtime.collect.collector_state import on, pack, unpack
from palaestra.runtime.collect.episode_meter import EpisodeMeter


def stream_of(seed: int, steady: bool, grows_at: int | None) -> list[TimeStep]:
    stream = Stream(seed, steady=steady, grows_at=grows_at)
    return [stream.next() for _ in range(60)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("steady", "grows_at"), [(True, None), (False, None), (False, 7), (False, 30)])
def test_returns_and_lengths_are_those_of_each_slot_alone(seed: int, steady: bool, grows_at: int | None):
    steps = stream_of(seed, steady, grows_at)
    meter = EpisodeMeter(0)
    meter.begin(steps[0])
    taken = []
    for tick, step in enumerate(steps[1:]):
        meter.add(step)
        if tick % 11 == 0:
            taken.append(meter.take())
    same_episodes(episodes_of(*taken, meter.take()), slow_episodes(steps))


def test_episodes_are_open_across_states():
    steps = stream_of(4, steady=False, grows_at=10)
    old = EpisodeMeter(0)
    old.begin(steps[0])
    for step in steps[1:25]:
        old.add(step)
    before = old.take()
    new = EpisodeMeter(0)
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    for step in steps[25:]:
        new.add(step)
    same_episodes(episodes_of(before, new.take()), slow_episodes(steps))


def test_a_behavior_that_appears_late_is_counted_from_its_first_table():
    steps = stream_of(5, steady=False, grows_at=None)
    meter = EpisodeMeter(0)
    for step in steps:
        meter.add(step)
    same_episodes(episodes_of(meter.take()), slow_episodes(steps))
    assert meter.slots == 4


@pytest.mark.parametrize("seed", range(3))
def test_an_episode_that_is_lost_is_none_and_the_next_one_begins_at_nothing(seed: int):
    stream = Stream(seed, slots=6, grows_at=300, losses=0.15)
    steps = [stream.next() for _ in range(1000)]
    meter = EpisodeMeter(0)
    taken = []
    meter.begin(steps[0])
    for tick, step in enumerate(steps[1:]):
        meter.add(step)
        if tick % 83 == 0:
            taken.append(meter.take())
            state = copy.deepcopy(meter.state_dict())
            meter = EpisodeMeter(0)
            meter.load_state_dict(state)
    same_episodes(episodes_of(*taken, meter.take()), slow_episodes(steps))


def test_a_reset_drops_open_episodes():
    steps = stream_of(6, steady=True, grows_at=None)
    meter = EpisodeMeter(0)
    meter.begin(steps[0])
    for step in steps[1:20]:
        meter.add(step)
    meter.begin(steps[20])
    for step in steps[21:]:
        meter.add(step)
    same_episodes(episodes_of(meter.take()), slow_episodes(steps[20:]))


def test_agents_whose_behaviors_take_turns_are_counted_once():
    env = palaestra.make("builtin:WallJump", areas=16)
    steps = env.reset(seed=1)
    meters = {name: EpisodeMeter(0) for name in steps}
    for name, step in steps.items():
        meters[name].begin(step)
    for _ in range(3):
        for _ in range(40):
            steps = env.step({name: Action(None, torch.randint(0, 2, (16, 4))) for name in steps})
            for name, step in steps.items():
                meters[name].add(step)
        for meter in meters.values():
            meter.take()
        assert min(meter.agents for meter in meters.values()) > 0
        assert sum(meter.agents for meter in meters.values()) == pytest.approx(16)
        assert [meter.slots for meter in meters.values()] == [16, 16]


@pytest.mark.parametrize("at_once", [False, True])
def test_returns_to_compare_runs_by_do_not_depend_on_what_ended_beside(at_once: bool):
    """Slots 0 and 1 are a group; slot 2 has left one that had earned 5."""
    meter = EpisodeMeter(0)
    judged = list[float]()

    def add(ends: list[int], group_reward: list[float]) -> None:
        step = table(torch.zeros(3, 1), reward=[1.0, 2.0, 3.0], terminated=ends)
        meter.add(replace(step, group=torch.tensor([0, 0, -1]), group_reward=torch.tensor(group_reward)))
        if not at_once:
            judged.extend(meter.take().judged)

    meter.begin(replace(table(torch.zeros(3, 1)), group=torch.tensor([0, 0, -1])))
    add([2], [0.0, 0.0, 5.0])
    add([0, 1], [10.0, 10.0, 0.0])
    judged.extend(meter.take().judged)
    assert sorted(judged) == [8.0, 12.0]


def test_nothing_is_taken_twice():
    steps = stream_of(7, steady=True, grows_at=None)
    meter = EpisodeMeter(0)
    meter.begin(steps[0])
    for step in steps[1:]:
        meter.add(step)
    assert len(meter) == 59
    assert len(meter.take().returns) > 0
    assert (len(meter), len(meter.take().returns)) == (0, 0)


@pytest.mark.parametrize("stop", [0, 1, 9])
def test_episodes_that_begin_in_part_are_not_told_of_and_the_next_ones_are_whole(stop: int):
    steps = stream_of(6, steady=True, grows_at=None)
    meter = EpisodeMeter(0)
    meter.begin(steps[0], partial=True)
    taken = []
    for tick, step in enumerate(steps[1:]):
        if tick == stop:
            taken.append(meter.take())
            state = copy.deepcopy(meter.state_dict())
            meter = EpisodeMeter(0)
            meter.load_state_dict(state)
        meter.add(step)
    ends = [slot for step in steps[1:] for slot in (step.terminated | step.truncated).nonzero().flatten().tolist()]
    first = {ends.index(slot) for slot in set(ends)}
    whole = [episode for number, episode in enumerate(slow_episodes(steps)) if number not in first]
    same_episodes(episodes_of(*taken, meter.take()), whole)


def test_areas_of_a_checkpoint_go_on_where_the_environment_lives():
    """A checkpoint comes on the CPU. torch's `meta` device refuses to combine its tensors with the CPU's, as any
    does.
    """
    steps = stream_of(4, steady=True, grows_at=None)
    before = AreaEpisodes(3)
    after = AreaEpisodes(3)
    before.begin({"A": steps[0]})
    after.load_state_dict(before.state_dict())
    over = after.over({"A": unpack(on(pack(steps[1]), torch.device("meta")))})
    assert over is not None
    assert over.device.type == after.going["A"].device.type == "meta"
