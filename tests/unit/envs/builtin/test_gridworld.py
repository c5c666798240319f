import pytest
import torch
from envs.builtin.worlds import act

from palaestra.core.errors import EnvError
from palaestra.envs.builtin.base.env import paint
from palaestra.envs.builtin.gridworld.env import GridWorld

NOTHING, UP, DOWN, LEFT, RIGHT = range(5)
GREEN, RED, AGENT = 1, 2, 3


def laid(agent: int, green: int, red: int, wanted: int) -> GridWorld:
    """One area of 5 x 5 with everything where it is said to be."""
    env = GridWorld(1)
    env.reset(0)
    state = env.state_dict()
    state["board"].zero_()
    for cell, thing in ((agent, AGENT), (green, GREEN), (red, RED)):
        state["board"][0, cell] = thing
    state["agent"][0] = agent
    state["wanted"][0] = wanted
    repainted(env, state)
    return env


def repainted(env: GridWorld, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """The image of a state, painted in full."""
    env.load_state_dict({**state, "painted_episode": torch.full_like(state["painted_episode"], -1)})
    paint(env._draw, env._images, env._world)
    return env.state_dict()["obs_image"]


@pytest.mark.parametrize(("wanted", "reward"), [(GREEN, 1.0), (RED, -1.0)])
def test_a_goal_ends_the_episode_with_a_reward_by_its_color(wanted: int, reward: float):
    env = laid(agent=12, green=14, red=0, wanted=wanted)
    step = act(env, RIGHT)
    assert step.reward.item() == pytest.approx(-0.01)
    assert not step.terminated.any()
    step = act(env, RIGHT)
    assert step.reward.item() == reward
    assert step.terminated.item()
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0]


@pytest.mark.parametrize(("choice", "cell"), [(NOTHING, 12), (UP, 7), (DOWN, 17), (LEFT, 11), (RIGHT, 13)])
def test_a_move_leads_to_the_next_cell(choice: int, cell: int):
    env = laid(agent=12, green=0, red=1, wanted=GREEN)
    act(env, choice)
    assert env.state_dict()["agent"].item() == cell


@pytest.mark.parametrize(
    ("side", "choice", "allowed"),
    [
        (1, LEFT, [NOTHING, DOWN, RIGHT]),
        (3, RIGHT, [NOTHING, DOWN, LEFT]),
        (21, LEFT, [NOTHING, UP, RIGHT]),
        (23, RIGHT, [NOTHING, UP, LEFT]),
    ],
)
def test_in_a_corner_only_the_moves_away_from_the_walls_are_allowed(side: int, choice: int, allowed: list[int]):
    env = laid(agent=side, green=12, red=11, wanted=GREEN)
    mask = act(env, choice).action_mask
    assert mask is not None
    assert mask[0].nonzero()[:, 0].tolist() == allowed


def test_a_move_into_a_wall_stays():
    env = laid(agent=0, green=12, red=11, wanted=GREEN)
    for choice in (UP, LEFT):
        assert act(env, choice).reward.item() == pytest.approx(-0.01)
        assert env.state_dict()["agent"].item() == 0


Pixel = tuple[int, int, int]  # in steps of 1/255
BLUE_FRAME, GREEN_PLUS, RED_EX = (55, 174, 255), (125, 210, 135), (209, 83, 69)
CELL, SHADED_CELL, WALL = (61, 63, 66), (42, 44, 47), (122, 124, 128)
# worked by hand, red of the wall: 0.392 * (1 - 0.2) * (0.8 + 0.7 * sin 40 deg) + 0.965 * 0.2 * 0.4497 = 0.392 + 0.087,
# 122 steps; and of
# the floor in a shadow: 0.116 * 0.7791 * (0.8 + 0.2 * 0.45) + 0.72 * 0.2209 * 0.4497 + 0.2 * 0.0549 = 0.0804 + 0.0715 +
# 0.011, 42 steps


def lit(color: Pixel) -> list[float]:
    """The pixel as numbers up to 1."""
    return [part / 255 for part in color]


def pixels_of(image: torch.Tensor, color: Pixel) -> torch.Tensor:
    """The rows and columns, (n, 2), of the pixels of a figure."""
    return ((image - torch.tensor(lit(color))[:, None, None]).abs() < 1e-5).all(0).nonzero().float()


def test_the_image_shows_each_thing_in_its_color_at_its_place():
    env = laid(agent=12, green=20, red=4, wanted=RED)
    step = act(env, DOWN)
    image, signal = step.obs
    assert image.shape == (1, 3, 64, 84)
    assert signal.tolist() == [[0.0, 1.0]]
    # cells are 12.8 pixels wide, the board begins at column 10; red top right, green bottom left
    for color, (row, column) in ((RED_EX, (0, 4)), (GREEN_PLUS, (4, 0)), (BLUE_FRAME, (3, 2))):
        found = pixels_of(image[0], color)
        middle = torch.tensor([(row + 0.5) * 12.8 - 0.5, 10 + (column + 0.5) * 12.8 - 0.5])
        torch.testing.assert_close(found.mean(0), middle, atol=0.7, rtol=0)
        assert (found - middle).abs().max() <= 7.0
        assert len(found) > 40


