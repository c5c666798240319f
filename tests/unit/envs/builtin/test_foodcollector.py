import math

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.foodcollector.env import FoodCollector, VisualFoodCollector

Env = FoodCollector | VisualFoodCollector
AGENTS, GREENS, BALLS = 5, 25, 50
FOOD, AGENT, WALL, BAD, FROZEN = range(5)
UP = math.pi / 2
CORNERS = ((-40.0, -40.0), (-40.0, 40.0), (40.0, -40.0), (40.0, 40.0))
KEPT = 1 - 0.5 * 0.02
GRIP = 2 * 0.6 * 9.81 * 0.02 * KEPT


def laid(
    env: Env,
    *,
    scale: float = 1.0,
    first: tuple[float, float] = (0.0, 0.0),
    others: tuple[tuple[float, float], ...] = CORNERS,
) -> Env:
    """One area: agent 0 in the middle, all on the floor and looking along y, all food out of the world."""
    env.set_parameters({"agent_scale": torch.tensor([scale])})
    env.reset(0)
    state = env.state_dict()
    state["body_position"][0, :AGENTS] = torch.tensor([first, *others])
    state["body_angle"][:] = UP
    state["body_height"][:] = 0.0
    state["food"][:] = torch.stack([torch.full((BALLS,), 500.0), 10.0 * torch.arange(BALLS)], 1)
    env.load_state_dict(state)
    return env


def change(env: Env, **columns: object) -> None:
    """Sets the first entries of columns of the area."""
    state = env.state_dict()
    for name, value in columns.items():
        new = torch.tensor(value)
        state[name].view(-1, *state[name].shape[2:])[: len(new)] = new
    env.load_state_dict(state)


def put_food(
    env: Env, *places: tuple[int, float, float], height: float = 0.0, velocity: tuple[float, float] = (0.0, 0.0)
) -> None:
    """Each (ball, x, y)."""
    state = env.state_dict()
    for ball, x, y in places:
        state["food"][0, ball] = torch.tensor([x, y])
        state["food_height"][0, ball] = height
        state["food_velocity"][0, ball] = torch.tensor(velocity)
    env.load_state_dict(state)


def acted(env: Env, first: tuple[float, float, float] = (0.0, 0.0, 0.0), *, fire: tuple[int, ...] = ()) -> TimeStep:
    """Agent 0 moves as said, those in `fire` fire, the others stand still."""
    continuous = torch.zeros(AGENTS, 3)
    discrete = torch.zeros(AGENTS, 1, dtype=torch.int64)
    continuous[0] = torch.tensor(first)
    discrete[list(fire)] = 1
    return env.step({env.behavior: Action(continuous, discrete)})[env.behavior]


def cells(channel: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in channel.nonzero()}


@pytest.mark.parametrize(("ball", "reward"), [(0, 1.0), (GREENS, -1.0)])
def test_food_that_is_touched_pays_by_its_color_and_comes_up_elsewhere(ball: int, reward: float):
    env = laid(FoodCollector(1))
    put_food(env, (ball, 1.26, 0.2), (ball + 1, -1.28, 0.0))  # 0.76 from the agent's side, and 0.78: out of reach
    step = acted(env)
    assert step.reward.tolist() == [reward, 0, 0, 0, 0]
    state = env.state_dict()
    assert (state["food"][0, ball] - torch.tensor([1.26, 0.2])).norm() > 0.01
    assert state["food_height"][0, ball] > 1.4  # it falls from 1.75 m
    assert state["food"][0, ball + 1].tolist() == pytest.approx([-1.28, 0.0])
    assert not step.terminated.any()


def test_a_larger_agent_reaches_further():
    env = laid(FoodCollector(1), scale=3.0)
    put_food(env, (0, 2.2, 0.0))
    assert acted(env).reward[0] == 1.0


def test_an_eater_passes_momentum_on_to_the_ball():
    env = laid(FoodCollector(1))
    change(env, body_velocity=[[0.0, 6.0]])
    put_food(env, (0, 0.0, 1.26))
    acted(env)
    speed = 6.0 * 0.95 * KEPT
    ball = env.state_dict()["food_velocity"][0, 0]
    assert ball.tolist() == pytest.approx([0.0, 10 / 15 * speed], abs=1e-4)  # in the air nothing slows it
    agent = speed - 5 / 15 * speed - GRIP
    for _ in range(4):
        agent = agent * KEPT - GRIP
    assert env.state_dict()["body_velocity"][0, 0, 1].item() == pytest.approx(agent, abs=1e-3)


