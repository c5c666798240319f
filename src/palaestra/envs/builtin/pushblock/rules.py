"""The rules of PushBlock: how agent and block move, and where an episode begins."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import checked_choice, next_parameter, save_final_obs
from palaestra.envs.builtin.physics.contacts import Body, box_box
from palaestra.envs.builtin.physics.pressing import MARGIN, fall, grown, press, press_on_plane
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, add_speed, advance, apply_drag, box_body, rub
from palaestra.envs.builtin.pushblock.observations import (
    AGENT_HALF,
    AGENT_REST,
    BLOCK_REST,
    GOAL_EDGE,
    WALL_AT,
    World,
    observe,
)
from palaestra.envs.builtin.sensors.rays import heading
from palaestra.envs.builtin.sensors.stacking import clear_frames

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(5000)  # of an episode
SPEED = wp.constant(3.0)  # m/s that a tick of moving adds
SIDEWAYS = wp.constant(0.75)  # fraction of SPEED for sidesteps
AGENT_DRAG = wp.constant(4.0)
TURN = wp.constant(0.06981317)  # rad a tick: 200 degrees a second
MASS = wp.constant(10.0)  # mass of the agent and of the block
FRICTION = wp.constant(0.6)  # Unity's default; the floor's is the mean of this and the parameter, at two points
# of agent, block, walls and goal against one another: twice that, as sides have two points with friction, too
GRIP = wp.constant(1.2)
START = wp.constant(6.25)  # farthest from the middle that agent and block start, along each axis
CLEAR = wp.constant(2.5)  # half the side of the square around a start that must be empty
DROP = wp.constant(1.0)  # height that both fall from
# where the scene has them, at that height
FIRST_AGENT = wp.constant(wp.vec2(0.0, 0.0))
FIRST_BLOCK = wp.constant(wp.vec2(2.0, -1.43))
FIRST_ANGLE = wp.constant(-0.5 * math.pi)  # the agent faces the goal
PRIZE = wp.constant(5.0)
TICK_COST = wp.constant(0.0002)


@wp.func
def block_body(world: World, i: int):
    """Returns the block of area `i` as a rigid body; nothing turns it."""
    side = 0.5 * world.parameters[i, 0]
    block = box_body(world.block_position[i], world.block_velocity[i], 0.0, 0.0, wp.vec2(side, side), MASS)
    block.inverse_inertia = 0.0
    return block


@wp.func
def agent_body(world: World, i: int):
    """Returns the agent as it is now; contacts do not turn it."""
    agent = box_body(
        world.agent_position[i],
        world.agent_velocity[i],
        world.agent_angle[i],
        0.0,
        wp.vec2(AGENT_HALF, AGENT_HALF),
        MASS,
    )
    agent.inverse_inertia = 0.0
    return agent


@wp.func
def move_direction(angle: float, action: int):
    """Returns the direction that an action moves in, scaled by its share of the speed."""
    ahead = heading(angle)
    if action == 1:
        return ahead
    if action == 2:
        return -ahead
    if action == 5:
        return SIDEWAYS * wp.vec2(-ahead[1], ahead[0])
    if action == 6:
        return SIDEWAYS * wp.vec2(ahead[1], -ahead[0])
    return wp.vec2(0.0, 0.0)


@wp.func
def is_clear(place: wp.vec2, body: Body):
    """Returns whether the square around a start does not touch a body."""
    square = box_body(place, wp.vec2(0.0, 0.0), 0.0, 0.0, wp.vec2(CLEAR, CLEAR), 0.0)
    return place[1] - CLEAR > GOAL_EDGE and box_box(square, body).count == 0


@wp.func
def start(world: World, i: int, hangs: wp.bool):
    """Starts an episode: the block, then the agent, at a place that is clear of what stands there; the agent keeps its
    heading.

    `hangs`: the old block hangs in the air, where it counts; one on the floor is too low.
    """
    state = world.rng[i]
    standing = agent_body(world, i)
    hanging = block_body(world, i)
    place = wp.vec2(wp.randf(state, -START, START), wp.randf(state, -START, START))
    while not is_clear(place, standing) or (hangs and not is_clear(place, hanging)):
        place = wp.vec2(wp.randf(state, -START, START), wp.randf(state, -START, START))
    world.block_position[i] = place
    block = block_body(world, i)
    while not (is_clear(place, standing) and is_clear(place, block)):
        place = wp.vec2(wp.randf(state, -START, START), wp.randf(state, -START, START))
    world.agent_position[i] = place
    world.rng[i] = state
    for k in range(world.parameters.shape[1]):
        world.parameters[i, k] = next_parameter(world, i, k)
    world.agent_velocity[i] = wp.vec2(0.0, 0.0)
    world.block_velocity[i] = wp.vec2(0.0, 0.0)
    world.agent_fall[i] = wp.vec2(DROP, 0.0)
    world.block_fall[i] = wp.vec2(DROP, 0.0)
    world.age[i] = 0
    world.lead[i] = 0
    world.episodes[i] += 1
    clear_frames(world.obs_offset, i)
    clear_frames(world.obs_level, i)


@wp.func
def keep_in_room(body: Body, reach: wp.vec2):
    """Returns a body that reaches so far along the axes, after its contacts with the walls and the goal."""
    side = wp.where(body.position[0] < 0.0, -1.0, 1.0)
    body = press_on_plane(body, 0, WALL_AT - side * body.position[0] - reach[0], side, GRIP)
    side = wp.where(body.position[1] < 0.0, -1.0, 1.0)
    plane = wp.where(body.position[1] < 0.0, -GOAL_EDGE, WALL_AT)
    return press_on_plane(body, 1, plane - side * body.position[1] - reach[1], side, GRIP)


@wp.func
def step_bodies(world: World, i: int, action: int):
    """Runs one physics tick; returns whether the block touched the goal."""
    agent = agent_body(world, i)
    block = block_body(world, i)
    pull = world.parameters[i, 4] * SECONDS
    drag = world.parameters[i, 3]
    sliding = FRICTION + world.parameters[i, 1]  # twice the mean: friction acts at two points
    sticking = FRICTION + world.parameters[i, 2]
    agent.angle += wp.where(action == 4, TURN, 0.0) - wp.where(action == 3, TURN, 0.0)
    agent = apply_drag(add_speed(agent, move_direction(agent.angle, action), SPEED), AGENT_DRAG, 0.0)
    block = apply_drag(block, drag, 0.0)
    agent_fall, agent_held = fall(world.agent_fall[i], AGENT_REST, pull, AGENT_DRAG)
    block_fall, block_held = fall(world.block_fall[i], BLOCK_REST, pull, drag)
    scored = block.position[1] - block.half[1] - GOAL_EDGE <= MARGIN
    reach = AGENT_HALF * (wp.abs(wp.cos(agent.angle)) + wp.abs(wp.sin(agent.angle)))
    contact = box_box(grown(agent), grown(block))
    agent, block = press(agent, block, contact, GRIP)
    block = rub(block, sticking * block_held, sliding * block_held)
    block = keep_in_room(block, block.half)
    if contact.count > 0:  # a block held by a wall holds the agent
        contact.depth = wp.min(contact.depth, MARGIN)
        agent, block = press(agent, block, contact, GRIP)
        block = keep_in_room(block, block.half)
    agent = rub(agent, sticking * agent_held, sliding * agent_held)
    agent = advance(keep_in_room(agent, wp.vec2(reach, reach)))
    block = advance(block)
    world.agent_position[i] = agent.position
    world.agent_velocity[i] = agent.velocity
    world.agent_angle[i] = agent.angle - 2.0 * wp.pi * wp.round(agent.angle / (2.0 * wp.pi))
    world.agent_fall[i] = agent_fall
    world.block_position[i] = block.position
    world.block_velocity[i] = block.velocity
    world.block_fall[i] = block_fall
    return scored


@wp.func
def end(world: World, i: int, scored: bool):
    """Ends the episode, with its last observation, and starts the next one."""
    world.terminated[i] = scored
    world.truncated[i] = not scored
    observe(world, i)
    save_final_obs(world.obs_offset, world.final_obs_offset, i)
    save_final_obs(world.obs_level, world.final_obs_level, i)
    start(world, i, False)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    for k in range(world.parameters.shape[1]):
        world.parameters[i, k] = next_parameter(world, i, k)
    world.agent_angle[i] = FIRST_ANGLE
    world.agent_position[i] = FIRST_AGENT
    world.block_position[i] = FIRST_BLOCK
    start(world, i, True)
    observe(world, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after an episode's end pass in the next, without an action."""
    i = wp.tid()
    action = checked_choice(world, i, 7, report)
    world.terminated[i] = False
    world.truncated[i] = False
    ended = bool(False)  # Warp takes a literal for a constant
    scored = bool(False)
    passed = int(0)
    reward = float(0.0)
    left = MOST_TICKS - world.lead[i] - TICKS * world.age[i]
    for k in range(TICKS + 1):
        chosen = action  # where time runs out it still acts, in the next episode
        if not ended:
            begun = TICKS - k  # ticks of this decision that a new episode would count
            over = scored
            if not scored and k < TICKS:
                reward -= TICK_COST
                over = k + 1 >= left
                begun -= 1
            if over:
                ended = True
                passed = begun
                reward += wp.where(scored, PRIZE, 0.0)
                action = 0
                chosen = wp.where(scored, 0, chosen)
                end(world, i, scored)
        if k < TICKS:
            scored = step_bodies(world, i, chosen)
    world.reward[i] = reward
    if ended:
        report[0] = 1
        world.lead[i] = passed
    else:
        world.age[i] += 1
    observe(world, i)


PROGRAM = Program(World, begin, tick)
