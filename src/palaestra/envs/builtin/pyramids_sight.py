"""What there is in Pyramids and what an agent's rays see of it: `pyramids` tells the layout."""

# A kernel is Warp's language in Python's clothes; pyright reads it as Python.
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportInvalidTypeForm=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.rays import MISS, heading, ray_room, ray_slabs, write_ray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

EDGE = wp.constant(3)  # rooms along a side
ROOMS = wp.constant(9)
HALF = wp.constant(6.5)  # of a room's side
DOOR = wp.constant(2.0)  # half of its width
ASTRAY = wp.constant(2.0)  # of a thing from the middle of its room
BRICK = wp.constant(0.8)  # half of the golden one's side
FALL = wp.constant(3.5)  # of the golden brick from the middle of its pyramid: clear of the others

NOTHING = wp.constant(0)  # what a room holds
SWITCH = wp.constant(1)
BRICKS = wp.constant(2)
PYRAMID = wp.constant(3)
RUBBLE = wp.constant(4)  # a pyramid that has fallen

FANS = wp.constant(3)
RAYS = wp.constant(7)  # of a fan
BETWEEN = wp.constant(0.4072434921320105)  # rays of a fan, radians
COS, SIN = wp.constant(0.9182161068802739), wp.constant(0.39607976603915707)  # of the angle between
LENGTH = wp.constant(30.0)  # of a ray
TAGS = wp.constant(5)
SWITCH_OFF_TAG = wp.constant(0)
SWITCH_ON_TAG = wp.constant(1)
BRICK_TAG = wp.constant(2)
GOLDEN_TAG = wp.constant(3)
WALL_TAG = wp.constant(4)


@wp.struct
class World:
    """The columns of Pyramids, one row an area. Rooms are counted from the lower left one, row by row."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    place: wp.array(dtype=wp.vec2)  # of the agent, from the middle of the floor
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec2)
    thing: wp.array2d(dtype=wp.int32)  # what each room holds: NOTHING, SWITCH, BRICKS, PYRAMID or RUBBLE
    thing_place: wp.array2d(dtype=wp.vec2)  # where
    pressed: wp.array(dtype=wp.int32)  # 1: the switch has been
    prize_room: wp.array(dtype=wp.int32)  # where the pyramid is, or will be
    golden: wp.array(dtype=wp.vec2)  # where the golden brick has fallen
    action: wp.array2d(dtype=wp.int64)  # 0: forward, 1: back, 2: turn right, 3: turn left
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def row_of(y: float):
    """The row of rooms at this height, or the column at this breadth."""
    return wp.clamp(int(wp.floor(y / (2.0 * HALF) + 0.5 * float(EDGE))), 0, EDGE - 1)


@wp.func
def middle(column: int, row: int):
    """Of a room."""
    return 2.0 * HALF * wp.vec2(float(column) - 0.5 * float(EDGE - 1), float(row) - 0.5 * float(EDGE - 1))


@wp.func
def half_side(thing: int, fan: int):
    """Of what stands in a room, at the height of a fan; 0: the fan sees over it."""
    if thing == SWITCH:
        return wp.where(fan < 2, 0.6, 0.0)
    if thing == NOTHING or (thing == RUBBLE and fan > 0):
        return 0.0
    return 1.6 - 0.4 * float(fan)


@wp.func
def tag_of(thing: int, fan: int, pressed: int):
    """What a fan sees it as."""
    if thing == SWITCH:
        return SWITCH_OFF_TAG + pressed
    return wp.where(thing == PYRAMID and fan == 2, GOLDEN_TAG, BRICK_TAG)


@wp.struct
class Sight:
    """What a ray meets: a tag, which is -1 for nothing so far, and how far off."""

    tag: wp.int32
    distance: wp.float32


@wp.func
def look(world: World, i: int, room: int, fan: int, direction: wp.vec2):
    """What a ray meets of what a room holds."""
    sight = Sight()
    sight.tag = -1
    sight.distance = MISS
    place = world.place[i]
    thing = world.thing[i, room]
    side = half_side(thing, fan)
    if side > 0.0:
        sight.distance = ray_slabs(place - world.thing_place[i, room], direction, wp.vec2(side, side))
        sight.tag = tag_of(thing, fan, world.pressed[i])
    if thing == RUBBLE and fan == 0:
        distance = ray_slabs(place - world.golden[i], direction, wp.vec2(BRICK, BRICK))
        if distance < sight.distance:
            sight.distance = distance
            sight.tag = GOLDEN_TAG
    return sight


@wp.func
def cast(world: World, i: int, fan: int, ray: int, direction: wp.vec2):
    """Writes what a ray meets on its way through one room after another."""
    place = world.place[i]
    column = row_of(place[0])
    row = row_of(place[1])
    sight = Sight()
    open = wp.bool(True)
    while open:
        sight = look(world, i, row * EDGE + column, fan, direction)
        center = middle(column, row)
        leaves = ray_room(place - center, direction, wp.vec2(HALF, HALF))
        open = sight.distance > leaves and leaves < LENGTH
        if sight.distance > leaves:
            sight.distance = leaves
            sight.tag = WALL_TAG
        at = place + leaves * direction - center
        across = wp.abs(at[0]) > wp.abs(at[1])  # through the wall on the right or left
        column += wp.where(across, int(wp.sign(at[0])), 0)
        row += wp.where(across, 0, int(wp.sign(at[1])))
        open = open and wp.min(wp.abs(at[0]), wp.abs(at[1])) < DOOR and wp.min(column, row) >= 0 and wp.max(column, row) < EDGE
    if sight.distance >= LENGTH:
        sight.tag = -1
    write_ray(world.obs, i, (fan * RAYS + ray) * (TAGS + 2), TAGS, sight.tag, sight.distance / LENGTH)


@wp.func
def see(world: World, i: int):
    """Writes what the agent sees now, each fan's rays from the rightmost on: turning a direction costs less than making one anew."""
    for fan in range(FANS):
        lean = float(fan % 2 - fan // 2) * BETWEEN / 3.0
        direction = heading(world.angle[i] + lean - float(RAYS // 2) * BETWEEN)
        for k in range(RAYS):
            steps = k - RAYS // 2
            cast(world, i, fan, wp.where(steps < 0, -2 * steps - 1, 2 * steps), direction)
            direction = wp.vec2(COS * direction[0] - SIN * direction[1], SIN * direction[0] + COS * direction[1])
    world.obs[i, FANS * RAYS * (TAGS + 2)] = float(world.pressed[i])
