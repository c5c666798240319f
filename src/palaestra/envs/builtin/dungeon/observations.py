"""The columns of DungeonEscape and the observations: velocity, three frames of rays, and whether the agent has the
key."""

from __future__ import annotations

from math import cos, radians, sin

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.physics.contact_solver import ContactColumns
from palaestra.envs.builtin.physics.pusher import HALF, observe_body
from palaestra.envs.builtin.physics.rigid_bodies import cross
from palaestra.envs.builtin.sensors.rays import MISS, clear_frames, heading, shift_frames, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_four_walls, cast_upright_box, touches_box
from palaestra.envs.builtin.sensors.truth import seen_from, tell, tell_motion, tell_one

AGENTS = wp.constant(3)
ROOM = wp.constant(12.5)  # half the side of the floor
WALL_ENDS = wp.constant(wp.vec2(13.0, 12.5))  # half the length of the walls across x and across y
WALL_HALF = wp.constant(0.25)  # half their thickness
COLUMN = wp.constant(wp.vec2(4.5, 4.0))  # distances of the four columns from the middle
COLUMN_HALF = wp.constant(0.8475)  # half the side of their square feet
LOCK = wp.constant(wp.vec2(0.015, 12.6))
LOCK_HALF = wp.constant(wp.vec2(1.4995, 0.534))
PORTAL = wp.constant(wp.vec2(11.825, -11.774))
PORTAL_HALF = wp.constant(wp.vec2(2.347, 0.8825))
PORTAL_ANGLE = wp.constant(0.7853981633974483)  # across the corner
DRAGON_HALF = wp.constant(0.75)
KEY_HALF = wp.constant(wp.vec2(0.0895, 0.605))  # along the heading of the dragon that has it or had it, and across
HANGING_KEY = wp.constant(wp.vec2(0.94, 0.19))  # ahead of the dragon's middle, and to its right
FALLEN_KEY = wp.constant(wp.vec2(0.0, -0.186))
# along a dead agent's heading, and across
STONE_FOOT = wp.constant(wp.vec2(0.259, 0.6065))
STONE_HALF = wp.constant(wp.vec2(0.164, 0.524))
RAYS = wp.constant(15)
STEPS = wp.constant(7)  # rays to each side of the middle one
RAY_STEP = wp.constant(radians(60.0 / 7.0))
EDGE_COS = wp.constant(cos(radians(60.0)))
EDGE_SIN = wp.constant(sin(radians(60.0)))
RAY_LENGTH = wp.constant(40.0)
RAY_RADIUS = wp.constant(0.5)
# of a sphere 0.5 m above the floor where the columns' feet end; their shafts are within its reach
FOOT_RADIUS = wp.constant(0.3879)
STONE_FOOT_RADIUS = wp.constant(0.3)  # and where the tombstone's foot ends
TAGS = ("wall", "agent", "dragon", "key", "lock", "portal")
WALL_TAG, AGENT_TAG, DRAGON_TAG, KEY_TAG, LOCK_TAG, PORTAL_TAG = (wp.constant(tag) for tag in range(len(TAGS)))
KINDS = wp.constant(len(TAGS))
FRAME = wp.constant(RAYS * (len(TAGS) + 2))
FRAMES = wp.constant(3)  # oldest first