def test_a_ball_that_slides_comes_to_roll_and_rolls_on():
    env = laid(FoodCollector(1))
    put_food(env, (0, 10.0, -20.0), velocity=(0.0, 3.0))
    speeds = []
    for _ in range(60):
        acted(env)
        speeds.append(env.state_dict()["food_velocity"][0, 0, 1].item())
    assert speeds[0] == pytest.approx(3.0 - 5 * 0.6 * 9.81 * 0.02, abs=1e-4)
    assert speeds[10] == pytest.approx(3.0 * 5 / 7, abs=0.05)  # a solid ball keeps five sevenths
    assert 0.85 * speeds[10] < speeds[59] < speeds[10]


def test_a_ball_faster_than_it_can_spin_is_braked_to_the_speed_at_which_it_rolls():
    env = laid(FoodCollector(1))
    put_food(env, (0, 10.0, -40.0), velocity=(0.0, 9.0))
    for _ in range(12):
        acted(env)
    assert env.state_dict()["food_velocity"][0, 0, 1].item() == pytest.approx(7 * 0.75, abs=0.1)


def test_balls_stop_at_walls_and_share_their_speed_when_they_meet():
    env = laid(FoodCollector(1))
    put_food(env, (0, 10.0, 49.0), velocity=(0.0, 5.0))
    put_food(env, (1, 20.0, 0.0))
    put_food(env, (2, 18.4, 0.0), velocity=(4.0, 0.0))
    acted(env)
    state = env.state_dict()
    assert state["food"][0, 0, 1].item() == pytest.approx(49.25)
    assert state["food_velocity"][0, 1, 0] > 1.0
    assert (state["food"][0, 1] - state["food"][0, 2]).norm() >= 1.5 - 1e-3


@pytest.mark.parametrize(
    ("action", "way"),
    [((1, 0, 0), (0, 1)), ((-1, 0, 0), (0, -1)), ((0, 1, 0), (1, 0)), ((0, -1, 0), (-1, 0)), ((3, 0, 0), (0, 1))],
    ids=["forward", "back", "right", "left", "clipped"],
)
def test_the_first_two_numbers_push_forward_and_to_the_right(
    action: tuple[float, float, float], way: tuple[float, float]
):
    env = laid(FoodCollector(1))
    acted(env, action)
    speed = far = 0.0
    for _ in range(5):
        speed = ((0.95 if speed > 5 else 1.0) * speed + 2.0) * KEPT - GRIP
        far += speed * 0.02
    moved = env.state_dict()["body_position"][0, 0].numpy()
    np.testing.assert_allclose(moved, far * np.array(way), atol=1e-4)


def test_ahead_and_aside_add_up():
    env = laid(FoodCollector(1))
    acted(env, (1.0, 1.0, 0.0))
    moved = env.state_dict()["body_position"][0, 0]
    assert moved[0].item() == pytest.approx(moved[1].item(), abs=1e-5)
    straight = laid(FoodCollector(1))
    acted(straight, (1.0, 0.0, 0.0))
    assert moved.norm() > 1.2 * straight.state_dict()["body_position"][0, 0].norm()


@pytest.mark.parametrize(
    ("number", "degrees"), [(1.0, 30), (0.2, 30), (0.0033, 30), (0.003, 0), (0.0, 0), (-0.5, -30), (-3.0, -30)]
)
def test_the_sign_of_the_third_number_turns_by_30_degrees_a_decision_to_the_left(number: float, degrees: float):
    env = laid(FoodCollector(1))
    acted(env, (0.0, 0.0, number))
    assert env.state_dict()["body_angle"][0, 0].item() == pytest.approx(UP + math.radians(degrees), rel=1e-5)


def test_agents_fall_as_they_begin_and_the_floor_does_not_brake_them():
    env = laid(FoodCollector(1))
    change(env, body_height=[1.0])
    speed = 0.0
    for _ in range(5):
        speed = (speed + 0.4) * KEPT
    acted(env, (0.2, 0.0, 0.0))
    assert env.state_dict()["body_velocity"][0, 0, 1].item() == pytest.approx(speed, abs=1e-4)
    for _ in range(5):
        acted(env)
    assert env.state_dict()["body_height"][0, 0].item() == pytest.approx(0.0, abs=1e-4)


