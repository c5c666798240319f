"""The rules of DungeonEscape: how agents and dragon move, what happens when they touch things, and how an episode
ends."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import checked_choice, next_parameter, save_final_obs
from palaestra.envs.builtin.dungeon.observations import (
    AGENTS,
    COLUMN,
    COLUMN_HALF,
    DRAGON_HALF,
    FALLEN_KEY,
    KEY_HALF,
    LOCK,
    LOCK_HALF,
    MOST_TICKS,
    PORTAL,
    PORTAL_ANGLE,
    PORTAL_HALF,
    ROOM,
    STONE_FOOT,
    STONE_HALF,
    World,
    forget,
    observe,
    offset_from,
)
from palaestra.envs.builtin.physics.contact_solver import add_patch, box_shape, near_body, near_box, side_contact, solve
from palaestra.envs.builtin.physics.pusher import CHOICES, HALF, act
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, Body, box_box, fixed_box
from palaestra.envs.builtin.pushblock.rules import FRICTION, MASS, TICKS

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

GATE = wp.constant(wp.vec2(11.58, -11.59))  # where the dragon is headed, inside the portal
GOES_ON, OPENED, FAILED = (wp.constant(case) for case in range(3))
DRAGON, KEY, LOCKED_DOOR, CAVE = (wp.constant(kind) for kind in range(4))  # what an agent may touch


@wp.func
def touch(a: Body, b: Body):
    """Returns whether two boxes touch."""
    reach = wp.length(a.half) + wp.length(b.half)
    if wp.length_sq(b.position - a.position) > reach * reach:
        return False
    return box_box(a, b).count > 0


@wp.func
def column_at(k: int):
    """Returns the place of a column."""
    return wp.vec2(wp.where(k % 2 == 0, COLUMN[0], -COLUMN[0]), wp.where(k < 2, COLUMN[1], -COLUMN[1]))


@wp.func
def walk_dragon(world: World, i: int):
    """Moves the dragon one tick toward its portal, around columns; returns whether it has reached the portal."""
    half = wp.vec2(DRAGON_HALF, DRAGON_HALF)
    place = world.dragon[i] + world.dragon_pace[i] * SECONDS * wp.normalize(GATE - world.dragon[i])
    column = column_at(wp.where(place[0] < 0.0, 1, 0) + wp.where(place[1] < 0.0, 2, 0))
    if wp.length_sq(column - place) < 5.2:
        foot = fixed_box(column, wp.vec2(COLUMN_HALF, COLUMN_HALF), 0.0)
        contact = box_box(foot, fixed_box(place, half, world.dragon_angle[i]))
        if contact.count > 0:
            place += contact.depth * contact.normal
            to = GATE - place
            world.dragon_angle[i] = wp.atan2(to[1], to[0])
    world.dragon[i] = place
    return touch(near_box(PORTAL, PORTAL_HALF, PORTAL_ANGLE), near_box(place, half, world.dragon_angle[i]))


@wp.func
def touches(world: World, i: int, agent: int, kind: int):
    """Returns whether an agent touches the dragon, the key, the lock or the portal."""
    place = world.body_position[i, agent]
    body = near_body(world, i, agent)
    if kind == DRAGON:
        if not world.dragon_lives[i] or wp.length_sq(world.dragon[i] - place) > 3.2:
            return False
        other = near_box(world.dragon[i], wp.vec2(DRAGON_HALF, DRAGON_HALF), world.dragon_angle[i])
    elif kind == KEY:
        if not world.key_lies[i] or wp.length_sq(world.key[i] - place) > 1.8:
            return False
        body = fixed_box(place, wp.vec2(HALF, HALF), world.body_angle[i, agent])
        other = fixed_box(world.key[i], KEY_HALF, world.key_angle[i])
    elif kind == LOCKED_DOOR:
        if not world.holds_key[i * AGENTS + agent] or place[1] < ROOM - 1.3:
            return False
        other = near_box(LOCK, LOCK_HALF, 0.0)
    else:
        if place[0] - place[1] < 18.0:
            return False
        other = near_box(PORTAL, PORTAL_HALF, PORTAL_ANGLE)
    return box_box(other, body).count > 0


@wp.func
def bury(world: World, i: int, agent: int):
    """Replaces the dragon by its key, and puts a tombstone at the place of the agent that slew it."""
    world.dragon_lives[i] = False
    world.key[i] = offset_from(world.dragon[i], world.dragon_angle[i], FALLEN_KEY)
    world.key_angle[i] = world.dragon_angle[i]
    world.key_lies[i] = True
    world.stone[i] = world.body_position[i, agent]
    world.stone_angle[i] = world.body_angle[i, agent]
    world.stone_stands[i] = True


@wp.func
def agents_left(world: World, i: int):
    """Returns how many agents are in the room."""
    left = int(0)  # Warp takes a literal for a constant
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        left += wp.where(world.acting[slot], 1, 0)
    return left


@wp.func
def meet(world: World, i: int, agent: int):
    """Applies what an agent touches; returns the outcome, and whether this agent alone leaves the room."""
    outcome = int(GOES_ON)
    leaves = bool(False)  # Warp takes a literal for a constant
    for kind in range(CAVE + 1):
        if outcome == GOES_ON and not leaves and touches(world, i, agent, kind):
            if kind == DRAGON:
                bury(world, i, agent)
                leaves = True
            elif kind == KEY:
                world.key_lies[i] = False
                world.holds_key[i * AGENTS + agent] = True
            elif kind == LOCKED_DOOR:
                outcome = OPENED
            elif world.holds_key[i * AGENTS + agent] or agents_left(world, i) == 1:
                outcome = FAILED
            else:
                leaves = True
    return outcome, leaves


COLUMN_FRICTION = wp.constant(0.3)
DRAGON_START = wp.constant(8.0)  # from the middle
# m/s of the dragon
SLOWEST = wp.constant(1.0)
FASTEST = wp.constant(7.0)
REACH = wp.constant(6.25)  # agents start this far from the middle at most, along each axis
BERTH = wp.constant(2.5)  # half the side of the square that must be free around the middle of a new place
SHAFT = wp.constant(0.718)  # radius of a column at the height where places are tested
DROP = wp.constant(0.5)  # meters above the floor at which agents start
TRIES = wp.constant(1000)


@wp.func
def is_free(world: World, i: int, place: wp.vec2, agent: int):
    """Returns whether an agent may start at a place: clear of columns, and of things left from the last episode."""
    square = fixed_box(place, wp.vec2(BERTH, BERTH), 0.0)
    for k in range(4):
        gap = wp.abs(column_at(k) - place) - square.half
        if wp.length(wp.max(gap, wp.vec2(0.0, 0.0))) < SHAFT:
            return False
    for mate in range(AGENTS):
        if (mate < agent or world.acting[i * AGENTS + mate]) and touch(square, near_body(world, i, mate)):
            return False
    if world.dragon_lives[i] and touch(
        square, fixed_box(world.dragon[i], wp.vec2(DRAGON_HALF, DRAGON_HALF), world.dragon_angle[i])
    ):
        return False
    return not (world.stone_stands[i] and touch(square, fixed_box(world.stone[i], STONE_HALF, world.stone_angle[i])))


@wp.func
def start(world: World, i: int, lead: int):
    """Starts an episode, `lead` physics ticks before its first decision."""
    state = world.rng[i]
    for agent in range(AGENTS):
        slot = i * AGENTS + agent
        place = wp.vec2(0.0, 0.0)
        left = int(TRIES)
        while left > 0:
            place = wp.vec2(wp.randf(state, -REACH, REACH), wp.randf(state, -REACH, REACH))
            left = wp.where(is_free(world, i, place, agent), 0, left - 1)
        world.body_position[i, agent] = place
        world.body_velocity[i, agent] = wp.vec2(0.0, 0.0)
        world.body_angle[i, agent] = wp.randf(state, -wp.pi, wp.pi)
        world.body_height[i, agent] = DROP
        world.body_rise[i, agent] = 0.0
        world.holds_key[slot] = False
        world.acting[slot] = True
        forget(world, slot)
    side = wp.randi(state, 0, 4)
    far = wp.where(side % 2 == 0, DRAGON_START, -DRAGON_START)
    world.dragon[i] = wp.where(side < 2, wp.vec2(0.0, far), wp.vec2(far, 0.0))
    to = GATE - world.dragon[i]
    world.dragon_angle[i] = wp.atan2(to[1], to[0])
    world.dragon_pace[i] = wp.randf(state, SLOWEST, FASTEST)
    world.dragon_lives[i] = True
    world.key_lies[i] = False
    world.stone_stands[i] = False
    world.rng[i] = state
    world.pull[i] = next_parameter(world, i, 0) * SECONDS
    world.episodes[i] += 1
    world.age[i] = 0
    world.lead[i] = lead


@wp.func
def obstacle(world: World, i: int, kind: int, place: wp.vec2):
    """Returns the foot of the nearest column, or the tombstone or the lock, and whether `place` is near to it."""
    if kind == 0:
        column = column_at(wp.where(place[0] < 0.0, 1, 0) + wp.where(place[1] < 0.0, 2, 0))
        return near_box(column, wp.vec2(COLUMN_HALF, COLUMN_HALF), 0.0), wp.length_sq(column - place) < 3.8
    if kind == 1:
        near = world.stone_stands[i] and wp.length_sq(world.stone[i] - place) < 2.0
        return near_box(world.stone[i], STONE_FOOT, world.stone_angle[i]), near
    return near_box(LOCK, LOCK_HALF, 0.0), place[1] > ROOM - 1.3


@wp.func
def find_contacts(world: World, i: int):
    """Finds the contacts of agents with each other and with the things in the room."""
    world.patches[i] = 0
    room = wp.vec2(ROOM, ROOM)
    for b in range(AGENTS):
        if world.acting[i * AGENTS + b]:
            place = world.body_position[i, b]
            body = near_body(world, i, b)
            for k in range(b + 3):  # three kinds of obstacles, then the agents before this one
                a = wp.where(k < 3, AGENTS, k - 3)
                other = near_body(world, i, a)
                near = bool(False)
                if k < 3:
                    other, near = obstacle(world, i, k, place)
                else:
                    near = world.acting[i * AGENTS + a] and wp.length_sq(other.position - place) < 2.1
                if near:
                    add_patch(world, i, a, b, box_box(other, body), wp.where(k == 0, COLUMN_FRICTION, FRICTION))
            for axis in range(2):
                if wp.abs(place[axis]) > ROOM - 0.75:
                    add_patch(world, i, AGENTS, b, side_contact(body, room, axis), FRICTION)


@wp.func
def leave(world: World, i: int, agent: int, ticks: int):
    """Takes an agent out of the room: its episode ends."""
    slot = i * AGENTS + agent
    observe(world, i, agent, ticks)
    store_final_obs(world, slot)
    forget(world, slot)
    world.acting[slot] = False
    world.terminated[slot] = True
    world.body_velocity[i, agent] = wp.vec2(0.0, 0.0)


@wp.func
def store_final_obs(world: World, slot: int):
    """Saves an agent's final observation."""
    save_final_obs(world.obs_body, world.final_obs_body, slot)
    save_final_obs(world.obs_rays, world.final_obs_rays, slot)
    save_final_obs(world.obs_key, world.final_obs_key, slot)
    save_final_obs(world.obs_truth, world.final_obs_truth, slot)


