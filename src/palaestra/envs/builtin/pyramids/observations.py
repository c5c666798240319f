"""The columns and rooms of Pyramids, and the rays of its agents; `env` describes the layout."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, heading, ray_slabs

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

EDGE = wp.constant(3)  # rooms along a side
ROOMS = wp.constant(9)
HALF = wp.constant(6.5)  # half a room's side
DOOR = wp.constant(2.0)  # half a door's width
ASTRAY = wp.constant(2.0)  # largest distance of a thing from the middle of its room
BRICK = wp.constant(0.8)  # half the golden brick's side
FALL = wp.constant(3.5)  # distance of the fallen golden brick from the middle of its pyramid, clear of the other bricks

NOTHING = wp.constant(0)  # what a room holds
SWITCH = wp.constant(1)
BRICKS = wp.constant(2)
PYRAMID = wp.constant(3)
RUBBLE = wp.constant(4)  # a pyramid that has fallen

FANS = wp.constant(3)
RAYS = wp.constant(7)  # rays of a fan
BETWEEN = wp.constant(0.4072434921320105)  # angle between rays of a fan, radians
COS, SIN = wp.constant(0.9182161068802739), wp.constant(0.39607976603915707)  # cosine and sine of BETWEEN
LENGTH = wp.constant(30.0)  # length of a ray
TAGS = wp.constant(5)
SWITCH_OFF_TAG = wp.constant(0)
SWITCH_ON_TAG = wp.constant(1)
BRICK_TAG = wp.constant(2)
GOLDEN_TAG = wp.constant(3)
WALL_TAG = wp.constant(4)


@wp.struct
class World:
    """Columns of Pyramids, one row per area. Rooms are counted from the lower left one, row by row."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    place: wp.array(dtype=wp.vec2)  # position of the agent, from the middle of the floor
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec2)
    thing: wp.array2d(dtype=wp.int32)  # what each room holds: NOTHING, SWITCH, BRICKS, PYRAMID or RUBBLE
    thing_place: wp.array2d(dtype=wp.vec2)  # position of each room's thing
    pressed: wp.array(dtype=wp.int32)  # 1: the switch has been pressed
    prize_room: wp.array(dtype=wp.int32)  # room in which the pyramid is, or will be
    golden: wp.array(dtype=wp.vec2)  # position of the fallen golden brick
    action: wp.array2d(dtype=wp.int64)  # 0: forward, 1: back, 2: turn right, 3: turn left
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def row_of(y: float):
    """Returns the row of rooms at this y, or the column at this x."""
    return wp.clamp(int(wp.floor(y / (2.0 * HALF) + 0.5 * float(EDGE))), 0, EDGE - 1)


@wp.func
def room_center(column: int, row: int):
    """Returns the center of a room."""
    return 2.0 * HALF * wp.vec2(float(column) - 0.5 * float(EDGE - 1), float(row) - 0.5 * float(EDGE - 1))


@wp.func
def half_side(thing: int, fan: int):
    """Returns half the side of a room's thing at the height of a fan; 0: the fan looks over it."""
    if thing == SWITCH:
        return wp.where(fan < 2, 0.6, 0.0)
    if thing == NOTHING or (thing == RUBBLE and fan > 0):
        return 0.0
    return 1.6 - 0.4 * float(fan)


@wp.func
def tag_of(thing: int, fan: int, pressed: int):
    """Returns the tag that a fan of rays reports for a thing."""
    if thing == SWITCH:
        return SWITCH_OFF_TAG + pressed
    return wp.where(thing == PYRAMID and fan == 2, GOLDEN_TAG, BRICK_TAG)


@wp.struct
class Ray:
    """Origin and unit direction of a ray."""

    origin: wp.vec2
    direction: wp.vec2


@wp.struct
class RaySight:
    """Hit of a ray: a tag, which is -1 for nothing so far, and its distance."""

    tag: wp.int32
    distance: wp.float32


@wp.func
def surely_misses(to: wp.vec2, direction: wp.vec2, side: float):
    """Returns whether a ray surely misses a box along the axes at this offset; cheaper than computing the hit."""
    aside = wp.abs(to[0] * direction[1] - to[1] * direction[0])
    return aside > 1.001 * side * (wp.abs(direction[0]) + wp.abs(direction[1])) or wp.dot(to, direction) < -1.5 * side


