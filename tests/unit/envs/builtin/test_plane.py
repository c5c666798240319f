from __future__ import annotations

import math

import pytest

from palaestra.envs.builtin.drawing.plane import BLUE, FLOOR, GOLD, GREEN, INK, PAPER, RED, Plane


def color(plane: Plane, x: float, y: float) -> tuple[int, ...]:
    """Of the pixel that shows a place; the plane is 100 x 50 pixels, ten a meter."""
    return tuple(int(value) for value in plane.to_array()[round(25 - 10 * y), round(50 + 10 * x)])


@pytest.fixture
def plane() -> Plane:
    return Plane(5.0, 2.5, pixels=100)


def test_the_picture_is_as_wide_and_high_as_the_plane(plane: Plane):
    assert plane.to_array().shape == (50, 100, 3)
    assert color(plane, 3, 1) == PAPER


def test_x_runs_to_the_right_and_y_up(plane: Plane):
    plane.circle((3, 1), 0.5, RED)
    assert color(plane, 3, 1) == RED
    assert color(plane, -3, -1) == color(plane, 3, -1) == PAPER


def test_a_box_turns_counterclockwise(plane: Plane):
    plane.box((0, 0), (2, 0.2), math.pi / 4, GOLD)
    assert color(plane, 1, 1) == GOLD
    assert color(plane, 1, -1) == color(plane, 1, 0) == PAPER


def test_an_agent_shows_where_it_faces_and_a_room_its_walls(plane: Plane):
    plane.floor((0, 0), (4, 2))
    plane.agent((0, 0), math.pi / 2, 1.0)
    assert color(plane, 0, 0.55) == pytest.approx(PAPER, abs=25)  # small things are blurred
    assert color(plane, 0, -0.55) == BLUE
    assert color(plane, 3, 0) == FLOOR
    assert color(plane, 4.2, 0) == pytest.approx(INK, abs=25)


def test_a_ray_ends_where_it_met_something(plane: Plane):
    plane.ray((0, 0), 0.0, 2.0, GREEN)
    assert color(plane, 2, 0) == pytest.approx(GREEN, abs=25)
    assert color(plane, 2.5, 0) == color(plane, -1, 0) == PAPER