@wp.func
def finish(world: World, i: int, lead: int, outcome: int, ticks: int):
    """Ends the episode of all agents in the room, starts the next one; an outcome of GOES_ON truncates the episode."""
    for agent in range(AGENTS):
        slot = i * AGENTS + agent
        if world.acting[slot]:
            observe(world, i, agent, ticks)
            store_final_obs(world, slot)
            world.terminated[slot] = outcome != GOES_ON
            world.truncated[slot] = outcome == GOES_ON
            world.group_reward[slot] = wp.where(outcome == OPENED, 1.0, 0.0)
    start(world, i, lead)


@wp.func
def step(world: World, i: int, active: bool):
    """Runs a physics tick, with actions and touches if `active`; returns the outcome, and the leaving agent or -1."""
    for agent in range(AGENTS):
        if world.acting[i * AGENTS + agent]:
            act(world, i, agent, i * AGENTS + agent, active)
    find_contacts(world, i)
    solve(world, i, AGENTS, FRICTION)
    outcome = int(GOES_ON)
    leaver = int(-1)
    if world.dragon_lives[i] and walk_dragon(world, i):
        outcome = FAILED
    for agent in range(AGENTS):
        if active and world.acting[i * AGENTS + agent] and outcome == GOES_ON and leaver < 0:
            found, leaves = meet(world, i, agent)
            outcome = found
            if leaves:
                leaver = agent
    return outcome, leaver


