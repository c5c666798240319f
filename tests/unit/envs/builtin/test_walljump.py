import math

import pytest
import torch
from envs.builtin.worlds import begun

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.walljump.env import WallJump

SMALL, BIG = 0, 1
NOTHING, FORWARD, JUMP, LEAP = (0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 1)
AHEAD = math.pi / 2
REST = 0.95  # height of the middle of an agent on the floor
WALL, GOAL, BLOCK, MISSED, DISTANCE = range(5)


def laid(
    wall: float,
    agent: tuple[float, float],
    block: tuple[float, float] = (-8, -7),
    height: float = REST,
    **columns: object,
) -> WallJump:
    """One area with everything at rest where it is said to be, the agent facing the wall; `wall` is the height of its
    top.
    """
    there = {"wall": wall, "agent": agent, "block": block, "angle": AHEAD, "height": height}
    return begun(WallJump(1), **{**there, "plays": BIG, "played": BIG, **columns})


def played(env: WallJump, choice: tuple[int, ...], decisions: int = 1) -> dict[str, TimeStep]:
    """The tables after so many of one decision, or those in which an episode ended."""
    action = Action(torch.zeros(env.num_areas, 0), torch.tensor(choice).repeat(env.num_areas, 1))
    steps = {}
    for _ in range(decisions):
        steps = env.step(dict.fromkeys(env.behaviors, action))
        if any((step.terminated | step.truncated).any() for step in steps.values()):
            break
    return steps


def place(env: WallJump) -> tuple[float, float, float]:
    """The agent's x, y and height."""
    state = env.state_dict()
    return (*state["agent"][0].tolist(), state["height"].item())


def rays(env: WallJump, sensor: int) -> torch.Tensor:
    """(rays, 5) of the newest frame of a sensor, 0: offset, 1: level, after a decision of doing nothing."""
    return played(env, NOTHING)["BigWallJump"].obs[sensor][0].view(6, 7, 5)[5]


def test_a_decision_of_running_is_five_ticks_of_three_meters_a_second_against_drag_and_friction():
    env = laid(wall=2.0, agent=(0, -11))
    played(env, FORWARD)
    speed = 0.0
    way = -11.0
    grip = 1.2 * 26.9775 * 0.02 * 0.96
    for _ in range(5):
        speed = (speed + 3.0) * 0.96 - grip
        way += 0.02 * speed
    assert place(env) == pytest.approx((0, way, REST), abs=1e-4)
    assert env.state_dict()["agent_speed"][0].tolist() == pytest.approx([0, speed], abs=1e-4)


def test_a_run_and_its_end_are_those_of_physx():
    # places after each decision of PhysX 4.1, three forward and five of nothing; the first four agree to 5 cm
    env = laid(wall=0.0, agent=(-5, -12), block=(6, -6))
    run = []
    for decision in range(8):
        played(env, FORWARD if decision < 3 else NOTHING)
        run.append(place(env)[1])
    assert run == pytest.approx([-11.35, -9.77, -7.44, -5.31, -3.88, -2.98, -2.55, -2.45], abs=0.08)


@pytest.mark.parametrize(("height", "block"), [(REST, (6, -6)), (3.0, (-5, -10))])
def test_a_spin_at_rest_is_braked_at_two_corners(height: float, block: tuple[float, float]):
    # each holds 0.6 of the load along x and as much along y, half a meter from the middle: 1.2 m g * 1 m in all,
    # against m / 6
    env = laid(wall=0.0, agent=(-5, -10), block=block, height=height, spin=5.0)
    played(env, NOTHING)
    left = 5.0 * 0.999 - 6 * 1.2 * 26.9775 * 0.02 * 0.96
    assert math.degrees(env.state_dict()["angle"].item() - AHEAD) == pytest.approx(math.degrees(left * 0.02), abs=0.02)
    assert math.degrees(left * 0.02) == pytest.approx(1.45, abs=0.05)  # as PhysX 4.1 turns it
    assert env.state_dict()["spin"].item() == 0


def test_a_spin_on_the_way_is_braked_half_as_hard():
    # what the corners take along the way does not brake it, while they slide at more than they turn
    env = laid(wall=0.0, agent=(-5, -10), block=(6, -6), spin=1.9, agent_speed=(12.0, 0.0))
    played(env, NOTHING)
    left = 1.9 * 0.999 - 3 * 1.2 * 26.9775 * 0.02 * 0.96
    assert left > 0
    assert env.state_dict()["angle"].item() - AHEAD == pytest.approx(left * 0.02, rel=0.1)
    assert env.state_dict()["agent_speed"][0, 0].item() == pytest.approx(
        12 * 0.96**5 - 1.2 * 26.9775 * 0.02 * 0.96 * sum(0.96**k for k in range(5)), rel=1e-2
    )


