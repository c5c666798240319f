# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""Marks against cells worked by hand, and against fine sampling of the outline."""

from __future__ import annotations

import math

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.grid import clear_grid, grid_around, mark_box, mark_circle, mark_point

wp.set_module_options({"enable_backward": False})

SIDE = 8


@wp.kernel
def lay(
    marks: wp.array4d(dtype=wp.float32), written: wp.array2d(dtype=wp.int32), pose: wp.vec3, thing: wp.array(dtype=wp.float32), kind: int
):
    """Wipes the grid of an agent at `pose` (x, y, angle) and lays one thing over it: x, y, half sides, angle."""
    grid = grid_around(marks, written, 0, wp.vec2(pose[0], pose[1]), pose[2], 0.5)
    clear_grid(grid)
    center = wp.vec2(thing[0], thing[1])
    if kind == 0:
        mark_point(grid, 1, center)
    if kind == 1:
        mark_circle(grid, 1, center, thing[2])
    if kind == 2:
        mark_box(grid, 1, center, wp.vec2(thing[2], thing[3]), thing[4])


POINT, CIRCLE, BOX = 0, 1, 2


class Sensor:
    """Grids of 8 x 8 cells with edges of 0.5 and two tags."""

    def __init__(self, most: int = 100) -> None:
        self.marks = wp.zeros((1, 2, SIDE, SIDE), dtype=wp.float32, device="cpu")
        self.written = wp.zeros((1, 1 + most), dtype=wp.int32, device="cpu")

    def lay(self, kind: int, thing: list[float], pose: tuple[float, float, float] = (0.0, 0.0, math.pi / 2)) -> np.ndarray:
        numbers = wp.array(thing, dtype=wp.float32, device="cpu")
        wp.launch(lay, dim=1, inputs=[self.marks, self.written, wp.vec3(*pose), numbers, kind], device="cpu")
        return self.marks.numpy()[0].copy()


def cells(grid: np.ndarray) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in np.argwhere(grid[1])}


def test_what_lies_ahead_and_to_the_left_is_marked_up_and_left():
    assert cells(Sensor().lay(POINT, [-0.6, 1.2])) == {(1, 2)}


def test_the_grid_turns_with_the_agent():
    # looking along +x from (3, 4): a point 1.2 ahead and 0.6 to the left
    assert cells(Sensor().lay(POINT, [4.2, 4.6], (3.0, 4.0, 0.0))) == {(1, 2)}


def test_only_the_channel_of_the_tag_is_marked_with_ones():
    grid = Sensor().lay(CIRCLE, [0.0, 0.0, 0.6])
    assert grid[0].sum() == 0
    assert set(np.unique(grid[1])) == {0.0, 1.0}


def test_a_circle_leaves_out_the_corners_it_does_not_reach():
    grid = cells(Sensor().lay(CIRCLE, [0.0, 0.0, 0.6]))
    # 1.2 cells about the corner in the middle: the inner four, and the two beyond on each side; not the corners at distance sqrt(2)
    assert grid == {(y, x) for y in range(2, 6) for x in range(2, 6)} - {(2, 2), (2, 5), (5, 2), (5, 5)}


def test_what_lies_outside_marks_nothing():
    sensor = Sensor()
    for thing in ([0.0, 9.0, 0.5], [0.0, -9.0, 0.5], [9.0, 0.0, 0.5], [-9.0, 0.0, 0.5]):
        assert cells(sensor.lay(CIRCLE, thing)) == set()
        assert cells(sensor.lay(POINT, thing)) == set()
        assert cells(sensor.lay(BOX, [*thing, 0.5, 1.0])) == set()


@pytest.mark.parametrize("kind", [CIRCLE, BOX])
def test_marks_are_the_cells_that_samples_of_the_shape_fall_into(kind: int):
    rng = np.random.default_rng(3)
    sensor = Sensor()
    for _ in range(40):
        x, y, turn, pose_turn = rng.uniform(-2, 2), rng.uniform(-2, 2), rng.uniform(-4, 4), rng.uniform(-4, 4)
        half = rng.uniform(0.1, 3.0, 2) if kind == BOX else np.repeat(rng.uniform(0.1, 1.5), 2)
        thing, pose = [x, y, *half, turn], (rng.uniform(-1, 1), rng.uniform(-1, 1), pose_turn)
        marked, sampled = cells(sensor.lay(kind, thing, pose)), sampled_cells(kind, thing, pose)
        assert sampled <= marked
        assert len(marked - sampled) <= 2  # corners that no sample has met


def sampled_cells(kind: int, thing: list[float], pose: tuple[float, float, float]) -> set[tuple[int, int]]:
    u, v = (axis.ravel() for axis in np.meshgrid(np.linspace(-1, 1, 241), np.linspace(-1, 1, 241)))
    if kind == CIRCLE:
        inside = u * u + v * v <= 1
        u, v = u[inside], v[inside]
    u, v, angle = u * thing[2], v * thing[3], thing[4]
    x = thing[0] + np.cos(angle) * u - np.sin(angle) * v - pose[0]
    y = thing[1] + np.sin(angle) * u + np.cos(angle) * v - pose[1]
    ahead, right = np.cos(pose[2]) * x + np.sin(pose[2]) * y, np.sin(pose[2]) * x - np.cos(pose[2]) * y
    row, column = np.floor(SIDE / 2 - ahead / 0.5).astype(int), np.floor(SIDE / 2 + right / 0.5).astype(int)
    seen = (row >= 0) & (row < SIDE) & (column >= 0) & (column < SIDE)
    return set(zip(row[seen].tolist(), column[seen].tolist(), strict=True))


@pytest.mark.parametrize("most", [100, 2])
def test_a_tick_wipes_what_the_last_one_marked(most: int):
    sensor = Sensor(most)
    assert len(cells(sensor.lay(CIRCLE, [0.0, 0.0, 1.0]))) > 10
    assert cells(sensor.lay(POINT, [0.1, 0.1])) == {(3, 4)}
