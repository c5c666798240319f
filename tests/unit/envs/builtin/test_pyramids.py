import math

import numpy as np
import pytest
import torch
from envs.builtin.worlds import act, change

from palaestra.core.timestep import TimeStep
from palaestra.envs.builtin.pyramids.env import Pyramids

STAY, FORWARD, BACK, RIGHT, LEFT = range(5)
ABSENT, STANDING, LOOSE, RESTING = range(4)
BRICK, WALL, GOLD, SWITCH_OFF, SWITCH_ON, STONE, MISS = range(7)
BRICKS = 6
CUBES = 26
GOLDEN = 6 * 26 + 25
NORTH = np.pi / 2
EAST = 0.0
FAR = (900.0, 900.0)


def stood(
    place: tuple[float, float],
    angle: float = NORTH,
    *,
    switch: tuple[float, float] = FAR,
    stone: tuple[float, float] | None = None,
    brick: tuple[float, float] | None = None,
) -> Pyramids:
    """One area in which all has settled: the agent on the floor, the switch, a stone pyramid and the brick one where
    they are put.
    """
    env = Pyramids(1)
    env.reset(0)
    state = env.state_dict()
    state["pile"].zero_()
    for pile, at in ((0, stone), (BRICKS, brick)):
        if at is not None:
            state["pile"][0, pile] = STANDING
            state["pile_place"][0, pile] = torch.tensor(at)
            state["pile_middle"][0, pile] = torch.tensor(at) + torch.tensor([0.43, 0.78])
    state["place"][0] = torch.tensor(place)
    state["switch_place"][0] = torch.tensor(switch)
    state["angle"][:] = angle
    state["height"][:] = 0.5
    state["age"][:] = 200
    state["pressed_age"][:] = 200
    env.load_state_dict(state)
    return env


def fans(step: TimeStep) -> torch.Tensor:
    """What each ray of each fan tells, (3, 7, 8)."""
    return torch.stack([obs[0].view(7, 8) for obs in step.obs[:3]])


def gone(env: Pyramids, decisions: int, choice: int = FORWARD) -> TimeStep:
    """After so many decisions of one choice, or the end of the episode."""
    step = act(env, choice)
    while decisions > 1 and not step.terminated.any():
        step = act(env, choice)
        decisions = decisions - 1
    return step


def ray(tag: int, distance: float) -> list[float]:
    return [*np.eye(6)[tag], 0.0, distance / 35]


def test_a_push_adds_2_to_the_speed_against_drag_and_twice_the_friction():
    """Worked by hand: a tick is (v + 2) * 0.96 - 1.2 * 9.81 * 0.02 * 0.96."""
    step = act(stood((0.0, 0.0)), FORWARD)
    speed = 0.0
    for _ in range(5):
        speed = (speed + 2) * 0.96 - 1.2 * 9.81 * 0.02 * 0.96
    assert step.obs[3][0].tolist() == pytest.approx([0, 0, 0, speed], abs=1e-4)
    assert act(stood((0.0, 0.0)), BACK).obs[3][0].tolist() == pytest.approx([0, 0, 0, -speed], abs=1e-4)
    assert not act(stood((0.0, 0.0)), STAY).obs[3].any()


@pytest.mark.parametrize(("choice", "degrees"), [(RIGHT, -20.0), (LEFT, 20.0)])
def test_a_turn_is_4_degrees_a_tick(choice: int, degrees: float):
    env = stood((0.0, 0.0))
    act(env, choice)
    assert np.degrees(env.state_dict()["angle"].item()) == pytest.approx(90 + degrees, abs=1e-3)


