"""Cubes of a pyramid that the agent has run into: the cubes fly, fall, slide, push one another and come to rest.

Each cube keeps upright and does not turn. A cube rests on the things that it overlaps from above, and slides off a
thing that is not below its middle. Cubes of different pyramids pass through each other. A pile is computed only while
it moves.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import Body, box_body, box_box, fixed_box
from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.builtin.pyramids.rooms import World

AGENT_HALF = wp.constant(0.5)
AGENT_REACH = wp.constant(0.708)  # to its corners
FRICTION = wp.constant(1.2)  # twice 0.6: PhysX brakes at two points of a contact, at each with its whole force
STEP = wp.constant(0.1)  # how deep a cube may overlap what carries it
OVERHANG = wp.constant(0.05)  # meters that a cube's middle may lie beside what carries it
SLIDE = wp.constant(1.0)  # m/s at which a cube slides off
STILL = wp.constant(0.1)  # m/s: slower counts as rest
CALM = wp.constant(10)  # ticks of rest after which a cube sleeps, and a pile is no longer computed
PATIENCE = wp.constant(100)  # ticks after the agent's last touch after which a pile is not computed in any case


@wp.struct
class Ram:
    """The agent's shape in contacts with cubes: a box that contacts do not turn."""

    body: Body
    head: wp.float32  # height of its top
    touched: wp.bool  # it has touched a cube of the present pile
    won: wp.bool  # ... and the golden block of any


@wp.func
def wake(world: World, i: int, pile: int):
    """Wakes all cubes of a pile."""
    for k in range(rooms.cube_count(pile)):
        world.still[i, pile * rooms.CUBES + k] = 0


@wp.func
def loosen(world: World, i: int, pile: int):
    """Turns a standing pile into single cubes, or wakes a pile at rest."""
    if world.pile[i, pile] == rooms.STANDING:
        place = world.pile_place[i, pile]
        ticks = rooms.ticks_of(world, i, pile)
        for k in range(rooms.cube_count(pile)):
            x = wp.where(pile == rooms.BRICKS, rooms.BRICK_X[k], rooms.STONE_X[k])
            height = rooms.layer_middle(pile, rooms.layer_of(k), ticks)[2]
            world.cube[i, pile * rooms.CUBES + k] = wp.vec3(place[0] + x, place[1] + rooms.CUBE_Y[k], height)
            world.cube_velocity[i, pile * rooms.CUBES + k] = wp.vec3(0.0, 0.0, 0.0)
    world.pile[i, pile] = rooms.LOOSE
    world.untouched[i, pile] = 0
    wake(world, i, pile)


@wp.func
def touches_pile(world: World, i: int, pile: int, body: Body):
    """Returns whether the agent touches a pile that stands or rests."""
    to = world.pile_middle[i, pile] - body.position
    if wp.length_sq(to) > (world.pile_reach[i, pile] + AGENT_REACH) * (world.pile_reach[i, pile] + AGENT_REACH):
        return False
    is_whole = world.pile[i, pile] == rooms.STANDING
    for k in range(wp.where(is_whole, 1, rooms.cube_count(pile))):
        middle = world.cube[i, pile * rooms.CUBES + k]
        half = wp.vec2(rooms.cube_half(k), rooms.cube_half(k))
        if is_whole:  # its lowest layer
            middle = wp.vec3(world.pile_middle[i, pile][0], world.pile_middle[i, pile][1], 0.5)
            half = wp.vec2(2.27, 2.34)
        away = wp.vec2(wp.abs(middle[0] - body.position[0]), wp.abs(middle[1] - body.position[1])) - half
        if wp.max(away[0], away[1]) < AGENT_REACH and middle[2] - half[0] < 2.0 * AGENT_HALF:
            box = fixed_box(wp.vec2(middle[0], middle[1]), half, 0.0)
            contact = box_box(body, box)
            if contact.count > 0:
                return True
    return False


@wp.func
def ram_cube(world: World, i: int, cube: int, side: float, mass: float, ram: Ram, is_gold: bool):
    """Lets the agent push one cube, or carry it on top; returns the agent."""
    middle = world.cube[i, cube]
    bottom = middle[2] - side
    if bottom > ram.head:
        return ram
    body = ram.body
    away = wp.vec2(wp.abs(middle[0] - body.position[0]), wp.abs(middle[1] - body.position[1]))
    if wp.max(away[0], away[1]) >= side + AGENT_REACH:
        return ram
    velocity = world.cube_velocity[i, cube]
    other = box_body(
        wp.vec2(middle[0], middle[1]), wp.vec2(velocity[0], velocity[1]), 0.0, 0.0, wp.vec2(side, side), mass
    )
    contact = box_box(body, other)
    if contact.count == 0:
        return ram
    ram.touched = True
    if is_gold:
        ram.won = True
    if bottom > ram.head - 2.0 * STEP:  # it lies on the agent
        world.cube[i, cube] = wp.vec3(middle[0], middle[1], ram.head + side)
        world.cube_velocity[i, cube] = wp.vec3(velocity[0], velocity[1], wp.max(velocity[2], 0.0))
        return ram
    soft = body.inverse_mass + other.inverse_mass
    approach = wp.dot(body.velocity - other.velocity, contact.normal)
    if approach > 0.0:
        body.velocity -= (approach * body.inverse_mass / soft) * contact.normal
        other.velocity += (approach * other.inverse_mass / soft) * contact.normal
    body.position -= (contact.depth * body.inverse_mass / soft) * contact.normal
    other.position += (contact.depth * other.inverse_mass / soft) * contact.normal
    ram.body = body
    world.cube[i, cube] = wp.vec3(other.position[0], other.position[1], middle[2])
    world.cube_velocity[i, cube] = wp.vec3(other.velocity[0], other.velocity[1], velocity[2])
    return ram