def test_the_laser_freezes_the_first_agent_ahead_for_4_seconds():
    env = laid(FoodCollector(1), others=((0.5, 10.0), (0.0, 14.0), (-40.0, 40.0), (40.0, 40.0)))
    acted(env, fire=(0,))
    # frozen for 201 ticks in the first of five, and not again until it thaws
    assert env.state_dict()["frozen"].tolist()[:3] == [0, 197, 0]
    assert env.state_dict()["firing"].tolist() == [True, False, False, False, False]
    for _ in range(39):
        acted(env)
    assert env.state_dict()["frozen"][1] == 2  # after 200 ticks
    acted(env)
    assert env.state_dict()["frozen"][1] == 0


@pytest.mark.parametrize(
    ("place", "frozen"),
    [
        ((0.0, 27.4), True),  # the ball's middle goes 25 m, and its edge 2 m further
        ((0.0, 27.6), False),
        ((2.4, 10.0), True),
        ((2.6, 10.0), False),
        ((0.0, 2.4), False),  # the ball touches it at its start
        ((0.0, -6.0), False),
    ],
)
def test_the_laser_is_as_wide_as_a_ball_of_2_m_that_goes_25_m(place: tuple[float, float], frozen: bool):
    env = laid(FoodCollector(1), others=(place, *CORNERS[1:]))
    acted(env, fire=(0,))
    assert bool(env.state_dict()["frozen"][1] > 0) is frozen


def test_food_and_walls_in_front_of_an_agent_keep_it_safe():
    env = laid(FoodCollector(1), others=((0.0, 12.0), *CORNERS[1:]))
    put_food(env, (GREENS, 2.5, 6.0))
    acted(env, fire=(0,))
    assert env.state_dict()["frozen"][1] == 0
    env = laid(FoodCollector(1), others=((0.0, 12.0), *CORNERS[1:]))
    put_food(env, (GREENS, 2.8, 6.0))
    acted(env, fire=(0,))
    assert env.state_dict()["frozen"][1] > 0
    beside_wall = ((49.4, 12.0), *CORNERS[1:])  # the ball meets the wall before it meets the agent
    env = laid(FoodCollector(1), first=(38.5, -10.0), others=beside_wall)
    change(env, body_angle=[math.atan2(22.0, 10.9)] * 6)
    acted(env, fire=(0,))
    assert env.state_dict()["frozen"][1] == 0


def test_who_is_frozen_neither_moves_nor_fires_but_eats():
    env = laid(FoodCollector(1))
    change(env, frozen=[50, 0, 0, 0, 0])
    put_food(env, (0, 1.2, 0.0))
    step = acted(env, (1.0, 1.0, 1.0), fire=(0,))
    assert env.state_dict()["body_position"][0, 0].tolist() == pytest.approx([0.0, 0.0], abs=1e-4)
    assert env.state_dict()["body_angle"][0, 0].item() == pytest.approx(UP)
    assert not env.state_dict()["firing"][0]
    assert step.reward[0] == 1


@pytest.mark.parametrize("shooter", [0, 1])
def test_who_thaws_moves_for_a_tick_before_it_can_be_frozen_again(shooter: int):
    target = 1 - shooter
    places = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    places[target, 1] = 10.0
    env = laid(FoodCollector(1), first=tuple(places[0].tolist()), others=(tuple(places[1].tolist()), *CORNERS[1:]))
    left = [0] * AGENTS
    left[target] = 3  # it thaws in its third tick
    change(env, frozen=left)
    continuous = torch.zeros(AGENTS, 3)
    discrete = torch.zeros(AGENTS, 1, dtype=torch.int64)
    continuous[target, 2] = 1.0
    discrete[shooter] = 1
    env.step({env.behavior: Action(continuous, discrete)})
    state = env.state_dict()
    turned = math.degrees(state["body_angle"][0, target].item() - UP)
    assert turned == pytest.approx(6.0, abs=1e-3)  # one tick of five
    assert state["frozen"][target] > 190


def test_firing_brakes_and_halves_the_push():
    env = laid(FoodCollector(1))
    change(env, body_velocity=[[0.0, 8.0]])
    speed = 8.0
    for _ in range(5):
        speed *= 0.75
        speed = ((0.95 if speed > 5 else 1.0) * speed + 1.0) * KEPT - GRIP
    acted(env, (1.0, 0.0, 0.0), fire=(0,))
    assert env.state_dict()["body_velocity"][0, 0, 1].item() == pytest.approx(speed, abs=1e-3)


