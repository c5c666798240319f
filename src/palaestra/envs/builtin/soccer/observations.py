"""Rays of a soccer player, as thick as a ball of radius 0.5 and half a meter above its middle, in frames of a decision
each.

Columns are those of `motion`.
"""

from __future__ import annotations

import math
from typing import Any

import warp as wp

from palaestra.envs.builtin.sensors.rays import next_turn, ray_circle, turned, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import reach_beside
from palaestra.envs.builtin.sensors.stacking import shift_frames
from palaestra.envs.builtin.soccer.field import BALL, RIGHT_GOAL, cast_field
from palaestra.envs.builtin.soccer.motion import BALL_RADIUS, PLAYER_RADIUS
from palaestra.envs.ray_fans import RayFan, unity_order

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LENGTH = wp.constant(20.0)  # length of a ray
RAY_RADIUS = wp.constant(0.5)
RAY_UP = wp.constant(0.5)  # height of the rays above the middles of players and ball
AHEAD = wp.constant(11)  # rays
AHEAD_STEP = wp.constant(0.20943951023931953)  # 12 degrees
AHEAD_TURN = wp.constant(wp.vec2(math.cos(AHEAD_STEP), math.sin(AHEAD_STEP)))
BEHIND = wp.constant(3)
BEHIND_STEP = wp.constant(0.7853981633974483)  # 45 degrees
BEHIND_TURN = wp.constant(wp.vec2(math.cos(BEHIND_STEP), math.sin(BEHIND_STEP)))
FRAMES = wp.constant(3)  # frames in an observation, oldest first
AHEAD_SENSOR = f"StackingSensor_size{int(FRAMES)}_BlueRayPerceptionSensor"
Tags = wp.types.vector(length=9, dtype=wp.int32)
"""How many tags a sensor has, then the tag of each case of `field`, from the lowest on, and of each player."""
BEHIND_SENSOR = f"StackingSensor_size{int(FRAMES)}_BlueRayPerceptionSensorReverse"


def width_of(rays: int, tags: int) -> int:
    """Returns the numbers of an observation with this many rays and tags."""
    return int(FRAMES) * int(rays) * (int(tags) + 2)


def fan(sensor: str, seen: tuple[str, ...], angles: tuple[float, ...]) -> RayFan:
    """Returns the rays of a sensor's newest frame."""
    newest = width_of(len(angles), len(seen)) * (int(FRAMES) - 1) // int(FRAMES)
    return RayFan(sensor, angles, float(LENGTH), seen, first=newest, height=float(RAY_UP))


def field_fans(seen: tuple[str, ...]) -> tuple[RayFan, RayFan]:
    """Returns the rays ahead and behind of a player on the field."""
    ahead = unity_order(int(AHEAD), float(AHEAD_STEP))
    behind = unity_order(int(BEHIND), float(BEHIND_STEP), ahead=math.pi)
    return fan(AHEAD_SENSOR, seen, ahead), fan(BEHIND_SENSOR, seen, behind)


@wp.func
def cast_ray(world: Any, i: int, players: int, slot: int, way: wp.vec2):
    """Returns the distance of a player's ray to its hit, and the hit: a player's number, or a case of `field`."""
    eye = world.position[slot]
    far, what = cast_field(eye, way, RAY_RADIUS, world.strikers > 0)
    distance = ray_circle(eye, way, world.ball[i], reach_beside(RAY_RADIUS + BALL_RADIUS, RAY_UP))
    if distance < far:
        far = distance
        what = BALL
    for k in range(players):
        other = i * players + k
        if other != slot:
            distance = ray_circle(eye, way, world.position[other], reach_beside(RAY_RADIUS + PLAYER_RADIUS, RAY_UP))
            if distance < far:
                far = distance
                what = k
    return far, what


@wp.func
def observe_fan(
    world: Any,
    players: int,
    slot: int,
    middle: wp.vec2,
    turn: wp.vec2,
    seen: Tags,
    obs: wp.array2d(dtype=wp.float32),
    row: int,
):
    """Writes a frame of a player's rays to a row of an observation, after moving older frames back.

    The rays are `turn` apart, about the direction `middle`.
    """
    width = seen[0] + 2
    frame = obs.shape[1] // FRAMES
    at = shift_frames(obs, row, frame)
    aside = wp.vec2(1.0, 0.0)
    for ray in range(frame // width):
        far, what = cast_ray(world, slot // players, players, slot, turned(middle, aside))
        tag = wp.where(far > LENGTH, -1, seen[1 + what - RIGHT_GOAL])
        write_ray(obs, row, at + ray * width, seen[0], tag, far / LENGTH)
        aside = next_turn(aside, ray, turn)
