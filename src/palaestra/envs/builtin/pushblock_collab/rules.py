"""CooperativePushBlock: columns, observations, how agents push blocks, and how an episode starts and ends.

All sizes, masses and speeds are those of Unity's scene. Blocks have sides of 1, 2 and 3 m and masses of 10, 100 and 150
kg. An agent pushes with 30 Ns a physics tick, and at the scene's own gravity the floor's friction takes up to 3.5, 35
and 53 Ns from the blocks: a block of 2 m moves for two agents and one of 3 m for three, while fewer only nudge it with
a run-up. Blocks turn when they are pushed off center.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import checked_choice, next_parameter, save_final_image, save_final_obs
from palaestra.envs.builtin.physics.contact_solver import (
    ContactColumns,
    add_patch,
    box_shape,
    fall,
    near_body,
    side_contact,
    solve,
)
from palaestra.envs.builtin.physics.pusher import CHOICES, HALF, act, observe_body
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, Body, box_box
from palaestra.envs.builtin.pushblock.rules import FRICTION, MASS, TICKS
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
class World(EndColumns, EpisodeColumns, ParameterColumns, ContactColumns):
    """Columns of CooperativePushBlock: one row per area, and from `action` on one row per agent. Places are measured
    from the middle of the room."""

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
    """Returns 1, 2 or 3: a block's side in meters, its reward, and the number of agents needed to push it."""
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
    """Marks all things in an agent's grid, goal and walls first: the first mark of a cell stays."""
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


MOST_TICKS = wp.constant(5000)  # physics ticks of an episode
HASTE = wp.constant(0.0001)  # group reward that a physics tick costs
BLOCK_DRAG = wp.constant(0.5)
SPIN_DRAG = wp.constant(0.05)
REACH = wp.constant(6.25)  # bodies start this far from the middle at most, along each axis
BERTH = wp.constant(1.5)  # half the side of the square that must be free around the middle of a new place
DROP = wp.constant(0.5)  # meters above their resting places at which agents start
BLOCK_DROP = wp.constant(0.625)
TRIES = wp.constant(1000)


@wp.func
def is_free(world: World, i: int, place: wp.vec2, turn: int):
    """Returns whether a square is clear of the bodies before this turn, and of agents that have not been placed yet."""
    square = Body()
    square.position = place
    square.half = wp.vec2(BERTH, BERTH)
    for k in range(wp.max(turn, AGENTS)):  # Warp does not support all()
        reach = 1.4143 * (half_of(k) + BERTH)
        is_near = wp.length_sq(world.body_position[i, k] - place) < reach * reach
        if is_near and box_box(square, near_body(world, i, k)).count > 0:
            return False
    return True


@wp.func
def start(world: World, i: int, lead: int):
    """Starts an episode with bodies at random places, `lead` physics ticks before its first decision."""
    state = world.rng[i]
    for k in range(BODIES):
        place = wp.vec2(0.0, 0.0)
        left = int(TRIES)
        while left > 0:
            place = wp.vec2(wp.randf(state, -REACH, REACH), wp.randf(state, -REACH, REACH))
            left = wp.where(is_free(world, i, place, k), 0, left - 1)
        world.body_position[i, k] = place
        world.body_velocity[i, k] = wp.vec2(0.0, 0.0)
        world.body_angle[i, k] = wp.randf(state, -wp.pi, wp.pi)
        world.body_spin[i, k] = 0.0
        world.body_height[i, k] = wp.where(k < AGENTS, DROP, BLOCK_DROP)
        world.body_rise[i, k] = 0.0
    for k in range(BLOCKS):
        world.gone[i, k] = False
    world.rng[i] = state
    world.pull[i] = next_parameter(world, i, 0) * SECONDS
    world.episodes[i] += 1
    world.age[i] = 0
    world.lead[i] = lead


@wp.func
def shape_bodies(world: World, i: int):
    """Writes the constant columns of an area's bodies."""
    for k in range(BODIES):
        half = half_of(k)
        size = size_of(k - AGENTS)
        mass = wp.where(k < AGENTS or size == 1, MASS, wp.where(size == 2, 100.0, 150.0))
        world.body_shape[i, k] = box_shape(wp.vec2(half, half), mass, k >= AGENTS)
        world.body_position[i, k] = wp.vec2(1000.0, 0.0)


