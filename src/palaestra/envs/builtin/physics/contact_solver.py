"""Bodies on a level floor whose contacts are solved together, as in PhysX: pushing agents, crates and walls.

A world that uses it has the columns of `ContactColumns`.

A tick is: change velocities (pushes, drag, `fall`), `patches[i] = 0`, `add_patch` for every pair that `box_box` or
`side_contact` finds near, and `solve`.

Every contact has normal impulses, which only push, and friction. They are applied in turn, in six rounds; bodies move
with the resulting velocities, which also separate overlapping bodies. A last round removes the velocity that served
only to separate bodies. Friction acts from the fourth round on. As in PhysX's default model, friction acts at two
points of each contact, and each point holds up to the coefficient times the whole load: together twice the usual
friction.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from palaestra.envs.builtin.physics.pressing import MARGIN, MOST_SPIN, OFFSET, grown, parting
from palaestra.envs.builtin.physics.pressing import fall as fallen
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, Body, Contact, cross, facing_edge, points_below
from palaestra.envs.builtin.sensors.rays import wrapped

ROUNDS = wp.constant(6)  # before bodies move; one more after
FRICTIONLESS_ROUNDS = wp.constant(3)


class ContactColumns:
    """Columns of a world with bodies, a row per area; the last body represents everything fixed."""

    body_position: wp.array2d(dtype=wp.vec2)  # (areas, bodies + 1)
    body_velocity: wp.array2d(dtype=wp.vec2)
    body_angle: wp.array2d(dtype=wp.float32)  # from the x axis
    body_spin: wp.array2d(dtype=wp.float32)
    body_height: wp.array2d(dtype=wp.float32)  # above the place where it rests
    body_rise: wp.array2d(dtype=wp.float32)  # m/s upward
    body_held: wp.array2d(dtype=wp.float32)  # m/s that the floor takes from its fall this tick; see `fall`
    body_shape: wp.array2d(dtype=wp.vec4)  # half sides, inverse mass, inverse inertia; see `box_shape`
    body_way: wp.array2d(dtype=wp.vec2)  # scratch: directions of the floor's friction
    body_grip: wp.array2d(dtype=wp.vec4)  # scratch: its impulses at two points
    patches: wp.array(dtype=wp.int32)  # scratch, as all below: number of contacts, each of one or two points
    patch_pair: wp.array2d(dtype=wp.int32)  # (areas, most contacts)
    patch_frame: wp.array2d(dtype=wp.vec4)
    patch_arms: wp.array2d(dtype=wp.vec4)
    patch_other_arms: wp.array2d(dtype=wp.vec4)
    patch_load: wp.array2d(dtype=wp.vec4)
    patch_gaps: wp.array2d(dtype=wp.vec2)


CONTACT_COLUMNS = tuple(ContactColumns.__annotations__)


def contact_sizes(bodies: int, contacts: int) -> dict[str, int]:
    """Returns the inner sizes of these columns, for a number of moving bodies and a limit of contacts in a tick."""
    return {name: bodies + 1 if name.startswith("body_") else contacts for name in CONTACT_COLUMNS if name != "patches"}


@wp.func
def box_shape(half: wp.vec2, mass: float, turns: bool):
    """Returns a box's row of `body_shape`; contacts turn it only if it `turns`."""
    inverse = 1.0 / mass
    return wp.vec4(half[0], half[1], inverse, wp.where(turns, 3.0 * inverse / wp.length_sq(half), 0.0))


@wp.func
def near_box(center: wp.vec2, half: wp.vec2, angle: float):
    """Returns a box that is `grown`, so that contacts are found before bodies touch."""
    body = Body()
    body.position = center
    body.angle = angle
    body.half = half
    return grown(body)


@wp.func
def near_body(world: Any, i: int, k: int):
    """Returns a body, grown as `near_box` does."""
    shape = world.body_shape[i, k]
    return near_box(world.body_position[i, k], wp.vec2(shape[0], shape[1]), world.body_angle[i, k])


