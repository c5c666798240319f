# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""The camera against scenes whose pixels can be told by hand."""

import math

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.camera import (
    BALL,
    BOX,
    STRIPS,
    add_ball,
    add_box,
    add_room,
    image_of,
    is_bare,
    make_sight,
    paint_row,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

HEIGHT, WIDTH, MOST = 40, 60, 5
TANGENT = math.tan(math.radians(30))
PIXEL = 2 * TANGENT / HEIGHT  # slope between two rows, and between two columns
UP = math.pi / 2
RED, GREEN, BLUE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
NO_BALL = (500.0, -500.0, 1.0, 1.0)
NO_BOX = (500.0, -500.0, 1.0, 1.0)


@wp.kernel
def see(
    strips: wp.array3d(dtype=wp.float32),
    balls: wp.array3d(dtype=wp.float32),
    pose: wp.vec3,
    spheres: wp.array(dtype=wp.vec4),
    box: wp.vec4,
    turn: float,
):
    """A blue room, half sides 30 and 20, walls 2 high; a red box 1.5 high, and green balls, of which the second is
    white.
    """
    sight = make_sight(strips, balls, 0, wp.vec2(pose[0], pose[1]), wp.vec2(wp.cos(pose[2]), wp.sin(pose[2])), 1.0, 40)
    add_room(sight, wp.vec2(30.0, 20.0), 2.0, wp.vec3(0.0, 0.0, 1.0))
    add_box(sight, wp.vec2(box[0], box[1]), wp.vec2(box[2], box[3]), turn, wp.vec2(0.0, 1.5), wp.vec3(1.0, 0.0, 0.0))
    for k in range(spheres.shape[0]):
        one = spheres[k]
        color = wp.where(k == 1, wp.vec3(1.0, 1.0, 1.0), wp.vec3(0.0, 1.0, 0.0))
        add_ball(sight, wp.vec2(one[0], one[1]), one[2], one[3], color)


@wp.kernel
def develop(
    strips: wp.array3d(dtype=wp.float32),
    balls: wp.array3d(dtype=wp.float32),
    image: wp.array4d(dtype=wp.float32),
    plain: wp.array(dtype=wp.int32),
    bare: wp.array(dtype=wp.bool),
):
    """Sky of 0.25 gray, floor of 0.5."""
    y = wp.tid()
    bare[y] = is_bare(strips, image, 0, y)
    view = image_of(strips, balls, image, 0)
    plain[y] = paint_row(view, y, plain[y], wp.vec3(0.25, 0.25, 0.25), wp.vec3(0.5, 0.5, 0.5))


class Camera:
    """A camera and its last image."""

    def __init__(self) -> None:
        self.strips = wp.zeros((1, STRIPS, WIDTH + 1), dtype=wp.float32, device="cpu")
        self.balls = wp.zeros((1, 1 + MOST, BALL), dtype=wp.float32, device="cpu")
        self.image = wp.zeros((1, 3, HEIGHT, WIDTH), dtype=wp.float32, device="cpu")
        self.plain = wp.zeros(HEIGHT, dtype=wp.int32, device="cpu")
        self.bare = wp.zeros(HEIGHT, dtype=wp.bool, device="cpu")

    def take(
        self, *balls: tuple[float, float, float, float], pose=(0.0, 0.0, UP), box=NO_BOX, turn: float = 0.0
    ) -> np.ndarray:
        """Returns an image (H, W, 3); balls are (x, y, height, radius)."""
        spheres = wp.array(np.array(balls or [NO_BALL], np.float32), dtype=wp.vec4, device="cpu")
        wp.launch(
            see, dim=1, inputs=[self.strips, self.balls, wp.vec3(*pose), spheres, wp.vec4(*box), turn], device="cpu"
        )
        wp.launch(
            develop, dim=HEIGHT, inputs=[self.strips, self.balls, self.image, self.plain, self.bare], device="cpu"
        )
        return self.image.numpy()[0].transpose(1, 2, 0).copy()


def shows(image: np.ndarray, color: tuple[float, float, float]) -> np.ndarray:
    return (image == color).all(2)


def slopes() -> tuple[np.ndarray, np.ndarray]:
    """How far up and to the right each pixel looks, (H, 1) and (W,)."""
    return PIXEL * (HEIGHT / 2 - np.arange(HEIGHT) - 0.5)[:, None], PIXEL * (np.arange(WIDTH) + 0.5 - WIDTH / 2)


def test_the_wall_ahead_is_as_high_as_its_distance_says():
    image = Camera().take()
    up, _ = slopes()
    middle = slice(20, 40)
    wall = shows(image, BLUE)[:, middle]
    np.testing.assert_array_equal(wall, np.broadcast_to((up >= -1 / 20) & (up <= 1 / 20), wall.shape))
    np.testing.assert_allclose(image[:15, 30], 0.25)
    np.testing.assert_allclose(image[25:, 30], 0.5)


def test_a_ball_is_seen_where_rays_meet_it():
    up, right = slopes()
    for x, y, height, radius in (
        (0.0, 5.0, 1.0, 0.7),
        (2.0, 4.0, 1.8, 1.0),
        (-3.0, 6.0, 0.4, 0.9),
        (1.5, 2.5, 0.8, 0.8),
    ):
        seen = shows(Camera().take((x, y, height, radius)), GREEN)
        ray = np.stack(np.broadcast_arrays(right, 1.0, up))
        center = np.array([x, y, height - 1.0])
        along = np.tensordot(center, ray, 1)
        met = along**2 >= (ray**2).sum(0) * (center @ center - radius**2)
        assert met.sum() > 50
        assert (seen != met).sum() <= 2  # pixels at the very edge


def test_the_nearer_of_two_things_is_seen_whichever_came_first():
    near = (0.0, 4.0, 1.0, 0.5)
    far = (0.0, 8.0, 1.0, 2.0)
    first = Camera().take(near, far)
    second = Camera().take(far, near)
    assert shows(first, GREEN)[20, 30]
    assert shows(first, (1.0, 1.0, 1.0)).any()
    assert shows(second, (1.0, 1.0, 1.0))[20, 30]
    assert shows(second, GREEN).any()


def test_a_box_hides_balls_behind_it_and_not_those_before_it():
    box = (0.0, 6.0, 2.0, 1.0)  # its front is 5 ahead, from the floor to 0.5 above the eye
    image = Camera().take((0.0, 9.0, 1.0, 0.5), box=box)
    assert shows(image, RED)[20, 30]
    assert not shows(image, GREEN).any()
    assert shows(Camera().take((0.0, 3.0, 1.0, 0.5), box=box), GREEN)[20, 30]
    tall = shows(Camera().take((0.0, 9.0, 1.0, 2.5), box=box), GREEN)
    assert tall[:17].any()  # above the box
    assert not tall[18:22, 25:35].any()


def test_a_box_stands_in_the_columns_and_rows_that_it_spans():
    camera = Camera()
    seen = shows(camera.take(box=(0.0, 6.0, 2.0, 1.0)), RED)
    up, right = slopes()
    np.testing.assert_array_equal(seen, (np.abs(right) <= 2 / 5) & (up >= -1 / 5) & (up <= 0.5 / 5))
    np.testing.assert_allclose(camera.strips.numpy()[0, BOX, 28:32], 5.0, rtol=1e-5)


def test_what_is_behind_or_beside_is_not_seen():
    image = Camera().take((0.0, -5.0, 1.0, 1.0), (9.0, 2.0, 1.0, 1.0), box=(3.0, -4.0, 1.0, 1.0))
    assert not shows(image, GREEN).any()
    assert not shows(image, (1.0, 1.0, 1.0)).any()
    assert not shows(image, RED).any()


@pytest.mark.parametrize("ball", [NO_BALL, (1.0, 3.0, 1.0, 1.0)])
def test_a_bare_row_shows_sky_or_floor_alone(ball: tuple[float, float, float, float]):
    camera = Camera()
    image = camera.take(ball)
    bare = camera.bare.numpy()
    alone = (image == 0.25).all((1, 2)) | (image == 0.5).all((1, 2))
    np.testing.assert_array_equal(bare & alone, bare)
    assert bare[:5].all()
    assert not bare[19:21].any()


def test_an_image_after_another_shows_nothing_of_it():
    rng = np.random.default_rng(1)
    camera = Camera()
    for _ in range(30):
        balls = [(*rng.uniform(-8, 8, 2), rng.uniform(0.3, 2), rng.uniform(0.3, 1)) for _ in range(3)]
        pose = (*rng.uniform(-15, 15, 2), rng.uniform(-3, 3))
        box = (*rng.uniform(-9, 9, 2), 0.5, 1.5)
        image = camera.take(*balls, pose=pose, box=box, turn=0.4)
        np.testing.assert_array_equal(image, Camera().take(*balls, pose=pose, box=box, turn=0.4))