Reaches = wp.types.vector(length=RAYS, dtype=wp.float32)
Kinds = wp.types.vector(length=RAYS, dtype=wp.int32)
RAY_COS = wp.constant(Reaches(*(cos((k - 7) * RAY_STEP) for k in range(RAYS))))
RAY_SIN = wp.constant(Reaches(*(sin((k - 7) * RAY_STEP) for k in range(RAYS))))


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns, ContactColumns):
    """Columns of DungeonEscape: a row per area or, from `holds_key` on, per agent. Places are measured from the middle
    of the room."""

    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    pull: wp.array(dtype=wp.float32)  # m/s that gravity adds in a tick of this episode
    dragon: wp.array(dtype=wp.vec2)
    dragon_angle: wp.array(dtype=wp.float32)
    dragon_pace: wp.array(dtype=wp.float32)  # m/s
    dragon_lives: wp.array(dtype=wp.bool)
    key: wp.array(dtype=wp.vec2)
    key_angle: wp.array(dtype=wp.float32)
    key_lies: wp.array(dtype=wp.bool)  # whether the key lies on the floor
    stone: wp.array(dtype=wp.vec2)  # tombstone of the agent that slew the dragon
    stone_angle: wp.array(dtype=wp.float32)
    stone_stands: wp.array(dtype=wp.bool)
    holds_key: wp.array(dtype=wp.bool)
    acting: wp.array(dtype=wp.bool)  # whether the agent is in the room
    action: wp.array2d(dtype=wp.int64)  # see `physics.pusher`
    obs_body: wp.array2d(dtype=wp.float32)
    obs_rays: wp.array2d(dtype=wp.float32)
    obs_key: wp.array2d(dtype=wp.float32)
    obs_truth: wp.array2d(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)


@wp.struct
class RaySight:
    """Nearest hits of an agent's rays, from the furthest right to the furthest left."""

    eye: wp.vec2
    ahead: wp.vec2
    reach: Reaches
    kind: Kinds


@wp.func
def offset_from(place: wp.vec2, angle: float, offset: wp.vec2):
    """Returns the point at these distances ahead of a place and to its right."""
    ahead = heading(angle)
    return place + offset[0] * ahead + offset[1] * wp.vec2(ahead[1], -ahead[0])


@wp.func
def to_local(sight: RaySight, point: wp.vec2):
    """Returns a point in the agent's frame: ahead, and to the left."""
    to = point - sight.eye
    return wp.vec2(sight.ahead[0] * to[0] + sight.ahead[1] * to[1], sight.ahead[0] * to[1] - sight.ahead[1] * to[0])


@wp.func
def rays_toward(local: wp.vec2, reach: float):
    """Returns the first and last ray that may meet a circle; if the last is before the first, no ray does."""
    if EDGE_COS * wp.abs(local[1]) - EDGE_SIN * local[0] > reach:  # beside the outermost rays, or behind
        return 0, -1
    distance = wp.length(local)
    if distance <= reach:
        return 0, RAYS - 1
    middle = wp.atan2(local[1], local[0]) / RAY_STEP
    wide = wp.asin(reach / distance) / RAY_STEP + 1.0e-3
    return wp.max(int(wp.ceil(middle - wide)), -STEPS) + STEPS, wp.min(int(wp.floor(middle + wide)), STEPS) + STEPS


@wp.func
def see_box(sight: RaySight, center: wp.vec2, half: wp.vec2, angle: float, radius: float, kind: int):
    """Returns the sight after adding a box, for a sphere of this radius at the height of the box."""
    local = to_local(sight, center)
    first, last = rays_toward(local, wp.length(half) + radius)
    if first > last:
        return sight
    along = wp.vec2(1.0, 0.0)
    if angle != 0.0:
        along = heading(angle)
    c = wp.dot(sight.ahead, along)
    s = cross(sight.ahead, along)
    start = -wp.vec2(c * local[0] + s * local[1], c * local[1] - s * local[0])
    if touches_box(start, half, radius):
        return sight
    for ray in range(first, last + 1):
        way = wp.vec2(c * RAY_COS[ray] + s * RAY_SIN[ray], c * RAY_SIN[ray] - s * RAY_COS[ray])
        distance = cast_upright_box(start, way, half, radius)
        if distance < sight.reach[ray]:
            sight.reach[ray] = distance
            sight.kind[ray] = kind
    return sight