def test_a_fast_fall_over_a_wall_that_is_lower_than_the_floor_ends_on_the_floor():
    env = laid(wall=0.0, agent=(0, -1.98), height=0.975, climb=-24.0)
    played(env, NOTHING, 3)
    assert place(env) == pytest.approx((0, -1.98, REST), abs=1e-3)


def test_an_agent_runs_forward_as_far_as_a_wall():
    env = laid(wall=2.0, agent=(0, -6))
    played(env, FORWARD, 20)
    assert place(env) == pytest.approx((0, -2.73 - 0.5, REST), abs=1e-2)


@pytest.mark.parametrize(
    ("choice", "x", "angle"), [((0, 0, 1, 0), -1, 0), ((0, 0, 2, 0), 1, 0), ((0, 1, 0, 0), 0, 1), ((0, 2, 0, 0), 0, -1)]
)
def test_the_first_choice_of_turning_and_sidestepping_is_left(choice: tuple[int, ...], x: int, angle: int):
    env = laid(wall=2.0, agent=(0, -6))
    played(env, choice)
    assert torch.tensor(place(env)[0]).round(decimals=3).sign() == x
    assert env.state_dict()["angle"].item() == pytest.approx(AHEAD + angle * math.radians(30))


def test_a_sidestep_replaces_running():
    both = laid(wall=2.0, agent=(0, -6))
    side = laid(wall=2.0, agent=(0, -6))
    played(both, (1, 0, 2, 0))
    played(side, (0, 0, 2, 0))
    assert place(both) == place(side)


def test_a_jump_is_pulled_toward_its_height_and_comes_down_fast():
    env = laid(wall=2.0, agent=(0, -6))
    heights = []
    for decision in range(6):
        played(env, JUMP if decision == 0 else NOTHING)
        heights.append(place(env)[2] - REST)
    height = climb = 0.0
    for _ in range(5):
        climb += min(15.54 * (2.75 - height) - climb, 10.0)
        climb = (climb - 26.9775 * 0.02) * 0.96
        height += climb * 0.02
    assert heights[0] == pytest.approx(height, abs=1e-4)
    assert 2.5 < heights[1] < 2.75
    assert heights[3] < 1.0
    assert heights[-1] == pytest.approx(0, abs=1e-2)


def test_an_agent_jumps_again_a_little_above_the_ground_but_not_higher():
    for height, jumps in ((REST + 0.5, True), (REST + 1.5, False)):
        env = laid(wall=2.0, agent=(0, -6), height=height)
        played(env, JUMP)
        assert (place(env)[2] > height) == jumps


@pytest.mark.parametrize(("wall", "passes"), [(0.0, True), (2.0, True), (4.0, False)])
def test_a_small_wall_is_jumped_over_and_a_big_one_is_not(wall: float, passes: bool):
    env = laid(wall, agent=(0, -5))
    played(env, LEAP, 5)
    assert (place(env)[1] > -1.2) == passes


def test_a_pushed_block_stops_at_the_wall_and_leads_over_it():
    env = laid(wall=4.0, agent=(0, -10), block=(0.2, -6.5))
    played(env, FORWARD, 10)
    assert env.state_dict()["block"][0].tolist() == pytest.approx([0.2, -2.73 - 1.5], abs=0.1)
    env = laid(wall=4.0, agent=(0, -5), block=(0, -4.23), height=3.0)  # on top of it
    played(env, NOTHING)
    assert place(env) == pytest.approx((0, -5, 3.0), abs=1e-2)
    assert env.state_dict()["grounded"].item()
    played(env, JUMP, 2)
    played(env, FORWARD, 4)
    assert place(env)[1] > -2.73