@wp.func
def find_contacts(world: World, i: int):
    """Finds the contacts of bodies with each other and with the walls."""
    world.patches[i] = 0
    room = wp.vec2(ROOM, ROOM)
    for a in range(BODIES):
        if is_present(world, i, a):
            half = half_of(a)
            place = world.body_position[i, a]
            for b in range(a + 1, BODIES):
                reach = 1.4143 * (half + half_of(b)) + 0.03
                if wp.length_sq(world.body_position[i, b] - place) < reach * reach and is_present(world, i, b):
                    add_patch(world, i, a, b, box_box(near_body(world, i, a), near_body(world, i, b)), FRICTION)
            for axis in range(2):
                if wp.abs(place[axis]) > ROOM - 1.4143 * half - 0.02:
                    add_patch(world, i, BODIES, a, side_contact(near_body(world, i, a), room, axis), FRICTION)


@wp.func
def push(world: World, i: int, active: bool):
    """Turns and pushes agents by their actions if `active`, then applies drag to all bodies and lets them fall."""
    for k in range(BODIES):
        if k < AGENTS:
            act(world, i, k, i * AGENTS + k, active)
        else:
            world.body_velocity[i, k] = world.body_velocity[i, k] * (1.0 - BLOCK_DRAG * SECONDS)
            world.body_spin[i, k] = world.body_spin[i, k] * (1.0 - SPIN_DRAG * SECONDS)
            fall(world, i, k, world.pull[i], BLOCK_DRAG)


@wp.func
def collect(world: World, i: int):
    """Removes blocks that touch the goal; returns the sum of their rewards."""
    worth = int(0)  # Warp takes a literal for a constant
    for k in range(BLOCKS):
        body = AGENTS + k
        half = half_of(body)
        if not world.gone[i, k] and world.body_position[i, body][1] < GOAL_EDGE + 1.4143 * half:
            angle = world.body_angle[i, body]
            low = world.body_position[i, body][1] - half * (wp.abs(wp.cos(angle)) + wp.abs(wp.sin(angle)))
            if low < GOAL_EDGE:
                world.gone[i, k] = True
                world.body_velocity[i, body] = wp.vec2(0.0, 0.0)
                world.body_spin[i, body] = 0.0
                worth += size_of(k)
    return worth


@wp.func
def all_gone(world: World, i: int):
    """Returns whether every block is in the goal."""
    for k in range(BLOCKS):  # Warp does not support all()
        if not world.gone[i, k]:
            return False
    return True


@wp.func
def finish(world: World, i: int, lead: int):
    """Ends the episode at its current state and starts the next one."""
    observe(world, i)
    store_final_obs(world, i)
    start(world, i, lead)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    shape_bodies(world, i)
    start(world, i, 0)
    observe(world, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks that remain after an episode's end run in the next episode, without
    actions."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.action[slot, 0] = wp.int64(checked_choice(world, slot, 0, CHOICES, report))
    earned = float(0.0)
    done = bool(False)
    cut = bool(False)
    for k in range(TICKS):
        if not done and world.lead[i] + TICKS * world.age[i] + k + 1 >= MOST_TICKS:
            cut = True
            finish(world, i, TICKS - 1 - k)
        push(world, i, not (done or cut))
        find_contacts(world, i)
        solve(world, i, BODIES, FRICTION)
        worth = collect(world, i)
        if not (done or cut):
            earned += float(worth) - HASTE
            if worth > 0 and all_gone(world, i):
                done = True
                finish(world, i, TICKS - 1 - k)
    if done or cut:
        report[0] = 1
    else:
        world.age[i] += 1
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.group_reward[slot] = earned
        world.terminated[slot] = done
        world.truncated[slot] = cut
    observe(world, i)


BY_AREA = ("lead", "pull", "gone", "owner", "bounds")
PROGRAM = Program(
    World, begin, tick, area_columns=(*BY_AREA, *(name for name in World.vars if name.startswith(("body_", "patch"))))
)