@wp.func
def side_contact(body: Body, room: wp.vec2, axis: int):
    """Returns the contact of a body with the nearer side, along the axis, of a room with the half sides `room`."""
    n = wp.vec2(0.0, 0.0)
    n[axis] = wp.where(body.position[axis] > 0.0, -1.0, 1.0)
    first, second = facing_edge(body, n)
    return points_below(n, OFFSET - room[axis], first, second)


@wp.func
def add_patch(world: Any, i: int, a: int, b: int, contact: Contact, friction: float):
    """Adds a contact of bodies that `near_body` and `near_box` made; its normal points from a to b."""
    at = world.patches[i]
    if contact.count == 0 or at >= world.patch_pair.shape[1]:
        return
    world.patches[i] = at + 1
    n = contact.normal
    first = contact.first - world.body_position[i, a]
    second = contact.second - world.body_position[i, a]
    world.patch_pair[i, at] = 256 * a + b
    world.patch_frame[i, at] = wp.vec4(n[0], n[1], friction, float(contact.count))
    world.patch_arms[i, at] = wp.vec4(first[0], first[1], second[0], second[1])
    first = contact.first - world.body_position[i, b]
    second = contact.second - world.body_position[i, b]
    world.patch_other_arms[i, at] = wp.vec4(first[0], first[1], second[0], second[1])
    world.patch_gaps[i, at] = wp.vec2(MARGIN - contact.depths[0], MARGIN - contact.depths[1])
    world.patch_load[i, at] = wp.vec4(0.0, 0.0, 0.0, 0.0)


@wp.func
def fall(world: Any, i: int, k: int, pull: float, drag: float):
    """Lets a body fall for a tick, in which gravity adds `pull` (m/s); saves the speed that the floor stops, which is
    the body's load."""
    state = wp.vec2(world.body_height[i, k], world.body_rise[i, k])
    held = pull * (1.0 - drag * SECONDS)
    if state[0] != 0.0 or state[1] != 0.0:
        state, held = fallen(state, 0.0, pull, drag)
        world.body_height[i, k] = state[0]
        world.body_rise[i, k] = state[1]
    world.body_held[i, k] = held


@wp.func
def parting_speed(gap: float, moving: bool):
    """Returns the least speed at which points may part this tick: below 0 for a gap, above 0 if they overlap."""
    if gap >= 0.0:
        return -gap / SECONDS
    return wp.where(moving, parting(gap) / SECONDS, 0.0)


@wp.func
def press(world: Any, i: int, p: int, moving: bool, rubs: bool):
    """Applies a contact's normal impulses, and friction if `rubs`; `moving`: the round is before bodies move."""
    a = world.patch_pair[i, p] // 256
    b = world.patch_pair[i, p] % 256
    frame = world.patch_frame[i, p]
    arms = world.patch_arms[i, p]
    other_arms = world.patch_other_arms[i, p]
    load = world.patch_load[i, p]
    shape_a = world.body_shape[i, a]
    shape_b = world.body_shape[i, b]
    velocity_a = world.body_velocity[i, a]
    velocity_b = world.body_velocity[i, b]
    spin_a = world.body_spin[i, a]
    spin_b = world.body_spin[i, b]
    way = wp.vec2(frame[0], frame[1])
    count = int(frame[3])
    most = float(0.0)
    # Warp does not nest loops over both well: normals first, then friction
    for row in range(wp.where(rubs, 2 * count, count)):
        k = row % count
        at_a = wp.vec2(arms[2 * k], arms[2 * k + 1])
        at_b = wp.vec2(other_arms[2 * k], other_arms[2 * k + 1])
        if row == count:
            most = frame[2] * (load[0] + load[1]) * wp.where(count == 1, 2.0, 1.0)
            way = wp.vec2(-frame[1], frame[0])
        turn_a = cross(at_a, way)
        turn_b = cross(at_b, way)
        soft = shape_a[2] + shape_b[2] + shape_a[3] * turn_a * turn_a + shape_b[3] * turn_b * turn_b
        speed = wp.dot(velocity_b - velocity_a, way) + spin_b * turn_b - spin_a * turn_a
        at = wp.where(row < count, k, 2 + k)
        total = float(0.0)
        if row < count:
            total = wp.max(load[at] + (parting_speed(world.patch_gaps[i, p][k], moving) - speed) / soft, 0.0)
        else:
            total = wp.clamp(load[at] - speed / soft, -most, most)
        impulse = total - load[at]
        load[at] = total
        velocity_a -= shape_a[2] * impulse * way
        velocity_b += shape_b[2] * impulse * way
        spin_a -= shape_a[3] * impulse * turn_a
        spin_b += shape_b[3] * impulse * turn_b
    world.patch_load[i, p] = load
    world.body_velocity[i, a] = velocity_a
    world.body_velocity[i, b] = velocity_b
    world.body_spin[i, a] = spin_a
    world.body_spin[i, b] = spin_b


