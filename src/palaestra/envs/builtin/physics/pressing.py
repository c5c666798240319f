"""Contacts as PhysX resolves them, for bodies that are pushed hard: contact begins a little early, and an overlap ends
at a limited speed.

A contact is computed with `grown` bodies, so it exists while the bodies are up to `MARGIN` apart; they may close this
gap within the tick, but not more. Bodies that overlap, because a fast body moved into another within a tick, part by
four fifths of the overlap a tick and at most by `MOST_PARTED`, without gaining speed:

    agent, block = press(agent, block, box_box(grown(agent), grown(block)), FRICTION)
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, STILL, Body, Contact, cross, resolve_contact

OFFSET = wp.constant(0.01)  # meters by which each body is grown
MARGIN = wp.constant(0.02)  # of both together
MOST_PARTED = wp.constant(0.2)  # meters a tick: 10 m/s
PARTED = wp.constant(0.8)  # share of an overlap
MOST_SPIN = wp.constant(7.0)  # rad/s
FRICTION_ROUNDS = wp.constant(3)  # the last of six rounds, those with friction


@wp.func
def grown(body: Body):
    """Returns the body enlarged by its contact offset on all sides."""
    body.half += wp.vec2(OFFSET, OFFSET)
    return body


@wp.func
def parting(gap: float):
    """Returns how far two bodies are separated in a tick, in meters; a negative `gap` is their overlap."""
    return wp.clamp(-PARTED * gap, 0.0, MOST_PARTED)


@wp.func
def press(a: Body, b: Body, contact: Contact, friction: float):
    """Returns both bodies after a contact of `grown` bodies: they approach only as fast as closes the gap in a tick."""
    if contact.count == 0:
        return a, b
    gap = MARGIN - contact.depth
    allowed = (wp.max(gap, 0.0) / SECONDS) * contact.normal
    contact.depth = parting(gap)
    b.velocity += allowed
    a, b = resolve_contact(a, b, contact, friction)
    b.velocity -= allowed
    return a, b


@wp.func
def press_on_plane(body: Body, axis: int, gap: float, side: float, friction: float):
    """Returns the body after its contact with a static plane across an axis, `gap` meters away on a side (+1, -1)."""
    if gap > MARGIN:
        return body
    excess = wp.max(side * body.velocity[axis] - wp.max(gap, 0.0) / SECONDS, 0.0)
    slip = body.velocity[1 - axis]
    body.velocity[axis] = body.velocity[axis] - side * excess
    body.velocity[1 - axis] = slip - wp.clamp(slip, -friction * excess, friction * excess)
    body.position[axis] = body.position[axis] - side * parting(gap)
    return body


@wp.func
def fall(state: wp.vec2, rest: float, pull: float, drag: float):
    """Returns height and upward speed (m/s) after a tick, and the speed (m/s) that the floor took; `rest`: height on
    the floor."""
    climb = (state[1] - pull) * wp.max(1.0 - drag * SECONDS, 0.0)
    gap = state[0] - rest
    if gap > MARGIN:
        return wp.vec2(state[0] + climb * SECONDS, climb), 0.0
    held = wp.max(climb, -wp.max(gap, 0.0) / SECONDS)
    return wp.vec2(state[0] + held * SECONDS + parting(gap), held), held - climb


@wp.func
def rub_sole(a: Body, b: Body, ahead: wp.vec2, half: float, most: float):
    """Returns a box with half sides `half` that heads `ahead`, and its ground, after friction impulses up to `most`.

    As in PhysX, friction acts at two opposite corners, at each up to half of `most` along the box's way and as much
    across it. So a spin is braked fully at rest, and half as hard while the box moves, by the friction across the way.
    """
    slip = a.velocity - b.velocity
    speed = wp.length(slip)
    soft = a.inverse_mass + b.inverse_mass
    if wp.abs(a.spin) < STILL:
        a.spin = 0.0
        impulse = (wp.min(most * soft / wp.max(speed, 1.0e-9), 1.0) / soft) * slip
        a.velocity -= a.inverse_mass * impulse
        b.velocity += b.inverse_mass * impulse
        return a, b
    way = wp.where(speed > STILL, slip / wp.max(speed, 1.0e-9), ahead)
    corner = half * wp.vec2(ahead[0] - ahead[1], ahead[0] + ahead[1])
    across = wp.vec2(-way[1], way[0])
    levers = wp.vec2(cross(corner, way), cross(corner, across))
    yields = wp.vec2(soft + a.inverse_inertia * levers[0] * levers[0], soft + a.inverse_inertia * levers[1] * levers[1])
    slides = wp.vec2(wp.dot(slip, way), wp.dot(slip, across))
    spin = a.spin
    first = wp.vec2(0.0, 0.0)  # impulses at the corner along the way and across it, and at the other one
    second = wp.vec2(0.0, 0.0)
    for _ in range(FRICTION_ROUNDS):
        for k in range(2):
            total = wp.clamp(first[k] + (slides[k] + spin * levers[k]) / yields[k], -0.5 * most, 0.5 * most)
            slides[k] = slides[k] - soft * (total - first[k])
            spin -= a.inverse_inertia * (total - first[k]) * levers[k]
            first[k] = total
        for k in range(2):
            total = wp.clamp(second[k] + (slides[k] - spin * levers[k]) / yields[k], -0.5 * most, 0.5 * most)
            slides[k] = slides[k] - soft * (total - second[k])
            spin += a.inverse_inertia * (total - second[k]) * levers[k]
            second[k] = total
    impulse = (first[0] + second[0]) * way + (first[1] + second[1]) * across
    a.velocity -= a.inverse_mass * impulse
    b.velocity += b.inverse_mass * impulse
    a.spin = spin
    return a, b
