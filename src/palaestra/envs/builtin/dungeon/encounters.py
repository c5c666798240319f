"""Encounters in DungeonEscape: the dragon its portal, and agents the dragon, the key, the lock and the portal."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.dungeon.observations import (
    AGENTS,
    COLUMN,
    COLUMN_HALF,
    DRAGON_HALF,
    FALLEN_KEY,
    KEY_HALF,
    LOCK,
    LOCK_HALF,
    PORTAL,
    PORTAL_ANGLE,
    PORTAL_HALF,
    ROOM,
    World,
    offset_from,
)
from palaestra.envs.builtin.physics.contact_solver import near_body, near_box
from palaestra.envs.builtin.physics.contacts import Body, box_box
from palaestra.envs.builtin.physics.pusher import HALF
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS

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
def plain_box(center: wp.vec2, half: wp.vec2, angle: float):
    """Returns a box that never moves."""
    box = Body()
    box.position = center
    box.half = half
    box.angle = angle
    return box


@wp.func
def column_at(k: int):
    """Returns the place of a column."""
    return wp.vec2(wp.where(k % 2 == 0, COLUMN[0], -COLUMN[0]), wp.where(k < 2, COLUMN[1], -COLUMN[1]))


@wp.func
def walk_dragon(world: World, i: int):
    """Moves the dragon toward its portal by a tick, around columns; returns whether it has reached it."""
    half = wp.vec2(DRAGON_HALF, DRAGON_HALF)
    place = world.dragon[i] + world.dragon_pace[i] * SECONDS * wp.normalize(GATE - world.dragon[i])
    column = column_at(wp.where(place[0] < 0.0, 1, 0) + wp.where(place[1] < 0.0, 2, 0))
    if wp.length_sq(column - place) < 5.2:
        foot = plain_box(column, wp.vec2(COLUMN_HALF, COLUMN_HALF), 0.0)
        contact = box_box(foot, plain_box(place, half, world.dragon_angle[i]))
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
        body = plain_box(place, wp.vec2(HALF, HALF), world.body_angle[i, agent])
        other = plain_box(world.key[i], KEY_HALF, world.key_angle[i])
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
    """Replaces the dragon by its key; a tombstone stands where the agent is that slew it."""
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
    """Applies what an agent touches; returns the outcome, and whether the agent leaves alone."""
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