def test_touching_the_switch_makes_the_brick_pyramid_fall_from_2_meters():
    env = stood((0.0, -4.0), switch=(0.0, 0.0))
    state = env.state_dict()
    state["pile_place"][0, BRICKS] = state["pile_middle"][0, BRICKS] = torch.tensor([20.0, 20.0])
    env.load_state_dict(state)
    step = act(env, STAY)
    assert step.obs[3][0, 0] == 0
    assert fans(step)[0, 0].tolist() == pytest.approx(ray(SWITCH_OFF, 4 - 2 - 0.5))
    step = gone(env, 4)
    state = env.state_dict()
    assert step.obs[3][0, 0] == 1
    assert state["pile"][0].tolist() == [*[ABSENT] * 6, STANDING]
    assert 0 < state["pressed_age"].item() <= 20
    assert step.reward.item() == pytest.approx(-0.001)
    state["place"][0] = torch.tensor([0.0, -4.0])
    state["velocity"][:] = 0.0
    env.load_state_dict(state)
    assert fans(act(env, STAY))[0, 0, SWITCH_ON] == 1


def test_the_brick_pyramid_begins_to_fall_in_the_tick_after_the_switch_is_pressed():
    """Its age counts the ticks after that of the touch: four of the five of this decision."""
    env = stood((0.0, -1.55), switch=(0.0, 0.0))
    state = env.state_dict()
    state["velocity"][0] = torch.tensor([0.0, 10.0, 0.0])  # it touches the switch in the first tick
    env.load_state_dict(state)
    act(env, STAY)
    assert env.state_dict()["pressed_age"].item() == 4


def test_what_touches_the_switch_sees_the_button_within():
    step = gone(stood((0.0, -3.0), switch=(0.0, 0.0)), 8)
    assert not fans(step)[:, 0, :MISS].any(1)[1:].any()  # no tag
    assert (fans(step)[1:, 0, MISS] == 0).all()
    assert fans(step)[0, 0, WALL : SWITCH_ON + 1].tolist()[2:] == [0, 0]  # the level ray passes below it


def test_a_hit_beside_its_middle_turns_the_switch():
    env = stood((1.6, -4.0), switch=(0.0, 0.0))
    gone(env, 6)
    assert env.state_dict()["switch_spin"].item() != 0 or env.state_dict()["switch_angle"].item() != 0
    assert env.state_dict()["switch_place"][0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("stone", "brick", "tag"), [((-0.43, 9.22), None, STONE), (None, (-0.43, 9.22), BRICK)])
def test_each_fan_sees_the_layer_at_its_height(
    stone: tuple[float, float] | None, brick: tuple[float, float] | None, tag: int
):
    """The middle of the pyramid is 10 m ahead; its layers end 2.34, 1.80 and 1.12 m before it."""
    found = fans(act(stood((0.0, 0.0), stone=stone, brick=brick), STAY))
    assert found[0, 0].tolist() == pytest.approx(ray(tag, 10 - 2.34 - 0.5), abs=1e-4)
    assert found[:, 0, tag].tolist() == [1, 1, 1]
    assert 35 * found[1, 0, 7].item() == pytest.approx(10 + 0.044 - 1.797 - 0.505, abs=0.01)  # the second layer's face
    # the third one's, or the edge below it
    assert 35 * found[2, 0, 7].item() == pytest.approx(10 - 0.027 - 1.122 - 0.52, abs=0.15)


def test_the_golden_block_on_its_pyramid_is_seen_by_rising_rays_alone():
    found = fans(act(stood((0.0, 0.0), brick=(-0.45, 14.2)), STAY))
    assert found[0, 0, BRICK] == found[1, 0, BRICK] == found[2, 0, GOLD] == 1
    assert 35 * found[2, 0, 7].item() == pytest.approx(15 - 1 - 0.52, abs=0.01)


