"""A camera for scenes in the plane, at an agent's eyes.

It paints images (rows, 3, height, width) within 0..1, with a thread for each row of pixels, as `Program.draw` is launched.
Angles are in radians, counterclockwise from the x axis.

`tick` adds things to strips (rows, width + 1, STRIPS). Each column of pixels has two strips: the
room's wall, and the nearest thing before it, standing on the ground and darker the further away it is; the
last column keeps how low and high any of them reach. `draw` paints them:

    sight = make_sight(world.strips, row, position, angle, EYE)   # in tick
    add_room(sight, HALF, HEIGHT, GRAY)
    add_circle(sight, food, RADIUS, HEIGHT, LIME)

    bare = is_bare(world.strips, world.obs_image, row, y)   # in draw
    if not (bare and world.bare[row, y]):                   # a row that stays bare need not be painted again
        paint_row(world.strips, world.obs_image, row, y, SKY, GROUND)
    world.bare[row, y] = bare
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, ray_box, ray_circle, ray_room

wp.set_module_options({"enable_backward": False})

STRIPS = 12
"""Numbers per column of pixels, for the wall and then the thing before it: depth, slopes of its lower and upper edge, color."""
THING = wp.constant(6)
DIM = wp.constant(30.0)  # depth at which a thing shows half its brightness
TANGENT = wp.constant(1.0)  # tangent of half the angle of view, which is 90 degrees


@wp.struct
class Sight:
    """Strips of pixels that an agent's camera fills, column by column."""

    strips: wp.array3d(dtype=wp.float32)  # (rows, width + 1, STRIPS)
    width: wp.int32
    row: wp.int32
    eye: wp.vec2
    ahead: wp.vec2
    height: wp.float32  # height of the eye above the ground


@wp.func
def make_sight(strips: wp.array3d(dtype=wp.float32), row: int, eye: wp.vec2, angle: float, height: float):
    """Returns the sight of the agent in this row; call `add_room` first, then add things in any order."""
    sight = Sight()
    sight.strips = strips
    sight.width = strips.shape[1] - 1
    sight.row = row
    sight.eye = eye
    sight.ahead = wp.vec2(wp.cos(angle), wp.sin(angle))
    sight.height = height
    return sight


@wp.func
def ray_of(sight: Sight, x: int):
    """Returns the ray of a column, one unit of depth long."""
    half = 0.5 * float(sight.width)
    right = TANGENT * (float(x) + 0.5 - half) / half
    return sight.ahead + right * wp.vec2(sight.ahead[1], -sight.ahead[0])


@wp.func
def add_to_strip(sight: Sight, x: int, layer: int, depth: float, height: float, color: wp.vec3):
    """Puts a thing into a strip."""
    sight.strips[sight.row, x, layer] = depth
    sight.strips[sight.row, x, layer + 1] = -sight.height / depth
    sight.strips[sight.row, x, layer + 2] = (height - sight.height) / depth
    light = DIM / (DIM + depth)
    for channel in range(3):
        sight.strips[sight.row, x, layer + 3 + channel] = light * color[channel]


@wp.func
def widen_reach(sight: Sight, nearest: float, height: float):
    """Updates how low and high things reach, for a thing at this nearest distance."""
    sight.strips[sight.row, sight.width, 0] = wp.min(sight.strips[sight.row, sight.width, 0], -sight.height / nearest)
    sight.strips[sight.row, sight.width, 1] = wp.max(sight.strips[sight.row, sight.width, 1], (height - sight.height) / nearest)


@wp.func
def add_room(sight: Sight, half: wp.vec2, height: float, color: wp.vec3):
    """Adds the walls of a room about the origin with these half sides, with the agent inside; clears the previous strips."""
    sight.strips[sight.row, sight.width, 0] = 0.0
    sight.strips[sight.row, sight.width, 1] = 0.0
    nearest = float(MISS)
    for x in range(sight.width):
        ray = ray_of(sight, x)
        far = wp.length(ray)
        depth = wp.max(ray_room(sight.eye, ray / far, half) / far, 1.0e-3)
        add_to_strip(sight, x, 0, depth, height, color)
        nearest = wp.min(nearest, depth)
        sight.strips[sight.row, x, THING] = MISS
        sight.strips[sight.row, x, THING + 1] = MISS  # no slope is as steep
    widen_reach(sight, nearest, height)


