import math
from typing import Any

import numpy as np
import pytest
import torch
from envs.builtin.worlds import change

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.pushblock_collab.env import CooperativePushBlock

AGENTS, BLOCKS = 3, 6
LARGE, HUGE, SMALL = 0, 1, 3
GOAL_EDGE = -8.35025
NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(7)
WALL, AGENT, GOAL, BLOCK = range(4)  # tags; the larger blocks' follow
TO_GOAL = -math.pi / 2
AWAY = [(-11.0, 11.0), (0.0, 11.0), (11.0, 11.0)]
# m/s that the floor takes from a sliding box in a tick, but for the share that drag takes of the fall
GRIP = 2 * 0.6 * 14.715 * 0.02
KEPT = {"agent": 1 - 4.0 * 0.02, "block": 1 - 0.5 * 0.02}
HALVES = {SMALL: 0.5, LARGE: 1.0, HUGE: 1.5}


def laid(
    block: int | None = None,
    place: tuple[float, float] = (0.0, 0.0),
    *,
    agents: tuple[tuple[float, float], ...] = (),
    angle: float = TO_GOAL,
    velocity: tuple[float, float] = (0.0, 0.0),
    **columns: Any,
) -> CooperativePushBlock:
    """One area with this block alone, moving, and agents at this angle on the floor; those not named stand at the far
    wall. Columns have the first rows.
    """
    env = CooperativePushBlock(1)
    env.reset(0)
    state = env.state_dict()
    state["gone"][:] = True
    state["body_height"][:] = 0.0
    state["body_angle"][:, :AGENTS] = angle
    state["body_angle"][:, AGENTS:] = 0.0
    state["body_position"][0, :AGENTS] = torch.tensor([*agents, *AWAY[len(agents) :]])
    if block is not None:
        state["gone"][0, block] = False
        state["body_position"][0, AGENTS + block] = torch.tensor(place)
        state["body_velocity"][0, AGENTS + block] = torch.tensor(velocity)
    for name, values in columns.items():
        state[name][0, : len(values)] = torch.tensor(values)
    env.load_state_dict(state)
    return env


def acted(env: CooperativePushBlock, *actions: int) -> TimeStep:
    """Each agent's action; who is not named does nothing."""
    chosen = torch.zeros(env.num_areas * AGENTS, 1, dtype=torch.int64)
    chosen[: len(actions), 0] = torch.tensor(actions, dtype=torch.int64)
    return env.step({env.behavior: Action(torch.zeros(len(chosen), 0), chosen)})[env.behavior]


def moved(env: CooperativePushBlock, *actions: int) -> dict[str, torch.Tensor]:
    """The state after a decision."""
    acted(env, *actions)
    return {name: column[0] for name, column in env.state_dict().items()}


def cells(grid: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in grid.nonzero()}


@pytest.mark.parametrize(
    ("action", "way"),
    [(FORWARD, (0, 1)), (BACK, (0, -1)), (LEFT, (-0.75, 0)), (RIGHT, (0.75, 0))],
    ids=["forward", "back", "left", "right"],
)
def test_choices_push_and_the_body_sensor_tells_the_velocity_in_the_agents_own_frame(
    action: int, way: tuple[float, float]
):
    env = laid(agents=((0.0, 0.0),), angle=0.3)
    step = acted(env, action)
    speed = 0.0
    for _ in range(5):
        speed = (speed + 3.0 * math.hypot(*way)) * 0.92 - 0.35316 * 0.92
    right, up, ahead, *rest = step.obs[1][0].tolist()
    direction = np.array(way) / math.hypot(*way)
    np.testing.assert_allclose([right, ahead], speed * direction, atol=1e-3)
    assert up == 0
    assert rest == [0, 0, 0, 0, 0, 0, 1]
    moved = env.state_dict()["body_position"][0, 0].numpy()
    turn = np.array([[math.sin(0.3), -math.cos(0.3)], [math.cos(0.3), math.sin(0.3)]])  # to the right, ahead
    local = turn @ moved
    np.testing.assert_allclose(local / np.linalg.norm(local), direction, atol=1e-3)


