"""Rays as thick as a sphere, as Unity's ray sensors cast them: how far the sphere's center moves until the sphere
touches a shape.

A sphere that touches a shape at its start does not see that shape, as in Unity. If a level ray passes above or below a
shape's middle, `reach_beside` gives the radius that counts in the plane, so that a cast in the plane is exact:

    radius = reach_beside(RADIUS, wp.max(HEIGHT - top, 0.0))      # 0: it passes over the shape
    distance = cast_box(eye, direction, center, half, angle, radius)

Rays that rise or fall are cast in space, where boxes stand upright and are turned about the vertical axis. The third
coordinate is the height. Angles are in radians, counterclockwise from the x axis seen from above.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, ray_circle, rotate

TOUCHING = wp.constant(1.0e-4)  # meters: nearer than this is a touch
MOST_STEPS = wp.constant(64)
SMALLEST = wp.constant(1.0e-9)  # part of a direction that counts as none
FLUSH = wp.constant(1.0e-3)  # meters: bodies that are so near are pressed together


@wp.func
def reach_beside(radius: float, gap: float):
    """Returns the radius of a sphere's section at `gap` meters from its center, 0 beyond the sphere."""
    return wp.sqrt(wp.max(radius * radius - gap * gap, 0.0))


@wp.func
def touches_box(to: wp.vec2, half: wp.vec2, radius: float):
    """Returns whether a circle touches, or almost touches, a box with its sides along the axes; `to` leads from the
    box's center.

    Bodies that are pressed together overlap slightly in Unity, so that the sphere cast from a body that stands flush
    does not see the other body.
    """
    beside = wp.vec2(wp.max(wp.abs(to[0]) - half[0], 0.0), wp.max(wp.abs(to[1]) - half[1], 0.0))
    return wp.length_sq(beside) <= (radius + FLUSH) * (radius + FLUSH)


@wp.func
def cast_box(origin: wp.vec2, direction: wp.vec2, center: wp.vec2, half: wp.vec2, angle: float, radius: float):
    """Returns the distance along a unit direction at which a circle touches a turned box, or MISS."""
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
    """Returns the result of `cast_box` for a box about the origin with its sides along the axes."""
    inverse_x = 1.0 / wp.where(wp.abs(way[0]) < SMALLEST, SMALLEST, way[0])
    inverse_y = 1.0 / wp.where(wp.abs(way[1]) < SMALLEST, SMALLEST, way[1])
    x = -start[0] * inverse_x
    y = -start[1] * inverse_y
    reach_x = (half[0] + radius) * wp.abs(inverse_x)
    reach_y = (half[1] + radius) * wp.abs(inverse_y)
    first = wp.max(wp.max(x - reach_x, y - reach_y), 0.0)
    if first > wp.min(x + reach_x, y + reach_y):
        return MISS  # the only branch that most casts take: they are faster so than with tests for each side
    entry = start + first * way
    if wp.abs(entry[0]) > half[0] and wp.abs(entry[1]) > half[1]:  # at a corner, which is round
        corner = wp.vec2(wp.sign(entry[0]) * half[0], wp.sign(entry[1]) * half[1])
        return ray_circle(start, way, corner, radius)
    return wp.where(first > 0.0, first, MISS)


@wp.func
def cast_past(start: wp.vec2, way: wp.vec2, half: wp.vec2, radius: float):
    """Returns what `cast_upright_box` does, but MISS for a box that the circle touches at its start, as in Unity."""
    if touches_box(start, half, radius):
        return MISS
    return cast_upright_box(start, way, half, radius)


@wp.func
def cast_four_walls(eye: wp.vec2, way: wp.vec2, room: wp.vec2, ends: wp.vec2, thick: float, radius: float):
    """Returns the distance along a unit direction at which a circle touches a wall of a room; walls that it touches at
    its start are ignored.

    `room`: half sides of the floor; `ends`: half the lengths of the walls across x and across y; `thick`: half their
    thickness.
    """
    nearest = float(MISS)
    for k in range(4):
        turn = wp.where(k % 2 == 0, 1.0, -1.0)
        center = turn * wp.where(k < 2, wp.vec2(room[0] + thick, 0.0), wp.vec2(0.0, room[1] + thick))
        half = wp.where(k < 2, wp.vec2(thick, ends[0]), wp.vec2(ends[1], thick))
        nearest = wp.min(nearest, cast_past(eye - center, way, half, radius))
    return nearest


@wp.func
def gap_to_box(point: wp.vec3, half: wp.vec3):
    """Returns the distance from a point to a box about the origin, 0 inside it."""
    return wp.length(
        wp.vec3(
            wp.max(wp.abs(point[0]) - half[0], 0.0),
            wp.max(wp.abs(point[1]) - half[1], 0.0),
            wp.max(wp.abs(point[2]) - half[2], 0.0),
        )
    )


