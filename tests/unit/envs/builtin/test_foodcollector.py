from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.foodcollector.env import FoodCollector, VisualFoodCollector

Env = FoodCollector | VisualFoodCollector
AGENTS, GREENS, BALLS = 5, 25, 50
GREEN, RED, WALL, AGENT, FROZEN, FIRING = range(6)
UP = math.pi / 2
CORNERS = torch.tensor([[-28.0, -28.0], [-28.0, 28.0], [28.0, -28.0], [28.0, 28.0]])


def laid(env: Env, *, scale: float = 1.0, laser: float = 1.0, others: torch.Tensor = CORNERS) -> Env:
    """One area: agent 0 in the middle looking up, the others in the corners, all food out of the world."""
    env.set_parameters({"agent_scale": torch.tensor([scale]), "laser_length": torch.tensor([laser])})
    env.reset(0)
    put(env, position=torch.cat([torch.zeros(1, 2), others]), angle=torch.full((AGENTS,), UP), food=torch.full((1, BALLS, 2), 100.0))
    return env


def put(env: Env, **columns: torch.Tensor) -> None:
    env.load_state_dict({**env.state_dict(), **columns})


def put_food(env: Env, *places: tuple[int, float, float]) -> None:
    """Each (ball, x, y)."""
    food = env.state_dict()["food"]
    for ball, x, y in places:
        food[0, ball] = torch.tensor([x, y])
    put(env, food=food)


def acted(env: Env, first: tuple[float, float, float] = (0.0, 0.0, 0.0), *, fire: tuple[int, ...] = ()) -> TimeStep:
    """Agent 0 moves as said, those in `fire` fire, the others stand still."""
    continuous, discrete = torch.zeros(AGENTS, 3), torch.zeros(AGENTS, 1, dtype=torch.int64)
    continuous[0] = torch.tensor(first)
    discrete[list(fire)] = 1
    return env.step({env.behavior: Action(continuous, discrete)})[env.behavior]


@pytest.mark.parametrize(("ball", "reward"), [(0, 1.0), (GREENS, -1.0)])
def test_food_that_is_touched_pays_by_its_color_and_comes_up_elsewhere(ball: int, reward: float):
    env = laid(FoodCollector(1))
    put_food(env, (ball, 1.2, 0.5), (ball + 1, 1.4, 0.8))  # 1.3 from the agent's middle, and 1.6: out of reach
    step = acted(env)
    assert step.reward.tolist() == [reward, 0, 0, 0, 0]
    food = env.state_dict()["food"][0]
    assert (food[ball] - torch.tensor([1.2, 0.5])).norm() > 0.01
    assert food[ball + 1].tolist() == pytest.approx([1.4, 0.8])
    assert not step.terminated.any()


def test_a_larger_agent_reaches_further():
    env = laid(FoodCollector(1), scale=3.0)
    put_food(env, (0, 2.4, 2.4))  # at 3.39: within 3 + 0.5
    assert acted(env).reward[0] == 1.0


@pytest.mark.parametrize(
    ("action", "way"),
    [((1, 0, 0), (0, 1)), ((-1, 0, 0), (0, -1)), ((0, 1, 0), (1, 0)), ((0, -1, 0), (-1, 0))],
    ids=["forward", "back", "right", "left"],
)
def test_the_first_two_numbers_push_forward_and_to_the_right(action: tuple[float, float, float], way: tuple[float, float]):
    env = laid(FoodCollector(1))
    step = acted(env, action)
    moved = env.state_dict()["position"][0]
    np.testing.assert_allclose(moved / moved.norm(), way, atol=1e-5)
    velocity = env.state_dict()["velocity"][0].norm()
    # told in the agent's own frame: to the right, ahead
    np.testing.assert_allclose(step.obs[1][0, :2], [action[1] * velocity, action[0] * velocity], atol=1e-4)


def test_a_push_at_rest_runs_as_worked_by_hand():
    env = laid(FoodCollector(1))
    acted(env, (1.0, 0.0, 0.0))
    speed, way = 0.0, 0.0
    for _ in range(5):
        speed = ((0.95 if speed > 5 else 1.0) * speed + 2.0) * (1 - 4 * 0.02)
        way += speed * 0.02
    assert env.state_dict()["position"][0, 1].item() == pytest.approx(way, rel=1e-5)


