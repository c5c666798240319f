# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""Marks against cells worked by hand, and against every cell tested by itself."""

import math

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.grid import (
    aim_grid,
    clear_grid,
    close_grid,
    grid_around,
    mark_box,
    mark_circle,
    mark_edge,
)

wp.set_module_options({"enable_backward": False})

SIDE, CELL, TAGS = 8, 0.5, 3
BALL, BOX, EDGE = 0, 1, 2
AHEAD = (0.0, 0.0, 0.0)  # at the origin, looking along x


@wp.kernel
def lay(
    marks: wp.array4d(dtype=wp.float32),
    owner: wp.array2d(dtype=wp.int32),
    written: wp.array2d(dtype=wp.int32),
    bounds: wp.array2d(dtype=wp.vec4),
    pose: wp.vec3,
    things: wp.array2d(dtype=wp.float32),
):
    """Clears the grid of an agent at `pose` (x, y, angle) and lays things on it: kind, tag, x, y, half sides, angle."""
    grid = aim_grid(grid_around(marks, owner, written, bounds, 0, 0), wp.vec2(pose[0], pose[1]), pose[2], 0.5)
    clear_grid(grid)
    for k in range(things.shape[0]):
        tag = int(things[k, 1])
        center = wp.vec2(things[k, 2], things[k, 3])
        half = wp.vec2(things[k, 4], things[k, 5])
        if things[k, 0] == 0.0:
            mark_circle(grid, k, tag, center, half[0], half[1])
        if things[k, 0] == 1.0:
            mark_box(grid, k, tag, center, half, things[k, 6])
        if things[k, 0] == 2.0:
            mark_edge(grid, k, tag, center, half, wp.vec4(-3.0, -2.0, 4.0, 5.0))
    close_grid(grid)


def ball(tag: int, x: float, y: float, radius: float, extent: float | None = None) -> list[float]:
    return [BALL, tag, x, y, radius, radius if extent is None else extent, 0.0]


def box(tag: int, x: float, y: float, half: tuple[float, float], angle: float = 0.0) -> list[float]:
    return [BOX, tag, x, y, *half, angle]


class Sensor:
    """Grids of 8 x 8 cells with edges of 0.5 and three tags."""

    def __init__(self, most: int = 100) -> None:
        self.marks = wp.zeros((1, TAGS, SIDE, SIDE), dtype=wp.float32, device="cpu")
        self.owner = wp.zeros((1, SIDE * SIDE), dtype=wp.int32, device="cpu")
        self.written = wp.zeros((1, 1 + most), dtype=wp.int32, device="cpu")
        self.bounds = wp.zeros((1, 20), dtype=wp.vec4, device="cpu")

    def lay(self, *things: list[float], pose: tuple[float, float, float] = AHEAD) -> np.ndarray:
        numbers = wp.array(np.array(things, np.float32), dtype=wp.float32, device="cpu")
        wp.launch(
            lay,
            dim=1,
            inputs=[self.marks, self.owner, self.written, self.bounds, wp.vec3(*pose), numbers],
            device="cpu",
        )
        return self.marks.numpy()[0].copy()


def cells(grid: np.ndarray, tag: int = 1) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in np.argwhere(grid[tag])}


def test_columns_run_ahead_and_rows_to_the_left():
    # 1.2 ahead and 0.6 to the left: 2.4 cells beyond the middle of a row, 1.2 rows above that of the grid, both counted
    # from 4
    assert cells(Sensor().lay(ball(1, 1.2, 0.6, 0.01))) == {(5, 6)}
    assert cells(Sensor().lay(ball(1, -1.2, -0.6, 0.01))) == {(2, 1)}


def test_the_grid_turns_with_the_agent():
    # looking along y from (3, 4): the same 1.2 ahead and 0.6 to the left
    assert cells(Sensor().lay(ball(1, 2.4, 5.2, 0.01), pose=(3.0, 4.0, math.pi / 2))) == {(5, 6)}


def test_a_circle_leaves_out_the_corners_it_does_not_reach():
    grid = cells(Sensor().lay(ball(1, 0.0, 0.0, 0.6)))
    # 1.2 cells about the corner in the middle: the inner four, and the two beyond on each side; not the corners at
    # distance sqrt(2)
    assert grid == {(y, x) for y in range(2, 6) for x in range(2, 6)} - {(2, 2), (2, 5), (5, 2), (5, 5)}


def test_a_thin_face_marks_the_cells_that_it_crosses():
    grid = Sensor().lay([EDGE, 2, -1.9, 0.2, 0.9, 0.2, 0.0])
    assert cells(grid, 2) == {(4, x) for x in range(6)}


def test_what_lies_outside_marks_nothing():
    sensor = Sensor()
    for x, y in ((0.0, 9.0), (0.0, -9.0), (9.0, 0.0), (-9.0, 0.0)):
        assert sensor.lay(ball(1, x, y, 0.5), box(1, x, y, (0.5, 1.0)), [EDGE, 1, x, y, x + 1, y + 1, 0.0]).sum() == 0


