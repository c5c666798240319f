"""The rules of CooperativePushBlock: how three agents move, and what it takes to move a block.

The documentation leaves sizes, numbers and speeds open. Ours: a room of 16 x 16 m, whose last 3 m are the goal; three small
blocks of 1.5 m, three medium of 2 m and one large of 2.5 m: 12 points in all. Agents are discs of 1 m that move as in PushBlock
but gain 3 m/s a physics tick, not 2: random play then finds rewards more often. An agent that leans on a block gives it some 20 Ns a
tick, and the ground takes 22 Ns for each pusher that the block needs, less 0.9 of one: that many suffice, one fewer never do.
For lessons the parameter `most_pushers` bounds how many pushers any block needs; it may be fractional: with 1.7 a single agent moves
the larger ones slowly, and two move them with ease.

Blocks stay square to the room and do not turn, so that mates can push side by side. They keep 1.25 m off every wall
but the goal's, which leaves an agent room to get behind them: none gets stuck in a corner. A block that touches the goal
is removed. Small blocks start up to 9 m from the goal, medium up to 4.5 m, the large one up to 3 m, at least 0.75 m apart, or
anywhere if no place is left: two agents that push the same block by chance do not have far to go. In one run of PPO each, in which
agents saw the whole room, it earned 6.5 after 1.7 million decisions, against 2.8, the small ones, with larger blocks that lay anywhere.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.env import Program
from palaestra.envs.builtin.physics.rigid_bodies import (
    SECONDS,
    add_speed,
    advance,
    apply_drag,
    box_body,
    circle_body,
    circle_box,
    circle_circle,
    keep_circle_within,
    resolve_contact,
)
from palaestra.envs.builtin.pushblock.rules import TICKS, TURN, move_direction
from palaestra.envs.builtin.pushblock_collab.observations import (
    AGENTS,
    BLOCKS,
    DEEP,
    GOAL_EDGE,
    RADIUS,
    RIM,
    WIDE,
    World,
    half_of,
    is_near,
    mass_of,
    observe,
    size_of,
    start,
    store_final_obs,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

MOST_DECISIONS = wp.constant(1000)  # 5,000 physics ticks
SPEED = wp.constant(3.0)  # m/s that a tick of moving adds
AGENT_DRAG = wp.constant(10.0)
MASS = wp.constant(10.0)  # mass of an agent
PUSH = wp.constant(22.0)  # Ns that an agent gives a block in a tick, about


@wp.func
def block_body(world: World, i: int, k: int):
    """Returns a block as it is now; nothing turns it."""
    half = half_of(k)
    block = box_body(world.block_position[i, k], world.block_velocity[i, k], 0.0, 0.0, wp.vec2(half, half), mass_of(k))
    block.inverse_inertia = 0.0
    return block


@wp.func
def agent_body(world: World, slot: int):
    """Returns an agent as it is now."""
    return circle_body(world.position[slot], world.velocity[slot], RADIUS, MASS)


@wp.func
def move_agent(world: World, slot: int, last: int):
    """Applies an agent's action, and its contacts with the mates that come after it."""
    action = int(world.action[slot, 0])
    turn = wp.where(action == 4, TURN, 0.0) - wp.where(action == 3, TURN, 0.0)
    angle = world.angle[slot] + turn
    world.angle[slot] = angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    agent = apply_drag(add_speed(agent_body(world, slot), move_direction(angle, action), SPEED), AGENT_DRAG, 0.0)
    for other in range(slot + 1, last):
        if is_near(world.position[other] - agent.position, 2.0 * RADIUS):
            mate = agent_body(world, other)
            agent, mate = resolve_contact(agent, mate, circle_circle(agent, mate), 0.0)
            world.position[other] = mate.position
            world.velocity[other] = mate.velocity
    world.position[slot] = agent.position
    world.velocity[slot] = agent.velocity


@wp.func
def push_blocks(world: World, i: int, slot: int):
    """Resolves an agent's contacts with blocks, which yield to its push but not to its position; then moves the agent."""
    agent = agent_body(world, slot)
    for k in range(BLOCKS):
        if not world.block_gone[i, k] and is_near(world.block_position[i, k] - agent.position, half_of(k) + RADIUS):
            block = block_body(world, i, k)
            contact = circle_box(agent, block)
            agent.position -= contact.depth * contact.normal
            contact.depth = 0.0
            agent, block = resolve_contact(agent, block, contact, 0.0)
            world.block_velocity[i, k] = block.velocity
    agent = keep_circle_within(advance(agent), wp.vec2(WIDE, DEEP))
    world.position[slot] = agent.position
    world.velocity[slot] = agent.velocity


