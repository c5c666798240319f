"""Rigid circles and boxes in the plane: contacts and the impulses that part them.

The functions are building blocks for an environment's kernel. A body is a value: functions take it and return it
changed. Angles are in radians, counterclockwise from the x axis. A tick of 0.02 s is, in order,

    agent = add_speed(agent, heading(angle), SPEED)              # as in Unity's agents: AddForce(..., VelocityChange)
    agent = apply_drag(agent, 4.0, 0.0)
    agent, block = resolve_contact(agent, block, box_box(agent, block), FRICTION)
    agent = advance(agent)
    block = advance(block)
    agent = keep_box_within(agent, ROOM, FRICTION)    # static walls last, so that nothing ends inside one
    block = keep_box_within(block, ROOM, FRICTION)

A contact's normal points from the first body to the second; a count of 0 means that they are apart. Contacts are
inelastic (restitution 0). A contact separates the bodies at once, each by its share of the masses; if three or more
bodies press on one another, a second round of contacts makes the result more stable.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import rotate


@wp.struct
class Body:
    """Circle or box; made by `circle_body` and `box_body`."""

    position: wp.vec2
    velocity: wp.vec2
    angle: wp.float32
    spin: wp.float32  # rad/s
    half: wp.vec2  # a box's half sides; a circle's radius twice
    inverse_mass: wp.float32  # 0: nothing moves it
    inverse_inertia: wp.float32  # 0: no contact turns it


@wp.struct
class Contact:
    """Points at which two bodies touch."""

    count: wp.int32  # points: 0, 1 or 2
    normal: wp.vec2  # unit vector
    first: wp.vec2
    second: wp.vec2
    depth: wp.float32  # how far they overlap along the normal, at the deeper point
    depths: wp.vec2  # how far at each point, of boxes


@wp.func
def circle_circle(a: Body, b: Body):
    """Returns the contact of two circles."""
    contact = Contact()
    to = b.position - a.position
    reach = a.half[0] + b.half[0]
    if wp.length_sq(to) > reach * reach:
        return contact
    distance = wp.length(to)
    contact.count = 1
    contact.normal = wp.vec2(1.0, 0.0)
    if distance > 1.0e-6:
        contact.normal = to / distance
    contact.depth = reach - distance
    contact.first = a.position + a.half[0] * contact.normal
    contact.second = contact.first
    return contact


@wp.func
def points_below(normal: wp.vec2, level: float, first: wp.vec2, second: wp.vec2):
    """Returns the contact of a face, given by normal and level, with the ends of an edge that lie below the face."""
    contact = Contact()
    contact.normal = normal
    one = level - wp.dot(normal, first)
    two = level - wp.dot(normal, second)
    contact.depth = wp.max(one, two)
    contact.depths = wp.vec2(one, two)
    contact.first = first
    contact.second = second
    contact.count = wp.where(one >= 0.0, 1, 0) + wp.where(two >= 0.0, 1, 0)
    if contact.count == 1:
        contact.first = wp.where(one >= 0.0, first, second)
        contact.second = contact.first
        contact.depths = wp.vec2(contact.depth, contact.depth)
    return contact


@wp.func
def facing_edge(box: Body, normal: wp.vec2):
    """Returns the ends of the box's side that faces most against the normal."""
    local = rotate(normal, -box.angle)
    k = wp.where(wp.abs(local[0]) > wp.abs(local[1]), 0, 1)
    corner = wp.vec2(box.half[0], box.half[1])
    corner[k] = -wp.sign(local[k]) * box.half[k]
    other = wp.vec2(corner[0], corner[1])
    other[1 - k] = -corner[1 - k]
    return box.position + rotate(corner, box.angle), box.position + rotate(other, box.angle)


@wp.func
def face_contact(a: Body, b: Body, to: wp.vec2, side: int):
    """Returns the contact of box b with the face of box a along its axis `side`; `to` leads to b in a's frame."""
    local = wp.vec2(0.0, 0.0)
    local[side] = wp.where(to[side] < 0.0, -1.0, 1.0)
    n = rotate(local, a.angle)
    along = wp.vec2(-n[1], n[0])
    half = a.half[1 - side]
    first, second = facing_edge(b, n)
    # what of the edge lies beside the face is cut off
    from_first = wp.dot(first - a.position, along)
    from_second = wp.dot(second - a.position, along)
    span = from_second - from_first
    edge = second - first
    start = first
    end = second
    if wp.abs(span) > 1.0e-6:
        start = first + ((wp.clamp(from_first, -half, half) - from_first) / span) * edge
        end = first + ((wp.clamp(from_second, -half, half) - from_first) / span) * edge
    return points_below(n, wp.dot(a.position, n) + a.half[side], start, end)


