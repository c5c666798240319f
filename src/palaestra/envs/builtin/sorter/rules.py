"""The round room: its columns and sizes, how tiles are dealt, what the agent observes, and how the agent moves within a
physics tick.

Positions are in meters from the middle, east and north (Unity's x and z); headings in radians from the north through
the east. Heights are above the agent's height when it stands on the floor.

The agent is a box with edges of 1 m that turns only by its own actions. It is dropped, and slides on the floor:
friction takes up to 1.2 times the speed that the floor's push gives, twice the materials' 0.6, since PhysX holds a
patch of contacts at two points with the full coefficient each.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.base.world_columns import next_parameter
from palaestra.envs.builtin.physics.rigid_bodies import (
    GRAVITY,
    SECONDS,
    Body,
    advance,
    apply_drag,
    box_body,
    box_box,
    fixed_box,
    resolve_contact,
)
from palaestra.envs.builtin.sensors.rays import clear_frames, shift_frames

MOST_TICKS = wp.constant(5000)
NUMBERS = wp.constant(20)  # numbers to draw from; also the number of places
ROOM = wp.constant(19.99)  # radius of the wall
RING = wp.constant(20.5)  # radius of the circle on which the tiles' middles stand
TILE = wp.constant(wp.vec2(1.75, 0.7602))  # half a tile's sides, along the wall and across
EDGE = wp.constant(wp.vec2(0.5, 0.5))  # half the agent's sides
CORNER = wp.constant(0.7072)  # meters from the agent's middle to a corner
MASS = wp.constant(10.0)  # kg
OWN_GRAVITY = wp.constant(24.525)  # m/s^2 in Unity's scene: 2.5 times the earth's
SPEED_UP = wp.constant(2.0)  # m/s a tick
TURN = wp.constant(4.0 * 0.017453292519943295)  # radians a tick: 200 degrees a second
DRAG = wp.constant(4.0)  # 1/s
FRICTION = wp.constant(1.2)
DROP = wp.constant(0.7085)  # height from which the agent is dropped
SOUTH = wp.constant(3.141592653589793)  # its heading as the environment starts
NONE = wp.constant(-1)
ROW = wp.constant(23)  # numbers of a tile: its number, its offset from the agent, whether it was touched
BODY = wp.constant(10)  # numbers about the agent's body: place and rotation of its only part, then its velocity
FRAME = wp.constant(4)  # place and heading
SCALE = wp.constant(20.0)  # meters that an observation shows as 1


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of Sorter, one row per area. Rows of `obs_tiles` beyond `tiles` are all zero."""

    tiles: wp.array(dtype=wp.int32)  # number of tiles in this episode
    touched: wp.array(dtype=wp.int32)  # number of touched tiles: the first ones, since they are in order
    number: wp.array2d(dtype=wp.int32)  # number of each tile, 1..20, rising
    place: wp.array2d(dtype=wp.int32)  # place of each tile, 0..19, counted from the north through the east
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    heading: wp.array(dtype=wp.float32)  # a new episode does not change it
    height: wp.array(dtype=wp.float32)
    rise: wp.array(dtype=wp.float32)  # m/s, upward
    pull: wp.array(dtype=wp.float32)  # m/s that gravity adds in a tick of this episode
    # forward, back; right, left; turn left, turn right: 1, 2, each with 0 for neither
    action: wp.array2d(dtype=wp.int64)
    obs_tiles: wp.array3d(dtype=wp.float32)
    obs_body: wp.array2d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)


@wp.func
def place_angle(place: int):
    """Returns the angle of a tile's place, from the north through the east."""
    return float(place) * (2.0 * wp.PI / float(NUMBERS))


@wp.func
def tile_position(place: int):
    """Returns the position of the middle of a tile at this place."""
    angle = place_angle(place)
    return wp.vec2(RING * wp.sin(angle), RING * wp.cos(angle))


