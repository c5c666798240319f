from itertools import groupby

import numpy as np
import pytest
import torch
from envs.builtin.worlds import act, change

from palaestra.core.errors import EnvError
from palaestra.core.timestep import TimeStep
from palaestra.envs.builtin.match3.env import Match3, Match3Visual

ROWS, COLUMNS, KINDS, MOVES = 9, 8, 6, 127
AREAS = 32
"""So many boards alike that on some of them nothing that comes from above adds to what a move scores."""


def rightward(row: int, column: int) -> int:
    return row * (COLUMNS - 1) + column


def upward(row: int, column: int) -> int:
    return ROWS * (COLUMNS - 1) + row * COLUMNS + column


def dead() -> np.ndarray:
    """A board without lines on which no move is allowed, of the colors 0 to 3: the others are free to be laid on it."""
    return (np.arange(COLUMNS) + 2 * np.arange(ROWS)[:, None]) % 4


def laid(
    pieces: dict[tuple[int, int], int], worth: dict[tuple[int, int], int] | None = None, areas: int = AREAS
) -> Match3:
    """The dead board of 9 x 8 with some pieces changed, in every area; all plain but those in `worth`. The moves are
    worked out here.
    """
    board = dead()
    value = np.zeros((ROWS, COLUMNS), dtype=np.int64)
    for cell, kind in pieces.items():
        board[cell] = kind
    for cell, special in (worth or {}).items():
        value[cell] = special
    env = Match3(areas, largest_boards=True)
    env.reset(0)
    change(
        env,
        kind=torch.from_numpy(board).flatten(),
        worth=torch.from_numpy(value).flatten(),
        mask=[makes_line(board, move) for move in range(MOVES)],
    )
    return env


def in_runs(line: np.ndarray) -> list[bool]:
    """Which cells of a row or column are in a run of three or more."""
    runs = [len(list(run)) for _, run in groupby(line.tolist())]
    return [length >= 3 for length in runs for _ in range(length)]


def lines(board: np.ndarray) -> np.ndarray:
    """Which cells stand in a line of three or more."""
    return np.array([in_runs(row) for row in board]) | np.array([in_runs(column) for column in board.T]).T


def cells_of(move: int) -> tuple[tuple[int, int], tuple[int, int]]:
    if move < ROWS * (COLUMNS - 1):
        row, column = divmod(move, COLUMNS - 1)
        return (row, column), (row, column + 1)
    row, column = divmod(move - ROWS * (COLUMNS - 1), COLUMNS)
    return (row, column), (row + 1, column)


def makes_line(board: np.ndarray, move: int) -> bool:
    a, b = cells_of(move)
    after = board.copy()
    after[a] = board[b]
    after[b] = board[a]
    return bool(lines(after).any())


def apart(found: np.ndarray) -> np.ndarray:
    """Boards whose cells beyond their size all differ, so that they form no lines."""
    return np.where(found < 0, 100 + np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS), found)


def is_inside(board: np.ndarray, move: int) -> bool:
    return all(board[cell] < KINDS for cell in cells_of(move))


def drawn(step: TimeStep, generator: torch.Generator) -> list[int]:
    assert step.action_mask is not None
    return torch.multinomial(step.action_mask.float(), 1, generator=generator)[:, 0].tolist()


def boards(env: Match3 | Match3Visual) -> np.ndarray:
    return env.state_dict()["kind"].view(-1, ROWS, COLUMNS).numpy()


def least_points(step: TimeStep) -> int:
    return round(step.reward.min().item() * 100)


THREE = {(4, 2): 5, (4, 3): 5, (5, 4): 5}
SHAPES = {
    "three across": (THREE, upward(4, 4), 3),
    "three along": ({(2, 3): 5, (3, 3): 5, (4, 4): 5}, rightward(4, 3), 3),
    "four": ({(4, 1): 5, (4, 2): 5, (5, 3): 5, (4, 4): 5}, upward(4, 3), 4),
    "five": ({(4, 1): 5, (4, 2): 5, (5, 3): 5, (4, 4): 5, (4, 5): 5}, upward(4, 3), 5),
    "an L": ({(4, 1): 5, (4, 2): 5, (2, 3): 5, (3, 3): 5, (4, 4): 5}, rightward(4, 3), 5),
    "a T": ({(4, 1): 5, (4, 2): 5, (3, 3): 5, (5, 3): 5, (4, 4): 5}, rightward(4, 3), 5),
    "a line for each of the two": (
        {(4, 1): 5, (4, 2): 5, (4, 4): 5, (4, 3): 4, (4, 5): 4, (4, 6): 4},
        rightward(4, 3),
        6,
    ),
}


