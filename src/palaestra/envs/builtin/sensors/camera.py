"""A level camera at an agent's eyes, for scenes of walls, upright boxes and balls on a floor.

It paints images (rows, 3, height, width) within 0..1, with a thread for each row of pixels, as `Program.draw` is
launched; colors are flat, without light and shade. Angles are in radians, counterclockwise from the x axis. Heights are
above the floor.

`tick` adds things to two columns. `strips` (rows, STRIPS, width + 1) has two strips for each column of pixels: the
room's wall, and the nearest box in front of it; the last column has their lowest and highest pixels, and the lowest and
highest pixels of all things. `balls` (rows, 1 + most, BALL) holds the number of balls in view, then the balls, furthest
first. `draw` paints them:

    sight = make_sight(world.strips, world.balls, row, eye, ahead, height, pixel_rows)   # in tick
    add_room(sight, HALF, HEIGHT, GRAY)
    add_ball(sight, food, center_height, RADIUS, GREEN)

    if world.plain[row, y] < width or not is_bare(world.strips, world.obs_image, row, y):   # in draw
        view = image_of(world.strips, world.balls, world.obs_image, row)
        world.plain[row, y] = paint_row(view, y, world.plain[row, y], SKY, FLOOR)           # repaints only what may
        have changed
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, ray_box, ray_room

STRIPS = 12
"""Numbers per column of pixels, for the wall and then for the box before it: depth, slopes of both edges, color."""
BOX = wp.constant(6)
BALL = 9
"""Numbers per ball: depth, distance to the right of the eye and above it, squared distance to its edge, slopes between
which it shows, color."""
TANGENT = wp.constant(0.5773502691896257)  # of half the vertical angle of view, which is 60 degrees
NEAREST = wp.constant(0.3)  # depth before which nothing is seen


@wp.struct
class Sight:
    """Contents of an agent's picture, column by column, and its balls."""

    strips: wp.array3d(dtype=wp.float32)  # (rows, STRIPS, width + 1)
    balls: wp.array3d(dtype=wp.float32)  # (rows, 1 + most, BALL)
    width: wp.int32
    row: wp.int32
    eye: wp.vec2
    ahead: wp.vec2  # unit vector
    height: wp.float32  # height of the eye
    pixel: wp.float32  # slope between two columns


@wp.func
def make_sight(
    strips: wp.array3d(dtype=wp.float32),
    balls: wp.array3d(dtype=wp.float32),
    row: int,
    eye: wp.vec2,
    ahead: wp.vec2,
    height: float,
    pixel_rows: int,
):
    """Returns the sight of the agent in this row; call `add_room` first, then add things in any order."""
    sight = Sight()
    sight.strips = strips
    sight.balls = balls
    sight.width = strips.shape[2] - 1
    sight.row = row
    sight.eye = eye
    sight.ahead = ahead
    sight.height = height
    sight.pixel = 2.0 * TANGENT / float(pixel_rows)
    return sight


@wp.func
def ray_of(sight: Sight, x: int):
    """Returns the ray of a column, one unit of depth long."""
    right = sight.pixel * (float(x) + 0.5 - 0.5 * float(sight.width))
    return sight.ahead + right * wp.vec2(sight.ahead[1], -sight.ahead[0])


@wp.func
def add_to_strip(sight: Sight, x: int, layer: int, depth: float, levels: wp.vec2, color: wp.vec3):
    """Puts a thing between two heights into a strip."""
    sight.strips[sight.row, layer, x] = depth
    sight.strips[sight.row, layer + 1, x] = (levels[0] - sight.height) / depth
    sight.strips[sight.row, layer + 2, x] = (levels[1] - sight.height) / depth
    for channel in range(3):
        sight.strips[sight.row, layer + 3 + channel, x] = color[channel]


@wp.func
def widen_reach(sight: Sight, at: int, low: float, high: float):
    """Updates how low and high things reach, for a thing between two slopes; `at`: 0 for walls and boxes, 2 for all."""
    sight.strips[sight.row, at, sight.width] = wp.min(sight.strips[sight.row, at, sight.width], low)
    sight.strips[sight.row, at + 1, sight.width] = wp.max(sight.strips[sight.row, at + 1, sight.width], high)


@wp.func
def add_room(sight: Sight, half: wp.vec2, height: float, color: wp.vec3):
    """Adds the walls of a room about the origin, with the agent inside; clears the earlier contents of the sight."""
    sight.balls[sight.row, 0, 0] = 0.0
    for k in range(4):
        sight.strips[sight.row, k, sight.width] = 0.0
    nearest = float(MISS)
    for x in range(sight.width):
        ray = ray_of(sight, x)
        far = wp.length(ray)
        depth = wp.max(ray_room(sight.eye, ray / far, half) / far, 1.0e-3)
        add_to_strip(sight, x, 0, depth, wp.vec2(0.0, height), color)
        nearest = wp.min(nearest, depth)
        sight.strips[sight.row, BOX, x] = MISS
        sight.strips[sight.row, BOX + 1, x] = MISS  # no slope is as steep
    for at in range(2):
        widen_reach(sight, 2 * at, -sight.height / nearest, (height - sight.height) / nearest)