@wp.func
def cast_in_room(world: World, i: int, room: int, fan: int, eye: Ray):
    """Returns a ray's hit with the thing in a room."""
    sight = RaySight()
    sight.tag = -1
    sight.distance = MISS
    thing = world.thing[i, room]
    side = half_side(thing, fan)
    to = world.thing_place[i, room] - eye.origin
    if side > 0.0 and not surely_misses(to, eye.direction, side):
        sight.distance = ray_slabs(-to, eye.direction, wp.vec2(side, side))
        if sight.distance < MISS:
            sight.tag = tag_of(thing, fan, world.pressed[i])
    if thing == RUBBLE and fan == 0:
        distance = ray_slabs(eye.origin - world.golden[i], eye.direction, wp.vec2(BRICK, BRICK))
        if distance < sight.distance:
            sight.distance = distance
            sight.tag = GOLDEN_TAG
    return sight


@wp.func
def wall_ahead(position: float, direction: float, center: float):
    """Returns the distance along a ray to a room's wall, along one axis."""
    if wp.abs(direction) <= 1.0e-12:
        return MISS
    return (wp.sign(direction) * HALF - (position - center)) / direction


@wp.func
def cast_ray(world: World, i: int, fan: int, ray: Ray, center: wp.vec2, room: int):
    """Returns a ray's first hit on its way from room to room, beginning with the room of this number and center."""
    x = center[0]
    y = center[1]
    sight = RaySight()
    open = wp.bool(True)
    while open:
        sight = cast_in_room(world, i, room, fan, ray)
        open = sight.tag < 0  # things in a room are nearer than its walls
        if open:
            beside = wall_ahead(ray.origin[0], ray.direction[0], x)
            above = wall_ahead(ray.origin[1], ray.direction[1], y)
            is_beside = beside < above
            leaves = wp.max(wp.min(beside, above), 0.0)
            at = ray.origin + leaves * ray.direction - wp.vec2(x, y)
            open = wp.abs(wp.where(is_beside, at[1], at[0])) < DOOR and leaves < LENGTH
            sight.tag = WALL_TAG
            sight.distance = leaves
            x += wp.where(is_beside, 2.0 * HALF * wp.sign(ray.direction[0]), 0.0)
            y += wp.where(is_beside, 0.0, 2.0 * HALF * wp.sign(ray.direction[1]))
            room += wp.where(is_beside, int(wp.sign(ray.direction[0])), EDGE * int(wp.sign(ray.direction[1])))
            open = open and wp.max(wp.abs(x), wp.abs(y)) < HALF * float(EDGE)
    return sight


@wp.func
def write_sight(line: wp.array(dtype=wp.float32), at: int, sight: RaySight):
    """Writes a ray's numbers into an observation: `write_ray` without its loop, which costs more than the numbers."""
    misses = sight.distance >= LENGTH
    tag = wp.where(misses, TAGS, sight.tag)
    line[at] = wp.where(tag == 0, 1.0, 0.0)
    line[at + 1] = wp.where(tag == 1, 1.0, 0.0)
    line[at + 2] = wp.where(tag == 2, 1.0, 0.0)
    line[at + 3] = wp.where(tag == 3, 1.0, 0.0)
    line[at + 4] = wp.where(tag == 4, 1.0, 0.0)
    line[at + 5] = wp.where(misses, 1.0, 0.0)
    line[at + 6] = wp.where(misses, 1.0, sight.distance / LENGTH)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, each fan's rays from the rightmost on: turning a direction is cheaper than computing a new one."""
    ray = Ray()
    ray.origin = world.place[i]
    column = row_of(ray.origin[0])
    row = row_of(ray.origin[1])
    angle = world.angle[i]
    line = world.obs[i]
    for fan in range(FANS):
        lean = float(fan % 2 - fan // 2) * BETWEEN / 3.0
        direction = heading(angle + lean - float(RAYS // 2) * BETWEEN)
        for k in range(RAYS):
            ray.direction = direction
            sight = cast_ray(world, i, fan, ray, room_center(column, row), row * EDGE + column)
            steps = k - RAYS // 2
            write_sight(line, (fan * RAYS + wp.where(steps < 0, -2 * steps - 1, 2 * steps)) * (TAGS + 2), sight)
            direction = wp.vec2(COS * direction[0] - SIN * direction[1], SIN * direction[0] + COS * direction[1])
    line[FANS * RAYS * (TAGS + 2)] = float(world.pressed[i])
