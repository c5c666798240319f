"""Rays as thick as a sphere, as Unity's ray sensors cast them: how far the sphere's center gets until it touches a shape.

A sphere that touches a shape at its start does not see that shape, as in Unity. Where a level ray passes above or
below a shape's middle, `reach_beside` gives the radius that counts in the plane, so that a cast in the plane is exact:

    radius = reach_beside(RADIUS, wp.max(HEIGHT - top, 0.0))      # 0: it passes over the shape
    distance = cast_box(eye, direction, center, half, angle, radius)

Rays that rise or fall are cast in space, where boxes stand upright and are turned about the vertical axis. The third
coordinate is the height. Angles are in radians, counterclockwise from the x axis seen from above.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, ray_circle, ray_slabs, rotate

TOUCHING = wp.constant(1.0e-4)  # meters: nearer than this is a touch
MOST_STEPS = wp.constant(64)


@wp.func
def reach_beside(radius: float, gap: float):
    """Returns the radius of a sphere's section at `gap` meters from its center, 0 if it does not extend so far."""
    return wp.sqrt(wp.max(radius * radius - gap * gap, 0.0))


@wp.func
def cast_box(origin: wp.vec2, direction: wp.vec2, center: wp.vec2, half: wp.vec2, angle: float, radius: float):
    """Returns the distance along a unit direction at which a circle touches a box with these half sides, turned by the angle, or MISS."""
    to = origin - center
    along = wp.dot(to, direction)
    reach = wp.length(half) + radius
    if along >= 0.0 and wp.length_sq(to) > reach * reach:
        return MISS  # behind
    if wp.length_sq(to) - along * along > 1.001 * reach * reach:
        return MISS  # beside
    return cast_upright_box(rotate(to, -angle), rotate(direction, -angle), half, radius)


@wp.func
def cast_upright_box(start: wp.vec2, way: wp.vec2, half: wp.vec2, radius: float):
    """As `cast_box` for a box about the origin with its sides along the axes."""
    grown = half + wp.vec2(radius, radius)
    first = float(0.0)  # Warp takes a literal for a constant
    if wp.abs(start[0]) > grown[0] or wp.abs(start[1]) > grown[1]:
        first = ray_slabs(start, way, grown)
        if first >= MISS:
            return MISS
    entry = start + first * way
    if wp.abs(entry[0]) > half[0] and wp.abs(entry[1]) > half[1]:  # at a corner, which is round
        corner = wp.vec2(wp.sign(entry[0]) * half[0], wp.sign(entry[1]) * half[1])
        return ray_circle(start, way, corner, radius)
    return wp.where(first > 0.0, first, MISS)


@wp.func
def gap_to_box(point: wp.vec3, half: wp.vec3):
    """Returns the distance from a point to a box about the origin, 0 inside it."""
    return wp.length(
        wp.vec3(wp.max(wp.abs(point[0]) - half[0], 0.0), wp.max(wp.abs(point[1]) - half[1], 0.0), wp.max(wp.abs(point[2]) - half[2], 0.0))
    )


@wp.func
def cast_solid_box(origin: wp.vec3, direction: wp.vec3, center: wp.vec3, half: wp.vec3, angle: float, radius: float):
    """Returns the distance along a unit direction at which a sphere touches an upright box, turned by the angle, or MISS."""
    to = origin - center
    along = wp.dot(to, direction)
    reach = wp.length(half) + radius
    if along >= 0.0 and wp.length_sq(to) > reach * reach:
        return MISS  # behind
    if wp.length_sq(to) - along * along > 1.001 * reach * reach:
        return MISS  # beside
    flat = rotate(wp.vec2(to[0], to[1]), -angle)
    flat_way = rotate(wp.vec2(direction[0], direction[1]), -angle)
    start = wp.vec3(flat[0], flat[1], to[2])
    way = wp.vec3(flat_way[0], flat_way[1], direction[2])
    return cast_upright_solid_box(start, way, half, radius)


@wp.func
def cast_upright_solid_box(start: wp.vec3, way: wp.vec3, half: wp.vec3, radius: float):
    """As `cast_solid_box` for a box about the origin with its sides along the axes."""
    if gap_to_box(start, half) <= radius:
        return MISS  # it touches already
    last = float(MISS)
    first = float(0.0)
    for k in range(3):
        if wp.abs(way[k]) < 1.0e-12:
            if wp.abs(start[k]) > half[k] + radius:
                return MISS
        else:
            middle = -start[k] / way[k]
            extent = wp.abs((half[k] + radius) / way[k])
            first = wp.max(first, middle - extent)
            last = wp.min(last, middle + extent)
    if first > last:
        return MISS
    distance = first
    steps = int(0)
    # on a face this ends at once; near an edge or a corner it closes in, never past the surface
    while steps < MOST_STEPS and distance <= last:
        gap = gap_to_box(start + distance * way, half) - radius
        if gap <= TOUCHING:
            return distance
        distance += gap
        steps += 1
    return MISS


@wp.func
def cast_ball(origin: wp.vec3, direction: wp.vec3, center: wp.vec3, reach: float):
    """Returns the distance along a unit direction to a ball, or MISS; `reach` is its radius and the cast sphere's together."""
    to = center - origin
    along = wp.dot(to, direction)
    if along <= 0.0 or wp.length_sq(to) <= reach * reach:
        return MISS
    beside = to - along * direction
    depth = reach * reach - wp.length_sq(beside)
    if depth < 0.0:
        return MISS
    return along - wp.sqrt(depth)
