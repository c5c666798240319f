import math

import numpy as np
import pytest
import torch
from envs.builtin.worlds import act, begun, by_chance, change

from palaestra.envs.builtin.pushblock.env import PushBlock

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, GO_LEFT, GO_RIGHT = range(7)
BLOCK, GOAL, WALL, MISSED, DISTANCE = range(5)
TO_GOAL = -math.pi / 2


def placed(areas: int = 1, **columns: list[float] | float) -> PushBlock:
    """The agent at rest in the middle, facing the goal, the block behind it; or as the columns say."""
    there = {"agent_position": [0.0, 0.0], "agent_angle": TO_GOAL, "block_position": [0.0, 9.0]}
    still = {"agent_velocity": 0.0, "block_velocity": 0.0, "agent_fall": [0.5, 0.0], "block_fall": [0.375, 0.0]}
    return begun(PushBlock(areas), **{**there, **still, **columns})


def rays(env: PushBlock) -> torch.Tensor:
    """(sensors, rays, 5) of the newest frame of the first area after a decision of doing nothing: the offset sensor,
    the level one.
    """
    return torch.stack([obs[0].view(3, 7, 5)[2] for obs in act(env, NOTHING).obs])


def test_rays_tell_goal_and_walls_in_the_order_of_unitys():
    offset, level = rays(placed(agent_position=[3.0, -2.0]))
    kinds = [rays[:, :4].argmax(1).tolist() for rays in (offset, level)]
    assert kinds == [[GOAL, GOAL, GOAL, MISSED, WALL, MISSED, WALL], [GOAL, GOAL, GOAL, GOAL, WALL, MISSED, WALL]]
    # facing the goal, right is toward -x; a ball of radius 0.5 touches earlier
    c30 = math.cos(math.pi / 6)
    c60 = 0.5
    np.testing.assert_allclose(
        level[:, DISTANCE] * 12, [5.85, 5.85 / c30, 5.85 / c30, 5.85 / c60, 9 / c30, 12, 9], atol=1e-4
    )
    np.testing.assert_allclose(
        offset[:, DISTANCE] * 12, [6.35, 6.35 / c30, 6.35 / c30, 12, 9.5 / c30, 12, 9.5], atol=1e-4
    )


def test_the_level_sensor_meets_the_block_and_the_offset_one_looks_over_it():
    offset, level = rays(placed(block_position=[0.0, -5.0]))
    assert level[0].tolist() == pytest.approx([1, 0, 0, 0, (5 - 1 - 0.5) / 12])
    assert offset[0].tolist() == pytest.approx([0, 1, 0, 0, 8.35 / 12])


def test_a_ray_to_the_right_is_told_before_its_like_to_the_left():
    _, level = rays(placed(block_position=[-5 * math.sin(math.pi / 3), -5 * math.cos(math.pi / 3)]))
    assert level[:, BLOCK].tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_what_the_agent_stands_flush_with_is_not_seen():
    _, level = rays(placed(agent_position=[0.0, -3.5], block_position=[0.0, -5.0]))
    assert level[:, BLOCK].sum() == 0
    assert level[0].tolist() == pytest.approx([0, 1, 0, 0, (8.35 - 3.5 - 0.5) / 12])
    _, level = rays(placed(agent_position=[12.0, 0.0], agent_angle=0.0))
    assert level[0].tolist() == [0, 0, 0, 1, 1]  # nothing stands behind the wall


def test_behind_the_goal_that_the_agent_touches_stands_the_wall():
    _, level = rays(placed(agent_position=[0.0, -7.85]))
    assert level[0].tolist() == pytest.approx([0, 0, 1, 0, (12.5 - 7.85 - 0.5) / 12])
    c30 = math.cos(math.pi / 6)
    assert level[1].tolist() == pytest.approx([0, 0, 1, 0, (12.5 - 7.85 - 0.5) / c30 / 12])


@pytest.mark.parametrize(("y", "met"), [(10.6, None), (11.0, 1.16236)])
def test_the_end_of_the_next_wall_behind_one_that_the_agent_touches_is_round(y: float, met: float | None):
    """It looks along the wall at x = 12.5. A ball 30 degrees to the right touches the other wall's corner (12.5, 12.5)
    or misses it.
    """
    _, level = rays(placed(agent_position=[12.0, y], agent_angle=math.pi / 2))
    assert level[1].tolist() == pytest.approx([0, 0, 0, 1, 1] if met is None else [0, 0, 1, 0, met / 12], abs=1e-5)


def test_the_offset_sensor_sees_nothing_while_the_agent_falls():
    env = PushBlock(1)
    offset, level = (obs[0].view(3, 7, 5) for obs in env.reset(0)["PushBlock"].obs)
    assert offset[2, :, MISSED].tolist() == [1.0] * 7
    assert not offset[:2].any()
    assert level[2, :, :3].any()