@wp.func
def cast_upright_solid_box(start: wp.vec3, way: wp.vec3, half: wp.vec3, radius: float):
    """Returns the distance along a unit direction at which a sphere touches a box about the origin with its sides along
    the axes, or MISS.

    The sphere must not touch the box at its start.
    """
    first = float(0.0)  # Warp takes a literal for a constant
    last = float(MISS)
    for k in range(3):
        inverse = 1.0 / wp.where(wp.abs(way[k]) < SMALLEST, SMALLEST, way[k])
        middle = -start[k] * inverse
        extent = (half[k] + radius) * wp.abs(inverse)
        first = wp.max(first, middle - extent)
        last = wp.min(last, middle + extent)
    if first > last:
        return MISS
    entry = start + first * way
    beyond = int(0)
    along = int(0)
    for k in range(3):
        if wp.abs(entry[k]) > half[k]:
            beyond += 1
        else:
            along = k
    if beyond == 1:
        return first  # on a face
    if beyond == 2:
        first += cast_edge(entry, way, half, radius, along)
        if first >= MISS or wp.abs(start[along] + first * way[along]) <= half[along]:
            return first
    return close_in(start, way, half, radius, first, last)


@wp.func
def first_touch(speed_squared: float, approach: float, gap_squared: float, radius: float):
    """Returns when a moving point comes as near as `radius` to a resting point; MISS if never, or if it is that near
    already.

    `approach` is the dot product of relative position and velocity, `gap_squared` the squared distance.
    """
    depth = gap_squared - radius * radius
    root = approach * approach - speed_squared * depth
    if root < 0.0 or approach >= 0.0 or depth <= 0.0:
        return MISS
    return (-approach - wp.sqrt(root)) / speed_squared


@wp.func
def cast_top_edges(start: wp.vec3, way: wp.vec2, slope: float, half: wp.vec2, top: float, radius: float):
    """Returns the horizontal distance at which a rising sphere touches the upper edges or corners of a box about the
    origin, or MISS.

    The sphere begins beside the box. When the sphere reaches the box in the plane, its middle is above the box's top.
    `way` is a unit vector.
    """
    sides = wp.vec2(wp.sign(start[0]), wp.sign(start[1]))
    gap = wp.vec3(start[0] - sides[0] * half[0], start[1] - sides[1] * half[1], start[2] - top)
    height = gap[2] * gap[2]
    rise = gap[2] * slope
    steep = slope * slope
    nearest = float(MISS)
    if sides[0] * gap[0] > 0.0:  # the edge along y; beyond its ends are corners
        nearest = first_touch(way[0] * way[0] + steep, gap[0] * way[0] + rise, gap[0] * gap[0] + height, radius)
        if nearest < MISS and wp.abs(start[1] + nearest * way[1]) > half[1]:
            nearest = MISS
    if sides[1] * gap[1] > 0.0:
        distance = first_touch(way[1] * way[1] + steep, gap[1] * way[1] + rise, gap[1] * gap[1] + height, radius)
        if distance < nearest and wp.abs(start[0] + distance * way[0]) <= half[0]:
            nearest = distance
    for k in range(3):  # the far corner is behind the others
        x = gap[0] + wp.where(k == 1, 2.0 * sides[0] * half[0], 0.0)
        y = gap[1] + wp.where(k == 2, 2.0 * sides[1] * half[1], 0.0)
        nearest = wp.min(
            nearest, first_touch(1.0 + steep, x * way[0] + y * way[1] + rise, x * x + y * y + height, radius)
        )
    return nearest


@wp.func
def cast_edge(start: wp.vec3, way: wp.vec3, half: wp.vec3, radius: float, along: int):
    """Returns the distance at which a sphere touches a box's nearest edge along an axis, as if the edge had no end, or
    MISS."""
    one = (along + 1) % 3
    two = (along + 2) % 3
    to = wp.vec2(start[one] - wp.sign(start[one]) * half[one], start[two] - wp.sign(start[two]) * half[two])
    across = wp.vec2(way[one], way[two])
    speed = wp.dot(to, across)
    size = wp.length_sq(across)
    root = speed * speed - size * (wp.length_sq(to) - radius * radius)
    if speed >= 0.0 or root < 0.0:
        return MISS
    return (-speed - wp.sqrt(root)) / size


@wp.func
def close_in(start: wp.vec3, way: wp.vec3, half: wp.vec3, radius: float, first: float, last: float):
    """Returns the distance between `first` and `last` at which a sphere touches a box, found in steps, or MISS."""
    distance = first
    steps = int(0)
    while steps < MOST_STEPS and distance <= last:
        gap = gap_to_box(start + distance * way, half) - radius
        if gap <= TOUCHING:
            return distance
        distance += gap
        steps += 1
    return MISS
