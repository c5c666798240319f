"""Drawings as numbers for the browser."""

import numpy as np
import pytest

from palaestra.envs.solids import Drawing, solids, upright
from palaestra.web.scene.packing import NUMBERS, blend, grid, outline, rows, structure


def scene(x: float = 0.0, areas: int = 2, size: float = 1.0, angle: float = 0.0) -> Drawing:
    floor = solids("floor", "box", np.zeros((areas, 1, 3)), (4, 1, 4), (9, 9, 9), fixed=True)
    ball = solids(
        "ball",
        "sphere",
        np.full((areas, 1, 3), (x, 1, 0)),
        size,
        (1, 2, 3),
        rotation=upright(angle),
        agents=("Ball", [[0], [1]][:areas]),
    )
    return Drawing((floor, ball), (2.0, 1.0, 2.0))


def test_areas_stand_in_a_grid_around_the_origin():
    middles = grid(4, (1.0, 1.0, 1.0))
    assert middles.tolist() == [
        [pytest.approx(a), 0, pytest.approx(b)] for a, b in ((-1.12, -1.12), (1.12, -1.12), (-1.12, 1.12), (1.12, 1.12))
    ]
    assert grid(1, (5.0, 1.0, 3.0)).tolist() == [[0, 0, 0]]


def test_long_areas_stand_in_fewer_columns():
    assert len(set(grid(16, (8.0, 1.0, 1.0))[:, 0].tolist())) == 2


def test_a_row_has_position_turn_size_and_color():
    packed = rows(scene(x=0.5, areas=1, size=2.0))
    assert packed.shape == (1, NUMBERS)
    assert packed[0].tolist() == [0.5, 1, 0, 0, 0, 0, 1, 2, 2, 2, 0x010203]


def test_fixed_solids_are_in_the_outline_only():
    described = outline(scene())
    floor, ball = described["groups"]
    assert len(floor["fixed"]) == 2 * NUMBERS
    assert ball["fixed"] is None
    assert (ball["count"], ball["each"], ball["agents"]) == (2, 1, True)
    assert len(rows(scene())) == 2


def test_the_structure_stays_while_solids_move_and_changes_with_the_areas():
    assert structure(scene(0.0)) == structure(scene(1.0))
    assert structure(scene(areas=1)) != structure(scene(areas=2))


def test_between_two_ticks_a_solid_is_between_its_places():
    before = rows(scene(0.0, 1))
    now = rows(scene(1.0, 1, angle=np.pi / 2))
    quarter = blend(before, now, 0.25, extent=4.0)
    assert quarter[0, 0] == pytest.approx(0.25)
    assert np.linalg.norm(quarter[0, 3:7]) == pytest.approx(1)
    assert 0 < quarter[0, 4] < now[0, 4]
    assert blend(before, now, 1.0, 4.0) is now


def test_two_signs_of_one_rotation_are_not_blended_the_long_way():
    before = rows(scene(0.0, 1, angle=0.2))
    now = rows(scene(0.0, 1, angle=0.2))
    now[:, 3:7] *= -1
    assert abs(blend(before, now, 0.5, 4.0)[0, 3:7] @ before[0, 3:7]) == pytest.approx(1, abs=1e-6)


def test_a_solid_that_jumps_or_appears_is_where_it_is_now():
    before = rows(scene(0.0, 1))
    now = rows(scene(1.9, 1))
    assert blend(before, now, 0.5, extent=4.0)[0, 0] == pytest.approx(1.9)
    hidden = rows(scene(0.5, 1, size=0.0))
    assert blend(hidden, rows(scene(0.0, 1)), 0.5, 4.0)[0, 7] == 1


def test_a_solid_without_a_height_is_hidden():
    flat = solids("wall", "box", [[[0, 0, 0], [1, 0, 0]]], [[8, 0, 1], [8, 2, 1]], (1, 2, 3))
    assert rows(Drawing((flat,), (4, 1, 4)))[:, 7:10].tolist() == [[0, 0, 0], [8, 2, 1]]


def test_the_heights_are_those_of_what_is_seen_within_the_area():
    assert outline(scene())["heights"] == (-0.5, 1.0)  # the floor's underside; room above the ball ends with the area
    tall = Drawing(scene(size=0.5).solids, (2.0, 9.0, 2.0))
    assert outline(tall)["heights"] == pytest.approx((-0.5, 1.25 + 0.08 * 9))