@pytest.mark.parametrize(("degrees", "slides"), [(45, False), (60, True)])
def test_a_wall_holds_whom_presses_it_by_up_to_twice_the_friction(degrees: int, slides: bool):
    across = math.cos(math.radians(degrees))
    along = math.sin(math.radians(degrees))
    env = placed(
        agent_position=[12.5 - 0.5 * (across + along), 0.0],
        agent_angle=math.radians(degrees),
        block_position=[-9.0, 9.0],
    )
    act(env, FORWARD)
    speed = 0.0
    for _ in range(5):  # drag, the floor, and the wall, at two points of which each gives up to 0.6 of the load
        way = np.array([3 * across, speed + 3 * along]) * 0.92
        way *= 1 - 0.6 * 24.525 * 0.02 * 0.92 / np.linalg.norm(way)
        speed = max(way[1] - 1.2 * way[0], 0.0)
    assert bool(speed > 0) is slides
    assert env.state_dict()["agent_velocity"][0].tolist() == pytest.approx([0.0, speed], abs=1e-3)


@pytest.mark.parametrize(
    ("choice", "toward"), [(FORWARD, (0, -1)), (BACK, (0, 1)), (GO_LEFT, (0.75, 0)), (GO_RIGHT, (-0.75, 0))]
)
def test_a_decision_of_moving_is_five_ticks_of_three_meters_a_second_against_drag_and_friction(
    choice: int, toward: tuple[float, float]
):
    env = placed(block_position=[9.0, 11.0])
    act(env, choice)
    share = math.hypot(*toward)
    speed = 0.0
    way = 0.0
    for _ in range(5):
        speed = (speed + 3 * share) * 0.92 - 0.6 * 24.525 * 0.02 * 0.92
        way += speed * 0.02
    direction = np.array(toward) / share
    np.testing.assert_allclose(env.state_dict()["agent_velocity"][0], speed * direction, atol=1e-4)
    np.testing.assert_allclose(env.state_dict()["agent_position"][0], way * direction, atol=1e-5)


@pytest.mark.parametrize(("choice", "degrees"), [(TURN_RIGHT, -20), (TURN_LEFT, 20)])
def test_a_decision_of_turning_turns_by_twenty_degrees(choice: int, degrees: float):
    env = placed()
    act(env, choice)
    assert math.degrees(float(env.state_dict()["agent_angle"][0])) == pytest.approx(-90 + degrees, abs=1e-3)


def test_a_block_that_touches_the_goal_ends_the_episode_with_the_prize():
    env = placed(block_position=[0.0, -3.0])
    decisions = 1
    step = act(env, FORWARD)
    while not step.terminated.any():
        assert step.reward.item() == pytest.approx(-0.001)
        decisions = decisions + 1
        step = act(env, FORWARD)
    assert 3 < decisions < 10
    assert 5 - 0.001 <= step.reward.item() <= 5 - 0.0002 + 1e-6
    assert step.final_obs.slots.tolist() == [0]
    final = step.final_obs.obs[1][0].view(3, 7, 5)
    now = step.obs[1][0].view(3, 7, 5)
    assert final.any((1, 2)).all()
    assert not now[:2].any()  # frames begin anew


def test_a_new_episode_passes_the_rest_of_the_decision_without_an_action():
    env = placed(block_position=[0.0, -7.34], agent_position=[9.0, 9.0])  # touches the goal on the first tick
    step = act(env, TURN_LEFT)
    assert step.reward.item() == pytest.approx(5 - 0.0002)
    state = env.state_dict()
    assert math.degrees(float(state["agent_angle"][0])) == pytest.approx(-90 + 4, abs=1e-3)
    assert (state["lead"].item(), state["age"].item()) == (4, 0)
    speed, height = 0.0, 1.0
    for _ in range(4):
        speed = (speed - 24.525 * 0.02) * 0.92
        height += speed * 0.02
    assert state["agent_fall"][0].tolist() == pytest.approx([height, speed])
    assert state["agent_velocity"].tolist() == [[0, 0]]


@pytest.mark.parametrize(("lead", "age"), [(0, 999), (4, 999), (1, 999)])
def test_the_episode_is_cut_after_five_thousand_ticks(lead: int, age: int):
    env = placed(lead=lead, age=age - 1)
    assert not act(env, NOTHING).truncated.any()
    step = act(env, NOTHING)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.reward.item() == pytest.approx(-0.0002 * (5 - lead))
    assert env.state_dict()["lead"].item() == lead


