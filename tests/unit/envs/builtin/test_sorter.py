from __future__ import annotations

import math

import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.sorter.env import Sorter

STAY = (0, 0, 0)
NORTH, SOUTH, EAST, WEST = (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0)


def played(env: Sorter, *choices: tuple[int, int, int]) -> TimeStep:
    return env.step({"Sorter": Action(torch.zeros(len(choices), 0), torch.tensor(choices))})["Sorter"]


def tiled(areas: int, tiles: float, seed: int = 0) -> Sorter:
    env = Sorter(areas)
    env.set_parameters({"num_tiles": torch.full((areas,), tiles)})
    env.reset(seed)
    return env


def laid(*tiles: tuple[int, int]) -> Sorter:
    """One area with tiles of these (number, place), the agent in the middle looking north."""
    env = tiled(1, float(len(tiles)))
    state = env.state_dict()
    for row, (number, place) in enumerate(tiles):
        state["number"][0, row], state["place"][0, row] = number, place
        state["obs_tiles"][0, row] = 0
        state["obs_tiles"][0, row, number] = 1
    state["heading"][0] = 0
    env.load_state_dict(state)
    return env


def until_touched(env: Sorter, choice: tuple[int, int, int], most: int = 40) -> TimeStep:
    """The tick that ends the episode or earns something."""
    for _ in range(most):
        step = played(env, choice)
        if step.terminated.item() or step.reward.item() > 0:
            return step
    raise AssertionError("nothing was touched")


def test_the_tiles_in_rising_order_earn_one_each_and_end_the_episode():
    env = laid((3, 0), (11, 10))  # north, south
    first = until_touched(env, NORTH)
    assert first.reward.item() == pytest.approx(1 - 0.0002)
    assert not first.terminated.item()
    assert first.obs[0][0, :, 22].tolist() == [1.0] + [0.0] * 19
    last = until_touched(env, SOUTH)
    assert last.reward.item() == pytest.approx(1 - 0.0002)
    assert last.terminated.item()
    assert not last.truncated.item()
    assert last.final_obs.slots.tolist() == [0]
    assert last.final_obs.obs[0][0, :2, 22].tolist() == [1.0, 1.0]
    assert last.obs[0][0, :, 22].sum() == 0
    assert last.obs[1][0, :2].tolist() == [0.0, 0.0]


def test_a_wrong_tile_costs_one_and_ends_the_episode():
    step = until_touched(laid((3, 0), (11, 10)), SOUTH)
    assert step.reward.item() == pytest.approx(-1 - 0.0002)
    assert step.terminated.item()


def test_a_touched_tile_may_be_walked_on_freely():
    env = laid((3, 0), (11, 10))
    until_touched(env, NORTH)
    for _ in range(20):
        step = played(env, NORTH)
        assert step.reward.item() == pytest.approx(-0.0002)
        assert not step.terminated.item()


@pytest.mark.parametrize(("choice", "place"), [(NORTH, 0), (EAST, 5), (SOUTH, 10), (WEST, 15)])
def test_the_choices_lead_forward_back_right_and_left(choice: tuple[int, int, int], place: int):
    assert until_touched(laid((0, place), (1, (place + 7) % 20)), choice).reward.item() > 0.9


@pytest.mark.parametrize(("turn", "degrees"), [(0, 0), (1, -20), (2, 20)])
def test_a_decision_of_turning_turns_by_twenty_degrees(turn: int, degrees: int):
    step = played(laid((0, 0)), (0, 0, turn))
    angle = math.radians(degrees)
    torch.testing.assert_close(step.obs[1][0], torch.tensor([0.0, 0.0, math.sin(angle), math.cos(angle)]))


def test_an_agent_sees_where_it_is_and_where_the_tiles_are_from_there():
    step = played(laid((4, 5), (9, 10)), NORTH)
    east, north = step.obs[1][0, :2].tolist()
    assert east == 0
    assert north > 0
    tiles = step.obs[0][0]
    torch.testing.assert_close(tiles[0, 20:], torch.tensor([0.8, -north, 0.0]))
    torch.testing.assert_close(tiles[1, 20:], torch.tensor([0.0, -0.8 - north, 0.0]))
    assert tiles[:, :20].nonzero().tolist() == [[0, 4], [1, 9]]


