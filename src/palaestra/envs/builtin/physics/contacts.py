"""Contacts of two circles or two boxes in the plane: a normal and up to two points.

A contact's normal points from the first body to the second; a count of 0 means that they are apart.
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
    """Returns the contact of a face, given by normal and level, with the ends of an edge that lie below it."""
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
    """Returns how far two boxes overlap along the first one's axes; c and s: |cos| and |sin| of the angle between."""
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
