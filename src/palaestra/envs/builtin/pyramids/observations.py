"""Observations of Pyramids: three fans of seven sphere casts, level and rising.

A ray is followed in the plane, by the horizontal distance that it has covered; it ends at the horizontal distance
LENGTH, so that the covered share of LENGTH is the share that Unity reports. A rising sphere is thicker in proportion to
the ray's length.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.builtin.pyramids.ray_candidates import (
    LANES,
    SIDE_RAYS,
    Near,
    cubes_ahead,
    fan_ways,
    lowest,
    meet_walls,
    things_ahead,
    wall_box,
)
from palaestra.envs.builtin.pyramids.rooms import World
from palaestra.envs.builtin.sensors.rays import MISS, heading, turned, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import (
    cast_top_edges,
    cast_upright_box,
    cast_upright_solid_box,
    gap_to_box,
    reach_beside,
)
from palaestra.envs.builtin.sensors.truth import seen_from, tell, tell_motion, tell_one

MOST_TICKS = wp.constant(5000)  # of an episode
FANS = wp.constant(3)
RAYS = wp.constant(7)  # rays of a fan
LENGTH = wp.constant(35.0)  # horizontal length of a ray
RADIUS = wp.constant(0.5)  # of the sphere of a level ray
TAGS = wp.constant(6)
BRICK_TAG, WALL_TAG, GOLD_TAG, SWITCH_TAG, PRESSED_TAG, STONE_TAG = (wp.constant(tag) for tag in range(6))
UNTAGGED = wp.constant(6)
RAY_SIZE = wp.constant(8)
WIDEST = wp.constant(0.53)  # greatest radius of a ray
SWITCH_REACH = wp.constant(2.83)  # to its corners


@wp.struct
class Ray:
    """A ray: its start, its direction in the plane, its rise for each meter, and the radius of its sphere."""

    start: wp.vec3
    way: wp.vec2
    slope: wp.float32
    radius: wp.float32
    shrink: wp.float32  # horizontal share of its length
    reach: wp.float32  # horizontal distance beyond which it passes over all walls


@wp.struct
class RayResult:
    """The nearest hit of a ray so far: its tag, and its horizontal distance."""

    tag: wp.int32
    distance: wp.float32


@wp.struct
class Shape:
    """A box with its sides along the axes, and the tag that a ray reports when it hits the box."""

    middle: wp.vec3
    half: wp.vec3
    tag: wp.int32


@wp.func
def cast_upright(ray: Ray, middle: wp.vec3, half: wp.vec3, nearest: float):
    """Returns the horizontal distance to an upright box, or MISS; a box beyond `nearest` may be left out."""
    to = ray.start - middle
    gap = wp.max(wp.abs(to[2]) - half[2], 0.0)
    if ray.slope == 0.0 and gap >= ray.radius:
        return MISS
    radius = wp.where(ray.slope == 0.0, reach_beside(ray.radius, gap), ray.radius)
    distance = cast_upright_box(wp.vec2(to[0], to[1]), ray.way, wp.vec2(half[0], half[1]), radius)
    besides = wp.vec2(wp.max(wp.abs(to[0]) - half[0], 0.0), wp.max(wp.abs(to[1]) - half[1], 0.0))
    is_beside = wp.length_sq(besides) > radius * radius
    if ray.slope == 0.0 or (is_beside and distance >= nearest):
        return distance
    above = to[2] + ray.slope * distance
    if is_beside and wp.abs(above) <= half[2]:  # it meets an upright side
        return distance
    if is_beside and above > half[2] + ray.radius:
        return MISS
    if is_beside and above > half[2]:
        return cast_top_edges(to, ray.way, ray.slope, wp.vec2(half[0], half[1]), half[2], ray.radius)
    if gap_to_box(to, half) <= ray.radius:
        return MISS  # it touches already
    way = ray.shrink * wp.vec3(ray.way[0], ray.way[1], ray.slope)
    distance = cast_upright_solid_box(to, way, half, ray.radius)
    return wp.where(distance < MISS, ray.shrink * distance, MISS)


@wp.func
def cast_wall(ray: Ray, number: int, nearest: float):
    """Returns the distance to a wall, given by the number of its bit, or MISS; it may be left out beyond `nearest`."""
    box = wall_box(number)
    return cast_upright(ray, wp.vec3(box[0], box[1], 0.0), wp.vec3(box[2], box[3], rooms.INNER_TOP), nearest)


@wp.func
def passes(to: wp.vec2, way: wp.vec2, far: float, nearest: float):
    """Returns whether a ray certainly meets nothing within `far` of the point `to`, before the distance `nearest`."""
    along = wp.dot(to, way)
    aside = wp.abs(to[0] * way[1] - to[1] * way[0])
    return wp.max(aside, wp.max(-along, along - nearest)) > far


@wp.func
def shape_of(world: World, i: int, thing: int, k: int, bottom: float):
    """Returns the k-th box of a thing; boxes of the switch are around the origin."""
    shape = Shape()
    if thing == rooms.PILES:
        shape.tag = wp.where(k == 1, UNTAGGED, wp.where(world.pressed[i] == 1, PRESSED_TAG, SWITCH_TAG))
        shape.middle = wp.vec3(0.0, 0.0, bottom + wp.where(k == 0, rooms.SWITCH_HALF, 1.375))
        shape.half = wp.where(
            k == 0, wp.vec3(rooms.SWITCH_HALF, rooms.SWITCH_HALF, rooms.SWITCH_HALF), wp.vec3(1.0, 1.0, 0.375)
        )
        return shape
    stands = world.pile[i, thing] == rooms.STANDING
    is_gold = k == wp.where(stands, 4, rooms.GOLD)
    shape.tag = wp.where(thing == rooms.BRICKS, wp.where(is_gold, GOLD_TAG, BRICK_TAG), STONE_TAG)
    if stands:
        place = world.pile_place[i, thing]
        shape.middle = rooms.layer_middle(thing, k, rooms.ticks_of(world, i, thing)) + wp.vec3(place[0], place[1], 0.0)
        shape.half = rooms.layer_half(k)
    else:
        side = rooms.cube_half(k)
        shape.middle = world.cube[i, thing * rooms.CUBES + k]
        shape.half = wp.vec3(side, side, side)
    return shape


@wp.func
def things_near(world: World, i: int, ahead: wp.vec2):
    """Returns the things that rays may meet: rays are LENGTH long and point up to 75 degrees to each side."""
    near = Near()
    for thing in range(rooms.PILES + 1):
        middle = world.switch_place[i]
        far = float(SWITCH_REACH + WIDEST)
        if thing < rooms.PILES:
            middle = world.pile_middle[i, thing]
            far = world.pile_reach[i, thing] + WIDEST
        to = middle - world.place[i]
        shown = thing == rooms.PILES or world.pile[i, wp.min(thing, rooms.PILES - 1)] != rooms.ABSENT
        if shown and wp.length_sq(to) < (LENGTH + far) * (LENGTH + far) and wp.dot(to, ahead) > -far:
            near.thing[near.count] = thing
            near.x[near.count] = to[0]
            near.y[near.count] = to[1]
            near.far[near.count] = far
            near.count += 1
    return near


@wp.func
def layers_met(ray: Ray, pile: int, middle: wp.vec2, ticks: int):
    """Returns the bits of a standing pile's layers; if the pile has settled, of the layers at a ray's height."""
    count = rooms.layer_count(pile)
    if ticks <= rooms.SETTLED:
        return (1 << count) - 1
    along = wp.dot(middle - wp.vec2(ray.start[0], ray.start[1]), ray.way)
    low = ray.start[2] + ray.slope * wp.max(along - rooms.REACH, 0.0) - ray.radius
    high = ray.start[2] + ray.slope * (along + rooms.REACH) + ray.radius - 1.0e-4
    first = wp.max(int(low), 0)
    if pile == rooms.BRICKS and low < 6.0:
        first = wp.min(first, 4)
    last = wp.min(int(high), count - 1)
    if last < first:
        return 0
    return (2 << last) - (1 << first)


@wp.func
def see_thing(world: World, i: int, thing: int, bottom: float, ray: Ray, sight: RayResult):
    """Returns what the ray meets: this thing, or the nearer `sight`. An agent that touches the switch sees the switch's
    inner button, which has no tag."""
    shapes = int(3)  # bits of the switch and its button
    stands = wp.bool(True)
    if thing == rooms.PILES:  # in the switch's frame
        local = wp.vec2(ray.start[0], ray.start[1]) - world.switch_place[i]
        if world.switch_angle[i] != 0.0:
            back = heading(-world.switch_angle[i])
            local = turned(local, back)
            ray.way = turned(ray.way, back)
        ray.start = wp.vec3(local[0], local[1], ray.start[2])
    elif world.pile[i, thing] == rooms.STANDING:
        shapes = layers_met(ray, thing, world.pile_middle[i, thing], rooms.ticks_of(world, i, thing))
    else:
        stands = False
        shapes = cubes_ahead(world.cube, i, thing, ray.start, ray.way, ray.slope, ray.radius, sight.distance)
    while shapes != 0:
        shape = shape_of(world, i, thing, lowest(shapes), bottom)
        shapes = shapes & (shapes - 1)
        middle = shape.middle
        to = wp.vec2(middle[0] - ray.start[0], middle[1] - ray.start[1])
        if not passes(to, ray.way, 1.4143 * wp.max(shape.half[0], shape.half[1]) + ray.radius, sight.distance):
            distance = cast_upright(ray, middle, shape.half, sight.distance)
            if distance < sight.distance:
                sight.distance = distance
                sight.tag = shape.tag
                if stands and thing != rooms.BRICKS:
                    return sight  # higher layers are set back, and the button is inside the switch
    return sight


@wp.func
def flat_side(distance: float, reach: float):
    """Returns the sight of a wall at this distance; from `reach` on, of nothing."""
    sight = RayResult()
    sight.tag = WALL_TAG
    sight.distance = wp.where(distance >= reach, LENGTH, distance)
    return sight


@wp.func
def see(world: World, i: int, near: Near, bottom: float, ray: Ray, flat: float, walls: int, things: int):
    """Returns a ray's nearest hit; a distance of LENGTH or more means no hit.

    `flat` is the distance to the nearest flat side of a wall, `walls` and `things` are the bits of other objects that
    the ray may meet.
    """
    nearest = float(flat)
    while walls != 0:
        nearest = wp.min(nearest, cast_wall(ray, lowest(walls), nearest))
        walls = walls & (walls - 1)
    sight = flat_side(nearest, ray.reach)
    while things != 0:
        k = lowest(things)
        if not passes(wp.vec2(near.x[k], near.y[k]), ray.way, near.far[k], sight.distance):
            sight = see_thing(world, i, near.thing[k], bottom, ray, sight)
        things = things & (things - 1)
    return sight


@wp.func
def fan_ray(world: World, i: int, rise: float):
    """Returns a ray of a fan with this rise, without its direction."""
    ray = Ray()
    ray.start = wp.vec3(world.place[i][0], world.place[i][1], world.height[i])
    ray.slope = rise / LENGTH
    ray.shrink = 1.0 / wp.sqrt(1.0 + ray.slope * ray.slope)
    ray.radius = RADIUS / ray.shrink
    ray.reach = LENGTH
    if rise > 0.0:
        ray.reach = wp.min(LENGTH, (rooms.OUTER_TOP + ray.radius - ray.start[2]) / ray.slope)
    return ray


TRUTH = (
    ("place, to the right and ahead as seen from above, / 50 m", 2),
    ("heading, in the same directions", 2),
    ("velocity ahead and to the left, / 40 m/s", 2),
    ("whether the switch is pressed", 1),
    ("the switch, ahead and to the left, / 50 m", 2),
    ("the golden block, or where it will appear, ahead and to the left, / 50 m", 2),
    ("the golden block's height, / 5 m; 0 before it appears", 1),
    ("time left, as a share of the longest episode", 1),
)
UNITS = wp.constant(wp.vec2(50.0, 40.0))  # m and m/s


@wp.func
def golden_block(world: World, i: int):
    """Returns the middle of the golden block; before the block appears, the place on the floor below."""
    if world.pile[i, rooms.BRICKS] > rooms.STANDING:
        return world.cube[i, rooms.BRICKS * rooms.CUBES + rooms.GOLD]
    place = world.pile_place[i, rooms.BRICKS]
    block = rooms.layer_middle(rooms.BRICKS, 4, world.pressed_age[i]) + wp.vec3(place[0], place[1], 0.0)
    if world.pile[i, rooms.BRICKS] == rooms.ABSENT:
        block[2] = 0.0
    return block


@wp.func
def tell_truth(world: World, i: int, ahead: wp.vec2):
    """Writes the true state, which the agent does not observe."""
    place = world.place[i]
    velocity = world.velocity[i]
    block = golden_block(world, i)
    at = tell_motion(world.obs_truth, i, place, ahead, wp.vec2(velocity[0], velocity[1]), UNITS)
    at = tell_one(world.obs_truth, i, at, float(world.pressed[i]))
    at = tell(world.obs_truth, i, at, seen_from(ahead, world.switch_place[i] - place), UNITS[0])
    at = tell(world.obs_truth, i, at, seen_from(ahead, wp.vec2(block[0], block[1]) - place), UNITS[0])
    at = tell_one(world.obs_truth, i, at, block[2] / 5.0)
    tell_one(world.obs_truth, i, at, 1.0 - float(wp.max(world.age[i], 0)) / float(MOST_TICKS))


@wp.func
def observe(world: World, i: int, bottom: float):
    """Writes the current observation, each fan from its rightmost ray on; `bottom` is the height of the switch's lower
    side."""
    ahead = heading(world.angle[i])
    near = things_near(world, i, ahead)
    for fan in range(FANS):
        ray = fan_ray(world, i, 5.0 * float(fan))
        ways = fan_ways(ahead, fan)
        place = wp.vec2(ray.start[0], ray.start[1])
        walls = meet_walls(ways, place, ray.start[2], ray.slope, ray.radius, ray.reach)
        things = things_ahead(ways, walls, ray.reach, LENGTH, near)
        for k in range(RAYS):
            sight = flat_side(walls[k], ray.reach)
            if walls[LANES + k] != 0.0 or things[k] != 0:  # of most rays both are 0
                ray.way = wp.vec2(ways[k], ways[LANES + k])
                sight = see(world, i, near, bottom, ray, walls[k], int(walls[LANES + k]), things[k])
            at = wp.where(k < SIDE_RAYS, 2 * (SIDE_RAYS - k) - 1, 2 * (k - SIDE_RAYS)) * RAY_SIZE
            tag = wp.where(sight.distance >= LENGTH, -1, sight.tag)
            if fan == 0:
                write_ray(world.obs_low, i, at, TAGS, tag, sight.distance / LENGTH)
            elif fan == 1:
                write_ray(world.obs_middle, i, at, TAGS, tag, sight.distance / LENGTH)
            else:
                write_ray(world.obs_high, i, at, TAGS, tag, sight.distance / LENGTH)
    velocity = world.velocity[i]
    world.obs_vector[i, 0] = float(world.pressed[i])
    world.obs_vector[i, 1] = velocity[0] * ahead[1] - velocity[1] * ahead[0]
    world.obs_vector[i, 2] = velocity[2]
    world.obs_vector[i, 3] = velocity[0] * ahead[0] + velocity[1] * ahead[1]
    if world.obs_truth.shape[1] > 0:
        tell_truth(world, i, ahead)