@pytest.mark.parametrize(("action", "turn"), [(TURN_RIGHT, -20), (TURN_LEFT, 20)])
def test_two_choices_turn_by_20_degrees_a_decision(action: int, turn: float):
    env = laid(angle=0.1)
    acted(env, action)
    assert env.state_dict()["body_angle"][0, 0].item() == pytest.approx(0.1 + math.radians(turn), abs=1e-4)


def test_agents_fall_as_an_episode_begins():
    env = CooperativePushBlock(1)
    assert env.reset(0)["PushBlockCollab"].obs[1][:, 1].tolist() == [0, 0, 0]
    assert (acted(env).obs[1][:, 1] < -1).all()
    acted(env)
    acted(env)
    assert acted(env).obs[1][:, 1].abs().max() < 1e-4


@pytest.mark.parametrize(("block", "worth"), [(SMALL, 1.0), (LARGE, 2.0), (HUGE, 3.0)])
def test_a_block_that_touches_the_goal_pays_its_size_to_the_group_and_is_gone(block: int, worth: float):
    env = laid(block, (0.0, GOAL_EDGE + HALVES[block] + 0.01), velocity=(0.0, -3.0))
    gone = env.state_dict()["gone"]
    gone[0, block + 1] = False  # another is left
    change(env, gone=gone)
    step = acted(env)
    assert step.group_reward.tolist() == pytest.approx([worth - 0.0005] * AGENTS)
    assert step.reward.tolist() == [0.0] * AGENTS
    assert env.state_dict()["gone"][0, block]
    assert not (step.terminated | step.truncated).any()


def test_a_block_a_hair_before_the_goal_does_not_count():
    env = laid(SMALL, (0.0, GOAL_EDGE + 0.5 + 0.01))
    assert acted(env).group_reward.tolist() == pytest.approx([-0.0005] * AGENTS)
    assert not env.state_dict()["gone"][0, SMALL]


def test_the_last_block_ends_the_episode_for_all_and_the_rest_of_the_decision_passes_in_the_next():
    # 2 m/s less 0.37 m/s a tick: the block enters the goal in the second tick
    env = laid(SMALL, (0.0, GOAL_EDGE + 0.5 + 0.045), velocity=(0.0, -2.0), agents=((3.0, 0.0),))
    step = acted(env, FORWARD, FORWARD, FORWARD)
    assert step.terminated.all()
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0, 1, 2]
    assert step.group_reward.tolist() == pytest.approx([1 - 2 * 0.0001] * AGENTS)
    speed = 0.0
    for _ in range(2):
        speed = (speed + 3.0) * 0.92 - 0.35316 * 0.92
    assert step.final_obs.obs[1][0, 2].item() == pytest.approx(speed, abs=1e-3)  # seen as the episode ended
    state = env.state_dict()
    assert not state["gone"].any()
    assert state["lead"].tolist() == [3]
    assert state["age"].tolist() == [0]
    assert state["body_velocity"][0, :3].norm(dim=1).max() < 1e-4  # nobody acts in these ticks
    assert state["body_rise"][0, 0].item() == pytest.approx(sum(-14.715 * 0.02 * 0.92**k for k in (1, 2, 3)), abs=1e-4)


def test_an_episode_is_truncated_after_5000_ticks_which_may_be_within_a_decision():
    env = laid(LARGE, agents=((3.0, 0.0),))
    change(env, age=torch.tensor([999], dtype=torch.int32), lead=torch.tensor([2], dtype=torch.int32))
    step = acted(env, FORWARD)  # ticks 4,998 and 4,999 pass; the 5,000th begins the next episode
    assert step.truncated.all()
    assert not step.terminated.any()
    speed = 0.0
    for _ in range(2):
        speed = (speed + 3.0) * 0.92 - 0.35316 * 0.92
    assert step.final_obs.obs[1][0, 2].item() == pytest.approx(speed, abs=1e-3)
    assert step.group_reward.tolist() == pytest.approx([-0.0002] * AGENTS)
    state = env.state_dict()
    assert state["lead"].tolist() == [2]
    assert (step.obs[0] != step.final_obs.obs[0]).any()


