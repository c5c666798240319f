# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""A sphere cast at one box anywhere, as slow and plain as a test may be."""

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, rotate
from palaestra.envs.builtin.sensors.sphere_casts import cast_upright_solid_box, gap_to_box


@wp.func
def cast_solid_box(origin: wp.vec3, direction: wp.vec3, center: wp.vec3, half: wp.vec3, angle: float, radius: float):
    """Returns the distance along a unit direction at which a sphere touches an upright box, turned by the angle, or
    MISS.
    """
    to = origin - center
    flat = rotate(wp.vec2(to[0], to[1]), -angle)
    flat_way = rotate(wp.vec2(direction[0], direction[1]), -angle)
    start = wp.vec3(flat[0], flat[1], to[2])
    if gap_to_box(start, half) <= radius:
        return MISS  # it touches already
    return cast_upright_solid_box(start, wp.vec3(flat_way[0], flat_way[1], direction[2]), half, radius)
