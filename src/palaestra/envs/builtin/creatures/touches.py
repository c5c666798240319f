"""Contacts of a creature with the ground, with the walls and with itself."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.creatures.solver import FRICTION, MOST_CONTACTS, MOST_PUSH, PUSH_SHARE, TICK, point_response
from palaestra.envs.builtin.creatures.world import ContactRow, World

TOUCH = wp.constant(0.02)  # m: surfaces that are nearer touch
NEAR = wp.constant(0.05)  # m: contacts of surfaces that are nearer are kept from closing in


@wp.func
def some_tangent(normal: wp.vec3):
    """Returns a unit vector at right angles to a normal."""
    if wp.abs(normal[0]) > 0.7:
        return wp.normalize(wp.cross(normal, wp.vec3(0.0, 1.0, 0.0)))
    return wp.normalize(wp.cross(normal, wp.vec3(1.0, 0.0, 0.0)))


@wp.func
def add_contact(world: World, i: int, first: int, second: int, point: wp.vec3, normal: wp.vec3, gap: float):
    """Adds a contact at a point, unless there are too many."""
    count = world.scratch.contacts[i]
    if count >= MOST_CONTACTS:
        return
    row = ContactRow()
    row.first = first
    row.second = second
    row.normal = normal
    row.tangent = some_tangent(normal)
    row.first_arm = point - world.position[i, first]
    response = point_response(row.first_arm, world.scratch.inertia[i, first], world.anatomy.inverse_mass[first])
    if second >= 0:
        row.second_arm = point - world.position[i, second]
        response += point_response(row.second_arm, world.scratch.inertia[i, second], world.anatomy.inverse_mass[second])
    other = wp.cross(normal, row.tangent)
    row.mass = wp.vec3(
        1.0 / wp.dot(normal, response * normal), 1.0 / wp.dot(row.tangent, response * row.tangent), 1.0 / wp.dot(other, response * other)
    )
    row.friction = FRICTION
    row.speed = wp.where(gap > 0.0, -gap / TICK, wp.min(-gap * (PUSH_SHARE / TICK), MOST_PUSH))
    world.scratch.contact[i, count] = row
    world.scratch.contacts[i] = count + 1


@wp.func
def shape_middle(world: World, i: int, part: int):
    """Returns where the middle of a part's shape is."""
    return world.position[i, part] + wp.quat_rotate(world.rotation[i, part], world.anatomy.shape_center[part])


@wp.func
def lowest(world: World, i: int, part: int):
    """Returns the height of a part's lowest point above the ground."""
    sole = world.anatomy.sole[part]
    if sole[0] > 0.0:
        up = wp.quat_rotate_inv(world.rotation[i, part], wp.vec3(0.0, 1.0, 0.0))
        return (
            shape_middle(world, i, part)[1]
            - world.anatomy.floor
            - wp.abs(up[0]) * sole[0]
            - wp.abs(up[1]) * sole[1]
            - wp.abs(up[2]) * sole[2]
        )
    reach = wp.quat_rotate(world.rotation[i, part], world.anatomy.shape[part])
    return shape_middle(world, i, part)[1] - world.anatomy.floor - wp.abs(reach[1]) - world.anatomy.radius[part]


@wp.func
def touch_planes(world: World, i: int, part: int, point: wp.vec3, radius: float):
    """Adds the contacts of a sphere, or of a corner if the radius is 0, with ground and walls."""
    gap = point[1] - world.anatomy.floor - radius
    if gap < NEAR:
        add_contact(world, i, part, -1, point - wp.vec3(0.0, radius, 0.0), wp.vec3(0.0, 1.0, 0.0), gap)
    for k in range(2):
        gap = world.anatomy.half - wp.abs(point[2 * k]) - radius
        if gap < NEAR:
            normal = wp.vec3(0.0, 0.0, 0.0)
            normal[2 * k] = -wp.sign(point[2 * k])
            add_contact(world, i, part, -1, point - radius * normal, normal, gap)


