"""The columns of CooperativePushBlock and the observations: a grid of what lies ahead, and the own velocity."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.base.world_columns import save_final_image, save_final_obs
from palaestra.envs.builtin.physics.contact_solver import ContactColumns
from palaestra.envs.builtin.physics.pusher import HALF, observe_body
from palaestra.envs.builtin.sensors.grid import Grid, aim_grid, clear_grid, close_grid, grid_around, mark_box
from palaestra.envs.builtin.sensors.rays import heading

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(3)
BLOCKS = wp.constant(6)
BODIES = wp.constant(9)  # agents, then blocks, in the order in which they are placed
ROOM = wp.constant(12.5)  # half the side of the floor
WALL_HALF = wp.constant(wp.vec2(0.25, 13.0))  # half sides of the walls at the left and right
END_WALL_HALF = wp.constant(wp.vec2(12.5, 0.25))
WALL = wp.constant(12.75)  # distance of their middles
GOAL = wp.constant(wp.vec2(0.0, -10.5))
GOAL_HALF = wp.constant(wp.vec2(12.5, 2.14975))
GOAL_EDGE = wp.constant(-8.35025)  # the goal lies below it
AHEAD = wp.constant(10.0)  # distance of the grid's middle ahead of the agent
CELL = wp.constant(1.0)
CELLS = 20
FIRST_BODY = wp.constant(5)  # number of the first of the things that a grid may show, after the goal and the walls
THINGS = wp.constant(14)
TAGS = ("wall", "agent", "goal", "blockSmall", "blockLarge", "blockVeryLarge")
WALL_TAG, AGENT_TAG, GOAL_TAG, BLOCK_TAG = (wp.constant(tag) for tag in range(4))  # the larger blocks' tags follow


@world_struct
class World(EndColumns, ParameterColumns, ContactColumns):
    """Columns of CooperativePushBlock: a row per area or, from `action` on, per agent. Places are from the middle."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    pull: wp.array(dtype=wp.float32)  # m/s that gravity adds in a tick of this episode
    gone: wp.array2d(dtype=wp.bool)  # whether a block is in the goal
    action: wp.array2d(dtype=wp.int64)  # see `physics.pusher`
    written: wp.array2d(dtype=wp.int32)
    owner: wp.array2d(dtype=wp.int32)
    bounds: wp.array2d(dtype=wp.vec4)
    obs_grid: wp.array4d(dtype=wp.float32)
    obs_body: wp.array2d(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)


@wp.func
def size_of(block: int):
    """Returns 1, 2 or 3: a block's side in meters, its worth, and how many agents it takes."""
    return wp.where(block == 0 or block == 5, 2, wp.where(block < 3, 3, 1))


@wp.func
def half_of(k: int):
    """Returns half the side of a body."""
    return wp.where(k < AGENTS, HALF, 0.5 * float(size_of(k - AGENTS)))


@wp.func
def is_present(world: World, i: int, k: int):
    """Returns whether a body is on the floor."""
    if k < AGENTS:
        return True
    return not world.gone[i, k - AGENTS]


@wp.func
def show(world: World, i: int, agent: int, grid: Grid):
    """Marks all things in an agent's grid: first goal and walls, which stay where a cell is in several boxes."""
    for thing in range(THINGS):
        tag = int(WALL_TAG)  # Warp takes a literal for a constant
        center = GOAL
        half = GOAL_HALF
        angle = float(0.0)
        seen = bool(True)
        if thing == 0:
            tag = GOAL_TAG
        elif thing < FIRST_BODY:
            out = wp.where(thing % 2 == 0, WALL, -WALL)
            center = wp.where(thing < 3, wp.vec2(out, 0.0), wp.vec2(0.0, out))
            half = wp.where(thing < 3, WALL_HALF, END_WALL_HALF)
        else:
            k = thing - FIRST_BODY
            seen = k != agent and is_present(world, i, k)
            tag = wp.where(k < AGENTS, AGENT_TAG, BLOCK_TAG - 1 + size_of(k - AGENTS))
            center = world.body_position[i, k]
            half = wp.vec2(half_of(k), half_of(k))
            angle = world.body_angle[i, k]
        if seen:
            mark_box(grid, thing, tag, center, half, angle)


@wp.func
def observe(world: World, i: int):
    """Writes the observations of each agent of an area."""
    for agent in range(AGENTS):
        slot = i * AGENTS + agent
        angle = world.body_angle[i, agent]
        ahead = heading(angle)
        observe_body(world, i, agent, slot, ahead)
        grid = grid_around(world.obs_grid, world.owner, world.written, world.bounds, slot, i)
        grid = aim_grid(grid, world.body_position[i, agent] + AHEAD * ahead, angle, CELL)
        clear_grid(grid)
        show(world, i, agent, grid)
        close_grid(grid)


@wp.func
def store_final_obs(world: World, i: int):
    """Saves the final observation of each agent of an area."""
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        save_final_obs(world.obs_body, world.final_obs_body, slot)
        save_final_image(world.obs_grid, world.final_obs_grid, slot)