def test_agents_stay_within_the_walls_and_out_of_one_another():
    env = FoodCollector(2)
    env.reset(3)
    generator = torch.Generator().manual_seed(0)
    continuous = torch.randn(2 * AGENTS, 3, generator=generator)
    still = torch.zeros(2 * AGENTS, 1, dtype=torch.int64)
    for tick in range(300):
        if tick % 20 == 0:
            continuous = 3 * torch.randn(2 * AGENTS, 3, generator=generator)
        env.step({env.behavior: Action(continuous, still)})
        position = env.state_dict()["body_position"][:, :AGENTS]
        assert position.abs().max() <= 50.1  # fast ones enter a wall by half a meter, and are put back
        assert env.state_dict()["food"].abs().max() <= 49.5


def test_the_grid_shows_everything_by_its_tag_where_it_lies():
    env = laid(FoodCollector(1), others=((-5.5, 5.5), (5.5, 5.5), (30.0, -8.5), (40.0, 40.0)))
    change(env, frozen=[0, 0, 100, 0, 0])
    put_food(env, (0, 3.5, 10.5), (GREENS, -3.5, -10.5))
    grid = acted(env).obs[0][0]
    # looking along y: column of (x, y) is 20 + y, row is 20 - x, rounded down; a ball's section has a radius of 0.711,
    # which just reaches
    # the corners of the cell that it is in the middle of
    assert cells(grid[FOOD]) == {(row, column) for row in (15, 16, 17) for column in (29, 30, 31)}
    assert cells(grid[BAD]) == {(row, column) for row in (22, 23, 24) for column in (8, 9, 10)}
    assert (25, 25) in cells(grid[AGENT])
    # not itself, nor one 30 m away
    assert cells(grid[AGENT]) <= {(row, column) for row in (24, 25, 26) for column in (24, 25, 26)}
    assert (14, 25) in cells(grid[FROZEN])
    assert grid[WALL].sum() == 0
    assert grid.sum(0).max() == 1


def test_food_is_seen_at_the_height_of_the_agents_middle():
    env = laid(FoodCollector(1))
    put_food(env, (0, 3.5, 10.5), height=1.75)
    assert not acted(env).obs[0][0, FOOD].any()  # still above the agent
    for _ in range(6):
        grid = acted(env).obs[0][0]
    assert len(cells(grid[FOOD])) == 9


def test_the_walls_two_faces_are_seen_and_not_what_is_between_or_beyond():
    env = laid(FoodCollector(1), first=(0.0, 35.3))
    wall = acted(env).obs[0][0, WALL]
    # the inner face is 14.7 ahead, the outer one at 50.97 15.67
    assert wall.sum(0).nonzero()[:, 0].tolist() == [34, 35]
    assert (wall.sum(0)[34:36] == 40).all()


def test_food_before_a_wall_is_seen_where_the_cells_middle_is_nearer_than_it():
    env = laid(FoodCollector(1), first=(0.0, 35.3))
    put_food(env, (0, 0.5, 49.2))
    grid = acted(env).obs[0][0]
    # the cell from 14 to 15 ahead holds the wall's face; the ball's box begins at 13.15 and holds the cell's middle:
    # the wall stays
    assert grid[:, 19, 34].tolist() == [0, 0, 1, 0, 0]
    assert grid[:, 19, 33].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("make", [FoodCollector, VisualFoodCollector])
def test_an_episode_is_truncated_in_its_5000th_tick_and_the_food_stays(make: type[Env]):
    env = laid(make(1))
    put_food(env, (0, -12.7, 3.3))
    change(env, age=[998])
    step = acted(env, (1.0, 0.0, 0.1))
    assert not step.truncated.any()
    before = env.state_dict()
    step = acted(env, (1.0, 0.0, 0.1))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.final_obs.slots.tolist() == list(range(AGENTS))
    after = env.state_dict()
    assert after["food"][0, 0].tolist() == pytest.approx([-12.7, 3.3])
    assert after["age"].tolist() == [0]
    # one tick of the new episode
    assert after["body_height"][0, 0].item() == pytest.approx(1.0 - 9.81 * 0.02 * 0.02 * KEPT, abs=1e-4)
    twin = make(1)
    twin.reset(0)
    twin.load_state_dict({**before, "age": torch.tensor([5], dtype=torch.int32)})
    goes_on = acted(twin, (1.0, 0.0, 0.1))  # a tick further than the last observation
    last = step.final_obs.obs[0][0]
    seen = goes_on.obs[0][0]
    assert 0 < (last != seen).float().mean() < 0.3
    assert (step.obs[0] != step.final_obs.obs[0]).any()