@wp.func
def slopes_of(depth: float, aside: float, radius: float):
    """Returns the slopes between which a circle is visible in its plane; all slopes if it may be beside the eye."""
    if depth <= 1.001 * radius:
        return -MISS, MISS
    squared = depth * depth - radius * radius
    root = radius * wp.sqrt(squared + aside * aside)
    return (depth * aside - root) / squared, (depth * aside + root) / squared


@wp.func
def local_of(sight: Sight, point: wp.vec2):
    """Returns the distances of a point ahead and to the right."""
    to = point - sight.eye
    return wp.vec2(wp.dot(sight.ahead, to), sight.ahead[1] * to[0] - sight.ahead[0] * to[1])


@wp.func
def columns_of(sight: Sight, center: wp.vec2, radius: float):
    """Returns the first and the last column in which a circle may be visible; if the last is before the first, none."""
    local = local_of(sight, center)
    if local[0] < -radius:
        return 0, -1
    low, high = slopes_of(local[0], local[1], radius)
    middle = 0.5 * float(sight.width)
    first = wp.clamp(middle + low / sight.pixel - 1.0, 0.0, float(sight.width))
    last = wp.clamp(middle + high / sight.pixel, -1.0, float(sight.width - 1))
    return int(first), int(last)


@wp.func
def add_box(sight: Sight, center: wp.vec2, half: wp.vec2, angle: float, levels: wp.vec2, color: wp.vec3):
    """Adds an upright box between two heights to the columns in which no nearer box stands, without top and bottom."""
    first, last = columns_of(sight, center, wp.length(half))
    nearest = float(MISS)
    for x in range(first, last + 1):
        ray = ray_of(sight, x)
        far = wp.length(ray)
        depth = ray_box(sight.eye, ray / far, center, half, angle) / far
        if depth < wp.min(sight.strips[sight.row, BOX, x], sight.strips[sight.row, 0, x]):
            add_to_strip(sight, x, BOX, depth, levels, color)
            nearest = wp.min(nearest, depth)
    if nearest < MISS:
        for at in range(2):
            widen_reach(sight, 2 * at, (levels[0] - sight.height) / nearest, (levels[1] - sight.height) / nearest)


@wp.func
def add_ball(sight: Sight, center: wp.vec2, height: float, radius: float, color: wp.vec3):
    """Adds a ball with its center at a height, if it is in view, in the list before the balls that are nearer."""
    local = local_of(sight, center)
    up = height - sight.height
    if local[0] + radius < NEAREST or local[0] * local[0] + up * up <= radius * radius:
        return
    left, right = slopes_of(local[0], local[1], radius)
    edge = 0.5 * sight.pixel * float(sight.width)
    if right < -edge or left > edge:
        return
    count = int(sight.balls[sight.row, 0, 0])
    if count + 1 >= sight.balls.shape[1]:
        return
    at = count + 1
    while at > 1 and sight.balls[sight.row, at - 1, 0] < local[0]:
        for k in range(BALL):
            sight.balls[sight.row, at, k] = sight.balls[sight.row, at - 1, k]
        at -= 1
    low, high = slopes_of(local[0], up, radius)
    sight.balls[sight.row, 0, 0] = float(count + 1)
    sight.balls[sight.row, at, 0] = local[0]
    sight.balls[sight.row, at, 1] = local[1]
    sight.balls[sight.row, at, 2] = up
    sight.balls[sight.row, at, 3] = wp.length_sq(local) + up * up - radius * radius
    sight.balls[sight.row, at, 4] = low
    sight.balls[sight.row, at, 5] = high
    for channel in range(3):
        sight.balls[sight.row, at, 6 + channel] = color[channel]
    widen_reach(sight, 2, low, high)


@wp.func
def slope_at(height: int, y: int):
    """Returns the slope at which row y of an image of this height looks up."""
    half = 0.5 * float(height)
    return TANGENT * (half - float(y) - 0.5) / half


@wp.func
def is_bare(strips: wp.array3d(dtype=wp.float32), image: wp.array4d(dtype=wp.float32), row: int, y: int):
    """Returns whether row y of an agent's image shows only the sky or the floor."""
    slope = slope_at(image.shape[2], y)
    return slope < strips[row, 2, strips.shape[2] - 1] or slope > strips[row, 3, strips.shape[2] - 1]