@wp.func
def columns_of(sight: Sight, center: wp.vec2, radius: float):
    """Returns the first and the last column in which a circle may show; none if the last is before the first."""
    to = center - sight.eye
    depth = wp.dot(sight.ahead, to)
    right = sight.ahead[1] * to[0] - sight.ahead[0] * to[1]
    last = sight.width - 1
    aside = wp.abs(right) - TANGENT * depth - 1.01 * wp.sqrt(1.0 + TANGENT * TANGENT) * radius
    if wp.max(aside, -radius - depth) >= 0.0:
        return 0, -1
    if depth <= radius:  # it may fill the image
        return 0, last
    middle = 0.5 * float(sight.width)
    half = middle / TANGENT
    # seen from the eye its outline lies within this square's; a ray goes through the middle of its column
    left = right - radius
    right += radius
    low = left / wp.where(left > 0.0, depth + radius, depth - radius)
    high = right / wp.where(right > 0.0, depth - radius, depth + radius)
    return wp.max(int(wp.ceil(middle + half * low - 0.51)), 0), wp.min(int(wp.floor(middle + half * high - 0.49)), last)


@wp.func
def add_circle(sight: Sight, center: wp.vec2, radius: float, height: float, color: wp.vec3):
    """Adds an upright cylinder to the columns where nothing nearer stands before it."""
    first, last = columns_of(sight, center, radius)
    nearest = float(MISS)
    for x in range(first, last + 1):
        ray = ray_of(sight, x)
        far = wp.length(ray)
        depth = ray_circle(sight.eye, ray / far, center, radius) / far
        if depth < wp.min(sight.strips[sight.row, x, THING], sight.strips[sight.row, x, 0]):
            add_to_strip(sight, x, THING, depth, height, color)
            nearest = wp.min(nearest, depth)
    if nearest < MISS:
        widen_reach(sight, nearest, height)


@wp.func
def add_box(sight: Sight, center: wp.vec2, half: wp.vec2, angle: float, height: float, color: wp.vec3):
    """Adds an upright box with these half sides, turned by the angle, to the columns where nothing nearer stands before it."""
    first, last = columns_of(sight, center, wp.length(half))
    nearest = float(MISS)
    for x in range(first, last + 1):
        ray = ray_of(sight, x)
        far = wp.length(ray)
        depth = ray_box(sight.eye, ray / far, center, half, angle) / far
        if depth < wp.min(sight.strips[sight.row, x, THING], sight.strips[sight.row, x, 0]):
            add_to_strip(sight, x, THING, depth, height, color)
            nearest = wp.min(nearest, depth)
    if nearest < MISS:
        widen_reach(sight, nearest, height)


@wp.func
def slope_of(image: wp.array4d(dtype=wp.float32), y: int):
    """Returns the slope at which row y of the pixels looks up."""
    return TANGENT * (0.5 * float(image.shape[2]) - float(y) - 0.5) / (0.5 * float(image.shape[3]))


@wp.func
def is_bare(strips: wp.array3d(dtype=wp.float32), image: wp.array4d(dtype=wp.float32), row: int, y: int):
    """Returns whether row y of the pixels shows only the sky or the ground."""
    slope = slope_of(image, y)
    return slope < strips[row, strips.shape[1] - 1, 0] or slope > strips[row, strips.shape[1] - 1, 1]


@wp.func
def paint_row(strips: wp.array3d(dtype=wp.float32), image: wp.array4d(dtype=wp.float32), row: int, y: int, sky: wp.vec3, ground: wp.vec3):
    """Paints row y of an agent's image."""
    slope = slope_of(image, y)
    color = wp.where(slope > 0.0, sky, ground)
    # without branches, which are badly predicted, and array views, which cost more than the pixels
    for x in range(image.shape[3]):
        is_thing = int(slope >= strips[row, x, THING + 1]) * int(slope <= strips[row, x, THING + 2])
        is_wall = int(slope >= strips[row, x, 1]) * int(slope <= strips[row, x, 2])
        at = 3 + THING * is_thing
        is_bare = is_thing + is_wall == 0
        image[row, 0, y, x] = wp.where(is_bare, color[0], strips[row, x, at])
        image[row, 1, y, x] = wp.where(is_bare, color[1], strips[row, x, at + 1])
        image[row, 2, y, x] = wp.where(is_bare, color[2], strips[row, x, at + 2])
