# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false

import math

import numpy as np
import pytest
import warp as wp
from solid_boxes import cast_solid_box

from palaestra.envs.builtin.sensors.rays import MISS
from palaestra.envs.builtin.sensors.sphere_casts import cast_box, cast_top_edges, cast_upright_box, reach_beside

wp.set_module_options({"enable_backward": False})


@wp.kernel
def cast_flat(
    starts: wp.array(dtype=wp.vec2),
    ways: wp.array(dtype=wp.vec2),
    box: wp.array(dtype=wp.float32),
    distance: wp.array(dtype=wp.float32),
):
    i = wp.tid()
    distance[i] = cast_box(starts[i], ways[i], wp.vec2(box[0], box[1]), wp.vec2(box[2], box[3]), box[4], box[5])


@wp.kernel
def cast_solid(
    starts: wp.array(dtype=wp.vec3),
    ways: wp.array(dtype=wp.vec3),
    box: wp.array(dtype=wp.float32),
    distance: wp.array(dtype=wp.float32),
):
    i = wp.tid()
    center = wp.vec3(box[0], box[1], box[2])
    half = wp.vec3(box[3], box[4], box[5])
    distance[i] = cast_solid_box(starts[i], ways[i], center, half, box[6], box[7])


@wp.kernel
def cast_at_top(
    starts: wp.array(dtype=wp.vec3),
    ways: wp.array(dtype=wp.vec3),
    box: wp.array(dtype=wp.float32),
    distance: wp.array(dtype=wp.float32),
):
    """Casts along rising ways; -1 where the sphere does not get to the box above its top."""
    i = wp.tid()
    center = wp.vec3(box[0], box[1], box[2])
    half = wp.vec2(box[3], box[4])
    radius = box[6]
    start = starts[i] - center
    way = ways[i]
    share = wp.length(wp.vec2(way[0], way[1]))
    flat_way = wp.vec2(way[0], way[1]) / share
    slope = way[2] / share
    flat = cast_upright_box(wp.vec2(start[0], start[1]), flat_way, half, radius)
    above = start[2] + slope * flat - box[5]
    distance[i] = -1.0
    if flat > 0.0 and flat < MISS and above > 0.0 and above < radius:
        distance[i] = cast_top_edges(start, flat_way, slope, half, box[5], radius) / share


@wp.kernel
def write_reach(gaps: wp.array(dtype=wp.float32), reach: wp.array(dtype=wp.float32)):
    reach[wp.tid()] = reach_beside(0.5, gaps[wp.tid()])


def casts(kernel, starts, ways, shape: list[float]) -> np.ndarray:
    starts = np.asarray(starts, dtype=np.float32)
    ways = np.asarray(ways, dtype=np.float64)
    ways = (ways / np.linalg.norm(ways, axis=1, keepdims=True)).astype(np.float32)
    kind = wp.vec2 if starts.shape[1] == 2 else wp.vec3
    distance = wp.zeros(len(starts), dtype=wp.float32, device="cpu")
    inputs = [
        wp.array(starts, dtype=kind, device="cpu"),
        wp.array(ways, dtype=kind, device="cpu"),
        wp.array(shape, dtype=wp.float32, device="cpu"),
    ]
    wp.launch(kernel, dim=len(starts), inputs=[*inputs, distance], device="cpu")
    return distance.numpy()


