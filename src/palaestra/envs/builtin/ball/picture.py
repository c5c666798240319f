"""Paints what Visual3DBall's camera sees: the block with its face and headband, and the ball, on a black background."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.ball.motion import DEGREE, HALF_EDGE
from palaestra.envs.builtin.sensors.pinhole import first_ray, make_pinhole, pixels_of, ray_step, view_ball, view_box
from palaestra.envs.builtin.sensors.rays import MISS
from palaestra.envs.builtin.sensors.shading import IN_SHADOW, LAMP_WAY, PLAIN, SPECULAR, lit, lit_dull

SIDE = 84  # pixels
FRAMES = 4
EYE = wp.constant(wp.vec3(0.0, 7.0, -8.0))  # meters from the block's center
DOWN = wp.constant(30.0)  # degrees
VIEW = wp.constant(60.0)  # degrees
BLOCK = wp.constant(wp.vec3(0.129, 0.588, 0.953))  # Unity's materials
BAND = wp.constant(wp.vec3(0.98, 0.651, 0.161))
DARK = wp.constant(wp.vec3(0.059, 0.059, 0.059))  # eyes and mouth
BALL = wp.constant(wp.vec3(0.6, 0.6, 0.6))  # ours: an average for squares, dark and light, whose colors are not known
BAND_HALF = wp.constant(wp.vec3(2.61, 0.482, 2.61))  # half the headband's sides
BAND_UP = wp.constant(1.705)  # its height above the block's center
BAND_TURN = wp.constant(wp.vec2(0.99946, 0.03298))  # cosine and sine of its roll
EYES = wp.constant(wp.vec3(1.5, 0.37, 0.7365))  # of an eye: how far beside the middle, above it, and its radius
MOUTH = wp.constant(wp.vec3(0.915, 0.69, 0.106))  # how far it is below the middle, half its width and half its height


@wp.struct
class Paint:
    """A box as the camera sees it: the camera's position, and the colors of visible sides in light and in shadow."""

    eye: wp.vec3  # where the camera is, in the box's frame
    half: wp.vec3
    bright: wp.mat33
    shaded: wp.mat33


@wp.func
def paint_pixel(image: wp.array4d(dtype=wp.float32), i: int, channel: int, y: int, x: int, color: wp.vec3):
    """Writes a pixel into the three channels that begin with `channel`, in steps of 1/255 as a texture has them."""
    for k in range(3):
        image[i, channel + k, y, x] = wp.round(255.0 * wp.clamp(color[k], 0.0, 1.0)) / 255.0


@wp.func
def roll(vector: wp.vec3):
    """Returns a vector in the headband's frame."""
    return wp.vec3(
        BAND_TURN[0] * vector[0] + BAND_TURN[1] * vector[1],
        BAND_TURN[0] * vector[1] - BAND_TURN[1] * vector[0],
        vector[2],
    )


@wp.func
def unroll(vector: wp.vec3):
    """Converts a vector from the headband's frame to the block's frame."""
    return wp.vec3(
        BAND_TURN[0] * vector[0] - BAND_TURN[1] * vector[1],
        BAND_TURN[0] * vector[1] + BAND_TURN[1] * vector[0],
        vector[2],
    )


@wp.func
def block_paint(tilt: wp.quat, eye: wp.vec3):
    """Returns how the sides of the block look that the camera can see."""
    paint = Paint()
    paint.eye = wp.quat_rotate_inv(tilt, eye)
    paint.half = wp.vec3(HALF_EDGE, HALF_EDGE, HALF_EDGE)
    for k in range(3):
        normal = wp.vec3(0.0, 0.0, 0.0)
        normal[k] = wp.sign(paint.eye[k])
        to_eye = wp.normalize(paint.eye - HALF_EDGE * normal)  # from the side's middle
        paint.bright[k] = lit(BLOCK, SPECULAR, wp.quat_rotate(tilt, normal), wp.quat_rotate(tilt, to_eye), 1.0)
        paint.shaded[k] = lit(BLOCK, SPECULAR, wp.quat_rotate(tilt, normal), wp.quat_rotate(tilt, to_eye), IN_SHADOW)
    return paint