def test_the_third_number_turns_by_up_to_30_degrees_a_decision_to_the_left():
    env = laid(FoodCollector(1))
    acted(env, (0.0, 0.0, 1.0))
    assert env.state_dict()["angle"][0].item() == pytest.approx(UP + math.radians(30), rel=1e-5)


def test_the_laser_freezes_the_first_agent_ahead_for_4_seconds():
    others = torch.tensor([[0.5, 20.0], [0.0, 24.0], [-28.0, 28.0], [28.0, 28.0]])
    env = laid(FoodCollector(1), others=others)
    step = acted(env, fire=(0,))
    assert step.obs[1][:, 2].tolist() == [0, 1, 0, 0, 0]
    assert step.obs[1][:, 3].tolist() == [1, 0, 0, 0, 0]
    counts = 0
    while env.state_dict()["frozen"][1] > 0:
        acted(env)
        counts += 1
    assert counts == 40


@pytest.mark.parametrize(("length", "frozen"), [(1.0, False), (1.1, True)])
def test_the_laser_reaches_25_times_laser_length(length: float, frozen: bool):
    env = laid(FoodCollector(1), laser=length, others=torch.tensor([[0.0, 27.0], [-28.0, -28.0], [-28.0, 28.0], [28.0, 28.0]]))
    acted(env, fire=(0,))
    assert bool(env.state_dict()["frozen"][1] > 0) is frozen


def test_who_is_frozen_neither_moves_nor_fires():
    env = laid(FoodCollector(1))
    put(env, frozen=torch.tensor([50, 0, 0, 0, 0], dtype=torch.int32))
    step = acted(env, (1.0, 1.0, 1.0), fire=(0,))
    assert env.state_dict()["position"][0].tolist() == [0.0, 0.0]
    assert env.state_dict()["angle"][0].item() == pytest.approx(UP)
    assert step.obs[1][0].tolist() == [0, 0, 1, 0]


def test_agents_stay_within_the_walls_and_out_of_one_another():
    env = FoodCollector(2)
    env.reset(3)
    generator = torch.Generator().manual_seed(0)
    continuous = torch.randn(2 * AGENTS, 3, generator=generator)
    still = torch.zeros(2 * AGENTS, 1, dtype=torch.int64)
    for tick in range(200):
        if tick % 20 == 0:
            continuous = 3 * torch.randn(2 * AGENTS, 3, generator=generator)
        env.step({env.behavior: Action(continuous, still)})
        position = env.state_dict()["position"].view(2, AGENTS, 2)
        assert position.abs().max() <= 29.0 + 1e-4
        apart = torch.cdist(position, position) + 100 * torch.eye(AGENTS)
        assert apart.min() > 1.9


def test_the_grid_shows_everything_by_its_tag_where_it_lies():
    others = torch.tensor([[-5.5, 5.5], [5.5, 5.5], [8.5, -8.5], [28.0, 28.0]])
    env = laid(FoodCollector(1), others=others)
    put(env, frozen=torch.tensor([0, 0, 100, 0, 0], dtype=torch.int32))
    put_food(env, (0, 3.5, 10.5), (GREENS, -3.5, -10.5))
    grid = acted(env, fire=(3,)).obs[0][0]
    # the cell of (x, y) is row 19 - y, column 20 + x, rounded down
    assert (19 - 10, 20 + 3) in cells(grid[GREEN])
    assert (19 + 11, 20 - 4) in cells(grid[RED])
    assert (19 - 5, 20 - 6) in cells(grid[AGENT])
    assert (19 - 5, 20 + 5) in cells(grid[FROZEN])
    assert (19 + 9, 20 + 8) in cells(grid[FIRING])
    assert (19, 20) not in cells(grid[AGENT])  # it does not see itself
    assert [len(cells(grid[tag])) for tag in (AGENT, FROZEN, FIRING)] == [9, 9, 9]  # discs of radius 1 in the middle of a cell
    assert max(len(cells(grid[tag])) for tag in (GREEN, RED)) <= 4
    assert grid[WALL].sum() == 0


def cells(channel: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in channel.nonzero()}


def test_the_walls_are_a_cell_thick_and_end_where_the_floor_does():
    env = laid(FoodCollector(1))
    put(env, position=torch.cat([torch.tensor([[0.0, 20.5]]), CORNERS]))
    wall = acted(env).obs[0][0, WALL]
    assert wall.sum(1).nonzero()[:, 0].tolist() == [9, 10]  # 30 to 31 lies 9.5 to 10.5 ahead: in parts of two rows
    assert (wall.sum(1)[9:11] == 40).all()