def test_figures_are_bars_of_a_fifth_of_a_cell():
    """Worked by hand in the cell at row 2, column 2, whose middle is between the pixels 31 and 32, 41 and 42."""
    image = laid(agent=12, green=0, red=24, wanted=GREEN).state_dict()["obs_image"][0]
    frame = pixels_of(image, BLUE_FRAME).int().tolist()
    assert [26, 42] in frame  # 0.43 of a cell above the middle
    assert [28, 42] not in frame  # 0.27 above it: hollow
    image = laid(agent=0, green=12, red=24, wanted=GREEN).state_dict()["obs_image"][0]
    plus = pixels_of(image, GREEN_PLUS).int().tolist()
    assert [32, 37] in plus
    assert [28, 37] not in plus
    image = laid(agent=0, green=24, red=12, wanted=GREEN).state_dict()["obs_image"][0]
    ex = pixels_of(image, RED_EX).int().tolist()
    assert [28, 38] in ex  # on the diagonal
    assert [32, 37] not in ex


def test_walls_floor_and_shadows_have_their_grays():
    image = laid(agent=12, green=0, red=24, wanted=GREEN).state_dict()["obs_image"][0]
    assert torch.allclose(image[:, :, :10], torch.tensor(lit(WALL))[:, None, None].expand(3, 64, 10))
    assert torch.allclose(image[:, :, 74:], torch.tensor(lit(WALL))[:, None, None].expand(3, 64, 10))
    assert image[:, 45, 68].tolist() == pytest.approx(lit(CELL))  # inside the cell at row 3, column 4
    # 3.008 cells from the top: lines are thinner than pixels
    assert image[:, 38, 55].tolist() == pytest.approx(lit(CELL))
    assert image[:, 23, 34].tolist() == pytest.approx(lit(SHADED_CELL))  # up and left of the agent's frame
    assert image[:, 40, 50].tolist() == pytest.approx(lit(CELL))  # down and right of it
    # where only its left bar could cast a shadow, which it does not
    assert image[:, 25, 29].tolist() == pytest.approx(lit(CELL))
    assert image[:, 31, 43].tolist() == pytest.approx(lit(SHADED_CELL))  # within it, left of its right bar


def test_a_figure_of_three_quarters_of_a_cell_casts_its_shadow_up_and_left_without_gaps():
    """Its upper side's shadow falls 0.75 * 0.8425 = 0.63 of a cell up and left; pixels are 1/12.8 of a cell wide."""
    image = laid(agent=0, green=24, red=12, wanted=GREEN).state_dict()["obs_image"][0]
    row, column = 31, 41  # the middle of the ex in the cell at row 2, column 2
    shadow = pytest.approx(lit(SHADED_CELL))
    # on the diagonal the ex ends 0.354 of a cell up and left of its middle, its shadow 0.632 further: 12.6 pixels away
    assert all(image[:, row - away, column - away].tolist() == shadow for away in range(6, 12))
    assert image[:, row - 14, column - 14].tolist() == pytest.approx(lit(CELL))
    # the bar across the diagonal sweeps a band as wide as itself, 0.707 of a cell, that has no light in it
    assert all(image[:, row - away - 2, column - away + 2].tolist() == shadow for away in range(4, 9))


def test_the_last_image_of_an_episode_shows_the_agent_on_the_goal():
    env = laid(agent=12, green=13, red=0, wanted=GREEN)
    step = act(env, RIGHT)
    image, signal = step.final_obs.obs
    middle = torch.tensor([2.5 * 12.8 - 0.5, 10 + 3.5 * 12.8 - 0.5])
    torch.testing.assert_close(pixels_of(image[0], BLUE_FRAME).mean(0), middle, atol=0.7, rtol=0)
    assert signal.tolist() == [[1.0, 0.0]]


def test_repainting_only_what_moved_gives_the_image_of_a_new_painting():
    env = GridWorld(8)
    fresh = GridWorld(8)
    env.reset(3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        image = act(env, *torch.randint(0, 5, (8,), generator=generator).tolist()).obs[0]
        state = env.state_dict()
        state["obs_image"].fill_(0.5)
        assert torch.equal(image, repainted(fresh, state))


@pytest.mark.parametrize(
    ("height", "width", "expected"), [(19, 40, "20 to 512"), (64, 600, "20 to 512"), (64, 63, "as wide as")]
)
def test_an_image_that_is_too_small_or_too_large_or_too_narrow_is_refused(height: int, width: int, expected: str):
    with pytest.raises(EnvError, match=expected):
        GridWorld(1, height=height, width=width)


def test_parameters_lay_out_the_next_episodes_board():
    env = GridWorld(2)
    env.reset(0)
    env.set_parameters(
        {
            "gridSize": torch.tensor([5.0, 8.0]),
            "numPlusGoals": torch.tensor([1.0, 3.0]),
            "numExGoals": torch.tensor([1.0, 2.0]),
        }
    )
    act(env, NOTHING, NOTHING)
    assert env.state_dict()["edge"].tolist() == [5, 5]
    env.reset(0)
    state = env.state_dict()
    assert state["edge"].tolist() == [5, 8]
    counts = [[(row == thing).sum().item() for thing in (GREEN, RED, AGENT)] for row in state["board"]]
    assert counts == [[1, 1, 1], [3, 2, 1]]


@pytest.mark.slow
def test_both_colors_are_wanted_equally_often_and_the_agent_starts_anywhere():
    env = GridWorld(2000)
    signal = env.reset(1)["GridWorld"].obs[1]
    assert 0.45 < signal[:, 0].mean() < 0.55
    assert torch.equal(signal.sum(1), torch.ones(2000))
    assert env.state_dict()["agent"].unique().tolist() == list(range(25))