@pytest.mark.parametrize(("pieces", "move", "points"), SHAPES.values(), ids=SHAPES)
def test_a_move_scores_a_point_for_each_piece_in_a_line(pieces: dict[tuple[int, int], int], move: int, points: int):
    env = laid(pieces)
    assert not lines(boards(env)[0]).any()
    assert least_points(act(env, move)) == points


@pytest.mark.parametrize(
    ("worth", "points"), [({(4, 2): 1}, 4), ({(4, 2): 2}, 5), ({(5, 4): 2, (4, 3): 1}, 6), ({(4, 4): 2}, 3)]
)
def test_special_pieces_score_twice_and_three_times_when_cleared(worth: dict[tuple[int, int], int], points: int):
    """In the last case one is only moved out of the line's way."""
    assert least_points(act(laid(THREE, worth), upward(4, 4))) == points


def test_what_falls_into_a_line_is_cleared_in_the_same_decision():
    """Three go in column 3, and the piece above them falls between two of its color."""
    pieces = {(0, 3): 5, (1, 3): 5, (2, 4): 5, (3, 3): 4, (0, 2): 4, (0, 4): 4}
    env = laid(pieces, {(3, 3): 1})
    assert not lines(boards(env)[0]).any()
    assert least_points(act(env, rightward(2, 3))) == 3 + 4


def test_pieces_above_drop_in_their_order():
    env = laid(THREE)
    before = boards(env)[0].copy()
    step = act(env, upward(4, 4))
    after = boards(env)[int(step.reward.argmin())]
    np.testing.assert_array_equal(after[:4], before[:4])
    np.testing.assert_array_equal(after[:, [0, 1, 5, 6, 7]], before[:, [0, 1, 5, 6, 7]])
    np.testing.assert_array_equal(after[4:8, 2:4], before[5:9, 2:4])
    assert after[4, 4] == before[4, 4]  # exchanged upward, and down again
    np.testing.assert_array_equal(after[5:8, 4], before[6:9, 4])


def test_a_move_that_makes_no_line_changes_nothing_but_takes_its_time():
    env = laid(THREE)
    before = boards(env).copy()
    step = act(env, rightward(0, 0))
    np.testing.assert_array_equal(boards(env), before)
    assert not step.reward.any()
    assert (env.state_dict()["age"] == 1).all()


def test_a_board_on_which_no_move_is_allowed_is_dealt_anew():
    env = laid({(8, 2): 5, (8, 3): 5, (7, 4): 5}, areas=256)
    before = boards(env)[0].copy()
    step = act(env, upward(7, 4))
    assert step.action_mask is not None
    assert step.action_mask.any(1).all()
    dealt = (boards(env)[:, :2] != before[:2]).sum((1, 2)) > 8
    assert dealt.any()
    assert not lines(boards(env)[int(dealt.argmax())]).any()


def test_exactly_the_moves_that_make_a_line_are_allowed():
    env = Match3(6)
    generator = torch.Generator().manual_seed(0)
    step = env.reset(3)[env.behavior]
    for _ in range(20):
        assert step.action_mask is not None
        for board, mask in zip(apart(boards(env)), step.action_mask, strict=True):
            assert not lines(board).any()
            assert mask.tolist() == [is_inside(board, move) and makes_line(board, move) for move in range(MOVES)]
        step = act(env, *drawn(step, generator))


def test_an_episode_is_cut_after_500_moves_with_its_last_board_shown():
    env = laid(THREE, areas=2)
    change(env, age=[499, 0])
    step = act(env, rightward(0, 0))
    assert step.truncated.tolist() == [True, False]
    assert not step.terminated.any()
    assert step.final_obs.slots.tolist() == [0]
    last = step.final_obs.obs[0].view(ROWS, COLUMNS, KINDS).argmax(2)
    np.testing.assert_array_equal(last, boards(env)[1])
    assert (boards(env)[0] != boards(env)[1]).any()
    assert env.state_dict()["age"].tolist() == [0, 1]


def test_both_observations_show_the_board():
    vector = Match3(3)
    image = Match3Visual(3)
    generator = torch.Generator().manual_seed(0)
    flat = vector.reset(5)[vector.behavior]
    planes = image.reset(5)[image.behavior]
    for _ in range(10):
        for column, types, seen, painted in zip(("kind", "worth"), (KINDS, 3), flat.obs, planes.obs, strict=True):
            state = vector.state_dict()
            expected = torch.eye(types)[state[column].long().clamp(min=0)] * (state["kind"] >= 0)[..., None]
            assert torch.equal(seen, expected.flatten(1))
            assert torch.equal(painted, expected.view(3, ROWS, COLUMNS, types).permute(0, 3, 1, 2))
        moves = drawn(flat, generator)
        flat = act(vector, *moves)
        planes = act(image, *moves)


