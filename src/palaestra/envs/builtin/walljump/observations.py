"""The columns of WallJump, and what its two ray sensors and its vector observe."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.sensors.rays import MISS, heading, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import (
    FLUSH,
    cast_upright_box,
    cast_upright_solid_box,
    gap_to_box,
    reach_beside,
    touches_box,
)
from palaestra.envs.builtin.sensors.stacking import shift_frames
from palaestra.envs.builtin.walljump.motion import BLOCK_HALF, BLOCK_TOP, WALL_HALF, WALL_Y

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

FRAMES = 6
RAYS = wp.constant(7)  # rays of each sensor
RAY_STEP = wp.constant(math.pi / 6)
STEP_COS = wp.constant(math.cos(math.pi / 6))
STEP_SIN = wp.constant(math.sin(math.pi / 6))
SIGHT = wp.constant(20.0)  # meters in the plane
RAY_RADIUS = wp.constant(0.5)
EYE_UP = wp.constant(2.5)  # height of the offset rays above the agent's middle, and their rise over their length
RISING_SIGHT = wp.constant(math.hypot(20.0, 2.5))  # length of a ray that rises
RISING_RADIUS = wp.constant(0.5 * math.hypot(20.0, 2.5) / 20.0)  # Unity scales it with the length
# of a ray that rises
ALONG = wp.constant(20.0 / math.hypot(20.0, 2.5))
UPWARD = wp.constant(2.5 / math.hypot(20.0, 2.5))
GOAL_PLACE = wp.constant(wp.vec2(6.37, 2.93))
GOAL_HALF = wp.constant(wp.vec2(2.0, 2.0))
GOAL_BOTTOM = wp.constant(0.49)
GOAL_TOP = wp.constant(5.49)
TAGS = wp.constant(3)
WALL = wp.constant(0)
GOAL = wp.constant(1)
BLOCK = wp.constant(2)
FRAME = wp.constant(35)  # numbers of a frame of a ray sensor
SELF = wp.constant(4)  # numbers of a frame of the vector
SPAN = wp.constant(20.0)  # meters by which the position is divided
MIDDLE_Y = wp.constant(-4.0)  # of the ground, where the observed position begins


@world_struct
class World(EndColumns, ParameterColumns):
    """Columns of WallJump, one row per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    agent: wp.array(dtype=wp.vec2)
    agent_speed: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # heading of the agent, counterclockwise from the wall's direction
    spin: wp.array(dtype=wp.float32)  # rad/s
    height: wp.array(dtype=wp.float32)  # of the agent's middle
    climb: wp.array(dtype=wp.float32)
    jump: wp.array(dtype=wp.int32)
    jump_from: wp.array(dtype=wp.float32)
    grounded: wp.array(dtype=wp.bool)
    block: wp.array(dtype=wp.vec2)
    block_speed: wp.array(dtype=wp.vec2)
    wall: wp.array(dtype=wp.float32)  # height of the wall's top
    gravity: wp.array(dtype=wp.float32)
    plays: wp.array(dtype=wp.int32)
    played: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)
    obs_offset: wp.array2d(dtype=wp.float32)
    obs_level: wp.array2d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)


@wp.struct
class Box:
    """A box with its sides along the axes, as the level rays or those that rise may meet it."""

    to: wp.vec2  # from its center to the eye
    half: wp.vec2
    reach: wp.float32  # radius that counts in the plane; 0: not met
    seen: wp.bool


@wp.func
def is_behind(to: wp.vec2, half: wp.vec2, reach: float, ahead: wp.vec2):
    """Returns whether no ray can meet a box because all of it is behind the agent; `to` leads from its center."""
    return wp.dot(to, ahead) > wp.abs(ahead[0]) * half[0] + wp.abs(ahead[1]) * half[1] + reach


@wp.func
def level_box(eye: wp.vec2, ahead: wp.vec2, center: wp.vec2, half: wp.vec2, gap: float):
    """Returns a box as level rays meet it that pass `gap` meters above or below its extent; below 0 within it."""
    box = Box()
    box.to = eye - center
    box.half = half
    box.reach = reach_beside(RAY_RADIUS, wp.max(gap, 0.0))
    box.seen = (
        box.reach > 0.0 and not is_behind(box.to, half, box.reach, ahead) and not touches_box(box.to, half, box.reach)
    )
    return box


@wp.func
def cast_level(box: Box, way: wp.vec2):
    """Returns the distance to a box along a unit direction, or MISS."""
    if not box.seen:
        return MISS
    return cast_upright_box(box.to, way, box.half, box.reach)


@wp.struct
class Solid:
    """A box with its sides along the axes, as rays that rise may meet it."""

    to: wp.vec3  # from its center to the eye
    half: wp.vec3
    seen: wp.bool


