from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.pushblock.env import PushBlock

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, GO_LEFT, GO_RIGHT = range(7)
WALL, GOAL, BLOCK, MISSED, DISTANCE = range(5)


def played(env: PushBlock, choice: int) -> TimeStep:
    discrete = torch.full((env.num_areas, 1), choice, dtype=torch.int64)
    return env.step({"PushBlock": Action(torch.zeros(env.num_areas, 0), discrete)})["PushBlock"]


def placed(areas: int = 1, **columns: list[float] | float) -> PushBlock:
    """The agent in the middle, looking at the goal, the block behind it; or as the columns say."""
    env = PushBlock(areas)
    env.reset(0)
    state = env.state_dict()
    still = {"agent_velocity": 0.0, "block_velocity": 0.0, "block_spin": 0.0, "block_angle": 0.0}
    there = {"agent_position": [0.0, 0.0], "agent_angle": math.pi / 2, "block_position": [0.0, -8.0]}
    for name, value in {**still, **there, **columns}.items():
        state[name][:] = torch.tensor(value)
    env.load_state_dict(state)
    return env


def rays(env: PushBlock) -> torch.Tensor:
    """(sensors, rays, 5) of the first area, after a decision of doing nothing."""
    return played(env, NOTHING).obs[0][0].view(2, 7, 5)


def test_rays_tell_goal_and_walls_in_the_order_of_unitys():
    low, high = rays(placed())
    torch.testing.assert_close(low, high)
    kinds = low[:, :4].argmax(1).tolist()
    assert kinds == [GOAL, GOAL, GOAL, WALL, WALL, WALL, WALL]
    expected = [9.5, 9.5 / math.cos(math.pi / 6), 9.5 / math.cos(math.pi / 6), *[12.5 / math.cos(math.pi / 6)] * 2, 12.5, 12.5]
    np.testing.assert_allclose(low[:, DISTANCE], np.array(expected) / 25, atol=1e-5)


def test_the_lower_sensor_meets_the_block_and_the_upper_looks_over_it():
    low, high = rays(placed(block_position=[0.0, 5.0]))
    assert low[0].tolist() == pytest.approx([0, 0, 1, 0, (5 - 1 - 0.4) / 25])
    assert high[0].tolist() == pytest.approx([0, 1, 0, 0, 9.5 / 25])


def test_a_ray_to_the_right_is_told_before_its_like_to_the_left():
    low, _ = rays(placed(block_position=[5 * math.sin(math.pi / 3), 5 * math.cos(math.pi / 3)]))
    assert low[:, BLOCK].tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_a_wall_further_off_than_a_ray_reaches_is_not_met():
    low, _ = rays(placed(agent_position=[-12.0, -11.5], agent_angle=math.pi / 4, block_position=[8.0, -8.0]))
    assert low[0].tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("choice", "toward"), [(NOTHING, (0, 0)), (FORWARD, (0, 1)), (BACK, (0, -1)), (GO_LEFT, (-0.75, 0)), (GO_RIGHT, (0.75, 0))]
)
def test_the_agent_goes_where_it_is_told_and_no_faster_than_eight_meters_a_second(choice: int, toward: tuple[float, float]):
    env = placed(block_position=[9.0, 9.0 - 1])
    for _ in range(11):
        played(env, choice)
    np.testing.assert_allclose(env.state_dict()["agent_velocity"][0], 8 * np.array(toward), atol=0.1)


@pytest.mark.parametrize(("choice", "degrees"), [(TURN_RIGHT, -20), (TURN_LEFT, 20)])
def test_a_decision_of_turning_turns_by_twenty_degrees(choice: int, degrees: float):
    env = placed()
    played(env, choice)
    assert math.degrees(float(env.state_dict()["agent_angle"][0])) == pytest.approx(90 + degrees, abs=1e-3)