def test_the_grid_shows_what_lies_ahead_from_the_agents_place_on():
    env = laid(HUGE, (0.0, 0.0), agents=((0.0, 6.2), (5.3, 3.2)))
    grid = acted(env).obs[0][0]
    # looking toward -y from (0, 6.2): column of (x, y) is 6.2 - y, row is 10 + x (left is toward +x), rounded down
    assert cells(grid[BLOCK + 2]) == {(row, column) for row in range(8, 12) for column in range(4, 8)}
    assert not grid[BLOCK].any()
    assert not grid[BLOCK + 1].any()
    assert cells(grid[AGENT]) == {(row, column) for row in (14, 15) for column in (2, 3)}  # not itself
    # the goal begins 14.55 ahead, the wall behind it 18.7; where they share a cell the goal's box holds the cell's
    # middle
    assert {column for _, column in cells(grid[GOAL])} == {14, 15, 16, 17, 18}
    assert {column for _, column in cells(grid[WALL])} == {19}
    assert grid.sum(0).max() == 1


def test_blocks_are_told_apart_by_size():
    for block, tag in ((SMALL, BLOCK), (LARGE, BLOCK + 1), (HUGE, BLOCK + 2)):
        grid = acted(laid(block, (0.0, 0.0), agents=((0.0, 6.2),))).obs[0][0]
        assert [kind for kind in range(BLOCK, 6) if grid[kind].any()] == [tag]


def test_bodies_start_apart_within_half_the_room():
    env = CooperativePushBlock(256)
    env.reset(0)
    place = env.state_dict()["body_position"][:, :9]
    assert place.abs().max() <= 6.25
    halves = torch.tensor([0.5, 0.5, 0.5, 1.0, 1.5, 1.5, 0.5, 0.5, 1.0])
    apart = (place[:, :, None] - place[:, None]).abs().amax(3)
    # a square of 3 m around a later middle is clear of every earlier body, which may stand on a corner
    late, early = torch.triu_indices(9, 9, 1).flip(0)
    assert (apart[:, late, early] >= 1.5 + 0.7 * halves[early]).all()


def test_bodies_stay_in_the_room_whatever_agents_do():
    env = CooperativePushBlock(8)
    env.reset(0)
    generator = torch.Generator().manual_seed(0)
    chosen = torch.zeros(8 * AGENTS, 1, dtype=torch.int64)
    for tick in range(200):
        if tick % 10 == 0:
            chosen = torch.randint(0, 7, (8 * AGENTS, 1), generator=generator)
        env.step({env.behavior: Action(torch.zeros(8 * AGENTS, 0), chosen)})
        state = env.state_dict()
        # at 30 m/s they enter a wall by up to 0.6 m, and are put back
        assert state["body_position"][:, :AGENTS].abs().max() <= 12.7
        blocks = state["body_position"][:, AGENTS:9][~state["gone"]]
        assert blocks.abs().max() <= 12.3
        assert state["body_spin"].abs().max() <= 7.0


def test_an_agent_in_the_air_is_not_braked_by_the_floor_and_lands():
    env = laid(agents=((0.0, 5.0),), body_height=[0.5])
    speed = rise = 0.0
    height = 0.5
    for _ in range(5):
        speed = (speed + 3.0) * KEPT["agent"]
        rise = (rise - 14.715 * 0.02) * KEPT["agent"]
        height += rise * 0.02
    state = moved(env, FORWARD)
    assert state["body_velocity"][0, 1].item() == pytest.approx(-speed, abs=1e-4)
    assert state["body_height"][0].item() == pytest.approx(height, abs=1e-4)
    assert state["body_rise"][0].item() == pytest.approx(rise, abs=1e-4)
    for _ in range(3):
        state = moved(env)
    assert state["body_height"][0].item() == pytest.approx(0.0, abs=1e-4)
    assert state["body_rise"][0].item() == pytest.approx(0.0, abs=1e-4)