@pytest.mark.parametrize(
    ("agent", "block", "run_up", "heights"),
    [
        ((0, -8.5), (0, -4.24), 2, [2.55, 3.48, 3.23]),
        ((0, -6.5), (0, -4.24), 0, [2.71, 3.51, 3.22]),
        ((0, -3.3), (6, -9), 0, [2.05, 3.29, 3.30]),
    ],
)
def test_a_jump_along_a_side_is_braked_as_in_physx(
    agent: tuple[float, float], block: tuple[float, float], run_up: int, heights: list[float]
):
    # heights of PhysX 4.1 beside a block that stands at the wall, which yields upward within its rounds, and beside the
    # wall
    env = laid(wall=2.0 if block[0] else 4.0, agent=agent, block=block)
    if run_up:
        played(env, FORWARD, run_up)
    rise = []
    for choice in (LEAP, LEAP if block[0] else FORWARD, LEAP if block[0] else NOTHING):
        played(env, choice)
        rise.append(place(env)[2])
    assert rise == pytest.approx(heights, abs=0.2)


def test_who_runs_on_a_block_drags_it_along():
    env = laid(wall=0.0, agent=(0, -7), block=(0, -7), height=3.0)
    played(env, (0, 0, 2, 0))
    state = env.state_dict()
    assert state["block_speed"][0, 0] > 0.5
    # 1.2 of the agent's weight can give the block (10 kg) the 1.8 m/s that the agent (25 kg) gains in a tick
    assert state["block_speed"][0, 0].item() == pytest.approx(state["agent_speed"][0, 0].item(), rel=1e-4)


def test_what_an_agent_hits_with_a_corner_turns_it():
    env = laid(wall=4.0, agent=(0, -5), angle=AHEAD - 0.3)
    played(env, FORWARD, 6)
    assert abs(env.state_dict()["angle"].item() - AHEAD) < 0.05  # until it stands flush


@pytest.mark.parametrize(("agent", "block"), [((9.5, -4), (0, -8)), ((6.4, -9), (9.0, -9))])
def test_a_fall_of_the_agent_or_of_its_block_ends_the_episode(agent: tuple[float, float], block: tuple[float, float]):
    env = laid(wall=4.0, agent=agent, block=block)
    step = played(env, (0, 0, 2, 0), 40)["BigWallJump"]
    assert step.reward.item() == -1.0  # replaces the cost of the decision's ticks
    assert step.terminated.item()


def test_who_is_in_the_goal_with_ground_below_has_won():
    step = played(laid(wall=4.0, agent=(6, 3), height=2.9), NOTHING)["BigWallJump"]
    assert not step.terminated.item()  # still above 0.55 m
    step = played(laid(wall=4.0, agent=(6, 3)), NOTHING)["BigWallJump"]
    assert step.terminated.item()
    assert step.reward.item() == 1.0
    step = played(laid(wall=4.0, agent=(3.8, 3)), NOTHING)["BigWallJump"]
    assert not step.terminated.item()


def test_the_goal_is_found_on_the_tick_after_the_agent_got_there():
    env = laid(wall=4.0, agent=(3.8, 3), agent_speed=(9.0, 0.0), angle=0.0)  # it touches from 3.87 on
    assert played(env, FORWARD)["BigWallJump"].terminated.item()
    assert env.state_dict()["lead"].item() == 3


def test_a_new_episode_passes_the_rest_of_the_decision_without_an_action():
    env = laid(wall=4.0, agent=(6, 3))  # wins on the first tick
    played(env, (0, 1, 0, 0))
    state = env.state_dict()
    assert state["angle"].item() == pytest.approx(AHEAD + math.radians(6))
    assert (state["lead"].item(), state["age"].item()) == (4, 0)
    assert state["agent"][0, 1] == -12
    assert state["height"].item() < 1.0
    assert state["agent_speed"][0].tolist() == [0, 0]


@pytest.mark.parametrize("lead", [0, 3])
def test_an_episode_is_cut_after_2000_ticks(lead: int):
    env = laid(wall=2.0, agent=(0, -6), plays=SMALL, age=399, lead=lead)
    step = played(env, NOTHING)["SmallWallJump"]
    assert step.truncated.item()
    assert not step.terminated.item()
    assert step.reward.item() == pytest.approx(-0.0005 * (5 - lead))


def test_the_action_of_the_last_tick_turns_the_agent_and_pushes_it_in_the_next_episode():
    env = laid(wall=2.0, agent=(0, -6), plays=SMALL, age=399, lead=4)  # its 2000th tick is the first of this decision
    assert played(env, (1, 1, 0, 0))["SmallWallJump"].truncated.item()
    state = env.state_dict()
    assert math.degrees(state["angle"].item()) == pytest.approx(90 + 6, abs=1e-3)  # one tick of turning to the left
    assert state["agent"][0, 1] > -12 + 0.02  # the push moves it from its start