@wp.func
def ticks_passed(world: World, i: int):
    """Returns the physics ticks of the episode that passed before this decision."""
    return world.lead[i] + TICKS * world.age[i]


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    world.dragon_lives[i] = False
    world.stone_stands[i] = False
    for agent in range(AGENTS):
        world.acting[i * AGENTS + agent] = False
        world.body_shape[i, agent] = box_shape(wp.vec2(HALF, HALF), MASS, False)
    start(world, i, 0)
    for agent in range(AGENTS):
        observe(world, i, agent, 0)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks that remain after an episode's end run in the next episode, without
    actions."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if world.acting[slot]:
            world.action[slot, 0] = wp.int64(checked_choice(world, slot, 0, CHOICES, report))
        world.group_reward[slot] = 0.0
        world.terminated[slot] = False
        world.truncated[slot] = False
    ended = bool(False)  # Warp takes a literal for a constant
    for k in range(TICKS):
        ticks = ticks_passed(world, i) + k + 1
        if not ended and ticks >= MOST_TICKS:
            ended = True
            finish(world, i, TICKS - 1 - k, GOES_ON, ticks)
        outcome, leaver = step(world, i, not ended)
        if leaver >= 0:
            report[0] = 1
            leave(world, i, leaver, ticks)
        if outcome != GOES_ON and not ended:
            ended = True
            finish(world, i, TICKS - 1 - k, outcome, ticks)
    if ended:
        report[0] = 1
    else:
        world.age[i] += 1
    for agent in range(AGENTS):
        if world.acting[i * AGENTS + agent]:
            observe(world, i, agent, ticks_passed(world, i))


BY_AREA = ("lead", "pull", *(name for name in World.vars if name.startswith(("dragon", "stone", "body_", "patch"))))
PROGRAM = Program(World, begin, tick, area_columns=(*BY_AREA, "key", "key_angle", "key_lies"))
