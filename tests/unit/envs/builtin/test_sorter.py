import math

import pytest
import torch
from envs.builtin.worlds import act, change

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.sorter.env import Sorter

STAY = (0, 0, 0)
NORTH, SOUTH, EAST, WEST = (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0)


def tiled(areas: int, most: float, seed: int = 0) -> Sorter:
    env = Sorter(areas)
    env.set_parameters({"num_tiles": torch.full((areas,), most)})
    env.reset(seed)
    return env


def laid(*tiles: tuple[int, int], heading: float = 0.0) -> Sorter:
    """One area with tiles of these (number, place), the agent standing in the middle, looking north."""
    env = tiled(1, float(len(tiles)))
    state = env.state_dict()
    state["obs_tiles"].zero_()
    state["tiles"][0] = len(tiles)
    for row, (number, place) in enumerate(tiles):
        state["number"][0, row] = number
        state["place"][0, row] = place
    state["heading"][0] = heading
    state["height"][0] = 0.0
    env.load_state_dict(state)
    return env


def until_touched(env: Sorter, choice: tuple[int, int, int], most: int = 40) -> TimeStep:
    """The tick that ends the episode or earns something."""
    for _ in range(most):
        step = act(env, choice)
        if step.terminated.item() or step.reward.item() > 0:
            return step
    raise AssertionError("nothing was touched")


def test_the_tiles_in_rising_order_earn_one_each_and_end_the_episode():
    env = laid((3, 0), (11, 10))  # north, south
    first = until_touched(env, NORTH)
    assert first.reward.item() == pytest.approx(1 - 0.001)
    assert not first.terminated.item()
    assert first.obs[0][0, :, 22].tolist() == [1.0] + [0.0] * 19
    last = until_touched(env, SOUTH)
    assert 1 - 0.001 <= round(last.reward.item(), 6) <= 1 - 0.0002  # the ticks until the touch cost 0.0002 each
    assert last.terminated.item()
    assert not last.truncated.item()
    assert last.final_obs.slots.tolist() == [0]
    assert last.final_obs.obs[0][0, :2, 22].tolist() == [1.0, 1.0]
    # it stands before the tile
    assert last.final_obs.obs[2][0, 5].item() * 20 == pytest.approx(-(20.5 - 0.7602 - 0.5), abs=1e-3)
    assert last.obs[0][0, :, 22].sum() == 0
    assert not last.obs[2][0, :6].any()


def test_a_wrong_tile_costs_one_and_ends_the_episode():
    step = until_touched(laid((3, 0), (11, 10)), SOUTH)
    assert -1 - 0.001 <= round(step.reward.item(), 6) <= -1 - 0.0002
    assert step.terminated.item()


def test_a_touched_tile_stays_in_the_way_and_costs_nothing():
    env = laid((3, 0), (11, 10))
    until_touched(env, NORTH)
    for _ in range(20):
        step = act(env, NORTH)
        assert step.reward.item() == pytest.approx(-0.001)
        assert not step.terminated.item()
    assert step.obs[2][0, 5].item() * 20 == pytest.approx(19.2398, abs=1e-3)


def test_between_tiles_the_round_wall_stops_the_agent():
    env = laid((3, 0), (11, 10))
    for _ in range(40):
        step = act(env, EAST)
    # its two outer corners, 0.5 to either side, touch the wall
    assert step.obs[2][0, 4].item() * 20 == pytest.approx((19.99**2 - 0.5**2) ** 0.5 - 0.5, abs=1e-3)


@pytest.mark.parametrize(("choice", "place"), [(NORTH, 0), (EAST, 5), (SOUTH, 10), (WEST, 15)])
def test_the_choices_lead_forward_back_right_and_left(choice: tuple[int, int, int], place: int):
    assert until_touched(laid((1, place), (2, (place + 7) % 20)), choice).reward.item() > 0.9


def test_a_step_aside_replaces_the_one_ahead():
    step = act(laid((1, 0)), (1, 1, 0))
    assert step.obs[2][0, 4] > 0
    assert step.obs[2][0, 5].item() == pytest.approx(0, abs=1e-6)


def test_the_floor_takes_twice_six_tenths_of_its_push():
    step = act(laid((1, 0)), NORTH)
    speed, place = 0.0, 0.0
    for _ in range(5):
        speed = (speed + 2) * 0.92 - 1.2 * 24.525 * 0.02 * 0.92
        place += speed * 0.02
    assert step.obs[2][0, 5].item() * 20 == pytest.approx(place, abs=1e-4)
    assert step.obs[1][0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0, 1, 0, 0, speed], abs=1e-4)


def test_velocity_is_seen_from_the_agent():
    env = laid((1, 0), heading=math.pi / 2)  # it looks east
    change(env, velocity=[3.0, -5.0])
    right, up, ahead = act(env, STAY).obs[1][0, 7:].tolist()
    assert right > ahead > 0
    assert up == 0
    assert right / ahead == pytest.approx(5 / 3, rel=1e-4)