def test_rays_pass_through_doors_end_at_35_and_rise_over_walls():
    found = fans(act(stood((0.0, -30.0)), STAY))
    assert found[0, 0, MISS] == 1
    found = fans(act(stood((-16.5, 0.0)), STAY))  # at the end of a cross
    assert found[0, 0].tolist() == pytest.approx(ray(WALL, 16.558 - 7.5 - 0.5), abs=1e-3)
    found = fans(act(stood((0.0, 48.0), NORTH + np.pi), STAY))
    assert found[:, 0, MISS].tolist() == [1, 1, 1]
    found = fans(act(stood((12.0, -3.5)), STAY))  # toward a cross, whose wall is 19.5 m ahead and 4.52 m high
    assert found[0, 0].tolist() == pytest.approx(ray(WALL, 16.558 - 0.5 + 3.5 - 0.5), abs=1e-3)
    assert found[1, 0, WALL] == 1
    assert found[2, 0, MISS] == 1


@pytest.mark.parametrize("distance", [12.9, 13.5, 13.9, 14.05, 14.1, 14.15, 14.3, 15.0, 17.0])
def test_a_rising_ray_meets_the_outer_wall_its_edge_or_nothing(distance: float):
    """As a ball does that is moved along the ray in small steps; the wall is 5 m high, the agent's middle at 0.5 m."""
    found = fans(act(stood((49.5 - distance, -30.0), EAST), STAY))[2, 0]
    ball = 0.5 * math.hypot(35, 10) / 35
    rise = 10 / 35
    ways = np.arange(0.0, 35.0, 1e-4)
    gap = np.maximum(distance - ways, 0.0)
    over = np.maximum(0.5 + rise * ways - 5.0, 0.0)
    met = np.hypot(gap, over) < ball
    expected = ray(WALL, ways[met.argmax()]) if met.any() else [0.0] * 6 + [1.0, 1.0]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_rays_begin_ahead_and_alternate_right_and_left():
    found = fans(act(stood((0.0, -6.0), EAST, stone=(8.0, -6.0 - 0.78 - 8.0 * np.tan(np.radians(23.333)))), STAY))
    assert found[0, 1, STONE] == 1
    assert found[0, 2, STONE] == 0


@pytest.mark.parametrize(
    ("start", "end"), [((0.0, 30.0), 49.1), ((16.5, 0.0), 16.558 - 7.5), ((20.0, 0.0), 16.558 - 0.5)]
)
def test_walls_hold_the_agent_even_at_full_speed(start: tuple[float, float], end: float):
    env = stood(start)
    gone(env, 60)
    place = env.state_dict()["place"][0]
    velocity = env.state_dict()["velocity"][0]
    assert place.tolist() == pytest.approx([start[0], end - 0.5], abs=0.05)
    assert velocity.norm() < 0.1


@pytest.mark.parametrize(("degrees", "slides"), [(40, False), (49, False), (55, True)])
def test_an_agent_slides_along_a_wall_where_it_presses_on_it_at_a_slant(degrees: int, slides: bool):
    # what it pushes with along the wall must exceed 1.2 of what it presses on it with: from 50.2 degrees on
    turned = math.radians(degrees)
    env = stood((49.5 - 0.5 * (math.cos(turned) + math.sin(turned)), -30.0), EAST + turned)
    gone(env, 8)
    assert (env.state_dict()["place"][0, 1].item() + 30.0 > 0.5) == slides


def test_ramming_the_brick_pyramid_loosens_it_and_brings_the_golden_block_down_bit_by_bit():
    env = stood((0.0, -12.0), brick=(-0.43, -0.78))
    step = gone(env, 16)
    state = env.state_dict()
    assert state["pile"][0, BRICKS] == LOOSE
    moved = state["cube"][0, BRICKS * CUBES : GOLDEN] - torch.tensor([-0.43, -0.78, 0.0])
    assert moved[:, :2].norm(dim=1).max() > 5
    assert (state["cube"][0, BRICKS * CUBES : GOLDEN, 2] > 0.49).all()
    slower = step.obs[3][0, 3].item()
    alone = gone(stood((0.0, -12.0)), 16).obs[3][0, 3].item()
    assert slower < alone - 1


