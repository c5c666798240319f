"""The columns of PushBlock, its geometry, and what the two ray sensors see."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.sensors.rays import MISS, heading, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_box, cast_four_walls, cast_past, touches_box
from palaestra.envs.builtin.sensors.stacking import shift_frames

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

WALL_AT = wp.constant(12.5)  # meters from the middle to the walls' inner faces
WALL_HALF = wp.constant(0.25)  # half their thickness
GOAL_EDGE = wp.constant(-8.35)  # the goal, a shelf along one wall, begins here
GOAL_END = wp.constant(-12.65)  # and ends within the wall
AGENT_HALF = wp.constant(0.5)
AGENT_REST = wp.constant(0.5)  # height of its middle when it stands
BLOCK_REST = wp.constant(0.375)
RAYS = wp.constant(7)  # rays of each sensor
RAY_STEP = wp.constant(math.pi / 6)
STEP_COS = wp.constant(math.cos(math.pi / 6))
STEP_SIN = wp.constant(math.sin(math.pi / 6))
RAY_LENGTH = wp.constant(12.0)
RAY_RADIUS = wp.constant(0.5)
BLOCK = wp.constant(0)
GOAL = wp.constant(1)
WALL = wp.constant(2)
TAGS = wp.constant(3)
FRAMES = 3
FRAME = wp.constant(35)  # numbers of a frame of one sensor
# offset rays pass 0.5 m above the tops of walls and goal, and touch them with their lowest point
OFFSET_REACH = wp.constant(0.0)


@world_struct
class World(EndColumns, ParameterColumns):
    """Columns of PushBlock, one row per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    agent_position: wp.array(dtype=wp.vec2)  # from the room's middle
    agent_velocity: wp.array(dtype=wp.vec2)
    agent_angle: wp.array(dtype=wp.float32)  # from the x axis; the goal lies toward -y
    agent_fall: wp.array(dtype=wp.vec2)  # height of its middle, and m/s upward
    block_position: wp.array(dtype=wp.vec2)
    block_velocity: wp.array(dtype=wp.vec2)
    block_fall: wp.array(dtype=wp.vec2)
    parameters: wp.array2d(dtype=wp.float32)  # parameters of this episode
    # 0: nothing, 1: forward, 2: back, 3, 4: turn right, left, 5, 6: to the left, right
    action: wp.array2d(dtype=wp.int64)
    obs_offset: wp.array2d(dtype=wp.float32)
    obs_level: wp.array2d(dtype=wp.float32)


@wp.func
def gaps_around(eye: wp.vec2, radius: float):
    """Returns how far a circle about the eye is from the sides of the room at -x, x, -y and y."""
    return wp.vec4(WALL_AT + eye[0], WALL_AT - eye[0], eye[1] - GOAL_EDGE, WALL_AT - eye[1]) - wp.vec4(
        radius, radius, radius, radius
    )


@wp.func
def cast_room(gaps: wp.vec4, way: wp.vec2):
    """Returns the distance to the nearest side along a unit direction, from where none is touched, and its tag."""
    nearest = gaps[wp.where(way[0] < 0.0, 0, 1)] / wp.max(wp.abs(way[0]), 1.0e-9)
    tag = int(WALL)
    distance = gaps[wp.where(way[1] < 0.0, 2, 3)] / wp.max(wp.abs(way[1]), 1.0e-9)
    if distance < nearest:
        nearest = distance
        tag = wp.where(way[1] < 0.0, GOAL, WALL)
    return nearest, tag


@wp.func
def cast_boxes(eye: wp.vec2, way: wp.vec2):
    """Returns what `cast_room` does for a level ray that passes through sides which its sphere touches."""
    room = wp.vec2(WALL_AT, WALL_AT)
    ends = wp.vec2(WALL_AT + 2.0 * WALL_HALF, WALL_AT)
    nearest = cast_four_walls(eye, way, room, ends, WALL_HALF, RAY_RADIUS)
    goal = wp.vec2(0.0, 0.5 * (GOAL_EDGE + GOAL_END))
    distance = cast_past(eye - goal, way, wp.vec2(WALL_AT, 0.5 * (GOAL_EDGE - GOAL_END)), RAY_RADIUS)
    if distance < nearest:
        return distance, int(GOAL)
    return nearest, int(WALL)


@wp.func
def write_hit(obs: wp.array2d(dtype=wp.float32), row: int, at: int, tag: int, distance: float):
    """Writes a ray from column `at` on."""
    write_ray(obs, row, at, int(TAGS), wp.where(distance <= RAY_LENGTH, tag, -1), distance / RAY_LENGTH)


@wp.func
def observe(world: World, i: int):
    """Adds a frame to both sensors' observations."""
    eye = world.agent_position[i]
    block = world.block_position[i]
    half = 0.5 * world.parameters[i, 0]
    reach = RAY_LENGTH + RAY_RADIUS + 1.5 * half
    sees_block = wp.length_sq(block - eye) < reach * reach and not touches_box(
        eye - block, wp.vec2(half, half), RAY_RADIUS
    )
    stands = world.agent_fall[i][0] < AGENT_REST + FLUSH
    width = int(TAGS) + 2
    newest = shift_frames(world.obs_offset, i, FRAME)
    newest = shift_frames(world.obs_level, i, FRAME)
    level = gaps_around(eye, RAY_RADIUS)
    above = gaps_around(eye, OFFSET_REACH)
    flush = wp.min(level) <= FLUSH
    right = heading(world.agent_angle[i])
    left = right
    for k in range(RAYS):
        way = wp.where(k % 2 == 1, right, left)
        nearest, tag = cast_room(level, way)
        if flush:
            nearest, tag = cast_boxes(eye, way)
        if sees_block:
            distance = cast_box(eye, way, block, wp.vec2(half, half), 0.0, RAY_RADIUS)
            if distance < nearest:
                nearest = distance
                tag = BLOCK
        write_hit(world.obs_level, i, newest + k * width, tag, nearest)
        nearest = MISS
        if stands:
            nearest, tag = cast_room(above, way)
        write_hit(world.obs_offset, i, newest + k * width, tag, nearest)
        if k % 2 == 0:
            right = wp.vec2(STEP_COS * right[0] + STEP_SIN * right[1], STEP_COS * right[1] - STEP_SIN * right[0])
            left = wp.vec2(STEP_COS * left[0] - STEP_SIN * left[1], STEP_COS * left[1] + STEP_SIN * left[0])