@wp.func
def observe_tiles(world: World, i: int):
    """Writes the rows of the tiles.

    A tile's number n sets column n, so column 0 stays empty, and the offset in column 20 overwrites number 20's mark,
    as in Unity.
    """
    position = world.position[i]
    touched = world.touched[i]
    for tile in range(world.tiles[i]):
        away = (tile_position(world.place[i, tile]) - position) / SCALE
        world.obs_tiles[i, tile, world.number[i, tile]] = 1.0
        world.obs_tiles[i, tile, NUMBERS] = away[0]
        world.obs_tiles[i, tile, NUMBERS + 1] = away[1]
        world.obs_tiles[i, tile, NUMBERS + 2] = wp.where(tile < touched, 1.0, 0.0)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, after moving the older frame back by one."""
    observe_tiles(world, i)
    position = world.position[i]
    velocity = world.velocity[i]
    east = wp.sin(world.heading[i])
    north = wp.cos(world.heading[i])
    world.obs_body[i, 6] = 1.0  # w of a rotation by nothing
    world.obs_body[i, 7] = velocity[0] * north - velocity[1] * east
    world.obs_body[i, 8] = world.rise[i]
    world.obs_body[i, 9] = velocity[0] * east + velocity[1] * north
    newest = shift_frames(world.obs_vector, i, FRAME)
    world.obs_vector[i, newest] = position[0] / SCALE
    world.obs_vector[i, newest + 1] = position[1] / SCALE
    world.obs_vector[i, newest + 2] = east
    world.obs_vector[i, newest + 3] = north


@wp.func
def deal_tiles(world: World, i: int, most: int):
    """Draws how many tiles there are, their rising numbers, and a place for each; clears the old rows."""
    state = world.rng[i]
    tiles = wp.randi(state, 1, most + 1)
    for tile in range(world.tiles[i]):
        clear_frames(world.obs_tiles[i], tile)
    laid = int(0)  # Warp takes a literal for a constant
    taken = int(0)  # a bit a place
    for number in range(NUMBERS):
        # with this probability every set of numbers is equally likely
        if wp.randi(state, 0, NUMBERS - number) < tiles - laid:
            place = wp.randi(state, 0, NUMBERS)
            while (taken >> place) & 1 == 1:
                place = wp.randi(state, 0, NUMBERS)
            taken = taken | (1 << place)
            world.number[i, laid] = number + 1
            world.place[i, laid] = place
            laid += 1
    world.tiles[i] = tiles
    world.touched[i] = 0
    world.rng[i] = state


@wp.func
def start(world: World, i: int):
    """Starts an episode: new tiles, and the agent above the middle; forgets the older frame."""
    deal_tiles(world, i, int(next_parameter(world, i, 0)))
    # in this order, the scene's own is exact
    world.pull[i] = next_parameter(world, i, 1) / OWN_GRAVITY * (2.5 * GRAVITY * SECONDS)
    world.position[i] = wp.vec2(0.0, 0.0)
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.height[i] = DROP
    world.rise[i] = 0.0
    world.age[i] = 0
    world.episodes[i] += 1
    clear_frames(world.obs_vector, i)


@wp.func
def body_of(position: wp.vec2, velocity: wp.vec2, heading: float):
    """Returns the agent's body, which no contact turns. The plane's angles go counterclockwise from the east."""
    body = box_body(position, velocity, 0.5 * wp.PI - heading, 0.0, EDGE, MASS)
    body.inverse_inertia = 0.0
    return body


@wp.func
def act(body: Body, forward: float, right: float, turn: float):
    """Returns the agent after a choice: pushed to the right or, if `right` is 0, ahead; and turned to the right."""
    ahead = wp.vec2(wp.cos(body.angle), wp.sin(body.angle))
    way = forward * ahead
    if right != 0.0:
        way = right * wp.vec2(ahead[1], -ahead[0])
    body.velocity += SPEED_UP * way
    body.angle -= TURN * turn
    return body


@wp.func
def slide(body: Body, press: float):
    """Returns the agent after a tick of the floor's friction; `press` is the speed that the floor stops."""
    most = FRICTION * press
    speed = wp.length(body.velocity)
    body.velocity *= 1.0 - wp.min(most / wp.max(speed, 1.0e-6), 1.0)
    return body


@wp.func
def keep_in_room(body: Body):
    """Returns the agent with no corner beyond the round wall."""
    ahead = wp.vec2(wp.cos(body.angle), wp.sin(body.angle))
    aside = wp.vec2(ahead[1], -ahead[0])
    # the furthest out
    corner = body.position + EDGE[0] * (
        wp.sign(wp.dot(body.position, ahead)) * ahead + wp.sign(wp.dot(body.position, aside)) * aside
    )
    distance = wp.length(corner)
    if distance > ROOM:
        outward = corner / distance
        body.position -= (distance - ROOM) * outward
        press = wp.max(wp.dot(body.velocity, outward), 0.0)
        body.velocity -= press * outward
        along = wp.dot(body.velocity, wp.vec2(-outward[1], outward[0]))
        body.velocity -= wp.clamp(along, -FRICTION * press, FRICTION * press) * wp.vec2(-outward[1], outward[0])
    return body


@wp.func
def tile_at(world: World, i: int, place: int):
    """Returns the tile at a place, or NONE."""
    found = int(NONE)
    for tile in range(world.tiles[i]):
        if world.place[i, tile] == place:
            found = tile
    return found


@wp.func
def meet_wall(world: World, i: int, body: Body):
    """Returns the agent after its contacts with wall and tile, and the tile that it touches, or NONE."""
    met = int(NONE)
    if wp.length(body.position) < RING - TILE[1] - CORNER:
        return body, met
    around = wp.atan2(body.position[0], body.position[1]) * (float(NUMBERS) / (2.0 * wp.PI))
    place = (int(wp.round(around)) + NUMBERS) % NUMBERS  # tiles are too far apart to touch two
    tile = tile_at(world, i, place)
    if tile != NONE:
        block = fixed_box(tile_position(place), TILE, -place_angle(place))
        contact = box_box(block, body)
        if contact.count > 0:
            met = tile
            block, body = resolve_contact(block, body, contact, FRICTION)
    return keep_in_room(body), met


@wp.func
def move(body: Body, height: float, rise: float, pull: float):
    """Returns the agent, its height and its rise after a tick of the physics, before it meets a wall."""
    rise = (rise - pull) * (1.0 - DRAG * SECONDS)
    body = apply_drag(body, DRAG, 0.0)
    press = -rise - height / SECONDS
    if press > 0.0:
        rise += press
        body = slide(body, press)
    return advance(body), height + rise * SECONDS, rise
