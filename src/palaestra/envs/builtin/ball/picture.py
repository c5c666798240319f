"""Paints what Visual3DBall's camera sees: the block and the ball before a black background, from above and in front."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.ball.motion import DEGREE, HALF_EDGE
from palaestra.envs.builtin.sensors.pinhole import first_ray, lit, make_pinhole, pixels_of, ray_step, view_ball, view_box
from palaestra.envs.builtin.sensors.rays import MISS

SIDE = 84  # pixels
FRAMES = 4
EYE = wp.constant(wp.vec3(0.0, 7.0, -8.0))  # meters from the block's center
DOWN = wp.constant(30.0)  # degrees
VIEW = wp.constant(60.0)  # degrees
BLOCK = wp.constant(wp.vec3(0.129, 0.588, 0.953))  # Unity's material
BALL = wp.constant(wp.vec3(0.93, 0.69, 0.24))  # ours


@wp.func
def paint_pixel(image: wp.array4d(dtype=wp.float32), i: int, channel: int, y: int, x: int, color: wp.vec3):
    """Writes a pixel into the three channels that begin with `channel`."""
    for k in range(3):
        image[i, channel + k, y, x] = color[k]


@wp.func
def paint_scene(image: wp.array4d(dtype=wp.float32), i: int, channel: int, y: int, tilt: wp.quat, position: wp.vec3, radius: float):
    """Paints row y of a picture into the three channels that begin with `channel`."""
    camera = make_pinhole(EYE, DOWN * DEGREE, VIEW * DEGREE, image.shape[3], image.shape[2])
    first = first_ray(camera, y)
    step = ray_step(camera)
    eye = wp.quat_rotate_inv(tilt, camera.eye)
    local = wp.quat_rotate_inv(tilt, first)
    local_step = wp.quat_rotate_inv(tilt, step)
    edge = wp.vec3(HALF_EDGE, HALF_EDGE, HALF_EDGE)
    colors = wp.mat33(0.0)  # of the three sides that the camera may see
    for k in range(3):
        normal = wp.vec3(0.0, 0.0, 0.0)
        normal[k] = wp.sign(eye[k])
        colors[k] = lit(BLOCK, wp.quat_rotate(tilt, normal))
    for x in range(image.shape[3]):
        paint_pixel(image, i, channel, y, x, wp.vec3(0.0, 0.0, 0.0))
    left, right = pixels_of(camera, first, wp.vec3(0.0, 0.0, 0.0), wp.length(edge))
    for x in range(left, right + 1):
        distance, side = view_box(eye, local + float(x) * local_step, edge)
        if distance < MISS:
            paint_pixel(image, i, channel, y, x, colors[side])
    left, right = pixels_of(camera, first, position, radius)
    for x in range(left, right + 1):
        ray = first + float(x) * step
        distance = view_ball(camera.eye, ray, position, radius)
        behind, _ = view_box(eye, local + float(x) * local_step, edge)
        if distance < behind:
            paint_pixel(image, i, channel, y, x, lit(BALL, (camera.eye + distance * ray - position) / radius))
