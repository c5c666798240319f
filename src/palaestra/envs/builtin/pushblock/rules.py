"""PushBlock: its columns, its two ray sensors, the motion of agent and block, and the start of an episode."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import checked_choice, next_parameter, save_final_obs
from palaestra.envs.builtin.physics.pressing import MARGIN, fall, grown, press, press_on_plane
from palaestra.envs.builtin.physics.rigid_bodies import (
    SECONDS,
    Body,
    add_speed,
    advance,
    apply_drag,
    box_body,
    box_box,
    fixed_box,
    rub,
)
from palaestra.envs.builtin.sensors.rays import MISS, clear_frames, heading, shift_frames, wrapped, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_box, cast_four_walls, cast_past, touches_box

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
BLOCK, GOAL, WALL = (wp.constant(tag) for tag in range(3))
TAGS = wp.constant(3)
FRAMES = 3
FRAME = wp.constant(35)  # numbers of a frame of one sensor
# offset rays pass 0.5 m above the tops of walls and goal, and touch them with their lowest point
OFFSET_REACH = wp.constant(0.0)


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of PushBlock, one row per area."""

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
    """Returns the distances from a circle about the eye to the sides of the room at -x, x, -y and y."""
    return wp.vec4(WALL_AT + eye[0], WALL_AT - eye[0], eye[1] - GOAL_EDGE, WALL_AT - eye[1]) - wp.vec4(
        radius, radius, radius, radius
    )


@wp.func
def cast_room(gaps: wp.vec4, way: wp.vec2):
    """Returns the distance along a unit direction to the nearest side, and its tag; the ray starts in the room."""
    nearest = gaps[wp.where(way[0] < 0.0, 0, 1)] / wp.max(wp.abs(way[0]), 1.0e-9)
    tag = int(WALL)
    distance = gaps[wp.where(way[1] < 0.0, 2, 3)] / wp.max(wp.abs(way[1]), 1.0e-9)
    if distance < nearest:
        nearest = distance
        tag = wp.where(way[1] < 0.0, GOAL, WALL)
    return nearest, tag


@wp.func
def cast_boxes(eye: wp.vec2, way: wp.vec2):
    """Returns the result of `cast_room` for a level ray that ignores sides that its sphere touches."""
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
    """Writes the numbers of one ray from column `at` on."""
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
    """Returns the agent in its current state as a rigid body; contacts do not turn it."""
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
    """Returns the direction of an action's movement, scaled by its share of the speed."""
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
    """Returns whether the square around a start place touches no body (True)."""
    square = fixed_box(place, wp.vec2(CLEAR, CLEAR), 0.0)
    return place[1] - CLEAR > GOAL_EDGE and box_box(square, body).count == 0


@wp.func
def start(world: World, i: int, hangs: wp.bool):
    """Starts an episode: places the block, then the agent, clear of everything else; the agent keeps its heading.

    `hangs`: the old block is in the air, where it is an obstacle; a block on the floor is too low to be an obstacle.
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
    """Returns a body of extent `reach` along the axes, after its contacts with the walls and the goal."""
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
    world.agent_angle[i] = wrapped(agent.angle)
    world.agent_fall[i] = agent_fall
    world.block_position[i] = block.position
    world.block_velocity[i] = block.velocity
    world.block_fall[i] = block_fall
    return scored


@wp.func
def end(world: World, i: int, scored: bool):
    """Ends the episode, with its last observation, and starts the next episode."""
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
    """Advances every area by one decision. Ticks left after an episode's end run in the next, without an action."""
    i = wp.tid()
    action = checked_choice(world, i, 0, 7, report)
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