@wp.func
def see_walls(sight: RaySight):
    """Returns a sight of only the walls; a ray passes through a wall that its sphere touches at the ray's start."""
    gap = ROOM - RAY_RADIUS - wp.max(wp.abs(sight.eye[0]), wp.abs(sight.eye[1]))
    for ray in range(RAYS):
        way = wp.vec2(
            sight.ahead[0] * RAY_COS[ray] - sight.ahead[1] * RAY_SIN[ray],
            sight.ahead[1] * RAY_COS[ray] + sight.ahead[0] * RAY_SIN[ray],
        )
        nearest = float(MISS)
        if gap > FLUSH:
            for k in range(2):
                room = ROOM - RAY_RADIUS - wp.sign(way[k]) * sight.eye[k]
                nearest = wp.min(nearest, room / wp.max(wp.abs(way[k]), 1.0e-9))
        else:
            nearest = cast_four_walls(sight.eye, way, wp.vec2(ROOM, ROOM), WALL_ENDS, WALL_HALF, RAY_RADIUS)
        sight.reach[ray] = nearest
        sight.kind[ray] = WALL_TAG
    return sight


@wp.func
def see_room(sight: RaySight):
    """Returns the sight after adding the fixed things of the room."""
    for k in range(4):
        column = wp.vec2(wp.where(k % 2 == 0, COLUMN[0], -COLUMN[0]), wp.where(k < 2, COLUMN[1], -COLUMN[1]))
        sight = see_box(sight, column, wp.vec2(COLUMN_HALF, COLUMN_HALF), 0.0, FOOT_RADIUS, WALL_TAG)
    sight = see_box(sight, LOCK, LOCK_HALF, 0.0, RAY_RADIUS, LOCK_TAG)
    return see_box(sight, PORTAL, PORTAL_HALF, PORTAL_ANGLE, RAY_RADIUS, PORTAL_TAG)


@wp.func
def look(world: World, i: int, agent: int):
    """Returns the things that an agent can see."""
    sight = RaySight()
    sight.eye = world.body_position[i, agent]
    sight.ahead = heading(world.body_angle[i, agent])
    sight = see_walls(sight)
    sight = see_room(sight)
    for mate in range(AGENTS):
        if mate != agent and world.acting[i * AGENTS + mate]:
            sight = see_box(
                sight,
                world.body_position[i, mate],
                wp.vec2(HALF, HALF),
                world.body_angle[i, mate],
                RAY_RADIUS,
                AGENT_TAG,
            )
    if world.dragon_lives[i]:
        angle = world.dragon_angle[i]
        sight = see_box(sight, world.dragon[i], wp.vec2(DRAGON_HALF, DRAGON_HALF), angle, RAY_RADIUS, DRAGON_TAG)
        sight = see_box(sight, offset_from(world.dragon[i], angle, HANGING_KEY), KEY_HALF, angle, RAY_RADIUS, KEY_TAG)
    if world.key_lies[i]:
        sight = see_box(sight, world.key[i], KEY_HALF, world.key_angle[i], RAY_RADIUS, KEY_TAG)
    if world.stone_stands[i]:
        sight = see_box(sight, world.stone[i], STONE_FOOT, world.stone_angle[i], STONE_FOOT_RADIUS, WALL_TAG)
        sight = see_box(sight, world.stone[i], STONE_HALF, world.stone_angle[i], RAY_RADIUS, WALL_TAG)
    return sight


MATE = (
    ("whether a mate is in the room; zeros follow if not", 1),
    ("the mate, ahead and to the left, / 25 m", 2),
    ("whether the mate carries the key", 1),
)
TRUTH = (
    ("place, to the right and ahead as seen from above, / 25 m", 2),
    ("heading, in the same directions", 2),
    ("velocity ahead and to the left, / 10 m/s", 2),
    ("whether it carries the key", 1),
    *MATE,
    *MATE,
    ("whether the dragon lives; zeros follow if not", 1),
    ("the dragon, ahead and to the left, / 25 m", 2),
    ("the dragon's pace, / 10 m/s", 1),
    ("the dragon's distance from the middle of its portal, / 25 m", 1),
    ("whether the key lies on the floor; zeros follow if not", 1),
    ("the key, ahead and to the left, / 25 m", 2),
    ("whether a tombstone stands; zeros follow if not", 1),
    ("the tombstone, ahead and to the left, / 25 m", 2),
    ("time left, as a share of the longest episode", 1),
)
UNITS = wp.constant(wp.vec2(25.0, 10.0))  # m and m/s
MOST_TICKS = wp.constant(15000)  # physics ticks of an episode


