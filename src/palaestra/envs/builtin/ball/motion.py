"""A sphere on a tilting cube, as PhysX moves it.

The cube has no rigid body: a script turns it, which gives the ball no speed; if the cube turns into the ball, the ball
is moved out. The contact is inelastic, with a friction coefficient of 0.6, and begins before the surfaces meet: in that
tick the ball only closes the gap. Axes are Unity's: x to the right, y up, z away from the viewer, with the middle of
the cube as their origin.
"""

from __future__ import annotations

import warp as wp

SECONDS = wp.constant(0.02)  # seconds per physics tick
DEGREE = wp.constant(0.017453292519943295)
HALF_EDGE = wp.constant(2.5)  # meters
FRICTION = wp.constant(0.6)
ANGULAR_DRAG = wp.constant(0.01)  # 1/s
MOST_SPIN = wp.constant(7.0)  # rad/s
PARTED = wp.constant(0.8)  # share of an overlap that is removed in a tick
MOST_PARTED = wp.constant(0.2)  # meters of it: 10 m/s
TILT_LIMIT = wp.constant(0.25)  # limit of the quaternion's component: about 29 degrees


@wp.struct
class Sphere:
    """The moving ball."""

    position: wp.vec3
    velocity: wp.vec3
    spin: wp.vec3  # rad/s


@wp.func
def tilt_block(tilt: wp.quat, about_z: wp.quat, about_x: wp.quat):
    """Returns the block's tilt after a tick of turning about its own z, then its own x, each up to a limit."""
    if about_z[2] * tilt[2] <= 0.0 or wp.abs(tilt[2]) < TILT_LIMIT:
        tilt = tilt * about_z
    if about_x[0] * tilt[0] <= 0.0 or wp.abs(tilt[0]) < TILT_LIMIT:
        tilt = tilt * about_x
    return tilt


@wp.func
def step_ball(ball: Sphere, tilt: wp.quat, radius: float, gravity: float):
    """Returns the ball after one physics tick: gravity and drag, then the impulses of a contact, then the move."""
    ball.velocity -= wp.vec3(0.0, gravity * SECONDS, 0.0)
    ball.spin *= 1.0 - ANGULAR_DRAG * SECONDS
    local = wp.quat_rotate_inv(tilt, ball.position)
    normal = wp.quat_rotate(tilt, wp.vec3(0.0, 1.0, 0.0))
    gap = local[1] - HALF_EDGE - radius
    if wp.abs(local[0]) > HALF_EDGE or wp.abs(local[2]) > HALF_EDGE:  # past the top's edge
        edge = wp.vec3(HALF_EDGE, HALF_EDGE, HALF_EDGE)
        away = local - wp.min(wp.max(local, -edge), edge)
        distance = wp.length(away)
        normal = wp.quat_rotate(tilt, away / distance)
        gap = distance - radius
    push = -wp.dot(ball.velocity, normal) - wp.max(gap, 0.0) * (1.0 / SECONDS)
    if push > 0.0:
        ball.velocity += push * normal
        arm = -radius * normal
        slip = ball.velocity + wp.cross(ball.spin, arm)
        slip -= wp.dot(slip, normal) * normal
        # a solid sphere stops slipping at 2/7 of the slip: 1 / (1 + m r^2 / I) with I = 2/5 m r^2
        pull = -2.0 / 7.0 * slip
        most = FRICTION * push
        if wp.length_sq(pull) > most * most:
            pull *= most / wp.length(pull)
        ball.velocity += pull
        ball.spin += wp.cross(arm, pull) * (2.5 / (radius * radius))
    if wp.length_sq(ball.spin) > MOST_SPIN * MOST_SPIN:
        ball.spin *= MOST_SPIN / wp.length(ball.spin)
    ball.position += ball.velocity * SECONDS
    if gap < 0.0:
        ball.position += wp.min(-PARTED * gap, MOST_PARTED) * normal
    return ball


@wp.func
def has_fallen(position: wp.vec3):
    """Returns whether the ball has fallen."""
    return position[1] < -2.0 or wp.abs(position[0]) > 3.0 or wp.abs(position[2]) > 3.0