@wp.func
def grip_floor(world: Any, i: int, k: int, friction: float):
    """Applies the floor's friction to a body, at two opposite corners, each taking up to friction times load."""
    velocity = world.body_velocity[i, k]
    spin = world.body_spin[i, k]
    grip = friction * world.body_held[i, k]
    if grip == 0.0 or (wp.length_sq(velocity) == 0.0 and spin == 0.0):
        return
    shape = world.body_shape[i, k]
    held = world.body_grip[i, k]
    angle = world.body_angle[i, k]
    corner = wp.vec2(0.0, 0.0)
    if shape[3] > 0.0:
        c = wp.cos(angle)
        s = wp.sin(angle)
        corner = wp.vec2(c * shape[0] - s * shape[1], s * shape[0] + c * shape[1])
    most = grip / shape[2]
    along = world.body_way[i, k]
    for row in range(4):
        way = wp.where(row % 2 == 0, along, wp.vec2(-along[1], along[0]))
        turn = cross(wp.where(row < 2, corner, -corner), way)
        soft = shape[2] + shape[3] * turn * turn
        total = wp.clamp(held[row] - (wp.dot(velocity, way) + spin * turn) / soft, -most, most)
        impulse = total - held[row]
        held[row] = total
        velocity += shape[2] * impulse * way
        spin += shape[3] * impulse * turn
    world.body_grip[i, k] = held
    world.body_velocity[i, k] = velocity
    world.body_spin[i, k] = spin


@wp.func
def move(world: Any, i: int, bodies: int):
    """Moves bodies by a tick."""
    for k in range(bodies):
        world.body_position[i, k] += world.body_velocity[i, k] * SECONDS
        spin = wp.clamp(world.body_spin[i, k], -MOST_SPIN, MOST_SPIN)
        world.body_spin[i, k] = spin
        if spin != 0.0:
            world.body_angle[i, k] = wrapped(world.body_angle[i, k] + spin * SECONDS)


@wp.func
def brake(velocity: wp.vec2, most: float):
    """Returns a velocity after a tick of friction that takes up to `most` of it."""
    speed = wp.length(velocity)
    return wp.where(speed > most, velocity * (1.0 - most / wp.max(speed, 1.0e-9)), wp.vec2(0.0, 0.0))


@wp.func
def solve(world: Any, i: int, bodies: int, friction: float):
    """Solves the contacts of the first bodies with each other and with the floor, and moves them by a tick."""
    count = world.patches[i]
    for k in range(bodies):
        velocity = world.body_velocity[i, k]
        if count == 0 and world.body_shape[i, k][3] == 0.0:  # nothing turns it: all rounds are one
            world.body_velocity[i, k] = brake(velocity, 2.0 * friction * world.body_held[i, k])
        else:
            speed = wp.length(velocity)
            world.body_way[i, k] = wp.where(speed > 1.0e-4, velocity / wp.max(speed, 1.0e-4), wp.vec2(0.0, 1.0))
            world.body_grip[i, k] = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for turn in range(wp.where(count > 0, 0, FRICTIONLESS_ROUNDS), ROUNDS + 1):
        if turn == ROUNDS:
            move(world, i, bodies)
        rubs = turn >= FRICTIONLESS_ROUNDS
        for p in range(count):
            press(world, i, p, turn < ROUNDS, rubs)
        if rubs:
            for k in range(bodies):
                if count > 0 or world.body_shape[i, k][3] > 0.0:
                    grip_floor(world, i, k, friction)
