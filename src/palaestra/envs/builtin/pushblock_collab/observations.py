"""The columns of CooperativePushBlock, how an episode starts, and the agents' observations: a grid ahead of each."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.world_columns import next_parameter
from palaestra.envs.builtin.sensors.grid import clear_grid, grid_around, mark_box, mark_circle

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(3)
SMALL, MEDIUM, LARGE = wp.constant(3), wp.constant(3), wp.constant(1)
BLOCKS = wp.constant(7)
WIDE, DEEP = wp.constant(8.0), wp.constant(8.0)  # half the sides of the room
GOAL_EDGE = wp.constant(5.0)  # the goal lies above it
RIM = wp.constant(1.25)  # width along the other walls that blocks cannot enter
RADIUS = wp.constant(0.5)
APART = wp.constant(0.75)
FAR = wp.constant(9.0)  # largest distance from the goal at which a small block starts; larger ones start nearer
TRIES = wp.constant(64)
WALL = wp.constant(1.0)  # thickness
CELL = wp.constant(0.5)
AHEAD = wp.constant(5.0)  # distance of the grid's middle ahead of the agent
TAGS = 6
GOAL_TAG, WALL_TAG, AGENT_TAG = wp.constant(3), wp.constant(4), wp.constant(5)  # after the tags of blocks by size


@wp.struct
class World:
    """Columns of CooperativePushBlock, one row per area or, from `position` on, per agent."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    most_pushers: wp.array(dtype=wp.float32)  # most pushers that any block needs in this episode
    pending: wp.array3d(dtype=wp.float32)
    episodes: wp.array(dtype=wp.int32)
    block_position: wp.array2d(dtype=wp.vec2)  # the small ones first, then the medium
    block_velocity: wp.array2d(dtype=wp.vec2)
    block_gone: wp.array2d(dtype=wp.bool)
    position: wp.array(dtype=wp.vec2)  # from the room's middle; the goal is toward y
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3, 4: turn right, left, 5, 6: to the left, right
    written: wp.array2d(dtype=wp.int32)
    obs_grid: wp.array4d(dtype=wp.float32)
    final_obs_grid: wp.array4d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def size_of(block: int):
    """Returns how many agents a block takes, unless `most_pushers` says fewer; also its worth."""
    return 1 + wp.where(block >= SMALL, 1, 0) + wp.where(block >= SMALL + MEDIUM, 1, 0)


@wp.func
def half_of(block: int):
    """Returns half the side of a block, which is 1.5, 2 or 2.5 m."""
    return 0.5 + 0.25 * float(size_of(block))


@wp.func
def mass_of(block: int):
    """Returns the mass of a block: heavy compared with agents, so that a run-up does not replace a mate."""
    return 10.0 * float(size_of(block) * size_of(block))


@wp.func
def is_near(to: wp.vec2, reach: float):
    """Returns whether an offset is shorter than `reach` along both axes."""
    return wp.abs(to[0]) < reach and wp.abs(to[1]) < reach


@wp.func
def observe(world: World, i: int):
    """Writes each agent's grid."""
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        angle = world.angle[slot]
        middle = world.position[slot] + AHEAD * wp.vec2(wp.cos(angle), wp.sin(angle))
        grid = grid_around(world.obs_grid, world.written, slot, middle, angle, CELL)
        clear_grid(grid)
        for k in range(BLOCKS):
            if not world.block_gone[i, k]:
                half = half_of(k)
                mark_box(grid, size_of(k) - 1, world.block_position[i, k], wp.vec2(half, half), 0.0)
        for other in range(i * AGENTS, (i + 1) * AGENTS):
            if other != slot:
                mark_circle(grid, AGENT_TAG, world.position[other], RADIUS)
        mark_box(grid, GOAL_TAG, wp.vec2(0.0, 0.5 * (DEEP + GOAL_EDGE)), wp.vec2(WIDE, 0.5 * (DEEP - GOAL_EDGE)), 0.0)
        for side in range(2):
            out = 2.0 * float(side) - 1.0
            mark_box(grid, WALL_TAG, wp.vec2(out * (WIDE + 0.5 * WALL), 0.0), wp.vec2(0.5 * WALL, DEEP + WALL), 0.0)
            mark_box(grid, WALL_TAG, wp.vec2(0.0, out * (DEEP + 0.5 * WALL)), wp.vec2(WIDE + WALL, 0.5 * WALL), 0.0)


@wp.func
def is_free(world: World, i: int, place: wp.vec2, reach: float, first: int):
    """Returns whether a square with this half side is clear of the blocks from `first` on."""
    for k in range(first, BLOCKS):  # Warp does not support all()
        if is_near(world.block_position[i, k] - place, half_of(k) + reach):
            return False
    return True


@wp.func
def place_blocks(world: World, i: int):
    """Places the blocks, the largest first, as near to the goal as their size requires; anywhere if no free place is found there."""
    state = world.rng[i]
    for n in range(BLOCKS):
        k = BLOCKS - 1 - n
        half = half_of(k)
        side = WIDE - RIM - half
        nearest = GOAL_EDGE - 0.25 - half
        end = RIM + half - DEEP
        farthest = wp.max(GOAL_EDGE - FAR / float(size_of(k)) - half, end)
        place = wp.vec2(0.0, 0.0)
        left = int(TRIES)
        while left > 0:
            place = wp.vec2(wp.randf(state, -side, side), wp.randf(state, wp.where(2 * left > TRIES, farthest, end), nearest))
            left = wp.where(is_free(world, i, place, half + APART, k + 1), 0, left - 1)
        world.block_position[i, k] = place
        world.block_velocity[i, k] = wp.vec2(0.0, 0.0)
        world.block_gone[i, k] = False
    world.rng[i] = state


@wp.func
def start(world: World, i: int):
    """Starts an episode with random blocks and agents and with its parameters."""
    world.most_pushers[i] = next_parameter(world, i, 0)
    world.episodes[i] += 1
    place_blocks(world, i)
    state = world.rng[i]
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        place = wp.vec2(0.0, 0.0)
        left = int(TRIES)
        while left > 0:
            place = wp.vec2(wp.randf(state, RADIUS - WIDE, WIDE - RADIUS), wp.randf(state, RADIUS - DEEP, GOAL_EDGE - RADIUS))
            free = is_free(world, i, place, RADIUS, 0)
            for mate in range(i * AGENTS, slot):
                free = free and not is_near(world.position[mate] - place, 2.0 * RADIUS)
            left = wp.where(free, 0, left - 1)
        world.position[slot] = place
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.angle[slot] = wp.randf(state, -wp.pi, wp.pi)
    world.rng[i] = state
    world.age[i] = 0


@wp.func
def store_final_obs(world: World, slot: int):
    """Saves an agent's final observation."""
    for tag in range(world.obs_grid.shape[1]):
        for y in range(world.obs_grid.shape[2]):
            for x in range(world.obs_grid.shape[3]):
                world.final_obs_grid[slot, tag, y, x] = world.obs_grid[slot, tag, y, x]
