"""Ray perception in the plane: where rays meet circles and boxes, and how an observation encodes a hit.

Angles are in radians, counterclockwise from the x axis. A ray never hits a shape in which it starts, as in Unity. A
kernel keeps the nearest hit of its ray:

    nearest = ray_room(eye, direction, HALF)
    tag = WALL
    distance = ray_box(eye, direction, block, half, angle)
    if distance < nearest:
        nearest = distance
        tag = BLOCK
    if nearest > LENGTH:
        tag = -1
    write_ray(world.obs, row, at, TAGS, tag, nearest / LENGTH)
"""

from __future__ import annotations

import warp as wp

MISS = wp.constant(1.0e9)
"""Distance of a ray that hits nothing."""


@wp.func
def rotate(vector: wp.vec2, angle: float):
    """Returns the vector rotated counterclockwise."""
    c = wp.cos(angle)
    s = wp.sin(angle)
    return wp.vec2(c * vector[0] - s * vector[1], s * vector[0] + c * vector[1])


@wp.func
def wrapped(angle: float):
    """Returns the same angle within -pi..pi."""
    return angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))


@wp.func
def heading(angle: float):
    """Returns the unit vector at this angle."""
    return wp.vec2(wp.cos(angle), wp.sin(angle))


@wp.func
def turned(way: wp.vec2, turn: wp.vec2):
    """Returns a direction turned counterclockwise by the angle of a unit vector."""
    return wp.vec2(turn[0] * way[0] - turn[1] * way[1], turn[1] * way[0] + turn[0] * way[1])


@wp.func
def next_turn(turn: wp.vec2, ray: int, step: wp.vec2):
    """Returns the turn of the next ray, relative to straight ahead, in Unity's order: ahead, then alternately right and
    left, `step` apart.

    Turns are unit vectors, (1, 0) for straight ahead: computing sine and cosine of every ray took a seventh of an
    observation's time.
    """
    if ray % 2 == 0:
        turn = turned(turn, step)
    return wp.vec2(turn[0], -turn[1])


@wp.func
def ray_circle(origin: wp.vec2, direction: wp.vec2, center: wp.vec2, radius: float):
    """Returns the distance along a unit direction to a circle, or MISS."""
    to = center - origin
    along = wp.dot(to, direction)
    if along <= 0.0 or wp.length_sq(to) <= radius * radius:
        return MISS
    beside = to - along * direction
    depth = radius * radius - wp.length_sq(beside)
    if depth < 0.0:
        return MISS
    return along - wp.sqrt(depth)


@wp.func
def ray_slabs(start: wp.vec2, way: wp.vec2, half: wp.vec2):
    """Returns the distance along a unit direction to a box about the origin with its sides along the axes, or MISS."""
    first = float(0.0)  # Warp takes a literal for a constant
    last = float(MISS)
    for k in range(2):
        if wp.abs(way[k]) < 1.0e-12:
            if wp.abs(start[k]) > half[k]:
                return MISS
        else:
            inverse = 1.0 / way[k]
            middle = -start[k] * inverse
            reach = wp.abs(half[k] * inverse)
            first = wp.max(first, middle - reach)
            last = wp.min(last, middle + reach)
    if first <= 0.0 or first > last:
        return MISS
    return first


@wp.func
def ray_box(origin: wp.vec2, direction: wp.vec2, center: wp.vec2, half: wp.vec2, angle: float):
    """Returns the distance along a unit direction to a box with these half sides, turned by the angle, or MISS."""
    to = origin - center
    along = wp.dot(to, direction)
    if along >= 0.0 and wp.length_sq(to) > wp.length_sq(half):
        return MISS  # behind
    if wp.length_sq(to) - along * along > 1.001 * wp.length_sq(half):
        return MISS  # beside
    return ray_slabs(rotate(to, -angle), rotate(direction, -angle), half)


@wp.func
def ray_room(origin: wp.vec2, direction: wp.vec2, half: wp.vec2):
    """Returns the distance along a unit direction to the walls of a room about the origin, from inside it."""
    nearest = float(MISS)
    for k in range(2):
        if wp.abs(direction[k]) > 1.0e-12:
            nearest = wp.min(nearest, (wp.sign(direction[k]) * half[k] - origin[k]) / direction[k])
    return wp.max(nearest, 0.0)


@wp.func_native("""
    float* ray = (float*)((char*)obs.data + row * obs.strides[0]) + at;
    for (int k = 0; k < tags; ++k) ray[k] = k == hit_tag ? 1.0f : 0.0f;
    ray[tags] = hit_tag < 0 ? 1.0f : 0.0f;
    ray[tags + 1] = hit_tag < 0 ? 1.0f : fraction;
""")
def write_ray(obs: wp.array2d(dtype=wp.float32), row: int, at: int, tags: int, hit_tag: int, fraction: float):
    """Writes the `tags` + 2 numbers of one ray from column `at` on.

    The numbers are a one-hot of the hit tag, a flag that is 1 if nothing was hit (`hit_tag` below 0), and the distance
    as a fraction of the ray's length, 1 if nothing was hit.
    """


@wp.func_native("""
    float* frames = (float*)((char*)obs.data + row * obs.strides[0]);
    int newest = obs.shape[1] - size;
    for (int k = 0; k < newest; ++k) frames[k] = frames[k + size];
    return newest;
""")  # in C++ the compiler moves several numbers at once; the same loop in Warp took a third of PushBlock's whole tick
def shift_frames(obs: wp.array2d(dtype=wp.float32), row: int, size: int) -> int:
    """Moves the frames of this size back by one, and returns the column at which the newest frame begins."""


@wp.func_native("""
    float* frames = (float*)((char*)obs.data + row * obs.strides[0]);
    for (int k = 0; k < obs.shape[1]; ++k) frames[k] = 0.0f;
""")
def clear_frames(obs: wp.array2d(dtype=wp.float32), row: int):
    """Sets all frames to zero."""
