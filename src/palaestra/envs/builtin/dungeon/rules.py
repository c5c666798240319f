"""The rules of DungeonEscape: how agents move, what happens to the dragon and its key, and how an episode ends."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.env import Program
from palaestra.envs.builtin.base.world_columns import save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, add_speed, advance, apply_drag, circle_body, keep_circle_within
from palaestra.envs.builtin.pushblock.rules import TURN, move_direction
from palaestra.envs.builtin.sensors.rays import heading, ray_angle, ray_circle, ray_room, write_ray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(300)
SPEED = wp.constant(2.0)  # m/s that a tick of moving adds to an agent
AGENT_DRAG = wp.constant(10.0)
PACE = wp.constant(1.8)  # speed of the dragon, m/s
BERTH = wp.constant(3.0)  # least distance of an agent from the dragon at the start
APART = wp.constant(1.5)  # least distance between agents at the start
TOUCH = wp.constant(0.01)  # a smaller gap counts as touching
GOES_ON, OPENED, ESCAPED = (wp.constant(case) for case in range(3))
AGENTS = wp.constant(3)
ROOM = wp.constant(6.0)  # half the room's side
DOOR_HALF = wp.constant(2.0)  # half the door's width
PORTAL_HALF = wp.constant(1.5)
AGENT_RADIUS = wp.constant(0.5)
DRAGON_RADIUS = wp.constant(1.0)
KEY_RADIUS = wp.constant(0.5)
RAYS = wp.constant(15)
RAY_STEP = wp.constant(0.41887902047863906)  # 24 degrees: all around
RAY_LENGTH = wp.constant(25.0)  # more than the room's diagonal
RAY_RADIUS = wp.constant(0.4)  # less than the agent's, so that rays see what it touches
TAGS = wp.constant(6)
WALL, AGENT, DOOR, KEY, DRAGON, PORTAL = (wp.constant(tag) for tag in range(6))
OBS = int(RAYS) * (int(TAGS) + 2) + 1


@wp.struct
class World:
    """Columns of DungeonEscape, one row per agent or, for the first eight, per area; places are from the room's middle."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    dragon: wp.array(dtype=wp.vec2)
    dragon_lives: wp.array(dtype=wp.bool)
    portal: wp.array(dtype=wp.vec2)  # middle of the portal, on the right or left wall
    door: wp.array(dtype=wp.float32)  # x of the door's middle, on the wall toward y
    key: wp.array(dtype=wp.vec2)
    key_lies: wp.array(dtype=wp.bool)  # whether the key lies on the floor
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    holds_key: wp.array(dtype=wp.bool)
    acting: wp.array(dtype=wp.bool)  # whether the agent lives
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3, 4: turn right, left, 5, 6: to the left, right
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def wall_tag(world: World, i: int, place: wp.vec2):
    """Returns the tag of the room's side at this place on it."""
    if place[1] > ROOM - 1.0e-3 and wp.abs(place[0] - world.door[i]) < DOOR_HALF:
        return DOOR
    gap = place - world.portal[i]
    if wp.abs(gap[0]) < 1.0e-3 and wp.abs(gap[1]) < PORTAL_HALF:
        return PORTAL
    return WALL


@wp.func
def nearer(far: float, tag: int, distance: float, other: int):
    """Returns the distance and tag of the nearer hit."""
    if distance < far:
        return distance, other
    return far, tag


@wp.func
def observe(world: World, i: int, slot: int):
    """Writes an agent's rays, and whether it holds the key."""
    eye = world.position[slot]
    for k in range(RAYS):
        way = heading(world.angle[slot] + ray_angle(k, RAY_STEP))
        far = ray_room(eye, way, wp.vec2(ROOM, ROOM))
        tag = wall_tag(world, i, eye + far * way)
        for mate in range(i * AGENTS, (i + 1) * AGENTS):
            if mate != slot and world.acting[mate]:
                far, tag = nearer(far, tag, ray_circle(eye, way, world.position[mate], AGENT_RADIUS + RAY_RADIUS), AGENT)
        if world.dragon_lives[i]:
            far, tag = nearer(far, tag, ray_circle(eye, way, world.dragon[i], DRAGON_RADIUS + RAY_RADIUS), DRAGON)
        if world.key_lies[i]:
            far, tag = nearer(far, tag, ray_circle(eye, way, world.key[i], KEY_RADIUS + RAY_RADIUS), KEY)
        write_ray(world.obs, slot, k * (TAGS + 2), TAGS, tag, far / RAY_LENGTH)
    world.obs[slot, OBS - 1] = wp.where(world.holds_key[slot], 1.0, 0.0)


@wp.func
def clear_observation(world: World, slot: int):
    """Clears the observation of a dead agent."""
    for k in range(OBS):
        world.obs[slot, k] = 0.0


@wp.func
def is_free(world: World, i: int, slot: int, place: wp.vec2):
    """Returns whether an agent may start there: away from the dragon and from the agents before it."""
    if wp.length(place - world.dragon[i]) < BERTH:
        return False
    for mate in range(i * AGENTS, slot):  # Warp does not support generators
        if wp.length(place - world.position[mate]) < APART:
            return False
    return True