def test_a_landing_presses_on_the_floor_which_brakes_more():
    env = laid(agents=((0.0, 5.0),), body_height=[0.01], body_rise=[-5.0], body_velocity=[(0.0, -20.0)])
    speed = 20.0
    rise = -5.0
    height = 0.01
    for _ in range(5):
        climb = (rise - 14.715 * 0.02) * KEPT["agent"]
        rise = max(climb, -height / 0.02)
        speed = (speed + 3.0) * KEPT["agent"] - 1.2 * (rise - climb)
        height += rise * 0.02
    state = moved(env, FORWARD)
    assert state["body_velocity"][0, 1].item() == pytest.approx(-speed, abs=1e-3)


@pytest.mark.parametrize("block", [SMALL, LARGE, HUGE])
def test_a_block_slows_as_friction_and_drag_say(block: int):
    speed = 3.0
    for _ in range(5):
        speed = speed * KEPT["block"] - GRIP * KEPT["block"]
    state = moved(laid(block, velocity=(3.0, 0.0)))
    assert state["body_velocity"][3 + block].tolist() == pytest.approx([speed, 0.0], abs=1e-3)


@pytest.mark.parametrize(
    ("block", "half", "mass", "needed"), [(SMALL, 0.5, 10.0, 1), (LARGE, 1.0, 100.0, 2), (HUGE, 1.5, 150.0, 3)]
)
def test_agents_that_push_together_move_a_block_by_their_common_momentum(
    block: int, half: float, mass: float, needed: int
):
    for pushers in range(max(needed - 1, 1), needed + 1):
        lanes = [(0.95 * (k - (pushers - 1) / 2), half + 0.5) for k in range(pushers)]
        speed = way = 0.0
        for _ in range(5):
            momentum = pushers * 10.0 * (speed + 3.0) * KEPT["agent"] + mass * speed * KEPT["block"]
            load = pushers * 10.0 * KEPT["agent"] + mass * KEPT["block"]
            speed = max((momentum - load * GRIP) / (10.0 * pushers + mass), 0.0)
            way += speed * 0.02
        state = moved(laid(block, agents=tuple(lanes)), *[FORWARD] * pushers)
        assert (speed > 0) == (pushers >= needed)
        assert state["body_velocity"][3 + block, 1].item() == pytest.approx(-speed, abs=0.02)
        assert state["body_position"][3 + block, 1].item() == pytest.approx(-way, abs=0.005)


def test_a_run_up_nudges_a_block_that_a_push_does_not_move():
    state = moved(laid(LARGE, agents=((0.0, 1.6),), body_velocity=[(0.0, -20.0)]), FORWARD)
    assert state["body_position"][3 + LARGE, 1].item() < -0.1


def test_a_push_beside_its_center_turns_a_block():
    state = moved(laid(SMALL, agents=((0.7, 1.0),)), FORWARD)
    assert state["body_angle"][3 + SMALL].item() < -0.02  # clockwise: its right side is pushed down
    mirrored = moved(laid(SMALL, agents=((-0.7, 1.0),)), FORWARD)
    assert mirrored["body_angle"][3 + SMALL].item() == pytest.approx(-state["body_angle"][3 + SMALL].item(), abs=0.02)


def test_walls_stop_what_runs_into_them():
    state = moved(laid(agents=((0.0, -11.9),), body_velocity=[(0.0, -20.0)]), FORWARD)
    assert state["body_position"][0, 1].item() == pytest.approx(-12.0, abs=0.005)
    assert state["body_velocity"][0, 1].item() == pytest.approx(0.0, abs=1e-3)


def test_bodies_that_overlap_part_without_gaining_speed():
    state = moved(laid(SMALL, agents=((0.0, 0.9),)))
    apart = state["body_position"][0, 1] - state["body_position"][3 + SMALL, 1]
    assert apart.item() == pytest.approx(1.0, abs=0.005)
    assert state["body_velocity"].abs().max() < 0.02