@pytest.mark.parametrize("tiles", [1, 2, 13, 20])
def test_as_many_tiles_as_asked_for_have_numbers_and_places_of_their_own(tiles: int):
    env = tiled(50, tiles)
    state = env.state_dict()
    assert state["tiles"].unique().tolist() == [tiles]
    for column in ("number", "place"):
        assert all(len(row.unique()) == tiles and row.min() >= 0 and row.max() < 20 for row in state[column][:, :tiles])
    assert (state["number"][:, 1:tiles] > state["number"][:, : tiles - 1]).all()
    numbers = state["obs_tiles"][:, :, :20]
    assert numbers.sum((1, 2)).unique().tolist() == [tiles]
    assert torch.equal(numbers[:, :tiles].argmax(2), state["number"][:, :tiles].long())
    assert not state["obs_tiles"][:, tiles:].any()


def test_every_number_and_every_place_comes_as_often():
    state = tiled(20_000, 2, seed=5).state_dict()
    for column in ("number", "place"):
        shares = state[column][:, :2].flatten().bincount(minlength=20) / 40_000
        assert (shares - 0.05).abs().max() < 0.005


def test_a_new_number_of_tiles_takes_hold_at_the_next_episode():
    env = laid((3, 0), (11, 10))
    env.set_parameters({"num_tiles": torch.ones(1)})
    assert (played(env, STAY).obs[0][0].abs().sum(1) > 0).sum() == 2
    step = until_touched(env, SOUTH)
    assert (step.obs[0][0].abs().sum(1) > 0).sum() == 1
    assert (step.final_obs.obs[0][0].abs().sum(1) > 0).sum() == 2


def test_the_agent_stays_within_the_room():
    env = tiled(64, 1, seed=2)
    generator = torch.Generator().manual_seed(0)
    way = torch.randint(0, 3, (64, 3), generator=generator)
    for _ in range(60):
        env.step({"Sorter": Action(torch.zeros(64, 0), way)})
        assert env.state_dict()["position"].norm(dim=1).max() < 17.001


def test_an_agent_that_stays_is_cut_after_a_thousand_decisions():
    env = tiled(1, 2)
    total = 0.0
    for _ in range(999):
        step = played(env, STAY)
        total += step.reward.item()
        assert not step.truncated.item()
    step = played(env, STAY)
    assert step.truncated.item()
    assert not step.terminated.item()
    assert total + step.reward.item() == pytest.approx(-0.2, abs=1e-4)


@pytest.mark.parametrize("tiles", [1, 2, 6, 20])
def test_the_rule_touches_all_in_order(tiles: int):
    env = tiled(40, tiles, seed=1)
    wrong, right = 0, 0
    for _ in range(450):
        action = env.heuristic("Sorter")
        assert action is not None
        step = env.step({"Sorter": action})["Sorter"]
        wrong += int((step.reward < -0.5).sum())
        right += int(step.terminated.sum())
    assert wrong == 0
    assert right >= 40
    assert env.heuristic("Other") is None


@pytest.mark.parametrize("choice", [-1, 3])
def test_a_choice_that_is_none_is_refused(choice: int):
    env = tiled(2, 2)
    with pytest.raises(EnvError, match=rf"agent 1: action \[0, {choice}, 0\] must be choices of branches \(3, 3, 3\)"):
        played(env, STAY, (0, choice, 0))


@pytest.mark.parametrize("tiles", [0.0, 21.0])
def test_a_number_of_tiles_beyond_the_range_is_refused(tiles: float):
    with pytest.raises(EnvError, match=r"'num_tiles' is \d+, expected a number within 1..20"):
        Sorter(1).set_parameters({"num_tiles": torch.tensor([tiles])})


def test_a_picture_shows_touched_tiles_in_green():
    env = laid((3, 0), (11, 10))
    before = env.render(0)
    until_touched(env, NORTH)
    pictures = [picture.astype(int) for picture in (before, env.render(0))]
    green = [int(((p[..., 1] > p[..., 0] + 40) & (p[..., 1] > p[..., 2] + 20)).sum()) for p in pictures]
    assert before.shape[1:] == (320, 3)
    assert green[0] == 0
    assert green[1] > 10