@wp.func
def overlaps(to: wp.vec2, a: wp.vec2, b: wp.vec2, c: float, s: float):
    """Returns how far two boxes overlap along the first box's axes; c and s: |cos| and |sin| of their angle."""
    return wp.vec2(a[0] + c * b[0] + s * b[1] - wp.abs(to[0]), a[1] + s * b[0] + c * b[1] - wp.abs(to[1]))


@wp.func
def box_box(a: Body, b: Body):
    """Returns the contact of two boxes, on the axis of least overlap."""
    contact = Contact()
    to = b.position - a.position
    if wp.length(to) > wp.length(a.half) + wp.length(b.half):
        return contact
    c = wp.abs(wp.cos(b.angle - a.angle))
    s = wp.abs(wp.sin(b.angle - a.angle))
    to_b = rotate(to, -a.angle)
    to_a = rotate(-to, -b.angle)
    by_a = overlaps(to_b, a.half, b.half, c, s)
    by_b = overlaps(to_a, b.half, a.half, c, s)
    if wp.min(wp.min(by_a), wp.min(by_b)) < 0.0:
        return contact
    if wp.min(by_a) <= wp.min(by_b) + 1.0e-4:  # of two equal axes always the same one, or contacts would flicker
        return face_contact(a, b, to_b, wp.where(by_a[0] < by_a[1], 0, 1))
    contact = face_contact(b, a, to_a, wp.where(by_b[0] < by_b[1], 0, 1))
    contact.normal = -contact.normal
    return contact


SECONDS = wp.constant(0.02)  # a physics tick
GRAVITY = wp.constant(9.81)
STILL = wp.constant(1.0e-4)  # m/s, rad/s: slower is at rest


@wp.func
def circle_body(position: wp.vec2, velocity: wp.vec2, radius: float, mass: float):
    """Returns a circle; contacts do not turn it. A mass of 0 makes it immovable."""
    body = Body()
    body.position = position
    body.velocity = velocity
    body.half = wp.vec2(radius, radius)
    body.inverse_mass = wp.where(mass > 0.0, 1.0 / wp.max(mass, 1.0e-9), 0.0)
    return body


@wp.func
def box_body(position: wp.vec2, velocity: wp.vec2, angle: float, spin: float, half: wp.vec2, mass: float):
    """Returns a box of even density. A mass of 0 makes the box immovable; an `inverse_inertia` of 0 means that nothing
    turns it."""
    body = Body()
    body.position = position
    body.velocity = velocity
    body.angle = angle
    body.spin = spin
    body.half = half
    body.inverse_mass = wp.where(mass > 0.0, 1.0 / wp.max(mass, 1.0e-9), 0.0)
    body.inverse_inertia = 3.0 * body.inverse_mass / wp.length_sq(half)
    return body


@wp.func
def fixed_box(position: wp.vec2, half: wp.vec2, angle: float):
    """Returns a box that never moves."""
    body = Body()
    body.position = position
    body.half = half
    body.angle = angle
    return body


@wp.func
def add_speed(body: Body, direction: wp.vec2, speed: float):
    """Returns the body with this speed added at once, whatever its mass."""
    body.velocity += speed * direction
    return body


@wp.func
def apply_drag(body: Body, drag: float, angular_drag: float):
    """Returns the body after one tick of drag, in 1/s as in PhysX: velocity *= 1 - drag * 0.02."""
    body.velocity *= wp.max(1.0 - drag * SECONDS, 0.0)
    body.spin *= wp.max(1.0 - angular_drag * SECONDS, 0.0)
    return body


@wp.func
def rub(body: Body, sticking: float, sliding: float):
    """Returns the body after friction with the ground: slips of up to `sticking` m/s stop, faster slips lose `sliding`
    m/s.

    A spin is braked at the mean distance of a square's points from its center.
    """
    speed = wp.length(body.velocity)
    arm = 0.54 * wp.length(body.half)
    slip = speed + wp.abs(body.spin) * arm
    if slip <= sticking or slip <= 1.0e-9:
        body.velocity = wp.vec2(0.0, 0.0)
        body.spin = 0.0
        return body
    lost = wp.min(sliding / slip, 1.0)  # shared by moving and turning
    body.velocity *= 1.0 - lost
    if body.inverse_mass > 0.0:
        body.spin *= wp.max(1.0 - lost * arm * arm * body.inverse_inertia / body.inverse_mass, 0.0)
    return body


@wp.func
def advance(body: Body):
    """Returns the body moved on by one tick."""
    body.position += body.velocity * SECONDS
    body.angle += body.spin * SECONDS
    return body


@wp.func
def cross(a: wp.vec2, b: wp.vec2):
    """Returns the third component of the cross product."""
    return a[0] * b[1] - a[1] * b[0]