@wp.func
def share_load(world: World, i: int, found: int):
    """Gives a part that touches in several points, from contact number `found` on, friction at the two that are farthest apart.

    Each of the two is as strong as the load on all of them allows, as the two friction anchors of PhysX are.
    """
    ends = world.scratch.contacts[i]
    left = int(-1)
    right = int(-1)
    longest = float(0.0)
    for k in range(found, ends):
        if world.scratch.contact[i, k].speed > -TOUCH / TICK:
            for n in range(found, k):
                if world.scratch.contact[i, n].speed > -TOUCH / TICK:
                    apart = wp.length_sq(world.scratch.contact[i, k].first_arm - world.scratch.contact[i, n].first_arm)
                    if apart > longest:
                        longest = apart
                        left = n
                        right = k
    if left < 0:
        return
    for k in range(found, ends):
        if k == left or k == right:
            world.scratch.contact[i, k].shared = 1.0
        else:
            world.scratch.contact[i, k].friction = 0.0


@wp.func
def find_outer_contacts(world: World, i: int, part: int):
    """Adds the contacts of one part with ground and walls."""
    x = shape_middle(world, i, part)
    sole = world.anatomy.sole[part]
    shape = world.anatomy.shape[part]
    radius = world.anatomy.radius[part]
    span = wp.length(shape) + radius + wp.length(sole) + NEAR
    if world.anatomy.snout_radius[part] > 0.0:
        span = wp.max(span, wp.length(world.anatomy.snout[part]) + world.anatomy.snout_radius[part] + NEAR)
    if x[1] - world.anatomy.floor > span and wp.max(wp.abs(x[0]), wp.abs(x[2])) < world.anatomy.half - span:
        return
    found = world.scratch.contacts[i]
    if sole[0] > 0.0:
        for corner in range(8):
            at = wp.vec3(sole[0], sole[1], sole[2])
            if corner % 2 == 1:
                at[0] = -at[0]
            if (corner / 2) % 2 == 1:
                at[1] = -at[1]
            if corner >= 4:
                at[2] = -at[2]
            touch_planes(world, i, part, x + wp.quat_rotate(world.rotation[i, part], at), 0.0)
        share_load(world, i, found)
        return
    if world.anatomy.snout_radius[part] > 0.0:
        snout = world.position[i, part] + wp.quat_rotate(world.rotation[i, part], world.anatomy.snout[part])
        touch_planes(world, i, part, snout, world.anatomy.snout_radius[part])
    reach = wp.quat_rotate(world.rotation[i, part], shape)
    touch_planes(world, i, part, x + reach, radius)
    if wp.length_sq(shape) > 0.0:
        touch_planes(world, i, part, x - reach, radius)
    share_load(world, i, found)


@wp.func
def nearest_points(a: wp.vec3, along: wp.vec3, b: wp.vec3, across: wp.vec3):
    """Returns where along each segment (-1..1) two segments come nearest. `a`, `b`: their middles; `along`, `across`: half segments."""
    between = a - b
    aa = wp.dot(along, along)
    bb = wp.dot(across, across)
    ab = wp.dot(along, across)
    ad = wp.dot(along, between)
    bd = wp.dot(across, between)
    s = float(0.0)
    determinant = aa * bb - ab * ab
    if determinant > 1.0e-9:
        s = wp.clamp((ab * bd - bb * ad) / determinant, -1.0, 1.0)
    elif aa > 1.0e-9:
        s = wp.clamp(-ad / aa, -1.0, 1.0)
    t = float(0.0)
    if bb > 1.0e-9:
        t = wp.clamp((ab * s + bd) / bb, -1.0, 1.0)
    if aa > 1.0e-9:
        s = wp.clamp((ab * t - ad) / aa, -1.0, 1.0)
    return wp.vec2(s, t)


@wp.func
def find_inner_contact(world: World, i: int, k: int):
    """Adds the contact of a pair of parts that meet."""
    first = world.anatomy.pair[k][0]
    second = world.anatomy.pair[k][1]
    a = shape_middle(world, i, first)
    b = shape_middle(world, i, second)
    radii = world.anatomy.radius[first] + world.anatomy.radius[second]
    reach = wp.length(world.anatomy.shape[first]) + wp.length(world.anatomy.shape[second]) + radii
    if wp.length_sq(a - b) > reach * reach:
        return
    along = wp.quat_rotate(world.rotation[i, first], world.anatomy.shape[first])
    across = wp.quat_rotate(world.rotation[i, second], world.anatomy.shape[second])
    at = nearest_points(a, along, b, across)
    a += at[0] * along
    b += at[1] * across
    distance = wp.length(a - b)
    if distance < radii and distance > 1.0e-6:
        normal = (a - b) / distance
        add_contact(world, i, first, second, b + world.anatomy.radius[second] * normal, normal, distance - radii)