@pytest.mark.parametrize(("turn", "degrees"), [(0, 0), (1, -20), (2, 20)])
def test_a_decision_of_turning_turns_by_twenty_degrees(turn: int, degrees: int):
    step = act(laid((1, 0)), (0, 0, turn))
    angle = math.radians(degrees)
    torch.testing.assert_close(step.obs[2][0, 4:], torch.tensor([0.0, 0.0, math.sin(angle), math.cos(angle)]))


def test_an_agent_sees_where_it_is_and_where_the_tiles_are_from_there():
    env = laid((4, 5), (20, 10))
    step = act(env, NORTH)
    east, north = step.obs[2][0, 4:6].tolist()
    assert east == pytest.approx(0, abs=1e-6)
    assert north > 0
    tiles = step.obs[0][0]
    torch.testing.assert_close(tiles[0, 20:], torch.tensor([1.025, -north, 0.0]))
    torch.testing.assert_close(tiles[1, 20:], torch.tensor([0.0, -1.025 - north, 0.0]), atol=1e-6, rtol=1e-6)
    assert tiles[:, :20].nonzero().tolist() == [[0, 4]]  # the offset takes the place of number 20's mark
    assert torch.equal(act(env, STAY).obs[2][0, :4], step.obs[2][0, 4:])  # the older frame comes first


@pytest.mark.parametrize("most", [1, 2, 13, 20])
def test_up_to_as_many_tiles_as_asked_for_have_numbers_and_places_of_their_own(most: int):
    env = tiled(500, most)
    state = env.state_dict()
    assert state["tiles"].unique().tolist() == list(range(1, most + 1))
    for tiles in (1, most):
        rows = state["tiles"] == tiles
        number = state["number"][rows, :tiles]
        place = state["place"][rows, :tiles]
        assert all(len(row.unique()) == tiles and row.min() >= 1 and row.max() <= 20 for row in number)
        assert all(len(row.unique()) == tiles and row.min() >= 0 and row.max() < 20 for row in place)
        assert (number[:, 1:] > number[:, :-1]).all()
        assert not state["obs_tiles"][rows, tiles:].any()


def test_every_number_and_every_place_comes_as_often():
    state = tiled(20_000, 2, seed=5).state_dict()
    for column, first in (("number", 1), ("place", 0)):
        shares = (state[column][:, 0] - first).bincount(minlength=20) / 20_000
        pairs = (state[column][state["tiles"] == 2, 1] - first).bincount(minlength=20) / 20_000
        expected = torch.full((20,), 0.075)
        torch.testing.assert_close(shares + pairs, expected, atol=0.006, rtol=0)


def test_a_new_number_of_tiles_takes_hold_at_the_next_episode():
    env = laid((3, 0), (11, 10))
    env.set_parameters({"num_tiles": torch.ones(1)})
    assert (act(env, STAY).obs[0][0].abs().sum(1) > 0).sum() == 2
    step = until_touched(env, SOUTH)
    assert (step.obs[0][0].abs().sum(1) > 0).sum() == 1
    assert (step.final_obs.obs[0][0].abs().sum(1) > 0).sum() == 2


def test_the_agent_is_dropped_in_the_middle_and_keeps_its_heading():
    env = laid((3, 0), (11, 11), heading=math.pi / 10)
    assert until_touched(env, SOUTH).terminated.item()
    state = env.state_dict()
    assert state["heading"].item() == pytest.approx(math.pi / 10, abs=1e-5)
    assert state["height"].item() > 0.5
    assert not state["position"].any()
    first = env.reset(0)["Sorter"]
    assert first.obs[2][0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0, 0, -1], abs=1e-6)  # it looks south at first
    for _ in range(4):
        act(env, STAY)
    assert env.state_dict()["height"].item() == pytest.approx(0, abs=1e-6)


def test_the_agent_stays_within_the_room():
    env = tiled(64, 1, seed=2)
    generator = torch.Generator().manual_seed(0)
    way = torch.randint(0, 3, (64, 3), generator=generator)
    for _ in range(100):
        env.step({"Sorter": Action(torch.zeros(64, 0), way)})
        assert env.state_dict()["position"].norm(dim=1).max() < 19.5


def test_the_last_tick_before_time_is_up_turns_the_agent_and_does_not_push_it_yet():
    env = tiled(1, 2)
    change(env, age=4999, heading=0.0)
    step = act(env, (1, 0, 1))
    assert step.truncated.item()
    assert step.final_obs.obs[1][0, 7:].tolist() == [0.0, 0.0, 0.0]  # Unity's physics adds a push after it has observed
    turned = math.radians(-4)
    assert step.final_obs.obs[2][0, 6:].tolist() == pytest.approx([math.sin(turned), math.cos(turned)], abs=1e-6)


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


@pytest.mark.parametrize("tiles", [0.0, 21.0])
def test_a_number_of_tiles_beyond_the_range_is_refused(tiles: float):
    with pytest.raises(EnvError, match=r"'num_tiles' is \d+, expected a number within 1..20"):
        Sorter(1).set_parameters({"num_tiles": torch.tensor([tiles])})