def test_level_rays_see_walls_the_block_and_the_goal_from_its_height():
    wall = rays(laid(wall=2.0, agent=(0, -7.73)), 1)
    assert wall[0].tolist() == pytest.approx([1, 0, 0, 0, 4.5 / 20])
    assert wall[1].tolist() == pytest.approx([1, 0, 0, 0, 4.5 / math.cos(math.pi / 6) / 20])
    block = rays(laid(wall=2.0, agent=(0, -10), block=(0, -5)), 1)
    assert block[0].tolist() == pytest.approx([0, 0, 1, 0, 3 / 20])
    goal = rays(laid(wall=0.0, agent=(6, -7), block=(-8, -7)), 1)
    assert goal[0].tolist() == pytest.approx([0, 1, 0, 0, (7 + 0.93 - 0.5) / 20])
    flush = rays(laid(wall=2.0, agent=(0, -3.23)), 1)
    assert flush[0, DISTANCE] == 1  # what it stands flush with is not seen


def test_rising_rays_see_a_big_wall_but_neither_a_small_one_nor_the_block():
    small = rays(laid(wall=2.0, agent=(0, -7.73)), 0)
    assert small[0].tolist() == [0, 0, 0, 1, 1]
    big = rays(laid(wall=4.0, agent=(0, -7.73)), 0)
    assert big[0, :4].tolist() == [1, 0, 0, 0]
    length = math.hypot(20, 2.5)
    radius = 0.5 * math.hypot(20, 2.5) / 20
    # the sphere starts 0.55 m below the wall's top and touches its face when its middle is level with that, or its edge
    center = next(
        d for d in (k * 1e-4 for k in range(60000)) if gap(5 - d * 20 / length, 3.45 + d * 2.5 / length - 4) <= radius
    )
    assert big[0, DISTANCE].item() == pytest.approx(center / length, abs=1e-4)
    assert rays(laid(wall=2.0, agent=(0, -10), block=(0, -5)), 0)[0, DISTANCE] == 1
    assert rays(laid(wall=2.0, agent=(6, -7)), 0)[0, :4].tolist() == [0, 1, 0, 0]


def gap(away: float, above: float) -> float:
    """The distance to a wall's upper edge or its face."""
    return math.hypot(away, max(above, 0.0))


def test_the_vector_tells_the_place_from_the_middle_of_the_ground_and_whether_there_is_ground():
    vector = played(laid(wall=2.0, agent=(3, -10)), NOTHING)["BigWallJump"].obs[2][0].view(6, 4)
    assert vector[5].tolist() == pytest.approx([3 / 20, REST / 20, -6 / 20, 1])
    vector = played(laid(wall=2.0, agent=(3, -10)), JUMP)["BigWallJump"].obs[2][0].view(6, 4)
    assert vector[5, 3] == 0


def test_the_wall_of_an_episode_decides_the_behavior():
    env = WallJump(2000)
    env.set_parameters({"no_wall_height": torch.full((2000,), 1.0), "big_wall_height": torch.full((2000,), 7.0)})
    env.reset(5)
    state = env.state_dict()
    shares = {wall: (state["wall"] == wall).float().mean().item() for wall in (0.5, 2.0, 3.5)}
    assert shares == {
        0.5: pytest.approx(0.2, abs=0.03),
        2.0: pytest.approx(0.2, abs=0.03),
        3.5: pytest.approx(0.6, abs=0.03),
    }
    assert torch.equal(state["plays"] == BIG, state["wall"] == 3.5)
    assert state["agent"][:, 1].unique().tolist() == [-12]
    assert 8.9 < state["agent"][:, 0].abs().max() <= 9
    assert 8.0 < state["block"][:, 0].abs().max() <= 8.1
    assert -9.77 <= state["block"][:, 1].min() < -9.7
    assert -2.9 < state["block"][:, 1].max() <= -2.77


def test_a_block_that_begins_in_the_wall_is_pushed_out_of_it():
    env = laid(wall=4.0, agent=(-8, -12), block=(0, -2.8))
    played(env, NOTHING, 3)
    assert env.state_dict()["block"][0].tolist() == pytest.approx([0, -4.23], abs=0.02)
    assert env.state_dict()["block_speed"][0].tolist() == pytest.approx([0, 0], abs=1e-3)


def test_an_agent_begins_with_its_back_to_the_wall():
    env = WallJump(50)
    env.reset(3)
    assert env.state_dict()["angle"].unique().tolist() == pytest.approx([-AHEAD])
