# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""The camera against scenes whose pixels can be told by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.camera import STRIPS, add_box, add_circle, add_room, is_bare, make_sight, paint_row

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

HEIGHT, WIDTH = 20, 30
UP = math.pi / 2
BLACK, RED, GREEN, BLUE = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


@wp.kernel
def by_eye(strips: wp.array3d(dtype=wp.float32), pose: wp.vec3, circle: wp.vec3, box: wp.vec4, turn: float):
    """A blue room, half sides 30 and 20, walls 2 high; a red box and a green circle, as high as the eye."""
    sight = make_sight(strips, 0, wp.vec2(pose[0], pose[1]), pose[2], 1.0)
    add_room(sight, wp.vec2(30.0, 20.0), 2.0, wp.vec3(0.0, 0.0, 1.0))
    add_circle(sight, wp.vec2(circle[0], circle[1]), circle[2], 1.0, wp.vec3(0.0, 1.0, 0.0))
    add_box(sight, wp.vec2(box[0], box[1]), wp.vec2(box[2], box[3]), turn, 1.0, wp.vec3(1.0, 0.0, 0.0))


@wp.kernel
def developed(strips: wp.array3d(dtype=wp.float32), image: wp.array4d(dtype=wp.float32), bare: wp.array(dtype=wp.bool)):
    """Sky of 0.25 gray, ground of 0.5."""
    y = wp.tid()
    bare[y] = is_bare(strips, image, 0, y)
    paint_row(strips, image, 0, y, wp.vec3(0.25, 0.25, 0.25), wp.vec3(0.5, 0.5, 0.5))


NOWHERE = (500.0, 500.0, 1.0)
NO_BOX = (500.0, 500.0, 1.0, 1.0)


def ahead(pose=(0.0, 0.0, UP), circle=NOWHERE, box=NO_BOX, turn=0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The image (H, W, 3), the strips (W, STRIPS) and which rows are bare (H,)."""
    strips = wp.zeros((1, WIDTH + 1, STRIPS), dtype=wp.float32, device="cpu")
    image = wp.zeros((1, 3, HEIGHT, WIDTH), dtype=wp.float32, device="cpu")
    bare = wp.zeros(HEIGHT, dtype=wp.bool, device="cpu")
    wp.launch(by_eye, dim=1, inputs=[strips, wp.vec3(*pose), wp.vec3(*circle), wp.vec4(*box), turn], device="cpu")
    wp.launch(developed, dim=HEIGHT, inputs=[strips, image, bare], device="cpu")
    return image.numpy()[0].transpose(1, 2, 0), strips.numpy()[0, :WIDTH], bare.numpy()


def places(image: np.ndarray, color: tuple[float, float, float]) -> set[tuple[int, int]]:
    return {(int(y), int(x)) for y, x in np.argwhere((image == color).all(2))}


def test_the_wall_ahead_is_as_high_as_its_distance_says():
    image, strips, _ = ahead()
    np.testing.assert_allclose(strips[10:20, 0], 20.0, rtol=1e-5)  # depth, not the length of the ray
    np.testing.assert_allclose(strips[10:20, 1:3], [[-1 / 20, 1 / 20]] * 10, rtol=1e-5)
    # rows 9 and 10 look 1/30 up and down, rows 8 and 11 look 3/30
    blue = places(image, (0.0, 0.0, float(np.float32(30 / 50))))
    assert {y for y, x in blue if 10 <= x < 20} == {9, 10}
    np.testing.assert_allclose(image[:9, 15], 0.25)
    np.testing.assert_allclose(image[11:, 15], 0.5)


def test_a_thing_hides_the_wall_behind_it_in_the_columns_it_spans():
    _, strips, _ = ahead(box=(0.0, 6.0, 2.0, 1.0))
    seen = strips[:, 6] < 1e8
    # its front is 5 ahead and 2 to each side: 0.4 of the half view of 15 columns, 6 of them
    assert np.flatnonzero(seen).tolist() == list(range(9, 21))
    np.testing.assert_allclose(strips[9:21, 6], 5.0, rtol=1e-5)


def test_the_nearer_of_two_things_is_seen_whichever_came_first():
    _, near_circle, _ = ahead(circle=(0.0, 4.0, 1.0), box=(0.0, 10.0, 2.0, 1.0))
    assert near_circle[15, 9:12].argmax() == 1
    _, near_box, _ = ahead(circle=(0.0, 10.0, 1.0), box=(0.0, 4.0, 2.0, 1.0))
    assert near_box[15, 9:12].argmax() == 0


def test_every_column_meets_a_circle_where_its_ray_does():
    circle = (3.0, 5.0, 1.5)
    _, strips, _ = ahead(circle=circle)
    right = (np.arange(WIDTH) + 0.5 - WIDTH / 2) / (WIDTH / 2)
    # |t (right, 1) - center| = radius
    a, b, c = right**2 + 1, right * circle[0] + circle[1], circle[0] ** 2 + circle[1] ** 2 - circle[2] ** 2
    root = b * b - a * c
    met = root > 0
    assert np.flatnonzero(strips[:, 6] < 1e8).tolist() == np.flatnonzero(met).tolist()
    np.testing.assert_allclose(strips[met, 6], ((b - np.sqrt(np.maximum(root, 0))) / a)[met], rtol=1e-4)


def test_what_is_behind_is_not_seen():
    _, strips, _ = ahead(circle=(0.0, -5.0, 1.0), box=(3.0, -4.0, 1.0, 1.0))
    assert (strips[:, 6] > 1e8).all()


def test_further_is_darker_and_all_is_within_0_and_1():
    near, far = ahead(box=(0.0, 3.0, 1.0, 1.0))[0], ahead(box=(0.0, 9.0, 1.0, 1.0))[0]
    assert near[..., 0].max() > far[..., 0].max() > 0.5
    for image in (near, far):
        assert 0 <= image.min() <= image.max() <= 1


@pytest.mark.parametrize("circle", [NOWHERE, (1.0, 3.0, 1.0)])
def test_a_bare_row_shows_sky_or_ground_alone(circle: tuple[float, float, float]):
    image, _, bare = ahead(circle=circle)
    alone = (image == 0.25).all((1, 2)) | (image == 0.5).all((1, 2))
    np.testing.assert_array_equal(bare & alone, bare)
    assert bare[:8].all()
    assert not bare[9:11].any()
