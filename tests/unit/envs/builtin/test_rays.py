# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false

import math

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, next_turn, ray_box, ray_circle, ray_room, turned, write_ray

wp.set_module_options({"enable_backward": False})


@wp.kernel
def cast(
    kind: int,
    origin: wp.array(dtype=wp.vec2),
    direction: wp.array(dtype=wp.vec2),
    center: wp.vec2,
    half: wp.vec2,
    angle: float,
    distance: wp.array(dtype=wp.float32),
):
    i = wp.tid()
    if kind == 0:
        distance[i] = ray_circle(origin[i], direction[i], center, half[0])
    elif kind == 1:
        distance[i] = ray_box(origin[i], direction[i], center, half, angle)
    else:
        distance[i] = ray_room(origin[i], direction[i], half)


@wp.kernel
def write(obs: wp.array2d(dtype=wp.float32), angles: wp.array(dtype=wp.float32)):
    write_ray(obs, 0, 1, 3, 2, 0.25)
    write_ray(obs, 1, 1, 3, -1, 0.25)
    step = wp.vec2(wp.cos(0.1), wp.sin(0.1))
    turn = wp.vec2(1.0, 0.0)
    for k in range(7):
        way = turned(wp.vec2(0.0, 2.0), turn)
        angles[k] = wp.atan2(-way[0], way[1])
        turn = next_turn(turn, k, step)


def casts(kind: int, origins, directions, center=(0.0, 0.0), half=(1.0, 1.0), angle: float = 0.0) -> np.ndarray:
    ways = np.asarray(directions, dtype=np.float32)
    ways = ways / np.linalg.norm(ways, axis=1, keepdims=True)
    starts = wp.array(np.asarray(origins, dtype=np.float32), dtype=wp.vec2, device="cpu")
    distance = wp.zeros(len(ways), dtype=wp.float32, device="cpu")
    inputs = [
        kind,
        starts,
        wp.array(ways, dtype=wp.vec2, device="cpu"),
        wp.vec2(*center),
        wp.vec2(*half),
        angle,
        distance,
    ]
    wp.launch(cast, dim=len(ways), inputs=inputs, device="cpu")
    return distance.numpy()


@pytest.mark.parametrize(
    ("origin", "direction", "distance"),
    [
        ((0, 0), (1, 0), 8.0),  # straight at it
        ((0, 1), (1, 0), 10 - math.sqrt(3)),  # off the middle
        ((0, 0), (3, 1), None),  # beside it
        ((0, 0), (-1, 0), None),  # it lies behind
        ((10.5, 0.5), (1, 0), None),  # from inside
        ((0, 2.001), (1, 0), None),  # just past
    ],
)
def test_a_ray_meets_a_circle_where_geometry_says(origin, direction, distance):
    found = casts(0, [origin], [direction], (10.0, 0.0), (2.0, 2.0))[0]
    assert found == pytest.approx(MISS if distance is None else distance, abs=1e-5)


@pytest.mark.parametrize(
    ("origin", "direction", "angle", "distance"),
    [
        ((0, 0), (1, 0), 0.0, 8.0),
        ((0, 0.999), (1, 0), 0.0, 8.0),  # in parallel to its long sides, within
        ((0, 1.001), (1, 0), 0.0, None),  # in parallel, beside
        ((0, 0), (1, 0), math.pi / 2, 9.0),  # it stands upright
        ((0, 0), (1, 0), math.pi / 4, 10 - math.sqrt(2)),  # at the side that is nearer along the ray
        ((20, 0), (-1, 0), 0.0, 8.0),
        ((0, 0), (-1, 0), 0.3, None),
        ((10, 0.5), (1, 0), 0.0, None),  # from inside
        ((10, -5), (0, 1), 0.0, 4.0),
        ((9, -5), (0, -1), 0.0, None),
    ],
)
def test_a_ray_meets_a_box_where_geometry_says(origin, direction, angle, distance):
    found = casts(1, [origin], [direction], (10.0, 0.0), (2.0, 1.0), angle)[0]
    assert found == pytest.approx(MISS if distance is None else distance, abs=1e-5)


def test_where_a_ray_meets_a_box_lies_on_its_rim_and_nothing_of_the_ray_before_lies_inside():
    rng = np.random.default_rng(0)
    origins = rng.uniform(-8, 8, (500, 2))
    ways = rng.normal(size=(500, 2))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    center = np.array([1.0, -2.0])
    half = np.array([2.0, 0.7])
    angle = 0.6
    found = casts(1, origins, ways, tuple(center), tuple(half), angle)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])

    def outside(points: np.ndarray) -> np.ndarray:
        return (np.abs((points - center) @ turn.T) - half).max(-1)

    starts_outside = outside(origins) > 0
    met = found < MISS
    assert met.sum() > 30
    assert not met[~starts_outside].any()
    rim = outside(origins[met] + ways[met] * found[met, None])
    np.testing.assert_allclose(rim, 0, atol=1e-5)
    for share in np.linspace(0, 0.999, 200):
        assert (outside(origins[met] + ways[met] * share * found[met, None]) > -1e-5).all()
        missed = origins[starts_outside & ~met] + ways[starts_outside & ~met] * share * 30
        assert (outside(missed) > -1e-5).all()


def test_a_ray_from_within_a_room_ends_at_its_wall():
    found = casts(2, [(1, 1), (1, 1), (0, 0), (3, 0)], [(1, 0), (0, -1), (1, 1), (1, 1)], half=(4.0, 3.0))
    np.testing.assert_allclose(found, [3, 4, 3 * math.sqrt(2), math.sqrt(2)], atol=1e-5)


def test_a_ray_is_told_as_tags_then_nothing_hit_then_distance_and_rays_go_right_and_left_in_turns():
    obs = wp.full((2, 7), 9.0, dtype=wp.float32, device="cpu")
    angles = wp.zeros(7, dtype=wp.float32, device="cpu")
    wp.launch(write, dim=1, inputs=[obs, angles], device="cpu")
    assert obs.numpy().tolist() == [[9, 0, 0, 1, 0, 0.25, 9], [9, 0, 0, 0, 1, 1, 9]]
    np.testing.assert_allclose(angles.numpy(), [0, -0.1, 0.1, -0.2, 0.2, -0.3, 0.3], atol=1e-6)