def test_a_grid_wiped_cell_by_cell_is_that_painted_anew():
    env, again = FoodCollector(3), FoodCollector(3)
    env.reset(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        action = Action(torch.randn(15, 3, generator=generator), torch.randint(0, 2, (15, 1), generator=generator))
        before = env.state_dict()
        step = env.step({env.behavior: action})[env.behavior]
    again.load_state_dict({**before, "written": torch.full_like(before["written"], 10_000)})  # more than are noted: all are wiped
    fresh = again.step({env.behavior: action})[env.behavior]
    torch.testing.assert_close(step.obs[0], fresh.obs[0], rtol=0, atol=0)
    assert step.obs[0].sum() > 0


@pytest.mark.parametrize("make", [FoodCollector, VisualFoodCollector])
def test_an_episode_is_cut_after_5000_ticks_and_its_last_view_kept(make: type[Env]):
    env = make(1)
    env.reset(0)
    put(env, age=torch.tensor([998], dtype=torch.int32))
    step = acted(env, (1.0, 0.0, 0.5))
    assert not step.truncated.any()
    twin = make(1)
    twin.reset(0)
    twin.load_state_dict({**env.state_dict(), "age": torch.tensor([5], dtype=torch.int32)})
    step, goes_on = acted(env, (1.0, 0.0, 0.5)), acted(twin, (1.0, 0.0, 0.5))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.final_obs.slots.tolist() == list(range(AGENTS))
    for last, seen in zip(step.final_obs.obs, goes_on.obs, strict=True):
        torch.testing.assert_close(last, seen)
    assert (step.obs[0] != step.final_obs.obs[0]).any()


def test_the_camera_shows_green_food_ahead_in_the_middle():
    env = laid(VisualFoodCollector(1))
    put_food(env, (0, 0.0, 4.0))
    image = acted(env).obs[0][0]
    middle = image[:, 27:34, 17:19]  # its front is 3.5 ahead, from 3 to 2 below the eye
    green = (middle[1] > 0.8) & (middle[0] < 0.4)
    assert green.sum() == 10  # five rows, from 0.57 to 0.86 of the half height
    assert 0 <= image.min() <= image.max() <= 1


def test_an_image_painted_in_part_is_that_painted_in_full():
    env, again = VisualFoodCollector(2, height=24, width=30), VisualFoodCollector(2, height=24, width=30)
    env.reset(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        action = Action(torch.randn(10, 3, generator=generator), torch.randint(0, 2, (10, 1), generator=generator))
        before = env.state_dict()
        step = env.step({env.behavior: action})[env.behavior]
    again.load_state_dict({**before, "bare": torch.zeros_like(before["bare"]), "obs_image": torch.zeros_like(before["obs_image"])})
    fresh = again.step({env.behavior: action})[env.behavior]
    assert step.obs[0].shape == (10, 3, 24, 30)
    torch.testing.assert_close(step.obs[0], fresh.obs[0], rtol=0, atol=0)


def test_an_action_that_does_not_fit_is_told_with_its_agent():
    env = laid(FoodCollector(1))
    with pytest.raises(EnvError, match=r"agent 2.*finite numbers and choices of branches \(2,\)"):
        env.step({env.behavior: Action(torch.zeros(AGENTS, 3), torch.tensor([[0], [0], [2], [0], [0]]))})
    with pytest.raises(EnvError, match="agent 0"):
        acted(env, (math.nan, 0.0, 0.0))


def test_an_image_of_a_size_that_shows_nothing_is_refused():
    with pytest.raises(EnvError, match="20 to 512"):
        VisualFoodCollector(1, height=10)


def test_its_rule_gathers_far_more_than_the_bar_asks_for():
    env = FoodCollector(4)
    env.reset(1)
    earned = torch.zeros(4 * AGENTS)
    for _ in range(300):
        action = env.heuristic(env.behavior)
        assert action is not None
        earned += env.step({env.behavior: action})[env.behavior].reward
    assert earned.mean() > 15  # of three tenths of an episode
    assert env.heuristic("Other") is None


def test_a_picture_shows_the_area():
    env = laid(FoodCollector(1))
    acted(env, fire=(0,))
    assert len(np.unique(env.render(0).reshape(-1, 3), axis=0)) > 20