@wp.func
def collide_block(world: World, i: int, k: int):
    """Resolves a moving block's contacts with others: it passes its momentum on, and gives way where they overlap."""
    half = half_of(k)
    for other in range(BLOCKS):
        reach = half + half_of(other)
        to = world.block_position[i, other] - world.block_position[i, k]
        if other != k and not world.block_gone[i, other] and is_near(to, reach):
            axis = wp.where(wp.abs(to[0]) > wp.abs(to[1]), 0, 1)
            n = wp.vec2(0.0, 0.0)
            n[axis] = wp.where(to[axis] < 0.0, -1.0, 1.0)
            approach = wp.max(wp.dot(world.block_velocity[i, k] - world.block_velocity[i, other], n), 0.0)
            share = mass_of(other) / (mass_of(k) + mass_of(other))
            world.block_velocity[i, k] -= share * approach * n
            world.block_velocity[i, other] += (1.0 - share) * approach * n
            world.block_position[i, k] -= (reach - wp.abs(to[axis])) * n


@wp.func
def slide_block(world: World, i: int, k: int):
    """Applies the friction of the ground to a block and moves it by one tick."""
    pushers = wp.min(float(size_of(k)), world.most_pushers[i])
    speed = wp.length(world.block_velocity[i, k])
    kept = wp.max(1.0 - (pushers - 0.9) * PUSH / mass_of(k) / wp.max(speed, 1.0e-6), 0.0)
    velocity = kept * world.block_velocity[i, k]
    place = world.block_position[i, k] + velocity * SECONDS
    margin = RIM + half_of(k)
    held = wp.vec2(wp.clamp(place[0], margin - WIDE, WIDE - margin), wp.max(place[1], margin - DEEP))
    for axis in range(2):
        if held[axis] != place[axis]:
            velocity[axis] = 0.0
    world.block_position[i, k] = held
    world.block_velocity[i, k] = velocity


@wp.func
def simulate(world: World, i: int):
    """Runs the physics of one decision; returns the worth of the blocks that came into the goal."""
    first = i * AGENTS
    last = first + AGENTS
    earned = int(0)  # Warp takes a literal for a constant
    for _ in range(TICKS):
        for slot in range(first, last):
            move_agent(world, slot, last)
        for slot in range(first, last):
            push_blocks(world, i, slot)
        for k in range(BLOCKS):
            if not world.block_gone[i, k] and wp.length_sq(world.block_velocity[i, k]) > 0.0:
                collide_block(world, i, k)
        for k in range(BLOCKS):
            if not world.block_gone[i, k] and wp.length_sq(world.block_velocity[i, k]) > 0.0:
                slide_block(world, i, k)
                if world.block_position[i, k][1] + half_of(k) > GOAL_EDGE:
                    world.block_gone[i, k] = True
                    earned += size_of(k)
    return earned


@wp.func
def all_gone(world: World, i: int):
    """Returns whether every block is in the goal."""
    for k in range(BLOCKS):  # Warp does not support all()
        if not world.block_gone[i, k]:
            return False
    return True


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if world.action[slot, 0] < wp.int64(0) or world.action[slot, 0] > wp.int64(6):
            report[1] = slot + 1
            world.action[slot, 0] = wp.int64(0)
    earned = float(simulate(world, i)) - 0.0001
    age = world.age[i] + 1
    world.age[i] = age
    done = all_gone(world, i)
    ended = done or age >= MOST_DECISIONS
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.group_reward[slot] = earned
        world.terminated[slot] = done
        world.truncated[slot] = ended and not done
    observe(world, i)
    if ended:
        report[0] = 1
        for slot in range(i * AGENTS, (i + 1) * AGENTS):
            store_final_obs(world, slot)
        start(world, i)
        observe(world, i)


PROGRAM = Program(World, begin, tick, area_columns=("rng", "age", "most_pushers", "block_position", "block_velocity", "block_gone"))
