"""The rules of the soccer games: what rays see, where an episode begins, and how a decision's ticks pass.

An episode ends with a goal, or is truncated after 5,000 ticks. If that happens within a decision, its last observation
is taken at once, and the rest of the decision's ticks pass in the new episode without actions.

Functions take any world with the columns of `motion` and, per area, `rng`, `age`, `lead`, `pending` and `episodes`.
"""

from __future__ import annotations

import math
from typing import Any

import warp as wp

from palaestra.envs.builtin.base.world_columns import next_parameter
from palaestra.envs.builtin.sensors.rays import next_turn, ray_circle, shift_frames, turned, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import reach_beside
from palaestra.envs.builtin.soccer.field import BALL, RIGHT_GOAL, cast_field, goal_touched
from palaestra.envs.builtin.soccer.motion import BALL_RADIUS, PLAYER_RADIUS, SHELL, simulate_tick
from palaestra.envs.ray_fans import RayFan, unity_order

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
AHEAD_SENSOR = f"StackingSensor_size{FRAMES}_BlueRayPerceptionSensor"
Tags = wp.types.vector(length=9, dtype=wp.int32)
"""How many tags a sensor has, then the tag of each case of `field`, from the lowest on, and of each player."""
BEHIND_SENSOR = f"StackingSensor_size{FRAMES}_BlueRayPerceptionSensorReverse"


def width_of(rays: int, tags: int) -> int:
    """Returns the numbers of an observation with this many rays and tags."""
    return FRAMES * int(rays) * (int(tags) + 2)


def fan(sensor: str, seen: tuple[str, ...], angles: tuple[float, ...]) -> RayFan:
    """Returns the rays of a sensor's newest frame."""
    newest = width_of(len(angles), len(seen)) * (FRAMES - 1) // FRAMES
    return RayFan(sensor, angles, LENGTH, seen, first=newest, height=RAY_UP)


def field_fans(seen: tuple[str, ...]) -> tuple[RayFan, RayFan]:
    """Returns the rays ahead and behind of a player on the field."""
    ahead = unity_order(AHEAD, AHEAD_STEP)
    behind = unity_order(BEHIND, BEHIND_STEP, ahead=math.pi)
    return fan(AHEAD_SENSOR, seen, ahead), fan(BEHIND_SENSOR, seen, behind)


@wp.func
def cast_ray(world: Any, i: int, players: int, slot: int, way: wp.vec2):
    """Returns the distance of a player's ray to its hit, and what it hits: a player's number, or a case of `field`."""
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


AREA_COLUMNS = ("lead", "ball", "ball_velocity", "ball_spin", "kick", "ball_touch")
PARAMETER_RANGES = {"ball_touch": (0.0, 0.0, 1.0), "gravity": (9.81, 1.0, 100.0)}
"""Ranges of the parameters. Gravity changes nothing, as in Unity, where heights are fixed."""
TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(5000)  # of an episode
HEIGHT = wp.constant(0.5)  # of players' and balls' middles above the floor
BALL_SPREAD = wp.constant(2.5)  # farthest from the middle that the ball starts, along each axis
START_SPREAD = wp.constant(5.0)  # farthest from its place that a player starts, along the field
START_TURN = wp.constant(0.17453292519943295)  # 10 degrees: farthest that it looks away from the other end
TIME_OUT = wp.constant(2)  # the end of an episode besides the goals', 1 right and -1 left


class FieldColumns:
    """Columns of the soccer games: a row per area up to `ball_touch`, then per player."""

    strikers: wp.int32  # how many of the players are Strikers; 0: all are alike
    lead: wp.array(dtype=wp.int32)  # ticks of this episode before its first decision
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    ball_spin: wp.array(dtype=wp.float32)  # rad/s counterclockwise seen from above
    kick: wp.array(dtype=wp.vec2)  # m/s that kicks add to the ball on the next tick
    ball_touch: wp.array(dtype=wp.float32)
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    touches: wp.array(dtype=wp.int32)  # whether it touches the ball; 2: since this tick
    touched: wp.array(dtype=wp.vec2)  # where it touched the ball first
    action: wp.array2d(dtype=wp.int64)  # ahead or back, to the right or left, turn left or right; 0: neither
    group_reward: wp.array(dtype=wp.float32)


@wp.func
def is_choice(action: wp.array2d(dtype=wp.int64), slot: int):
    """Returns whether all three branches hold one of their three choices."""
    for branch in range(3):  # Warp does not support generators
        if action[slot, branch] < wp.int64(0) or action[slot, branch] > wp.int64(2):
            return False
    return True


@wp.func
def check_actions(world: Any, i: int, players: int, report: wp.array(dtype=wp.int32)):
    """Reports a player of the area whose action is invalid."""
    for slot in range(i * players, (i + 1) * players):
        if not is_choice(world.action, slot):
            report[1] = slot + 1


@wp.func
def kick_off(world: Any, i: int):
    """Puts the ball at rest near the middle, with the parameters of the new episode."""
    state = world.rng[i]
    world.ball[i] = wp.vec2(wp.randf(state, -BALL_SPREAD, BALL_SPREAD), wp.randf(state, -BALL_SPREAD, BALL_SPREAD))
    world.rng[i] = state
    world.ball_velocity[i] = wp.vec2(0.0, 0.0)
    world.ball_spin[i] = 0.0
    world.kick[i] = wp.vec2(0.0, 0.0)
    world.ball_touch[i] = next_parameter(world, i, 0)
    world.age[i] = 0
    world.lead[i] = 0
    world.episodes[i] += 1


@wp.func
def line_up(world: Any, i: int, slot: int, place: wp.vec2, facing: float):
    """Puts a player at rest near its place, facing roughly toward the other end."""
    state = world.rng[i]
    world.position[slot] = place + wp.vec2(wp.randf(state, -START_SPREAD, START_SPREAD), 0.0)
    world.angle[slot] = facing + wp.randf(state, -START_TURN, START_TURN)
    world.rng[i] = state
    world.velocity[slot] = wp.vec2(0.0, 0.0)
    world.touches[slot] = 0


@wp.func
def ticks_played(world: Any, i: int, passed: int):
    """Returns the number of the episode's ticks before this decision, plus `passed`."""
    return world.age[i] * TICKS + world.lead[i] + passed


@wp.func
def simulate(world: Any, i: int, players: int):
    """Runs a decision's ticks until the episode ends; returns how it ended (0: not yet) and the ticks that ran."""
    end = wp.int32(0)  # Warp variables; literals would be constants
    passed = wp.int32(0)
    while passed < TICKS and end == 0:
        passed += 1
        if ticks_played(world, i, passed) >= MOST_TICKS:
            end = TIME_OUT
        else:
            # PhysX finds contacts before it moves anything
            end = goal_touched(world.ball[i], BALL_RADIUS, HEIGHT, SHELL, world.strikers > 0)
            simulate_tick(world, i, players, True)
    world.age[i] += 1
    return end, passed


@wp.func
def wait(world: Any, i: int, players: int, end: int, passed: int):
    """Runs the rest of a decision after its episode's end. After the time limit, its last motion is also left."""
    left = TICKS - passed
    world.lead[i] = left
    for _ in range(left + wp.where(end == TIME_OUT, 1, 0)):
        simulate_tick(world, i, players, False)