@wp.func
def start(world: World, i: int):
    """Starts an episode: the dragon at one side and its portal at the other, the door along its wall, agents anywhere."""
    state = world.rng[i]
    side = wp.where(wp.randf(state) < 0.5, 1.0, -1.0)
    reach = ROOM - PORTAL_HALF
    world.portal[i] = wp.vec2(side * ROOM, wp.randf(state, -reach, reach))
    reach = ROOM - DRAGON_RADIUS
    world.dragon[i] = wp.vec2(-side * reach, wp.randf(state, -reach, reach))
    reach = ROOM - DOOR_HALF
    world.door[i] = wp.randf(state, -reach, reach)
    world.dragon_lives[i] = True
    world.key_lies[i] = False
    reach = ROOM - AGENT_RADIUS
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        place = wp.vec2(wp.randf(state, -reach, reach), wp.randf(state, -reach, reach))
        while not is_free(world, i, slot, place):
            place = wp.vec2(wp.randf(state, -reach, reach), wp.randf(state, -reach, reach))
        world.position[slot] = place
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.angle[slot] = wp.randf(state, -wp.pi, wp.pi)
        world.holds_key[slot] = False
        world.acting[slot] = True
    world.rng[i] = state
    world.age[i] = 0
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        observe(world, i, slot)


@wp.func
def move_agent(world: World, slot: int):
    """Moves an agent by one physics tick of its action."""
    choice = int(world.action[slot, 0])
    turn = wp.where(choice == 4, TURN, 0.0) - wp.where(choice == 3, TURN, 0.0)
    angle = world.angle[slot] + turn
    angle -= 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    body = circle_body(world.position[slot], world.velocity[slot], AGENT_RADIUS, 1.0)
    body = advance(apply_drag(add_speed(body, move_direction(angle, choice), SPEED), AGENT_DRAG, 0.0))
    body = keep_circle_within(body, wp.vec2(ROOM, ROOM))
    world.position[slot] = body.position
    world.velocity[slot] = body.velocity
    world.angle[slot] = angle


@wp.func
def touch(world: World, i: int, slot: int):
    """Lets an agent slay the dragon, take the key or open the door by touching it; returns the outcome."""
    place = world.position[slot]
    if world.dragon_lives[i]:
        if wp.length(place - world.dragon[i]) < AGENT_RADIUS + DRAGON_RADIUS + TOUCH:
            world.dragon_lives[i] = False
            world.key[i] = world.dragon[i]
            world.key_lies[i] = True
            world.acting[slot] = False
            world.terminated[slot] = True
        return GOES_ON
    if world.key_lies[i] and wp.length(place - world.key[i]) < AGENT_RADIUS + KEY_RADIUS + TOUCH:
        world.key_lies[i] = False
        world.holds_key[slot] = True
    at_door = place[1] > ROOM - AGENT_RADIUS - TOUCH and wp.abs(place[0] - world.door[i]) < DOOR_HALF
    return wp.where(world.holds_key[slot] and at_door, OPENED, GOES_ON)


@wp.func
def walk_dragon(world: World, i: int):
    """Moves the dragon by one physics tick; returns whether it has reached its portal."""
    to = world.portal[i] - world.dragon[i]
    world.dragon[i] += PACE * SECONDS * wp.normalize(to)
    return wp.abs(to[0]) <= DRAGON_RADIUS


@wp.func
def simulate(world: World, i: int):
    """Runs the physics of one decision until the episode ends; returns the outcome."""
    first = i * AGENTS
    last = first + AGENTS
    left = int(TICKS)
    outcome = int(GOES_ON)
    while left > 0 and outcome == GOES_ON:
        for slot in range(first, last):
            if world.acting[slot]:
                move_agent(world, slot)
        for slot in range(first, last):
            if world.acting[slot] and outcome == GOES_ON:
                outcome = touch(world, i, slot)
        if world.dragon_lives[i] and walk_dragon(world, i):
            outcome = ESCAPED
        left -= 1
    return outcome


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def write_results(world: World, i: int, outcome: int, truncated: bool):
    """Writes every agent's rewards, ends and observations; dead agents observe zeros."""
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        died = world.terminated[slot]
        lives = world.acting[slot]
        if lives or died:
            observe(world, i, slot)
        if lives:
            world.group_reward[slot] = wp.where(outcome == OPENED, 1.0, 0.0)
            world.terminated[slot] = outcome != GOES_ON
            world.truncated[slot] = truncated
        if world.terminated[slot] or truncated:
            save_final_obs(world.obs, world.final_obs, slot)
        if died:
            clear_observation(world, slot)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if world.acting[slot] and (world.action[slot, 0] < wp.int64(0) or world.action[slot, 0] > wp.int64(6)):
            report[1] = slot + 1
            world.action[slot, 0] = wp.int64(0)
        world.group_reward[slot] = 0.0
        world.terminated[slot] = False
        world.truncated[slot] = False
    was_alive = world.dragon_lives[i]
    outcome = simulate(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    truncated = age >= MOST_DECISIONS and outcome == GOES_ON
    write_results(world, i, outcome, truncated)
    done = truncated or outcome != GOES_ON
    if done or was_alive != world.dragon_lives[i]:  # the agent that slew the dragon has ended
        report[0] = 1
    if done:
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=("rng", "age", "dragon", "dragon_lives", "portal", "door", "key", "key_lies"))