@wp.func
def relative_velocity(a: Body, b: Body, point: wp.vec2):
    """Returns the velocity of b's point relative to a's."""
    to_a = point - a.position
    to_b = point - b.position
    return b.velocity - a.velocity + wp.vec2(a.spin * to_a[1] - b.spin * to_b[1], b.spin * to_b[0] - a.spin * to_a[0])


@wp.func
def inverse_mass_along(a: Body, b: Body, first: wp.vec2, second: wp.vec2, way: wp.vec2):
    """Returns the speed along `way` that an impulse of 1 at the second point gives the first: an inverse mass."""
    turning = a.inverse_inertia * cross(first - a.position, way) * cross(second - a.position, way)
    turning += b.inverse_inertia * cross(first - b.position, way) * cross(second - b.position, way)
    return a.inverse_mass + b.inverse_mass + turning


@wp.func
def normal_impulses(a: Body, b: Body, contact: Contact):
    """Returns the impulses along the normal, none below 0, after which no point of the contact approaches."""
    n = contact.normal
    k11 = inverse_mass_along(a, b, contact.first, contact.first, n)
    v1 = wp.dot(relative_velocity(a, b, contact.first), n)
    if k11 <= 0.0:
        return wp.vec2(0.0, 0.0)
    if contact.count == 1:
        return wp.vec2(wp.max(-v1 / k11, 0.0), 0.0)
    k12 = inverse_mass_along(a, b, contact.first, contact.second, n)
    k22 = inverse_mass_along(a, b, contact.second, contact.second, n)
    v2 = wp.dot(relative_velocity(a, b, contact.second), n)
    determinant = k11 * k22 - k12 * k12
    if determinant > 1.0e-4 * k11 * k22:
        first = (k12 * v2 - k22 * v1) / determinant
        second = (k12 * v1 - k11 * v2) / determinant
        if first >= 0.0 and second >= 0.0:
            return wp.vec2(first, second)
    elif v1 < 0.0:  # nothing turns: both points share one impulse
        return wp.vec2(-0.5 * v1 / k11, -0.5 * v1 / k11)
    # one point alone, if that keeps the other from approaching
    if v1 < 0.0 and v2 - k12 * v1 / k11 >= -1.0e-6:
        return wp.vec2(-v1 / k11, 0.0)
    if v2 < 0.0:
        return wp.vec2(0.0, -v2 / k22)
    return wp.vec2(0.0, 0.0)


@wp.func
def apply_impulse(a: Body, b: Body, point: wp.vec2, impulse: wp.vec2):
    """Returns both bodies after an impulse on b at the point, and the opposite impulse on a."""
    a.velocity -= a.inverse_mass * impulse
    a.spin -= a.inverse_inertia * cross(point - a.position, impulse)
    b.velocity += b.inverse_mass * impulse
    b.spin += b.inverse_inertia * cross(point - b.position, impulse)
    return a, b


@wp.func
def apply_friction(a: Body, b: Body, point: wp.vec2, along: wp.vec2, most: float):
    """Returns both bodies after an impulse along the contact, up to `most`, that stops their slip at the point."""
    soft = inverse_mass_along(a, b, point, point, along)
    if soft <= 0.0 or most <= 0.0:
        return a, b
    pull = wp.clamp(-wp.dot(relative_velocity(a, b, point), along) / soft, -most, most)
    a, b = apply_impulse(a, b, point, pull * along)
    return a, b


@wp.func
def resolve_contact(a: Body, b: Body, contact: Contact, friction: float):
    """Returns both bodies after their contact, neither approaching nor overlapping."""
    if contact.count == 0:
        return a, b
    n = contact.normal
    along = wp.vec2(-n[1], n[0])
    push = normal_impulses(a, b, contact)
    a, b = apply_impulse(a, b, contact.first, push[0] * n)
    a, b = apply_impulse(a, b, contact.second, push[1] * n)
    a, b = apply_friction(a, b, contact.first, along, friction * push[0])
    a, b = apply_friction(a, b, contact.second, along, friction * push[1])
    soft = a.inverse_mass + b.inverse_mass
    if soft > 0.0:
        a.position -= (contact.depth * a.inverse_mass / soft) * n
        b.position += (contact.depth * b.inverse_mass / soft) * n
    return a, b


@wp.func
def keep_box_within(body: Body, room: wp.vec2, friction: float):
    """Returns a box kept within a room about the origin with these half sides and this friction of its walls."""
    c = wp.abs(wp.cos(body.angle))
    s = wp.abs(wp.sin(body.angle))
    reach = wp.vec2(c * body.half[0] + s * body.half[1], s * body.half[0] + c * body.half[1])
    wall = Body()
    for k in range(2):
        if wp.abs(body.position[k]) + reach[k] > room[k]:
            n = wp.vec2(0.0, 0.0)
            n[k] = -wp.sign(body.position[k])
            first, second = facing_edge(body, n)
            wall, body = resolve_contact(wall, body, points_below(n, -room[k], first, second), friction)
    return body