def test_the_action_of_the_last_tick_still_acts_where_time_runs_out():
    env = placed()
    change(env, age=999, lead=2)  # the third tick is the last
    assert act(env, TURN_LEFT).truncated.all()
    assert env.state_dict()["agent_angle"].item() == pytest.approx(TO_GOAL + math.radians(3 * 4), abs=1e-5)
    change(env, age=999, lead=2)
    assert act(env, FORWARD).truncated.all()
    # in the air nothing else brakes it
    assert env.state_dict()["agent_velocity"].norm().item() == pytest.approx(3.0 * 0.92**3, abs=1e-4)


def test_friction_drag_and_gravity_stop_a_gliding_block():
    way = {}
    cases = {
        "usual": [2.0, 0, 0, 0, 24.525],
        "rough": [2.0, 1.0, 1.0, 0, 24.525],
        "light": [2.0, 0, 0, 0, 9.81],
        "drag": [2.0, 0, 0, 5.0, 1.0],
    }
    for name, parameters in cases.items():
        env = placed(
            agent_position=[9.0, 9.0], block_position=[-8.0, 0.0], block_velocity=[6.0, 0.0], parameters=parameters
        )
        for _ in range(30):
            act(env, NOTHING)
        way[name] = float(env.state_dict()["block_position"][0, 0]) + 8
    assert way["usual"] == pytest.approx(6**2 / (2 * 0.6 * 24.525), abs=0.1)
    assert way["rough"] == pytest.approx(6**2 / (2 * 1.6 * 24.525), abs=0.1)
    assert way["light"] == pytest.approx(6**2 / (2 * 0.6 * 9.81), abs=0.1)
    assert way["drag"] < 6 / 5


@pytest.mark.parametrize("scale", [0.5, 2.0, 4.0])
def test_episodes_begin_clear_of_one_another_of_the_goal_and_of_where_the_agent_stood(scale: float):
    env = PushBlock(512)
    env.set_parameters({"block_scale": torch.full((512,), scale)})
    env.reset(1)
    for _ in range(2):
        before = env.state_dict()
        change(env, age=999)
        assert act(env, NOTHING).truncated.all()
        state = env.state_dict()
        agent = state["agent_position"]
        block = state["block_position"]
        assert (agent - block).abs().amax(1).min() > 2.5 + scale / 2 - 1e-3
        for place in (agent, block):
            # a turned agent's corner may come nearer than its side: at 45 degrees 2.85 m along both axes
            assert (place - before["agent_position"]).abs().amax(1).min() > 2.85
            assert place[:, 1].min() >= -5.85
            assert place[:, 1].min() < -5.7
            assert 6.1 < place.abs().max() <= 6.25
        torch.testing.assert_close(state["agent_angle"], before["agent_angle"])


def test_a_first_episode_begins_facing_the_goal_and_clear_of_where_the_scene_has_the_block():
    env = PushBlock(512)
    env.reset(3)
    state = env.state_dict()
    torch.testing.assert_close(state["agent_angle"], torch.full((512,), TO_GOAL))
    agent = state["agent_position"]
    block = state["block_position"]
    # the square of 2.5 m about a place does not reach the agent in the middle
    assert 3.0 < agent.abs().amax(1).min() < 3.2
    assert 3.0 < block.abs().amax(1).min() < 3.2
    from_the_old = (block - torch.tensor([2.0, -1.43])).abs().amax(1).min()
    assert 3.5 < from_the_old < 3.7  # nor the block beside it


@pytest.mark.parametrize("scale", [0.5, 2.0, 4.0])
def test_nothing_stays_in_a_wall_or_in_the_other(scale: float):
    env = PushBlock(64)
    env.set_parameters({"block_scale": torch.full((64,), scale)})
    env.reset(1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        step = by_chance(env, generator)
        state = env.state_dict()
        assert state["agent_position"].abs().max() <= 12.5  # a fast agent enters a wall by up to half of itself
        assert state["block_position"].abs().max() <= 12.5
        assert all(obs.min() >= 0 and obs.max() <= 1 for obs in step.obs)
    for _ in range(5):
        act(env, NOTHING)
    state = env.state_dict()
    assert state["block_position"].abs().max() <= 12.5 - scale / 2 + 1e-2
    away = state["agent_position"] - state["block_position"]
    angle = state["agent_angle"]
    cos = angle.cos()
    sin = angle.sin()
    own_axes = torch.stack([away[:, 0] * cos + away[:, 1] * sin, away[:, 1] * cos - away[:, 0] * sin], 1)
    spread = (cos.abs() + sin.abs())[:, None]  # of a box of half 1, along axes turned against its own
    gaps = torch.cat([away.abs() - scale / 2 - 0.5 * spread, own_axes.abs() - 0.5 - scale / 2 * spread], 1)
    assert gaps.amax(1).min() > -0.02  # boxes are apart if they are so along any axis of either
