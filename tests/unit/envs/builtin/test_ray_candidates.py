# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""Which single cubes of Pyramids a ray is cast at."""

import numpy as np
import warp as wp
from solid_boxes import cast_solid_box

from palaestra.envs.builtin.pyramids.ray_candidates import cubes_ahead
from palaestra.envs.builtin.pyramids.rooms import BRICKS, CUBES, cube_half

wp.set_module_options({"enable_backward": False, "max_unroll": 1})


@wp.kernel
def find_cubes(
    cube: wp.array2d(dtype=wp.vec3),
    starts: wp.array(dtype=wp.vec3),
    ways: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=wp.int32),
):
    """Writes what `cubes_ahead` says of the brick pyramid's cubes, then which of them a sphere meets within 20 m."""
    i = wp.tid()
    share = wp.length(wp.vec2(ways[i][0], ways[i][1]))
    way = wp.vec2(ways[i][0], ways[i][1]) / share
    slope = ways[i][2] / share
    found[i, 0] = cubes_ahead(cube, 0, BRICKS, starts[i], way, slope, 0.5, 20.0)
    for k in range(CUBES):
        side = cube_half(k)
        distance = cast_solid_box(starts[i], ways[i], cube[0, BRICKS * CUBES + k], wp.vec3(side, side, side), 0.0, 0.5)
        if distance * share < 20.0:
            found[i, 1] = found[i, 1] | (1 << k)


def test_no_cube_that_a_ray_meets_is_left_out():
    rng = np.random.default_rng(2)
    cubes = np.zeros((1, 7 * int(CUBES), 3), dtype=np.float32)
    cubes[0, int(BRICKS) * int(CUBES) :] = rng.uniform((-6, -6, 0.5), (6, 6, 4.0), (int(CUBES), 3))
    starts = np.concatenate([rng.uniform(-12, 12, (2000, 2)), np.full((2000, 1), 0.5)], 1)
    angle = rng.uniform(-np.pi, np.pi, 2000)
    slope = rng.choice([0.0, 1 / 7, 2 / 7], 2000)
    ways = np.stack([np.cos(angle), np.sin(angle), slope], 1) / np.sqrt(1 + slope**2)[:, None]
    arrays = [wp.array(numbers.astype(np.float32), dtype=wp.vec3, device="cpu") for numbers in (cubes, starts, ways)]
    found = wp.zeros((2000, 2), dtype=wp.int32, device="cpu")
    wp.launch(find_cubes, dim=2000, inputs=[*arrays, found], device="cpu")
    ahead, met = found.numpy().T
    assert not (met & ~ahead).any()
    count = [sum(int(bits).bit_count() for bits in column) for column in (ahead, met)]
    assert 1000 < count[1] <= count[0] < 2 * count[1]  # and few that it does not meet
