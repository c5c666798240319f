from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from envs.builtin.worlds import act, by_chance, made

from palaestra.core.errors import EnvError
from palaestra.core.timestep import TimeStep
from palaestra.envs.builtin.base.cores import shares_of
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.simd_solver import MOST_PARTS
from palaestra.envs.builtin.creatures.species import CRAWLER, WALKER, WORM


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def played(number: int, kind: type[Crawler], areas: int) -> list[TimeStep]:
    env = kind(areas)
    generator = torch.Generator().manual_seed(5)
    env.reset(1)
    with threads(number):
        return [by_chance(env, generator) for _ in range(25)]


@pytest.mark.parametrize(("areas", "cores"), [(64, 2), (70, 3), (17, 2), (1024, 7)])
def test_shares_hold_each_area_once_and_begin_with_whole_groups(areas: int, cores: int):
    shares = shares_of(areas, cores, 16)
    assert [area for first, last in shares for area in range(first, last)] == list(range(areas))
    assert len(shares) == cores
    assert all(first % 16 == 0 for first, _ in shares)


def test_results_are_the_same_on_any_number_of_cores():
    alone, *others = (played(number, Crawler, 50) for number in (1, 2, 3))
    assert any(step.terminated.any() for step in alone)
    for other in others:
        for one, two in zip(alone, other, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one.obs, two.obs, strict=True))
            assert torch.equal(one.reward, two.reward)
            assert torch.equal(one.terminated, two.terminated)
            assert torch.equal(one.final_obs.slots, two.final_obs.slots)


def test_a_wrong_action_is_told_of_its_slot_on_any_core():
    env = Crawler(48)
    env.reset(0)
    wrong = torch.zeros(48, 20)
    wrong[33, 2] = float("nan")
    with threads(3), pytest.raises(EnvError, match="33"):
        act(env, wrong)


def test_worlds_of_several_agents_are_split_between_areas():
    steps = []
    for number in (1, 2):
        env = made("SoccerTwos", 256)
        generator = torch.Generator().manual_seed(3)
        env.reset(0)
        with threads(number):
            steps.append([by_chance(env, generator) for _ in range(10)][-1])
    assert all(torch.equal(one, two) for one, two in zip(steps[0].obs, steps[1].obs, strict=True))


def test_a_creature_has_at_most_as_many_parts_as_vectors():
    assert all(len(creature.parts) <= MOST_PARTS for creature in (CRAWLER, WALKER, WORM))