@wp.func
def carry(world: World, i: int, upper: int, lower: int, upper_side: float, lower_side: float, first: int):
    """Lets a cube lie on another cube: the upper cube stops falling, friction acts between both, and the support is
    recorded."""
    up = world.cube[i, upper]
    low = world.cube[i, lower]
    moving = world.cube_velocity[i, upper]
    below = world.cube_velocity[i, lower]
    fall = wp.max(below[2] - moving[2], 0.0)
    pull = wp.vec2(below[0] - moving[0], below[1] - moving[1])
    most = FRICTION * wp.max(fall, rooms.GRAVITY * rooms.SECONDS) * 0.5
    share = wp.min(most / wp.max(wp.length(pull), 1.0e-6), 0.5)
    world.cube_velocity[i, upper] = wp.vec3(
        moving[0] + share * pull[0], moving[1] + share * pull[1], wp.max(moving[2], below[2])
    )
    world.cube_velocity[i, lower] = wp.vec3(below[0] - share * pull[0], below[1] - share * pull[1], below[2])
    world.cube[i, upper] = wp.vec3(up[0], up[1], low[2] + lower_side + upper_side - 0.002)
    box = world.carried[i, upper - first]
    world.carried[i, upper - first] = wp.vec4(
        wp.min(box[0], low[0] - lower_side),
        wp.min(box[1], low[1] - lower_side),
        wp.max(box[2], low[0] + lower_side),
        wp.max(box[3], low[1] + lower_side),
    )


@wp.func
def meet(world: World, i: int, a: int, b: int, a_side: float, b_side: float, first: int):
    """Parts two cubes that overlap: the upper one is carried, or both move sideways. Moving cubes wake resting ones."""
    one = world.cube[i, a]
    two = world.cube[i, b]
    reach = a_side + b_side
    to = two - one
    x = reach - wp.abs(to[0])
    y = reach - wp.abs(to[1])
    z = reach - wp.abs(to[2])
    if wp.min(wp.min(x, y), z) <= 0.0:
        return
    if world.still[i, a] == 0 or world.still[i, b] == 0:
        world.still[i, a] = wp.min(world.still[i, a], CALM - 1)
        world.still[i, b] = wp.min(world.still[i, b], CALM - 1)
    if z < wp.min(wp.min(x, y), 0.5) or (z < STEP and wp.min(x, y) > 0.02):
        if to[2] > 0.0:
            carry(world, i, b, a, b_side, a_side, first)
        else:
            carry(world, i, a, b, a_side, b_side, first)
        return
    k = wp.where(x < y, 0, 1)
    way = wp.where(to[k] > 0.0, 1.0, -1.0)
    depth = 0.5 * wp.min(x, y)
    speed_one = world.cube_velocity[i, a]
    speed_two = world.cube_velocity[i, b]
    if way * (speed_one[k] - speed_two[k]) > 0.0:  # they approach
        shared = 0.5 * (speed_one[k] + speed_two[k])
        speed_one[k] = shared
        speed_two[k] = shared
        world.cube_velocity[i, a] = speed_one
        world.cube_velocity[i, b] = speed_two
    one[k] = one[k] - way * depth
    two[k] = two[k] + way * depth
    world.cube[i, a] = one
    world.cube[i, b] = two


