"""Rays of a soccer player, ahead and behind or all around, that meet ball, players, goals and wall.

For ball and players a ray is 0.4 thick to either side, as a cast sphere is; for walls and goals, only its center line counts.
Columns are those of `field`.
"""

from __future__ import annotations

import math
from typing import Any

import warp as wp

from palaestra.envs.builtin.sensors.rays import heading, ray_angle, ray_circle
from palaestra.envs.builtin.soccer.field import GOAL_HALF, HALF, PLAYER_RADIUS, wall_ahead
from palaestra.envs.ray_fans import unity_order

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LENGTH = wp.constant(20.0)  # length of a ray: more than the field's diagonal
RAY_RADIUS = wp.constant(0.4)  # less than a player's, so that rays see what the player touches
AHEAD = wp.constant(11)  # rays
AHEAD_STEP = wp.constant(0.20943951023931953)  # 12 degrees: over 120
BEHIND = wp.constant(3)
BEHIND_STEP = wp.constant(0.7853981633974483)  # 45 degrees: over 90
FRAMES = wp.constant(3)  # frames in an observation, oldest first
FIELD_ANGLES = unity_order(int(AHEAD), float(AHEAD_STEP)) + unity_order(int(BEHIND), float(BEHIND_STEP), ahead=math.pi)
# what a ray meets; a player is its number
BALL, WALL, LEFT_GOAL, RIGHT_GOAL = (wp.constant(-case) for case in range(1, 5))


@wp.func
def ray_offset(ray: int):
    """Returns the angle of a ray from straight ahead: those ahead in Unity's order, then those behind."""
    if ray < AHEAD:
        return ray_angle(ray, AHEAD_STEP)
    return wp.pi + ray_angle(ray - AHEAD, BEHIND_STEP)


@wp.func
def cast_ray(world: Any, i: int, players: int, slot: int, angle: float):
    """Returns the distance of a player's ray to its hit, and the hit: a player by its number in the area, or one of the cases above."""
    eye = world.position[slot]
    way = heading(world.angle[slot] + angle)
    far = wall_ahead(eye, way)
    edge = eye + far * way
    what = int(WALL)
    if wp.abs(edge[0]) > HALF[0] - 1.0e-3 and wp.abs(edge[1]) < GOAL_HALF:
        what = wp.where(edge[0] > 0.0, RIGHT_GOAL, LEFT_GOAL)
    distance = ray_circle(eye, way, world.ball[i], world.ball_radius[i] + RAY_RADIUS)
    if distance < far:
        far = distance
        what = BALL
    for k in range(players):
        other = i * players + k
        if other != slot:
            distance = ray_circle(eye, way, world.position[other], PLAYER_RADIUS + RAY_RADIUS)
            if distance < far:
                far = distance
                what = k
    return far, what


@wp.func
def shift_frames(obs: wp.array2d(dtype=wp.float32), row: int, size: int):
    """Moves older frames of this size back by one, and returns the column at which the newest begins."""
    last = (FRAMES - 1) * size
    for k in range(last):
        obs[row, k] = obs[row, k + size]
    return last


@wp.func
def clear_frames(obs: wp.array2d(dtype=wp.float32), row: int):
    """Clears all frames."""
    for k in range(obs.shape[1]):
        obs[row, k] = 0.0
