"""Pictures of solids whose pixels can be told by hand: a camera that looks along the floor at an area 2 m wide and
high.
"""

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from numpy.typing import NDArray

from palaestra.envs.builtin.drawing.figures import lying
from palaestra.envs.builtin.drawing.raycast import camera_of, picture_of
from palaestra.envs.solids import BLUE, GOLD, GREEN, INK, RED, Drawing, Shape, Solids, solids, upright

EDGE = 100
MIDDLE = np.zeros((1, 1, 3))


def drawn(
    *shapes: Solids, elevation: float = 0.0, half: tuple[float, float, float] = (1.0, 1.0, 0.01)
) -> NDArray[np.uint8]:
    """The picture of an area that is nearly flat, so that a meter has the same length everywhere in it."""
    return picture_of(Drawing(shapes, half, elevation), EDGE)


def covered(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Pixels with a color; ground, sky and shadows are gray."""
    return np.ptp(picture, axis=2) > 30


def meter(picture: NDArray[np.uint8]) -> float:
    """Pixels of a meter: the extent of 2 m and a margin of 3 % fill the picture's edge."""
    return picture.shape[1] / (2 * 1.03)


def test_a_sphere_covers_a_disc_in_the_middle():
    picture = drawn(solids("ball", "sphere", MIDDLE, 1.0, GOLD))
    assert picture.shape == (EDGE, EDGE, 3)
    shown = covered(picture)
    assert shown.sum() == pytest.approx(pi * (0.5 * meter(picture)) ** 2, rel=0.05)
    rows, columns = np.nonzero(shown)
    assert [rows.mean(), columns.mean()] == pytest.approx([EDGE / 2 - 0.5] * 2, abs=0.5)


def test_x_points_to_the_right_and_y_up():
    picture = drawn(solids("ball", "sphere", [[[0.5, 0.5, 0.0]]], 0.4, RED))
    rows, columns = np.nonzero(covered(picture))
    assert columns.mean() == pytest.approx(EDGE / 2 + 0.5 * meter(picture), abs=1)
    assert rows.mean() == pytest.approx(EDGE / 2 - 0.5 * meter(picture), abs=1)


def test_a_box_turned_by_45_degrees_is_as_wide_as_its_diagonal():
    straight, turned = (
        covered(
            drawn(
                solids("box", "box", MIDDLE, (1.0, 0.5, 1.0), BLUE, rotation=upright(angle)),
                elevation=90.0,
                half=(1.0, 0.01, 1.0),
            )
        )
        for angle in (0.0, pi / 4)
    )
    pixels = EDGE / (2 * 1.03)
    assert straight.any(0).sum() < 1.15 * pixels  # its top is a little nearer than the extent
    assert turned.any(0).sum() / straight.any(0).sum() == pytest.approx(2**0.5, rel=0.04)
    assert turned.sum() == pytest.approx(straight.sum(), rel=0.04)
    # where the straight one has a corner
    assert not turned[EDGE // 2 - int(0.55 * pixels), EDGE // 2 - int(0.45 * pixels)]
    assert straight[EDGE // 2 - int(0.48 * pixels), EDGE // 2 - int(0.48 * pixels)]


def test_a_cone_narrows_upward_and_a_cylinder_does_not():
    shapes: tuple[tuple[Shape, float], ...] = (("cone", 0.5), ("cylinder", 1.0))
    for shape, share in shapes:
        picture = drawn(solids("figure", shape, MIDDLE, (1.0, 1.0, 0.02), GREEN))
        shown = covered(picture)
        widths = shown.sum(1)[shown.any(1)]
        assert widths[len(widths) // 2] / widths.max() == pytest.approx(share, abs=0.05)


def test_a_cone_laid_down_points_ahead():
    picture = drawn(
        solids("arrow", "cone", MIDDLE, (0.3, 1.0, 0.6), RED, rotation=lying(pi / 2)),
        elevation=90.0,
        half=(1.0, 0.01, 1.0),
    )
    shown = covered(picture)
    rows = np.nonzero(shown.any(1))[0]
    # the tip is at the top: toward y of the plane, away from the viewer
    assert shown[rows[2]].sum() < 6 < shown[rows[-3]].sum()
    assert len(rows) == pytest.approx(EDGE / 2.06, rel=0.15)


def test_what_has_no_size_is_not_drawn():
    sizes = [[(0.0, 0.0, 0.0), (1.0, 0.0, 1.0)]]
    assert not covered(drawn(solids("gone", "box", np.zeros((1, 2, 3)), sizes, RED))).any()


def test_the_nearer_solid_hides_the_other():
    places = [[[0.0, 0.0, -0.3]], [[0.0, 0.0, 0.3]]]
    far, near = (
        solids(f"at {place}", "sphere", [place], 0.6, color) for place, color in zip(places, (BLUE, RED), strict=True)
    )
    for order in ((far, near), (near, far)):
        red, _, blue = drawn(*order)[EDGE // 2, EDGE // 2].tolist()
        assert red > blue


def test_one_sees_through_a_solid_that_is_not_opaque():
    ball = solids("ball", "sphere", MIDDLE, 0.6, RED)
    glass = solids("glass", "box", [[[0.0, 0.0, 0.5]]], (1.0, 1.0, 0.1), BLUE)
    whole, half, none = (
        drawn(ball, replace(glass, opacity=share))[EDGE // 2, EDGE // 2].astype(int) for share in (1.0, 0.5, 0.0)
    )
    assert half.tolist() == pytest.approx(((whole + none) / 2).tolist(), abs=2)


def test_a_solid_throws_its_shadow_away_from_the_light():
    floor = solids("floor", "box", [[[0.0, -0.05, 0.0]]], (2.0, 0.1, 2.0), GREEN)
    ball = solids("ball", "sphere", [[[0.0, 0.6, 0.0]]], 0.4, RED)
    lit, shaded = (
        drawn(*shapes, elevation=90.0, half=(1.0, 0.01, 1.0)).astype(int).sum(2) for shapes in ((floor,), (floor, ball))
    )
    darker = np.argwhere(lit - shaded > 40)  # the light comes from the right and the front
    darker = darker[((darker - EDGE / 2) ** 2).sum(1) > 20**2]  # beside the ball
    assert len(darker)
    assert (darker.mean(0) < EDGE / 2).all()


def test_the_ground_lies_below_the_lowest_solid_under_a_sky_and_grows_pale_far_away():
    shapes = (
        solids("ball", "sphere", [[[0.0, 0.6, 0.0]]], 0.4, RED),
        solids("feet", "box", MIDDLE, (0.2, 2.0, 0.2), RED),
    )
    picture = drawn(*shapes, elevation=20.0, half=(1.0, 1.0, 1.0)).astype(int)
    above, below = picture[2, 5], picture[-3, -5]
    assert above[2] > above[0]  # a blue sky, and gray ground
    assert np.ptp(below) < 12
    assert picture[EDGE // 2, 3].sum() > below.sum()
    # the shadow of the ball on the ground, to the left and behind
    darker = np.argwhere((np.ptp(picture, axis=2) < 12) & (picture.sum(2) < 0.8 * below.sum()))
    assert len(darker) > 20
    assert darker[:, 1].mean() < EDGE / 2


def test_a_solid_is_darker_toward_its_feet():
    picture = drawn(solids("box", "box", MIDDLE, 1.0, RED)).astype(int)
    column = picture[:, EDGE // 2, 0][covered(picture)[:, EDGE // 2]]
    assert column[-2] == pytest.approx(0.72 * column[2], abs=4)


def test_the_camera_comes_so_near_that_the_extent_just_fits():
    half = (4.0, 1.0, 3.0)
    corners = [(x, y, z) for x in (-4, 4) for y in (-1, 1) for z in (-3, 3)]
    drawing = Drawing((solids("corners", "sphere", [corners], 0.01, INK),), half)
    camera = camera_of(drawing)
    assert camera.width == 480  # it is wider than deep
    offset = np.array(corners) - camera.eye
    pixel = np.linalg.norm(camera.right)
    ahead = np.cross(camera.up, camera.right) / pixel**2
    seen = (offset / (offset @ ahead)[:, None] - camera.corner) @ np.stack([camera.right, -camera.up], 1) / pixel**2
    assert 0 < seen[:, 0].min() < 0.03 * camera.width
    assert seen[:, 1].min() > 0
    assert seen[:, 0].max() < camera.width
    assert seen[:, 1].max() < camera.height


@pytest.mark.parametrize(
    ("half", "shape"), [((10.0, 0.1, 1.0), (144, 480)), ((1.0, 0.1, 1.0), None), ((5.0, 0.1, 30.0), None)]
)
def test_no_picture_is_too_flat_or_too_tall(half: tuple[float, float, float], shape: tuple[int, int] | None):
    picture = picture_of(Drawing((solids("dot", "sphere", MIDDLE, 0.1, INK),), half))
    assert picture.shape[:2] == shape or shape is None
    assert max(picture.shape) <= 480
    assert picture.dtype == np.uint8