@wp.func
def tell_where(world: World, slot: int, at: int, is_there: bool, sight: RaySight, place: wp.vec2):
    """Writes whether a thing is there, and its place in this agent's frame, or zeros; returns the next free column."""
    at = tell_one(world.obs_truth, slot, at, wp.where(is_there, 1.0, 0.0))
    to = wp.where(is_there, seen_from(sight.ahead, place - sight.eye), wp.vec2(0.0, 0.0))
    return tell(world.obs_truth, slot, at, to, UNITS[0])


@wp.func
def tell_truth(world: World, i: int, agent: int, sight: RaySight, ticks: int):
    """Writes the true state, which agents do not observe, at this physics tick of the episode."""
    slot = i * AGENTS + agent
    truth = world.obs_truth
    at = tell_motion(truth, slot, sight.eye, sight.ahead, world.body_velocity[i, agent], UNITS)
    at = tell_one(truth, slot, at, wp.where(world.holds_key[slot], 1.0, 0.0))
    for k in range(1, AGENTS):
        mate = (agent + k) % AGENTS
        is_there = world.acting[i * AGENTS + mate]
        at = tell_where(world, slot, at, is_there, sight, world.body_position[i, mate])
        at = tell_one(truth, slot, at, wp.where(is_there and world.holds_key[i * AGENTS + mate], 1.0, 0.0))
    lives = wp.where(world.dragon_lives[i], 1.0, 0.0)
    at = tell_where(world, slot, at, world.dragon_lives[i], sight, world.dragon[i])
    at = tell_one(truth, slot, at, lives * world.dragon_pace[i] / UNITS[1])
    at = tell_one(truth, slot, at, lives * wp.length(PORTAL - world.dragon[i]) / UNITS[0])
    at = tell_where(world, slot, at, world.key_lies[i], sight, world.key[i])
    at = tell_where(world, slot, at, world.stone_stands[i], sight, world.stone[i])
    tell_one(truth, slot, at, 1.0 - float(ticks) / float(MOST_TICKS))


@wp.func
def observe(world: World, i: int, agent: int, ticks: int):
    """Writes an agent's observations, with a new frame of rays, at this physics tick of its episode."""
    slot = i * AGENTS + agent
    sight = look(world, i, agent)
    observe_body(world, i, agent, slot, sight.ahead)
    world.obs_key[slot, 0] = wp.where(world.holds_key[slot], 1.0, 0.0)
    newest = shift_frames(world.obs_rays, slot, FRAME)
    for k in range(RAYS):
        ray = STEPS + wp.where(k % 2 == 1, -(k + 1) // 2, k // 2)  # the middle one, then right and left in turn
        far = sight.reach[ray]
        kind = wp.where(far <= RAY_LENGTH, sight.kind[ray], -1)
        write_ray(world.obs_rays, slot, newest + k * (KINDS + 2), KINDS, kind, far / RAY_LENGTH)
    if world.obs_truth.shape[1] > 0:
        tell_truth(world, i, agent, sight, ticks)


@wp.func
def forget(world: World, slot: int):
    """Clears an agent's observations and earlier frames."""
    clear_frames(world.obs_rays, slot)
    clear_frames(world.obs_truth, slot)
    for k in range(world.obs_body.shape[1]):
        world.obs_body[slot, k] = 0.0
    world.obs_key[slot, 0] = 0.0