def test_one_piece_in_ten_scores_three_times_and_two_in_ten_twice_in_six_colors_alike():
    env = Match3(500)
    env.reset(0)
    state = env.state_dict()
    on_board = state["kind"] >= 0
    shares = torch.bincount(state["worth"][on_board], minlength=3) / on_board.sum()
    assert shares.tolist() == pytest.approx([0.7, 0.2, 0.1], abs=0.01)
    colors = torch.bincount(state["kind"][on_board], minlength=KINDS) / on_board.sum()
    assert colors.tolist() == pytest.approx([1 / KINDS] * KINDS, abs=0.01)


def test_a_choice_that_is_none_is_named():
    env = Match3(2)
    env.reset(0)
    with pytest.raises(EnvError, match=r"Match3VectorObs.*agent 1.*127"):
        act(env, 0, MOVES)


def earned(env: Match3 | Match3Visual, moves: int) -> float:
    """A whole episode's, at the rate of this many moves by the environment's own rule."""
    env.reset(1)
    total = 0.0
    for _ in range(moves):
        action = env.heuristic(env.behavior)
        assert action is not None
        total += env.step({env.behavior: action})[env.behavior].reward.mean().item()
    return total / moves * 500


def test_the_greedy_rule_takes_the_move_that_scores_most():
    pieces = {**THREE, (7, 1): 4, (7, 2): 4, (8, 3): 4, (7, 4): 4}
    action = laid(pieces, {(7, 2): 2}).heuristic("Match3VectorObs")
    assert action is not None
    assert set(action.discrete[:, 0].tolist()) == {upward(7, 3)}


def test_the_simple_rule_takes_any_allowed_move():
    env = Match3(AREAS, greedy=False)
    mask = env.reset(0)[env.behavior].action_mask
    action = env.heuristic(env.behavior)
    assert action is not None
    assert mask is not None
    assert mask.gather(1, action.discrete).all()
    assert len(set(action.discrete[:, 0].tolist())) > AREAS / 2
    assert env.heuristic("Other") is None


def test_greed_earns_more_than_chance():
    """The documentation has 37.0 and 34.2; 2,000 episodes gave 37.08 and 34.24 on the largest boards, 34.92 and 32.17
    on all.
    """
    assert earned(Match3(200, greedy=False, largest_boards=True), 60) == pytest.approx(34.2, abs=0.8)
    # a new board has not been plundered yet
    assert earned(Match3Visual(200, largest_boards=True), 60) == pytest.approx(37.9, abs=1.2)
    assert earned(Match3(200, greedy=False), 60) == pytest.approx(32.2, abs=0.8)


def test_every_episode_has_a_board_of_6_to_9_rows_and_6_to_8_columns_filled_to_its_edges():
    env = Match3(2400)
    step = env.reset(0)[env.behavior]
    state = env.state_dict()
    rows = state["rows"]
    columns = state["columns"]
    counts = torch.bincount((rows - 6) * 3 + columns - 6, minlength=12) / len(rows)
    assert counts.tolist() == pytest.approx([1 / 12] * 12, abs=0.02)
    inside = (torch.arange(ROWS)[:, None] < rows[:, None, None]) & (torch.arange(COLUMNS) < columns[:, None, None])
    assert torch.equal(step.obs[0].view(-1, ROWS, COLUMNS, KINDS).sum(3), inside.float())
    assert torch.equal(step.obs[1].view(-1, ROWS, COLUMNS, 3).sum(3), inside.float())
    assert [obs.name for obs in env.behaviors[env.behavior].obs] == ["Match3 Sensor (cells)", "Match3 Sensor (special)"]


def test_pieces_fall_from_the_top_of_a_smaller_board():
    env = laid(THREE)
    state = env.state_dict()
    state["rows"][:] = 6
    state["kind"][:, 6 * COLUMNS :] = -1
    env.load_state_dict(state)
    before = boards(env)[0].copy()
    step = act(env, upward(4, 4))
    after = boards(env)[int(step.reward.argmin())]
    np.testing.assert_array_equal(after[:4], before[:4])
    np.testing.assert_array_equal(after[4, 2:4], before[5, 2:4])
    assert (after[6:] == -1).all()
    assert (after[:6] >= 0).all()
