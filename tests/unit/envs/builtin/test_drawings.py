"""What each built-in draws: places by hand, and rules that hold for all."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from envs.builtin.worlds import NAMES, begun, made

from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.drawing.figures import turned_by
from palaestra.envs.solids import GRAY, GREEN, Drawing, Solids
from palaestra.envs.wrapper import EnvWrapper

DRAWN = [name for name in NAMES if name not in ("Crawler", "Walker", "Worm")]
ABOVE = {"Tennis", "WallJump"}  # high balls and jumps leave the extent upward


def play(game: WarpEnv, ticks: int) -> None:
    env = EnvWrapper.of(game)
    for _ in range(ticks):
        moves = {name: env.heuristic(name) for name in env.behaviors}
        env.step({name: move for name, move in moves.items() if move is not None})


@cache
def drawn(name: str) -> tuple[Drawing, ...]:
    """Drawings of four areas as they start, and after every fifth decision of the heuristic."""
    env = made(name, 4)
    env.reset(2)
    drawings = [env.drawing(np.arange(4))]
    for _ in range(6):
        play(env, 5)
        drawings.append(env.drawing(np.arange(4)))
    return tuple(drawings)


def group(drawing: Drawing, name: str) -> Solids:
    return next(found for found in drawing.solids if found.name == name)


def placed(name: str, **columns: object) -> Drawing:
    """One area with these columns in place of those that it began with."""
    return begun(made(name, 1), **columns).drawing(np.array([0]))


@pytest.mark.parametrize("name", DRAWN)
def test_every_solid_is_finite_and_within_the_extent(name: str):
    for drawing in drawn(name):
        half = np.array(drawing.half) * 1.1 + 0.3
        for found in drawing.solids:
            assert np.isfinite(found.position).all()
            assert (found.size >= 0).all()
            assert np.linalg.norm(found.rotation, axis=-1) == pytest.approx(1.0, abs=1e-3)
            away = np.abs(found.position) * (found.size > 0).all(-1, keepdims=True)
            axes = [0, 2] if name in ABOVE else [0, 1, 2]
            assert (away.max((0, 1)) <= half)[axes].all(), found.name


@pytest.mark.parametrize("name", DRAWN)
def test_every_agent_has_solids_with_its_slot(name: str):
    env = made(name, 4)
    env.reset(0)
    drawing = env.drawing(np.array([3, 1]))
    seen: dict[str, set[int]] = {}
    for found in drawing.solids:
        if found.slot is not None:
            assert found.behavior in (*env.behaviors, "")
            seen.setdefault(found.behavior, set()).update(found.slot.ravel().tolist())
    roles = env.roles or ("" if len(env.behavior_names) > 1 else next(iter(env.behaviors)),) * env.agents
    assert seen == {
        role: {area * roles.count(role) + k for area in (1, 3) for k in range(roles.count(role))} for role in roles
    }


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_fixed_never_changes_and_the_groups_stay_the_same(name: str):
    first, *later = drawn(name)
    for drawing in later:
        for before, now in zip(first.solids, drawing.solids, strict=True):
            assert (before.name, before.shape, before.position.shape, before.fixed) == (
                now.name,
                now.shape,
                now.position.shape,
                now.fixed,
            )
            if now.fixed:
                assert all(
                    (getattr(before, what) == getattr(now, what)).all()
                    for what in ("position", "size", "rotation", "color")
                )


@pytest.mark.parametrize("name", DRAWN)
def test_areas_are_drawn_in_the_order_asked_for(name: str):
    env = made(name, 4)
    env.reset(1)
    whole = env.drawing(np.arange(4))
    some = env.drawing(np.array([3, 1]))
    for one, other in zip(whole.solids, some.solids, strict=True):
        for what in ("position", "size", "rotation", "color"):
            assert (getattr(one, what)[[3, 1]] == getattr(other, what)).all()


def test_an_agent_in_the_plane_stands_at_x_and_minus_y_and_its_arrow_points_ahead():
    standing = {"agent_position": [[2.0, 3.0]], "agent_angle": [math.pi / 2], "agent_fall": [[0.5, 0.0]]}
    drawing = placed("PushBlock", **standing, block_position=[[-4.0, 1.0]])
    assert group(drawing, "agent").position[0, 0].tolist() == pytest.approx([2.0, 0.4, -3.0])
    assert group(drawing, "block").position[0, 0, ::2].tolist() == pytest.approx([-4.0, -1.0])
    tip = turned_by(group(drawing, "agent's arrow").rotation[0, 0], (0.0, 1.0, 0.0))
    assert tip.tolist() == pytest.approx([0.0, 0.0, -1.0], abs=1e-6)


def test_the_ball_and_the_block_are_mirrored_from_left_handed_axes():
    half = math.sqrt(0.5)
    drawing = placed("3DBall", position=[[1.0, 3.0, 2.0]], tilt=[[half, 0.0, 0.0, half]])
    assert group(drawing, "ball").position[0, 0].tolist() == [1.0, 3.0, -2.0]
    # about x by 90 degrees, left-handed: y goes to z, which points away from the viewer
    assert turned_by(group(drawing, "block").rotation[0, 0], (0.0, 1.0, 0.0)).tolist() == pytest.approx(
        [0.0, 0.0, -1.0], abs=1e-6
    )


def test_a_pole_leans_to_the_right_by_its_angle():
    drawing = placed("CartPole", state=[[1.0, 0.0, 0.2, 0.0]])
    tip, axle = (group(drawing, name).position[0, 0] for name in ("tip", "axle"))
    assert (tip - axle).tolist() == pytest.approx([math.sin(0.2), math.cos(0.2), 0.0], abs=1e-6)
    assert axle[0] == pytest.approx(1.0)


def test_a_frozen_agent_is_gray_and_a_beam_ends_at_a_wall():
    place = [[[30.0, 0.0], [0.0, 0.0], [0.0, 5.0], [0.0, 10.0], [0.0, 15.0], [0.0, 0.0]]]
    level = [[0.0] * 6]
    on_floor = [[0.0] * 6]
    firing = [True, True, False, False, False]
    drawing = placed(
        "FoodCollector",
        body_position=place,
        body_angle=level,
        body_height=on_floor,
        firing=firing,
        frozen=[0, 0, 50, 0, 0],
    )
    assert (group(drawing, "agent").color[0] == GRAY).all(1).tolist() == [False, False, True, False, False]
    # the wall is at 50
    assert group(drawing, "beam").size[0, :, 0].tolist() == pytest.approx([20.0, 25.0, 0.0, 0.0, 0.0])
    assert group(drawing, "beam").position[0, 0].tolist() == pytest.approx([40.0, 0.5, 0.0])


def test_blocks_in_the_goal_and_dead_agents_are_hidden():
    gone = [[True, False, False, False, False, True]]
    sizes = group(placed("PushBlockCollab", gone=gone), "blocks").size[0]
    assert (sizes == 0).all(1).tolist() == gone[0]
    dungeon = placed("DungeonEscape", acting=[True, False, True], dragon_lives=[False], key_lies=[True])
    assert (group(dungeon, "agent").size[0] == 0).all(1).tolist() == [False, True, False]
    assert (group(dungeon, "dragon's body").size == 0).all()
    assert (group(dungeon, "key's bow").size > 0).all()


def test_a_board_shows_its_goals_the_wanted_one_and_the_agent():
    board = torch.zeros(1, 100)
    board[0, [0, 7, 24]] = torch.tensor([1.0, 2.0, 3.0])  # plus, cross, agent on 5 x 5 cells
    drawing = placed("GridWorld", board=board, edge=[5], agent=[24], wanted=[2])
    first = group(drawing, "plus 0")
    north = 0.5
    assert (first.size[0] > 0).all(1).tolist() == [True, False, False, False]
    assert first.position[0, 0, ::2].tolist() == pytest.approx([-2.0, -2.0 + north])
    assert group(drawing, "cross 0").position[0, 0, ::2].tolist() == pytest.approx([0.0, -1.0 + north])
    assert group(drawing, "agent").position[0, 0, ::2].tolist() == pytest.approx([2.0, 2.0 + north])
    assert (group(drawing, "wanted plus 0").size == 0).all()
    assert (group(drawing, "wanted cross 0").size > 0).all()


def test_goals_are_green_where_the_mark_is_right():
    drawing = placed("Hallway", symbol=[0], left_goal=[1])
    assert (group(drawing, "goal").color[0] == GREEN).all(1).tolist() == [False, True]
    assert (group(drawing, "plates").color[0] == GREEN).all(1).tolist() == [False, True]
    assert (group(drawing, "symbol's ring").size > 0).all()
    assert (group(drawing, "symbol's first beam").size == 0).all()


def test_tiles_show_their_numbers_by_height_and_touched_ones_are_green():
    drawing = placed("Sorter", tiles=[3], touched=[1], number=[[1, 5, 20, *[0] * 17]], place=[[0, 5, 10, *[0] * 17]])
    tiles = group(drawing, "tiles")
    assert (tiles.size[0] > 0).all(1).sum() == 3
    assert np.diff(tiles.size[0, :3, 1]).min() > 0
    assert (tiles.color[0, :3] == GREEN).all(1).tolist() == [True, False, False]
    north_east_south = np.array([[0, -20.5], [20.5, 0], [0, 20.5]])
    assert tiles.position[0, :3, ::2].tolist() == pytest.approx(north_east_south, abs=1e-4)


def test_players_face_each_other_over_the_net():
    drawing = placed("Tennis", position=[[-3.0, 1.0], [3.0, 1.0]], tilt=[0.5, 0.5], ball=[[2.0, 4.0]])
    racket = group(drawing, "racket")
    ball = group(drawing, "ball")
    assert racket.position[0, :, 0].tolist() == [-3.0, 3.0]
    normal = turned_by(racket.rotation[0, 0], (1.0, 0.0, 0.0))
    # a positive tilt looks down
    assert normal.tolist() == pytest.approx([math.cos(0.5), -math.sin(0.5), 0.0], abs=1e-6)
    assert racket.rotation[0, 0].tolist() == pytest.approx((racket.rotation[0, 1] * [1, 1, -1, 1]).tolist())
    assert (ball.position[0, 0] - racket.position[0, 1]).tolist() == pytest.approx([-1.0, 3.0, 0.0])


def test_pyramids_stand_as_they_are_stacked_until_their_cubes_are_loose():
    cube = torch.zeros(1, 7 * 26, 3)
    cube[0, 7 * 26 - 1] = torch.tensor([4.0, 5.0, 1.0])
    place = torch.zeros(1, 7, 2)
    place[0, 6] = torch.tensor([10.0, 20.0])
    standing, loose = (
        placed("Pyramids", pile=[[1, 0, 0, 0, 0, 0, state]], pile_place=place, cube=cube, pressed=[1])
        for state in (1, 3)
    )
    shown = (group(standing, "stones").size[0] > 0).all(1).reshape(6, 25)
    assert shown.all(1).tolist() == [True, *[False] * 5]
    assert group(standing, "golden block").position[0, 0].tolist() == pytest.approx([10.45, 5.0, -20.8])
    assert group(loose, "golden block").position[0, 0].tolist() == pytest.approx([4.0, 1.0, -5.0])
    assert (group(standing, "switch").color[0, 0] == GREEN).all()


def test_a_wall_is_as_high_as_the_state_says_and_the_agent_jumps():
    drawing = placed("WallJump", wall=[4.0], agent=[[1.0, -5.0]], height=[2.0])
    assert group(drawing, "wall").size[0, 0, 1] == pytest.approx(3.55)  # above the floor, at 0.45
    assert group(drawing, "agent").position[0, 0].tolist() == pytest.approx([1.0, 1.05 + 0.4, 1.0])
    assert (group(placed("WallJump", wall=[0.0]), "wall").size[0, 0] == 0).any()


def test_special_pieces_carry_dots():
    worth = torch.zeros(1, 72)
    worth[0, 0] = 1
    worth[0, 9] = 2
    drawing = placed("Match3", worth=worth, rows=[9], columns=[8])
    dots = [np.flatnonzero((group(drawing, f"dot {k}").size[0] > 0).all(1)).tolist() for k in range(2)]
    assert dots == [[0, 9], [9]]
    assert group(drawing, "pieces").position[0, 0, ::2].tolist() == pytest.approx([-3.5, 4.0])  # row 0 is in front