def test_a_block_that_is_pushed_onto_the_goal_ends_the_episode_with_the_prize():
    env = placed(block_position=[0.0, 3.0])
    decisions, step = 1, played(env, FORWARD)
    while not step.terminated.any():
        assert step.reward.item() == pytest.approx(-0.0025)
        decisions, step = decisions + 1, played(env, FORWARD)
    assert 5 < decisions < 20
    assert step.reward.item() == pytest.approx(5 - 0.0025)
    assert step.final_obs.slots.tolist() == [0]
    final = step.final_obs.obs[0][0].view(2, 7, 5)
    assert final[0, 0, BLOCK] == 1  # as it was at the end; the view is of the next episode already
    assert not torch.equal(step.obs[0][0], final.flatten())


def test_the_episode_is_cut_after_a_thousand_decisions():
    env = placed(age=998)
    assert not played(env, NOTHING).truncated.any()
    step = played(env, NOTHING)
    assert step.truncated.all()
    assert not step.terminated.any()


def test_parameters_take_hold_at_the_next_episode():
    env = placed()
    env.set_parameters({"block_scale": torch.tensor([4.0])})
    assert env.state_dict()["parameters"][0].tolist() == [2, 0, 0, 0.5]
    state = env.state_dict()
    state["age"][:] = 999
    env.load_state_dict(state)
    played(env, NOTHING)
    assert env.state_dict()["parameters"][0].tolist() == [4, 0, 0, 0.5]


def test_friction_and_drag_stop_a_gliding_block():
    way = {}
    for name, parameters in {"neither": [2.0, 0, 0, 0], "friction": [2.0, 0.5, 0.5, 0], "drag": [2.0, 0, 0, 2.0]}.items():
        env = placed(agent_position=[9.0, -9.0], block_position=[-8.0, 0.0], block_velocity=[4.0, 0.0], parameters=parameters)
        for _ in range(20):
            played(env, NOTHING)
        way[name] = float(env.state_dict()["block_position"][0, 0]) + 8
    assert way["neither"] == pytest.approx(8, abs=0.01)
    assert way["friction"] == pytest.approx(4**2 / (2 * 0.5 * 9.81), abs=0.1)
    assert way["drag"] == pytest.approx(2 * (1 - math.exp(-4)), abs=0.1)


@pytest.mark.parametrize("scale", [0.5, 2.0, 4.0])
def test_nothing_leaves_the_room_nor_starts_inside_the_other(scale: float):
    env = PushBlock(64)
    env.set_parameters({"block_scale": torch.full((64,), scale)})
    env.reset(1)
    apart = (env.state_dict()["agent_position"] - env.state_dict()["block_position"]).norm(dim=1)
    assert apart.min() > 0.5 + scale / 2
    rng = torch.Generator().manual_seed(0)
    for _ in range(300):
        choices = torch.randint(0, 7, (64, 1), generator=rng)
        step = env.step({"PushBlock": Action(torch.zeros(64, 0), choices)})["PushBlock"]
        state = env.state_dict()
        assert state["agent_position"].abs().max() <= 12.0 + 1e-4
        assert state["block_position"].abs().max() <= 12.5 - scale / 2 + 1e-3
        assert step.obs[0].min() >= 0
        assert step.obs[0].max() <= 1


@pytest.mark.parametrize("parameters", [{}, {"block_scale": 0.5}, {"block_scale": 4.0, "dynamic_friction": 1.0, "static_friction": 1.0}])
def test_its_rule_pushes_every_block_onto_the_goal(parameters: dict[str, float]):
    env = PushBlock(50)
    env.set_parameters({name: torch.full((50,), value) for name, value in parameters.items()})
    env.reset(2)
    rewards, done = torch.zeros(50), torch.zeros(50, dtype=torch.bool)
    for _ in range(150):
        action = env.heuristic("PushBlock")
        assert action is not None
        step = env.step({"PushBlock": action})["PushBlock"]
        rewards += torch.where(done, 0.0, step.reward)
        done |= step.terminated
    assert rewards.min() > 4.6


def test_an_action_that_is_no_choice_is_refused():
    env = placed()
    with pytest.raises(EnvError, match="agent 0"):
        played(env, 7)
