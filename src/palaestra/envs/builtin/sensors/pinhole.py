"""A camera anywhere in space, for a few spheres and turned boxes: casts a ray through the middle of each pixel.

Axes are Unity's: x to the right, y up, z ahead. A row of pixels is painted by one thread:

    first = first_ray(camera, y)
    left, right = pixels_of(camera, first, center, radius)
    for x in range(left, right + 1):
        ray = first + float(x) * ray_step(camera)
        distance = view_ball(camera.eye, ray, center, radius)         # in lengths of the ray, or MISS
        if distance < MISS:
            color = lit(COLOR, SPECULAR, (camera.eye + distance * ray - center) / radius, -wp.normalize(ray), 1.0)
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS


@wp.struct
class Pinhole:
    """A camera that looks ahead and down."""

    eye: wp.vec3
    right: wp.vec3  # from the middle of a picture to its right edge, one unit ahead
    up: wp.vec3  # to its upper edge
    ahead: wp.vec3
    width: wp.int32  # pixels
    height: wp.int32


@wp.func
def make_pinhole(eye: wp.vec3, down: float, view: float, width: int, height: int):
    """Returns a camera that looks along z, `down` radians below the horizon; `view`: angle from lower to upper edge."""
    tangent = wp.tan(0.5 * view)
    camera = Pinhole()
    camera.eye = eye
    camera.ahead = wp.vec3(0.0, -wp.sin(down), wp.cos(down))
    camera.up = tangent * wp.vec3(0.0, wp.cos(down), wp.sin(down))
    camera.right = wp.vec3(tangent * float(width) / float(height), 0.0, 0.0)
    camera.width = width
    camera.height = height
    return camera


@wp.func
def first_ray(camera: Pinhole, y: int):
    """Returns the ray through the leftmost pixel of a row, counted from the upper row; its length is not 1."""
    up = 1.0 - 2.0 * (float(y) + 0.5) / float(camera.height)
    return camera.ahead + (1.0 / float(camera.width) - 1.0) * camera.right + up * camera.up


@wp.func
def ray_step(camera: Pinhole):
    """Returns the difference to the ray of the next pixel on the right."""
    return (2.0 / float(camera.width)) * camera.right


@wp.func
def pixels_of(camera: Pinhole, first: wp.vec3, center: wp.vec3, radius: float):
    """Returns the first and last pixel of a row in which a ball may be seen, given its leftmost ray; (0, -1): none."""
    to = center - camera.eye
    step = ray_step(camera)
    # the ray first + x * step meets the ball where a * x^2 + 2 * b * x + c >= 0
    outside = wp.length_sq(to) - radius * radius
    along = wp.dot(step, to)
    start = wp.dot(first, to)
    a = along * along - outside * wp.length_sq(step)
    b = start * along - outside * wp.dot(first, step)
    c = start * start - outside * wp.length_sq(first)
    if a >= 0.0:
        return 0, camera.width - 1
    depth = b * b - a * c
    if depth < 0.0:
        return 0, -1
    root = wp.sqrt(depth)
    return wp.max(int(wp.ceil((-b + root) / a)), 0), wp.min(int(wp.floor((-b - root) / a)), camera.width - 1)


@wp.func
def view_ball(eye: wp.vec3, ray: wp.vec3, center: wp.vec3, radius: float):
    """Returns the distance to a ball in units of the ray's length, or MISS."""
    to = center - eye
    along = wp.dot(to, ray)
    square = wp.length_sq(ray)
    depth = along * along - square * (wp.length_sq(to) - radius * radius)
    if depth < 0.0 or along <= 0.0:
        return MISS
    return (along - wp.sqrt(depth)) / square


@wp.func
def view_box(eye: wp.vec3, ray: wp.vec3, half: wp.vec3):
    """Returns the distance to a box about the origin in units of the ray's length, or MISS, and the axis of the side
    that is hit."""
    across = wp.vec3(
        1.0 / wp.where(ray[0] == 0.0, 1.0e-9, ray[0]),
        1.0 / wp.where(ray[1] == 0.0, 1.0e-9, ray[1]),
        1.0 / wp.where(ray[2] == 0.0, 1.0e-9, ray[2]),
    )
    middle = -wp.cw_mul(eye, across)
    extent = wp.cw_mul(half, wp.abs(across))
    near = middle - extent
    far = middle + extent
    first = wp.max(near)
    if first <= 0.0 or first > wp.min(far):
        return MISS, 0
    return first, wp.where(near[0] == first, 0, wp.where(near[1] == first, 1, 2))