def walked(
    start: np.ndarray, way: np.ndarray, center: np.ndarray, half: np.ndarray, angle: float, radius: float
) -> float:
    """Walks along a ray in steps of 1 mm until the sphere touches the box, in float64; infinite if it never does within
    30 m.
    """
    turn = np.eye(len(start))
    turn[:2, :2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    points = (start - center) @ turn.T + np.arange(0, 30, 0.001)[:, None] * (turn @ way)
    gaps = np.linalg.norm(np.maximum(np.abs(points) - half, 0), axis=1)
    if gaps[0] <= radius:
        return math.inf
    touching = np.flatnonzero(gaps <= radius)
    return touching[0] * 0.001 if len(touching) else math.inf


def test_a_circle_meets_a_box_where_its_rim_does():
    box = [10.0, 0.0, 1.0, 2.0, 0.0, 0.5]
    starts = [(0, 0), (0, 2.4), (0, 2.51), (8.6, 0), (12, 0), (0, 0)]
    ways = [(1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (0, 1)]
    distance = casts(cast_flat, starts, ways, box)
    corner = 9 - math.sqrt(0.5**2 - 0.4**2)  # the rim meets the corner at (9, 2)
    assert distance == pytest.approx([8.5, corner, MISS, MISS, MISS, MISS], abs=1e-4)


def test_a_sphere_meets_a_box_where_its_surface_does():
    box = [10.0, 0.0, 1.0, 1.0, 2.0, 1.0, 0.0, 0.5]
    starts = [(0, 0, 1), (0, 0, 2.3), (0, 2.3, 2.3), (0, 2.4, 2.4), (8.6, 0, 1), (0, 0, 2.51)]
    distance = casts(cast_solid, starts, [(1, 0, 0)] * 6, box)
    edge = 9 - math.sqrt(0.5**2 - 0.3**2)
    corner = 9 - math.sqrt(0.5**2 - 2 * 0.3**2)
    assert distance == pytest.approx([8.5, edge, corner, MISS, MISS, MISS], abs=2e-4)


@pytest.mark.parametrize("kernel", [cast_flat, cast_solid])
def test_casts_from_everywhere_meet_turned_boxes_where_small_steps_do(kernel):
    rng = np.random.default_rng(3)
    size = 2 if kernel is cast_flat else 3
    starts = rng.uniform(-6, 6, (300, size))
    center = np.array([0.5, -0.3, 0.2])[:size]
    half = np.array([1.5, 0.7, 1.1])[:size]
    angle = 0.6
    radius = 0.5
    ways = center + rng.uniform(-2.5, 2.5, starts.shape) - starts
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    found = casts(kernel, starts, ways, [*center, *half, angle, radius])
    expected = np.array(
        [walked(start, way, center, half, angle, radius) for start, way in zip(starts, ways, strict=True)]
    )
    hits = np.isfinite(expected)
    assert 60 < hits.sum() < 240
    np.testing.assert_allclose(found[hits], expected[hits], atol=5e-3)
    assert (found[~hits] >= MISS).mean() > 0.99  # one that only grazes may differ


def test_rising_spheres_meet_upper_edges_and_corners_where_small_steps_do():
    rng = np.random.default_rng(5)
    center = np.array([0.5, -0.3, 0.2])
    half = np.array([1.5, 0.7, 1.1])
    radius = 0.5
    starts = np.concatenate([rng.uniform(-6, 6, (4000, 2)), rng.uniform(0.0, 1.8, (4000, 1))], 1)
    ways = center + rng.uniform(-2.5, 2.5, starts.shape) - starts
    ways[:, 2] = np.linalg.norm(ways[:, :2], axis=1) * rng.uniform(0.05, 0.3, 4000)
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    found = casts(cast_at_top, starts, ways, [*center, *half, radius])
    chosen = np.flatnonzero(found >= 0)
    assert len(chosen) > 300
    expected = np.array([walked(starts[k], ways[k], center, half, 0.0, radius) for k in chosen])
    hits = np.isfinite(expected)
    assert 0.3 < hits.mean() < 0.98
    assert (np.abs(found[chosen][hits] - expected[hits]) < 5e-3).mean() > 0.99  # steps pass over one that only grazes
    assert (found[chosen][~hits] >= MISS).mean() > 0.97


def test_a_section_beside_the_center_is_smaller():
    reach = wp.zeros(3, dtype=wp.float32, device="cpu")
    wp.launch(
        write_reach, dim=3, inputs=[wp.array([0.0, 0.3, 0.6], dtype=wp.float32, device="cpu"), reach], device="cpu"
    )
    assert reach.numpy() == pytest.approx([0.5, 0.4, 0.0])