@wp.func
def band_paint(tilt: wp.quat, eye: wp.vec3):
    """Returns how the sides of the headband look that the camera can see."""
    paint = Paint()
    paint.eye = roll(eye - wp.vec3(0.0, BAND_UP, 0.0))
    paint.half = BAND_HALF
    for k in range(3):
        normal = wp.vec3(0.0, 0.0, 0.0)
        normal[k] = wp.sign(paint.eye[k])
        to_eye = wp.quat_rotate(tilt, unroll(wp.normalize(paint.eye - BAND_HALF[k] * normal)))
        way = wp.quat_rotate(tilt, unroll(normal))
        paint.bright[k] = lit_dull(BAND, way, to_eye, 1.0)
        paint.shaded[k] = lit_dull(BAND, way, to_eye, IN_SHADOW)
    return paint


@wp.func
def is_face(x: float, y: float):
    """Returns whether a point of the block's front, measured from its middle, belongs to an eye or the mouth."""
    beside = wp.abs(x) - EYES[0]
    above = y - EYES[1]
    across = x / MOUTH[1]
    along = (y + MOUTH[0]) / MOUTH[2]
    return wp.min(beside * beside + above * above - EYES[2] * EYES[2], across * across + along * along - 1.0) <= 0.0


@wp.func
def is_shaded(point: wp.vec3, ball: wp.vec3, radius: float):
    """Returns whether the ball blocks the lamp's light at a point."""
    to = ball - point
    along = wp.dot(to, LAMP_WAY)
    return along > 0.0 and wp.length_sq(to) - along * along < radius * radius


@wp.func
def paint_scene(
    image: wp.array4d(dtype=wp.float32), i: int, channel: int, y: int, tilt: wp.quat, position: wp.vec3, radius: float
):
    """Paints row y of a picture into the three channels that begin with `channel`."""
    camera = make_pinhole(EYE, DOWN * DEGREE, VIEW * DEGREE, image.shape[3], image.shape[2])
    first = first_ray(camera, y)
    step = ray_step(camera)
    local = wp.quat_rotate_inv(tilt, first)
    local_step = wp.quat_rotate_inv(tilt, step)
    block = block_paint(tilt, camera.eye)
    band = band_paint(tilt, block.eye)
    dark = wp.quat_rotate(tilt, wp.vec3(0.0, 0.0, -1.0))
    dark_color = lit(DARK, PLAIN, dark, wp.normalize(camera.eye - HALF_EDGE * dark), 1.0)
    for x in range(image.shape[3]):
        paint_pixel(image, i, channel, y, x, wp.vec3(0.0, 0.0, 0.0))
    left, right = pixels_of(camera, first, wp.vec3(0.0, 0.0, 0.0), 1.0001 * wp.length(block.half) + 0.2)
    ball_left, ball_right = pixels_of(camera, first, position, radius)
    width = image.shape[3]
    begin = wp.min(wp.where(left <= right, left, width), wp.where(ball_left <= ball_right, ball_left, width))
    for x in range(begin, wp.max(right, ball_right) + 1):
        ray = first + float(x) * step
        way = local + float(x) * local_step
        distance, side = view_box(block.eye, way, block.half)
        band_distance, band_side = view_box(band.eye, roll(way), band.half)
        ball_distance = float(MISS)
        if x >= ball_left and x <= ball_right:
            ball_distance = view_ball(camera.eye, ray, position, radius)
        nearest = wp.min(distance, wp.min(band_distance, ball_distance))
        if nearest < MISS:
            color = wp.vec3(0.0, 0.0, 0.0)
            if nearest == ball_distance:
                normal = (camera.eye + nearest * ray - position) / radius
                color = lit(BALL, SPECULAR, normal, -wp.normalize(ray), 1.0)
            else:
                shade = is_shaded(camera.eye + nearest * ray, position, radius)
                if nearest == band_distance:
                    color = wp.where(shade, band.shaded[band_side], band.bright[band_side])
                else:
                    color = wp.where(shade, block.shaded[side], block.bright[side])
                    spot = block.eye + nearest * way
                    if side == 2 and block.eye[2] < 0.0 and is_face(spot[0], spot[1]):
                        color = dark_color
            paint_pixel(image, i, channel, y, x, color)