@wp.func
def rising_box(eye: wp.vec3, ahead: wp.vec2, center: wp.vec2, half: wp.vec2, bottom: float, top: float):
    """Returns a box as rising rays meet it: seen if they begin below its top and beside it, and it is not behind."""
    box = Solid()
    box.to = eye - wp.vec3(center[0], center[1], 0.5 * (bottom + top))
    box.half = wp.vec3(half[0], half[1], 0.5 * (top - bottom))
    box.seen = False
    if (
        eye[2] - RISING_RADIUS <= top
        and top > bottom
        and not is_behind(wp.vec2(box.to[0], box.to[1]), half, RISING_RADIUS, ahead)
    ):
        box.seen = gap_to_box(box.to, box.half) > RISING_RADIUS + FLUSH
    return box


@wp.func
def cast_rising(box: Solid, way: wp.vec3):
    """Returns the distance to a box along a unit direction that rises, or MISS."""
    if not box.seen:
        return MISS
    return cast_upright_solid_box(box.to, way, box.half, RISING_RADIUS)


@wp.func
def observe_level(world: World, i: int, ahead: wp.vec2, at: int):
    """Writes the level rays from column `at` on."""
    eye = world.agent[i]
    height = world.height[i]
    wall = level_box(eye, ahead, wp.vec2(0.0, WALL_Y), WALL_HALF, height - world.wall[i])
    goal = level_box(eye, ahead, GOAL_PLACE, GOAL_HALF, wp.max(height - GOAL_TOP, GOAL_BOTTOM - height))
    block = level_box(eye, ahead, world.block[i], wp.vec2(BLOCK_HALF, BLOCK_HALF), height - BLOCK_TOP)
    right = ahead
    left = right
    for k in range(RAYS):
        way = wp.where(k % 2 == 1, right, left)
        nearest = cast_level(wall, way)
        tag = int(WALL)
        distance = cast_level(goal, way)
        if distance < nearest:
            nearest = distance
            tag = GOAL
        distance = cast_level(block, way)
        if distance < nearest:
            nearest = distance
            tag = BLOCK
        if nearest > SIGHT:
            tag = -1
        write_ray(world.obs_level, i, at + k * (TAGS + 2), TAGS, tag, nearest / SIGHT)
        if k % 2 == 0:
            right = wp.vec2(STEP_COS * right[0] + STEP_SIN * right[1], STEP_COS * right[1] - STEP_SIN * right[0])
            left = wp.vec2(STEP_COS * left[0] - STEP_SIN * left[1], STEP_COS * left[1] + STEP_SIN * left[0])


@wp.func
def observe_offset(world: World, i: int, ahead: wp.vec2, at: int):
    """Writes the rays that rise from column `at` on; they begin above the block."""
    eye = wp.vec3(world.agent[i][0], world.agent[i][1], world.height[i] + EYE_UP)
    wall = rising_box(eye, ahead, wp.vec2(0.0, WALL_Y), WALL_HALF, -world.wall[i], world.wall[i])
    goal = rising_box(eye, ahead, GOAL_PLACE, GOAL_HALF, GOAL_BOTTOM, GOAL_TOP)
    right = ALONG * ahead
    left = right
    for k in range(RAYS):
        flat = wp.where(k % 2 == 1, right, left)
        way = wp.vec3(flat[0], flat[1], UPWARD)
        nearest = cast_rising(wall, way)
        tag = int(WALL)
        distance = cast_rising(goal, way)
        if distance < nearest:
            nearest = distance
            tag = GOAL
        if nearest > RISING_SIGHT:
            tag = -1
        write_ray(world.obs_offset, i, at + k * (TAGS + 2), TAGS, tag, nearest / RISING_SIGHT)
        if k % 2 == 0:
            right = wp.vec2(STEP_COS * right[0] + STEP_SIN * right[1], STEP_COS * right[1] - STEP_SIN * right[0])
            left = wp.vec2(STEP_COS * left[0] - STEP_SIN * left[1], STEP_COS * left[1] + STEP_SIN * left[0])


@wp.func
def observe(world: World, i: int):
    """Adds a frame to each observation."""
    ahead = heading(world.angle[i])
    observe_offset(world, i, ahead, shift_frames(world.obs_offset, i, FRAME))
    observe_level(world, i, ahead, shift_frames(world.obs_level, i, FRAME))
    at = shift_frames(world.obs_vector, i, SELF)
    place = world.agent[i]
    world.obs_vector[i, at] = place[0] / SPAN
    world.obs_vector[i, at + 1] = world.height[i] / SPAN
    world.obs_vector[i, at + 2] = (place[1] - MIDDLE_Y) / SPAN
    world.obs_vector[i, at + 3] = wp.where(world.grounded[i], 1.0, 0.0)