def test_stones_are_heavier_than_bricks():
    speed = {}
    for name, stone, brick in (("stone", (-0.43, -0.78), None), ("brick", None, (-0.43, -0.78))):
        speed[name] = gone(stood((0.0, -12.0), stone=stone, brick=brick), 8).obs[3][0, 3].item()
    assert speed["stone"] < speed["brick"] - 4


def fallen_gold() -> Pyramids:
    """The golden block lies alone on the floor, 5 m ahead."""
    env = stood((0.0, 0.0), brick=(0.0, 40.0))
    state = env.state_dict()
    state["pile"][0, BRICKS] = RESTING
    state["cube"][0, BRICKS * CUBES :] = torch.tensor([30.0, 40.0, 0.5])
    state["cube"][0, GOLDEN] = torch.tensor([0.0, 5.0, 1.0])
    state["pile_middle"][0, BRICKS] = torch.tensor([15.0, 22.0])
    state["pile_reach"][0, BRICKS] = 30.0
    env.load_state_dict(state)
    return env


def test_the_golden_block_is_the_prize():
    env = fallen_gold()
    step = act(env, STAY)
    assert fans(step)[:, 0, GOLD].tolist() == [1, 1, 1]
    step = gone(env, 10)
    assert step.reward.item() == 2.0
    assert step.terminated.item()
    assert not step.truncated.any()
    assert step.final_obs.obs[0].shape == (1, 56)


def test_what_is_left_of_a_decision_passes_in_the_next_episode():
    step = gone(fallen_gold(), 10)
    upward = step.obs[3][0, 2].item()
    falls = [-0.1962 * sum(0.96**k for k in range(1, n + 1)) for n in range(5)]
    assert min(abs(upward - fall) for fall in falls) < 1e-4
    assert step.obs[3][0, 0] == 0


def test_an_episode_is_cut_after_5000_ticks_which_is_no_end():
    env = stood((0.0, 0.0))
    change(env, age=4990)
    assert not act(env, RIGHT).truncated.any()
    step = act(env, RIGHT)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.reward.item() == pytest.approx(-0.001)
    assert env.state_dict()["age"].tolist() == [0]
    # the last tick's action turned the agent before the end; its physics passed in the next episode, where it fell for
    # a tick
    assert step.obs[3][0, 2].item() == pytest.approx(-0.1962 * 0.96)


def test_cubes_pushed_from_below_fall_and_come_to_rest():
    env = stood((0.0, -6.0), brick=(-0.43, -0.78))
    gone(env, 6)
    gone(env, 40, STAY)
    state = env.state_dict()
    assert state["pile"][0, BRICKS] == RESTING
    cubes = state["cube"][0, BRICKS * CUBES :]
    on_floor = (cubes[:25, 2] - 0.5).abs() < 0.01
    assert on_floor.sum() >= 12
    apart = (cubes[:25, None, :] - cubes[None, :25]).abs().amax(2) + 9 * torch.eye(25)
    assert apart.min() > 0.5  # none within another by more than half


def test_an_episode_deals_a_room_to_each_thing():
    env = Pyramids(512)
    env.reset(4)
    state = env.state_dict()
    assert (state["pile"] == torch.tensor([*[STANDING] * 6, ABSENT])).all()
    places = torch.cat([state["pile_place"], state["switch_place"][:, None], state["place"][:, None]], 1)
    column_row = (places / 30).round()
    assert ((places - 30 * column_row).abs() <= 11.905).all()
    room = (column_row[..., 1] * 3 + column_row[..., 0] + 4).long()
    assert torch.equal(room.sort(1).values, torch.arange(9).expand(512, 9))
    assert (torch.bincount(room[:, BRICKS], minlength=9) / 512).tolist() == pytest.approx([1 / 9] * 9, abs=0.06)
    degrees = np.degrees(state["angle"].numpy())
    np.testing.assert_allclose(degrees, degrees.round(), atol=1e-3)
    assert (state["height"] == 2.0).all()
