"""The rules of CooperativePushBlock: how agents push blocks, what the goal pays, and how an episode starts and ends.

All sizes, masses and speeds are those of Unity's scene. Blocks have sides of 1, 2 and 3 m and masses of 10, 100 and 150
kg. An agent pushes with 30 Ns a physics tick, and at the scene's own gravity the floor's friction takes up to 3.5, 35
and 53 Ns from the blocks: a block of 2 m moves for two agents and one of 3 m for three, while fewer only nudge it with
a run-up. Blocks turn when they are pushed off center.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import checked_choice, next_parameter
from palaestra.envs.builtin.physics.contact_solver import add_patch, box_shape, fall, near_body, side_contact, solve
from palaestra.envs.builtin.physics.contacts import Body, box_box
from palaestra.envs.builtin.physics.pusher import CHOICES, act
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock.rules import FRICTION, MASS, TICKS
from palaestra.envs.builtin.pushblock_collab.observations import (
    AGENTS,
    BLOCKS,
    BODIES,
    GOAL_EDGE,
    ROOM,
    World,
    half_of,
    is_present,
    observe,
    size_of,
    store_final_obs,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

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
    """Returns whether a square is clear of the bodies before this turn, and of agents not yet moved."""
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
    """Writes what never changes of an area's bodies."""
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
    """Removes blocks that touch the goal; returns their worth."""
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
    """Ends the episode where it is and starts the next."""
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
    """Advances every area by one decision. Ticks left after an episode's end pass in the next, without actions."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.action[slot, 0] = wp.int64(checked_choice(world, slot, CHOICES, report))
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


BY_AREA = ("rng", "age", "lead", "pull", "gone", "owner", "bounds")
PROGRAM = Program(
    World,
    begin,
    tick,
    area_columns=(*BY_AREA, *(name for name in World.vars if name.startswith(("body_", "patch")))),
)