def test_a_shared_cell_shows_the_thing_that_is_nearer_to_the_middle():
    # both reach into the cell from 1.0 to 1.5
    near = box(1, 0.9, 0.25, (0.2, 0.1))
    far = box(2, 1.35, 0.25, (0.2, 0.1))
    for things in ((near, far), (far, near)):
        grid = Sensor().lay(*things)
        assert grid[:, 4, 6].tolist() == [0, 1, 0]
        assert grid[:, 4, 7].tolist() == [0, 0, 1]  # where the nearer one does not reach


def test_what_counts_is_the_bounding_box():
    # the cell's middle is at (1.25, 0.25): within the bounding box of the turned box, 0.05 before that of the ball
    ball_behind = ball(1, 1.5, 0.25, 0.2)
    turned = box(2, 0.9, -0.1, (0.6, 0.05), math.pi / 4)
    assert Sensor().lay(ball_behind, turned)[:, 4, 6].tolist() == [0, 0, 1]
    # of two that hold the middle of the cell the first stays
    assert Sensor().lay(box(1, 1.2, 0.2, (0.5, 0.5)), box(2, 1.0, 0.0, (1.0, 1.0)))[:, 4, 6].tolist() == [0, 1, 0]


def overlaps(thing: list[float], center: np.ndarray, ahead: np.ndarray) -> bool:
    """Whether a thing overlaps the cell around a center, by separating axes."""
    sides = np.stack([ahead, [-ahead[1], ahead[0]]])
    corners = center + np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * (CELL / 2) @ sides
    kind, _, x, y, w, h, angle = thing
    if kind == BALL:
        local = np.abs(sides @ (np.array([x, y]) - center)) - CELL / 2
        return bool(np.linalg.norm(np.maximum(local, 0)) < w)
    own = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    shape = np.array([x, y]) + np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) @ own
    for axis in (*sides, *own):
        a = corners @ axis
        b = shape @ axis
        if a.max() < b.min() or b.max() < a.min():
            return False
    return True


def distance(thing: list[float], center: np.ndarray, middle: np.ndarray) -> float:
    """How far the point of a thing's bounding box that is nearest to the cell's center is from the grid's middle."""
    kind, _, x, y, w, h, angle = thing
    c = abs(math.cos(angle))
    s = abs(math.sin(angle))
    extent = np.array([h, h]) if kind == BALL else np.array([c * w + s * h, s * w + c * h])
    place = np.array([x, y])
    return float(np.linalg.norm(np.clip(center, place - extent, place + extent) - middle))


def shown(things: list[list[float]], pose: tuple[float, float, float]) -> np.ndarray:
    """The grid, each cell by itself."""
    grid = np.zeros((TAGS, SIDE, SIDE))
    middle = np.array(pose[:2])
    ahead = np.array([math.cos(pose[2]), math.sin(pose[2])])
    left = np.array([-ahead[1], ahead[0]])
    for row in range(SIDE):
        for column in range(SIDE):
            center = middle + CELL * ((column + 0.5 - SIDE / 2) * ahead + (row + 0.5 - SIDE / 2) * left)
            there = [thing for thing in things if overlaps(thing, center, ahead)]
            if there:
                grid[int(min(there, key=lambda thing: round(distance(thing, center, middle), 5))[1]), row, column] = 1
    return grid


def test_random_scenes_show_what_each_cell_does_by_itself():
    rng = np.random.default_rng(3)
    sensor = Sensor()
    wrong = 0
    for _ in range(60):
        pose = (*rng.uniform(-1, 1, 2), rng.uniform(-4, 4))
        things = [
            box(
                int(rng.integers(TAGS)),
                *rng.uniform(-2.5, 2.5, 2),
                tuple(rng.uniform(0.05, 1.5, 2)),
                rng.uniform(-4, 4),
            )
            if rng.random() < 0.6
            else ball(int(rng.integers(TAGS)), *rng.uniform(-2.5, 2.5, 2), rng.uniform(0.1, 1.0), 1.0)
            for _ in range(5)
        ]
        wrong += int(np.abs(sensor.lay(*things, pose=pose) - shown(things, pose)).max(0).sum())
    # of 3,840: bounding boxes that are equally near but for rounding, and shapes that touch a cell at a corner
    assert wrong <= 6


@pytest.mark.parametrize("most", [100, 2])
def test_a_tick_clears_what_the_last_one_marked(most: int):
    sensor = Sensor(most)
    assert len(cells(sensor.lay(ball(1, 0.0, 0.0, 1.0), ball(2, 0.3, 0.0, 1.0)))) > 3
    grid = sensor.lay(ball(1, 0.1, 0.1, 0.01))
    assert cells(grid) == {(4, 4)}
    assert grid.sum() == 1