def test_the_camera_shows_green_food_ahead_and_bad_food_aside():
    env = laid(VisualFoodCollector(1))
    put_food(env, (0, 0.0, 6.0), (GREENS, -3.0, 6.0))
    image = acted(env).obs[0][0]
    # the eye is 0.15 ahead and 0.5 up; the ball's middle is 5.85 ahead and 0.25 higher: 3.1 pixels above the middle,
    # 6.2 in radius,
    # as its picture is smaller than its body
    green = image[1] > image[0] + 0.3
    red = image[0] > image[1] + 0.3
    rows, columns = green.nonzero(as_tuple=True)
    assert columns.float().mean().item() == pytest.approx(41.5, abs=0.3)
    assert rows.float().mean().item() == pytest.approx(41.5 - 0.25 / 5.85 * 42 / math.tan(math.radians(30)), abs=0.7)
    assert green.sum().item() == pytest.approx(math.pi * (0.5 / 5.85 * 42 / math.tan(math.radians(30))) ** 2, rel=0.05)
    assert red.nonzero()[:, 1].float().mean() < 10  # to the left
    torch.testing.assert_close(image[:, 0, 0], torch.tensor([119, 144, 155]) / 255)
    assert 0 <= image.min() <= image.max() <= 1


def test_the_camera_tells_who_is_frozen_and_shows_it():
    env = laid(VisualFoodCollector(1), others=((0.0, 5.0), *CORNERS[1:]))
    thawed = acted(env)
    change(env, frozen=[0, 100, 0, 0, 0], look=[0, 1, 0, 0, 0])
    frozen = acted(env)
    assert thawed.obs[1][:, 0].tolist() == [0, 0, 0, 0, 0]
    assert frozen.obs[1][:, 0].tolist() == [0, 1, 0, 0, 0]
    assert (thawed.obs[0][0] != frozen.obs[0][0]).any(0).sum() > 100


def seen_ahead(env: Env) -> list[int]:
    """The color of what stands before agent 0, in steps of 1/255."""
    return (acted(env).obs[0][0][:, 43, 42] * 255).round().int().tolist()


@pytest.mark.parametrize(("ball", "color"), [(0, [103, 188, 107]), (GREENS, [190, 58, 39])])
def test_an_agent_looks_like_what_it_ate_for_half_a_second(ball: int, color: list[int]):
    env = laid(VisualFoodCollector(1), others=((0.0, 5.0), *CORNERS[1:]))
    blue = [33, 150, 243]
    assert seen_ahead(env) == blue
    put_food(env, (ball, 0.0, 6.0))  # it touches the other agent
    assert seen_ahead(env) == color  # eaten in the first of five ticks
    for _ in range(4):
        assert seen_ahead(env) == color
    assert seen_ahead(env) == blue  # after 30 ticks; it ends in the 26th after the meal


def test_a_frozen_agent_is_gray_until_it_thaws():
    env = laid(VisualFoodCollector(1), others=((0.0, 5.0), *CORNERS[1:]))
    acted(env, fire=(0,))
    assert seen_ahead(env) == [100, 100, 100]
    change(env, frozen=[0, 2, 0, 0, 0])
    assert seen_ahead(env) == [33, 150, 243]


def test_an_image_painted_in_part_is_that_painted_in_full():
    env = VisualFoodCollector(2, height=24, width=30)
    again = VisualFoodCollector(2, height=24, width=30)
    env.reset(5)
    again.reset(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        action = Action(torch.randn(10, 3, generator=generator), torch.randint(0, 2, (10, 1), generator=generator))
        before = env.state_dict()
        step = env.step({env.behavior: action})[env.behavior]
    again.load_state_dict(
        {**before, "plain": torch.zeros_like(before["plain"]), "obs_image": torch.zeros_like(before["obs_image"])}
    )
    fresh = again.step({env.behavior: action})[env.behavior]
    assert step.obs[0].shape == (10, 3, 24, 30)
    torch.testing.assert_close(step.obs[0], fresh.obs[0], rtol=0, atol=0)


def test_an_image_of_a_size_that_shows_nothing_is_refused():
    with pytest.raises(EnvError, match="20 to 512"):
        VisualFoodCollector(1, height=10)