@wp.struct
class View:
    """An image, with the walls and balls that it shows."""

    strips: wp.array2d(dtype=wp.float32)
    balls: wp.array2d(dtype=wp.float32)
    image: wp.array3d(dtype=wp.float32)  # (3, height, width)


@wp.func
def image_of(
    strips: wp.array3d(dtype=wp.float32),
    balls: wp.array3d(dtype=wp.float32),
    image: wp.array4d(dtype=wp.float32),
    row: int,
):
    """Returns the image of the agent in this row."""
    view = View()
    view.strips = strips[row]
    view.balls = balls[row]
    view.image = image[row]
    return view


@wp.func
def ball_span(view: View, slope: float, k: int):
    """Returns the first and last column in which the k-th ball is visible at a slope; if last < first, none."""
    if slope < view.balls[k, 4] or slope > view.balls[k, 5]:
        return 0, -1
    rest = view.balls[k, 3]
    # a ray (1, x, slope) meets the ball where a x^2 + 2 b x + c >= 0; a is below 0, as the eye is not beside the ball
    right = view.balls[k, 1]
    a = right * right - rest
    along = view.balls[k, 0] + slope * view.balls[k, 2]
    b = right * along
    inside = b * b - a * (along * along - (1.0 + slope * slope) * rest)
    if inside <= 0.0:
        return 0, -1
    width = float(view.image.shape[2])
    columns = 0.5 * float(view.image.shape[1]) / TANGENT  # per unit of x
    middle = 0.5 * width - 0.5 - b / a * columns
    reach = -wp.sqrt(inside) / a * columns
    return int(wp.ceil(wp.clamp(middle - reach, 0.0, width))), int(
        wp.floor(wp.clamp(middle + reach, -1.0, width - 1.0))
    )


@wp.func_native("""
    const int width = image.shape[2];
    const float* strip = (const float*)strips.data;
    const size_t next = strips.strides[0] / sizeof(float);
    const float *low = strip + next, *high = low + next, *box_low = strip + 7 * next, *box_high = box_low + next;
    for (int c = 0; c < 3; ++c) {
        float* pixels = (float*)((char*)image.data + c * image.strides[0] + y * image.strides[1]);
        const float *wall = strip + (3 + c) * next, *box = strip + (9 + c) * next;
        const float plain = color[c];
        for (int x = 0; x < width; ++x) {
            const float behind = (slope >= low[x]) & (slope <= high[x]) ? wall[x] : plain;
            pixels[x] = (slope >= box_low[x]) & (slope <= box_high[x]) ? box[x] : behind;
        }
    }
""")  # in C++ the compiler takes several pixels at once; the same loop in Warp took half of the time of all images
def paint_strips(
    strips: wp.array2d(dtype=wp.float32), image: wp.array3d(dtype=wp.float32), y: int, slope: float, color: wp.vec3
):
    """Paints walls and boxes into row y of an image, and `color` into the other pixels."""


@wp.func_native("""
    for (int c = 0; c < 3; ++c) {
        float* pixels = (float*)((char*)image.data + c * image.strides[0] + y * image.strides[1]);
        for (int x = first; x < end; ++x) pixels[x] = color[c];
    }
""")
def paint_span(image: wp.array3d(dtype=wp.float32), y: int, first: int, end: int, color: wp.vec3):
    """Paints the pixels of row y of an image from `first` to before `end`."""


@wp.func
def paint_row(view: View, y: int, plain: int, sky: wp.vec3, floor: wp.vec3):
    """Paints row y of an image whose last `plain` columns show the sky or the floor, and the other columns anything.

    Returns how many of the last columns now show the sky or the floor.
    """
    slope = slope_at(view.image.shape[1], y)
    color = wp.where(slope > 0.0, sky, floor)
    width = view.image.shape[2]
    fills = slope >= view.strips[0, width] and slope <= view.strips[1, width]
    if fills:
        paint_strips(view.strips, view.image, y, slope, color)
    else:
        paint_span(view.image, y, 0, width - plain, color)
    most = wp.where(fills, width, 0)
    for k in range(1, int(view.balls[0, 0]) + 1):
        first, last = ball_span(view, slope, k)
        color = wp.vec3(view.balls[k, 6], view.balls[k, 7], view.balls[k, 8])
        most = wp.max(most, last + 1)
        if not fills:
            paint_span(view.image, y, first, last + 1, color)
        else:
            for x in range(first, last + 1):
                covers = slope >= view.strips[BOX + 1, x] and slope <= view.strips[BOX + 2, x]
                if not (covers and view.strips[BOX, x] < view.balls[k, 0]):
                    paint_span(view.image, y, x, x + 1, color)
    return width - most
