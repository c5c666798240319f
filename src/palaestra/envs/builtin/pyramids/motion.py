"""How an agent of Pyramids drives: pushes, friction with the ground, walls, the switch and the piles.

A tick follows Unity's order: the action changes velocity and angle; gravity and drag follow; then the contacts at the
start of the tick change the velocities, and everything moves.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import Body, Contact, box_body, box_box, fixed_box, resolve_contact
from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.builtin.pyramids.falling_bricks import (
    AGENT_HALF,
    AGENT_REACH,
    FRICTION,
    Ram,
    loosen,
    move_pile,
    touches_pile,
)
from palaestra.envs.builtin.pyramids.rooms import World
from palaestra.envs.builtin.sensors.rays import heading, wrapped

PUSH = wp.constant(2.0)  # m/s a tick
DRAG = wp.constant(2.0)  # 1/s
TURN = wp.constant(0.06981317007977318)  # 4 degrees, in radians
FARTHEST = wp.constant(6.0)  # meters: more than the agent moves in a decision, and its half
MASS = wp.constant(25.0)
TOUCH = wp.constant(0.02)  # PhysX finds contacts this far ahead
SLOP = wp.constant(0.005)  # meters
SWITCH_INERTIA = wp.constant(2.6666667)  # of a box of 1 kg, 4 x 4
SWITCH_BRAKE = wp.constant(0.13)  # rad/s a tick: friction with the ground
FASTEST_SPIN = wp.constant(7.0)  # rad/s, as PhysX allows


@wp.func
def rest_in(contact: Contact):
    """Returns a contact that lets the bodies overlap by SLOP, so that it lasts while they press on each other."""
    contact.depth = wp.max(contact.depth - SLOP, 0.0)
    return contact


@wp.func
def switch_bottom(world: World, i: int):
    """Returns the height of the switch's lower side; the switch falls from the place where it appears."""
    return wp.max(rooms.DROP - rooms.fallen(world.age[i]), 0.0)


@wp.func
def hold_by_walls(body: Body):
    """Returns the agent after its contacts with the walls."""
    for axis in range(2):
        here = body.position[axis]
        line = wp.where(here < 0.0, -1.0, 1.0)
        is_inner = wp.abs(here - line * rooms.LINE) < rooms.THICK + AGENT_REACH + 0.06
        low = wp.where(axis == 0, -rooms.EAST, rooms.SOUTH)
        high = wp.where(axis == 0, rooms.EAST, rooms.NORTH)
        if is_inner or here < low + AGENT_REACH or here > high - AGENT_REACH:
            for piece in range(wp.where(is_inner, rooms.PIECES, 1)):
                at = rooms.wall_middle(axis, line, piece)
                half = rooms.wall_half(axis, piece)
                if not is_inner:  # one long wall
                    half = wp.vec2(60.0, 60.0)
                    half[axis] = 5.0
                    at = wp.vec2(0.0, 0.0)
                    at[axis] = wp.where(here < 0.0, low - 5.0, high + 5.0)
                if wp.abs(body.position[1 - axis] - at[1 - axis]) < half[1 - axis] + AGENT_REACH:
                    wall = fixed_box(at, half, 0.0)
                    wall, body = resolve_contact(wall, body, rest_in(box_box(wall, body)), FRICTION)
    return body


@wp.func
def press_switch(world: World, i: int, body: Body):
    """Returns the agent after its contact with the switch; the pressed switch makes the brick pyramid appear."""
    at = world.switch_place[i]
    spin = world.switch_spin[i]
    if spin != 0.0:
        world.switch_angle[i] = world.switch_angle[i] + spin * rooms.SECONDS
        world.switch_spin[i] = wp.sign(spin) * wp.max(wp.abs(spin) - SWITCH_BRAKE, 0.0)
    if wp.length_sq(body.position - at) > 12.6:
        return body
    box = box_body(
        at,
        wp.vec2(0.0, 0.0),
        world.switch_angle[i],
        world.switch_spin[i],
        wp.vec2(rooms.SWITCH_HALF, rooms.SWITCH_HALF),
        0.0,
    )
    box.inverse_inertia = 1.0 / SWITCH_INERTIA
    contact = box_box(box, body)
    if contact.count == 0 or switch_bottom(world, i) >= 2.0 * AGENT_HALF:
        return body
    box, body = resolve_contact(box, body, rest_in(contact), FRICTION)
    world.switch_spin[i] = wp.clamp(box.spin, -FASTEST_SPIN, FASTEST_SPIN)
    if world.pressed[i] == 0:
        world.pressed[i] = 1
        world.pressed_age[i] = 0
        world.pile[i, rooms.BRICKS] = rooms.STANDING
    return body


@wp.func
def piles_near(world: World, i: int):
    """Returns the bits of the piles that are moving, may appear, or may be touched within a decision."""
    bits = int(0)
    for pile in range(rooms.PILES):
        to = world.pile_middle[i, pile] - world.place[i]
        reach = world.pile_reach[i, pile] + FARTHEST
        if wp.length_sq(to) < reach * reach or world.pile[i, pile] == rooms.LOOSE:
            bits = bits | (1 << pile)
    return bits


@wp.func
def turn(world: World, i: int, choice: int):
    """Turns the agent by its choice."""
    if choice > 2:
        world.angle[i] = wrapped(world.angle[i] + wp.where(choice == 4, TURN, -TURN))


@wp.func
def step_agent(world: World, i: int, choice: int, near: int):
    """Advances the agent and everything that moves by one physics tick; returns whether the agent touched the golden
    block.

    `near` are bits from `piles_near`.
    """
    turn(world, i, choice)
    velocity = world.velocity[i]
    body = box_body(
        world.place[i], wp.vec2(velocity[0], velocity[1]), world.angle[i], 0.0, wp.vec2(AGENT_HALF, AGENT_HALF), MASS
    )
    body.inverse_inertia = 0.0
    if choice == 1 or choice == 2:
        body.velocity += wp.where(choice == 1, PUSH, -PUSH) * heading(body.angle)
    kept = 1.0 - DRAG * rooms.SECONDS
    body.velocity *= kept
    rise = kept * (velocity[2] - rooms.GRAVITY * rooms.SECONDS)
    height = world.height[i]
    if height <= AGENT_HALF + TOUCH:
        speed = wp.length(body.velocity)
        body.velocity *= wp.max(1.0 - FRICTION * wp.max(-rise, 0.0) / wp.max(speed, 1.0e-6), 0.0)
        rise = wp.max(rise, 0.0)
        height = wp.max(height, AGENT_HALF)
    ram = Ram()
    ram.head = height + AGENT_HALF
    falls = world.pressed[i] == 1  # the brick pyramid; it appears after the tick in which the switch is pressed
    ram.body = press_switch(world, i, body)
    left = near
    pile = int(0)
    while left != 0:
        state = world.pile[i, pile]
        if left & 1 == 1 and state != rooms.ABSENT:
            if state != rooms.LOOSE and touches_pile(world, i, pile, ram.body):
                loosen(world, i, pile)
                state = int(rooms.LOOSE)
            if state == rooms.LOOSE:
                ram = move_pile(world, i, pile, ram)
        left = left >> 1
        pile += 1
    body = hold_by_walls(ram.body)
    world.place[i] = body.position + body.velocity * rooms.SECONDS
    world.velocity[i] = wp.vec3(body.velocity[0], body.velocity[1], rise)
    world.height[i] = height + rise * rooms.SECONDS
    if falls:
        world.pressed_age[i] = world.pressed_age[i] + 1
    return ram.won