@wp.func
def keep_in(position: wp.vec3, velocity: wp.vec3, side: float):
    """Returns the position and the velocity of a cube after its contacts with the walls."""
    for axis in range(2):
        low = wp.where(axis == 0, -rooms.EAST, rooms.SOUTH) + side
        high = wp.where(axis == 0, rooms.EAST, rooms.NORTH) - side
        if position[axis] < low or position[axis] > high:
            position[axis] = wp.clamp(position[axis], low, high)
            velocity[axis] = 0.0
        line = wp.where(position[axis] < 0.0, -1.0, 1.0)
        if wp.abs(position[axis] - line * rooms.LINE) < side + rooms.THICK + 0.06:
            along = position[1 - axis]
            for piece in range(rooms.PIECES):
                if rooms.wall_between(piece, along - side, along + side):
                    at = rooms.wall_middle(axis, line, piece)
                    half = rooms.wall_half(axis, piece)
                    x = half[0] + side - wp.abs(position[0] - at[0])
                    y = half[1] + side - wp.abs(position[1] - at[1])
                    if x > 0.0 and y > 0.0:
                        k = wp.where(x < y, 0, 1)
                        way = wp.where(position[k] > at[k], 1.0, -1.0)
                        position[k] = position[k] + way * wp.min(x, y)
                        velocity[k] = way * wp.max(way * velocity[k], 0.0)
    return position, velocity


@wp.func
def pull_down(world: World, i: int, cube: int, side: float):
    """Begins a cube's tick: applies gravity, or the ground's support and friction."""
    position = world.cube[i, cube]
    velocity = world.cube_velocity[i, cube]
    if position[2] > side + 0.001:
        world.cube_velocity[i, cube] = velocity - wp.vec3(0.0, 0.0, rooms.GRAVITY * rooms.SECONDS)
        return
    slip = wp.sqrt(velocity[0] * velocity[0] + velocity[1] * velocity[1])
    kept = wp.max(
        1.0 - FRICTION * (wp.max(-velocity[2], 0.0) + rooms.GRAVITY * rooms.SECONDS) / wp.max(slip, 1.0e-6), 0.0
    )
    world.cube_velocity[i, cube] = wp.vec3(kept * velocity[0], kept * velocity[1], wp.max(velocity[2], 0.0))
    world.cube[i, cube] = wp.vec3(position[0], position[1], side)


@wp.func
def settle_cube(world: World, i: int, cube: int, side: float, box: wp.vec4):
    """Ends a cube's tick: the cube slides off, is held by walls, and moves; returns its speed squared."""
    position = world.cube[i, cube]
    velocity = world.cube_velocity[i, cube]
    if box[0] < box[2] and position[2] > side + 0.001:
        for axis in range(2):
            if position[axis] < box[axis] - OVERHANG:
                velocity[axis] = wp.min(velocity[axis], -SLIDE)
            if position[axis] > box[axis + 2] + OVERHANG:
                velocity[axis] = wp.max(velocity[axis], SLIDE)
    position, velocity = keep_in(position, velocity, side)
    world.cube[i, cube] = position + velocity * rooms.SECONDS
    world.cube_velocity[i, cube] = velocity
    return wp.length_sq(velocity)


@wp.func
def enclose(world: World, i: int, pile: int):
    """Updates the circle around the cubes of a pile."""
    first = pile * rooms.CUBES
    low = wp.vec2(1.0e3, 1.0e3)
    high = -low
    for k in range(rooms.cube_count(pile)):
        at = wp.vec2(world.cube[i, first + k][0], world.cube[i, first + k][1])
        low = wp.min(low, at)
        high = wp.max(high, at)
    world.pile_middle[i, pile] = 0.5 * (low + high)
    world.pile_reach[i, pile] = 0.5 * wp.length(high - low) + 1.4143 * wp.where(pile == rooms.BRICKS, 1.0, 0.5)


@wp.func
def move_pile(world: World, i: int, pile: int, ram: Ram):
    """Advances a loose pile by one physics tick; returns the agent after its contacts with the pile."""
    first = pile * rooms.CUBES
    count = rooms.cube_count(pile)
    mass = wp.where(pile == rooms.BRICKS, rooms.BRICK_MASS, rooms.STONE_MASS)
    ram.touched = False
    for k in range(count):
        if world.still[i, first + k] < CALM:
            pull_down(world, i, first + k, rooms.cube_half(k))
        world.carried[i, k] = wp.vec4(1.0e3, 1.0e3, -1.0e3, -1.0e3)
        ram = ram_cube(world, i, first + k, rooms.cube_half(k), mass, ram, k == rooms.GOLD)
    if ram.touched:
        world.untouched[i, pile] = 0
        wake(world, i, pile)
    for a in range(count):
        is_awake = world.still[i, first + a] < CALM
        for b in range(a + 1, count):
            if is_awake or world.still[i, first + b] < CALM:
                meet(world, i, first + a, first + b, rooms.cube_half(a), rooms.cube_half(b), first)
    is_quiet = wp.bool(True)
    for k in range(count):
        still = world.still[i, first + k]
        if still < CALM:
            speed = settle_cube(world, i, first + k, rooms.cube_half(k), world.carried[i, k])
            world.still[i, first + k] = wp.where(speed < STILL * STILL, still + 1, 0)
            is_quiet = False
    enclose(world, i, pile)
    world.untouched[i, pile] = world.untouched[i, pile] + 1
    if is_quiet or world.untouched[i, pile] >= PATIENCE:
        world.pile[i, pile] = rooms.RESTING
    return ram
