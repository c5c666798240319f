"""Contacts of a creature with the ground, with the walls and with itself."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.creatures.solver import FRICTION, MOST_CONTACTS, MOST_PUSH, PUSH_SHARE, TICK, point_response
from palaestra.envs.builtin.creatures.world import ContactRow, Grip, World

TOUCH = wp.constant(0.02)  # m: surfaces at rest that are nearer touch
CLOSE = wp.constant(0.025)  # m: held points that are farther from the ground are let go; two are at least so far apart
GRIPS = wp.constant(0.04)  # m: contacts of surfaces that are nearer can be held
SAME_WAY = wp.constant(0.999)  # cosine of the tilt at which held points are let go
FRICTION_SHARE = wp.constant(0.8)  # of what would stop a point, that a round of friction gives


@wp.func
def some_tangent(normal: wp.vec3):
    """Returns a unit vector at right angles to a normal."""
    if wp.abs(normal[0]) > 0.7:
        return wp.normalize(wp.cross(normal, wp.vec3(0.0, 1.0, 0.0)))
    return wp.normalize(wp.cross(normal, wp.vec3(1.0, 0.0, 0.0)))


@wp.func
def add_contact(
    world: World, i: int, first: int, second: int, point: wp.vec3, normal: wp.vec3, gap: float, loads: bool
):
    """Adds a contact, unless there are too many. `loads`: the contact is on the ground, where the part's grip replaces
    its friction."""
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
        1.0 / wp.dot(normal, response * normal),
        FRICTION_SHARE / wp.dot(row.tangent, response * row.tangent),
        FRICTION_SHARE / wp.dot(other, response * other),
    )
    row.friction = wp.where(loads, 0.0, FRICTION)
    row.loads = wp.where(loads, 1.0, 0.0)
    row.speed = wp.min(-gap * (PUSH_SHARE / TICK), MOST_PUSH)
    world.scratch.contact[i, count] = row
    world.scratch.contacts[i] = count + 1


@wp.func
def shape_middle(world: World, i: int, part: int):
    """Returns the middle of a part's shape."""
    return world.position[i, part] + wp.quat_rotate(world.rotation[i, part], world.anatomy.shape_center[part])


@wp.func
def reach_of(world: World, i: int, part: int):
    """Returns the distance from another surface at which a part makes a contact: larger for a faster part."""
    turn = world.rotation[i, part]
    sole = world.anatomy.sole[part]
    box = wp.vec3(0.0, 0.0, 0.0)  # half of the edges of its bounds
    for k in range(3):
        along = wp.quat_rotate(
            turn, wp.vec3(wp.where(k == 0, 1.0, 0.0), wp.where(k == 1, 1.0, 0.0), wp.where(k == 2, 1.0, 0.0))
        )
        half = sole[k] + wp.abs(world.anatomy.shape[part][k]) * wp.where(sole[0] > 0.0, 0.0, 1.0)
        box += half * wp.vec3(wp.abs(along[0]), wp.abs(along[1]), wp.abs(along[2]))
    if sole[0] == 0.0:
        box += world.anatomy.radius[part] * wp.vec3(1.0, 1.0, 1.0)
    return TOUCH + world.anatomy.foresight * TICK * (
        wp.length(world.velocity[i, part]) + wp.length(world.spin[i, part]) * wp.length(box)
    )


@wp.func
def touch_planes(world: World, i: int, part: int, point: wp.vec3, radius: float, reach: float, loads: bool):
    """Adds the contacts of a sphere, or of a corner if the radius is 0, with ground and walls that are within reach.

    `loads`: the part itself touches the ground, so that its load holds it there (not for the snout, which is another
    body in Unity).
    """
    gap = point[1] - world.anatomy.floor - radius
    if gap < reach:
        if loads:
            world.touches[i, part] = 1
        add_contact(world, i, part, -1, point - wp.vec3(0.0, radius, 0.0), wp.vec3(0.0, 1.0, 0.0), gap, loads)
    for k in range(2):
        gap = world.anatomy.half - wp.abs(point[2 * k]) - radius
        if gap < reach:
            normal = wp.vec3(0.0, 0.0, 0.0)
            normal[2 * k] = -wp.sign(point[2 * k])
            add_contact(world, i, part, -1, point - radius * normal, normal, gap, False)


@wp.func
def touch_size_sq(world: World, i: int, found: int):
    """Returns the squared diagonal of the box around contacts with the ground, from contact number `found` on; -1
    without contacts."""
    low = wp.vec3(1.0e9, 1.0e9, 1.0e9)
    high = -low
    for k in range(found, world.scratch.contacts[i]):
        if world.scratch.contact[i, k].loads > 0.0:
            arm = world.scratch.contact[i, k].first_arm
            low = wp.min(low, arm)
            high = wp.max(high, arm)
    return wp.where(high[0] < low[0], -1.0, wp.length_sq(high - low))


@wp.func
def still_held(world: World, i: int, part: int, size_sq: float):
    """Returns how many of a part's held points remain: none if the part has tilted, left the ground or touches more."""
    turn = world.rotation[i, part]
    if size_sq < 0.0 or wp.quat_rotate(turn, world.held_up[i, part])[1] < SAME_WAY:
        return 0
    for n in range(world.held[i, part]):
        point = world.position[i, part] + wp.quat_rotate(turn, world.held_point[i, 2 * part + n])
        if wp.abs(point[1] - world.held_place[i, 2 * part + n][1]) >= CLOSE:
            return 0
    if world.held[i, part] == 2:
        if 4.0 * wp.length_sq(world.held_point[i, 2 * part] - world.held_point[i, 2 * part + 1]) < size_sq:
            return 0
    return world.held[i, part]


@wp.func
def hold(world: World, i: int, part: int, n: int, arm: wp.vec3):
    """Lets friction hold a part at a point from now on; this is the part's point number `n`."""
    world.held_point[i, 2 * part + n] = wp.quat_rotate_inv(world.rotation[i, part], arm)
    world.held_place[i, 2 * part + n] = world.position[i, part] + arm


@wp.func
def choose_grip(world: World, i: int, part: int, found: int):
    """Chooses up to two points at which friction holds a part that touches the ground, from contact number `found` on.

    The points stay the same until the part slips, tilts or leaves the ground, and are pulled back to their places:
    PhysX's friction anchors.
    """
    size_sq = touch_size_sq(world, i, found)
    kept = still_held(world, i, part, size_sq)
    world.held[i, part] = kept
    if size_sq < 0.0 or kept == 2:
        return
    turn = world.rotation[i, part]
    if kept == 0:
        world.held_up[i, part] = wp.quat_rotate_inv(turn, wp.vec3(0.0, 1.0, 0.0))
    count = kept
    one = wp.quat_rotate(turn, world.held_point[i, 2 * part])
    two = wp.vec3(0.0, 0.0, 0.0)
    longest = float(0.0)
    for k in range(found, world.scratch.contacts[i]):
        row = world.scratch.contact[i, k]
        if row.loads > 0.0 and row.speed > -GRIPS * PUSH_SHARE / TICK:
            from_one = wp.length_sq(row.first_arm - one)
            from_two = wp.length_sq(row.first_arm - two)
            if count == 0:
                one = row.first_arm
                count = 1
            elif (count == 1 and from_one > CLOSE * CLOSE) or (
                count == 2 and from_one > from_two and from_one > longest
            ):
                two = row.first_arm
                longest = from_one
                count = 2
            elif count == 2 and from_one <= from_two and from_two > longest:
                one = row.first_arm
                longest = from_two
    if kept == 0 and count > 0:
        hold(world, i, part, 0, one)
    if count == 2:
        hold(world, i, part, 1, two)
    world.held[i, part] = count


@wp.func
def prepare_grip(world: World, i: int, part: int):
    """Writes the friction of a part with the ground for this tick."""
    grip = Grip()
    grip.friction = FRICTION
    speed = world.velocity[i, part]
    speed[1] = 0.0
    grip.tangent = wp.vec3(0.0, 0.0, 1.0)
    if wp.length_sq(speed) > 0.1:
        grip.tangent = wp.normalize(speed)
    for n in range(world.held[i, part]):
        arm = wp.quat_rotate(world.rotation[i, part], world.held_point[i, 2 * part + n])
        off = world.position[i, part] + arm - world.held_place[i, 2 * part + n]
        response = point_response(arm, world.scratch.inertia[i, part], world.anatomy.inverse_mass[part])
        tangent = grip.tangent
        for k in range(2):
            grip.mass[2 * n + k] = FRICTION_SHARE / wp.dot(tangent, response * tangent)
            grip.speed[2 * n + k] = -wp.dot(tangent, off) / TICK
            tangent = wp.vec3(tangent[2], 0.0, -tangent[0])
        if n == 0:
            grip.arm = arm
        else:
            grip.other_arm = arm
    world.scratch.grip[i, part] = grip


@wp.func
def find_outer_contacts(world: World, i: int, part: int):
    """Adds the contacts of one part with ground and walls."""
    x = shape_middle(world, i, part)
    sole = world.anatomy.sole[part]
    shape = world.anatomy.shape[part]
    radius = world.anatomy.radius[part]
    reach = reach_of(world, i, part)
    span = wp.length(shape) + radius + wp.length(sole) + reach
    if world.anatomy.snout_radius[part] > 0.0:
        span = wp.max(span, wp.length(world.anatomy.snout[part]) + world.anatomy.snout_radius[part] + reach)
    world.touches[i, part] = 0
    if x[1] - world.anatomy.floor > span and wp.max(wp.abs(x[0]), wp.abs(x[2])) < world.anatomy.half - span:
        world.held[i, part] = 0
        prepare_grip(world, i, part)
        return
    found = world.scratch.contacts[i]
    if sole[0] > 0.0:
        down = wp.quat_rotate_inv(world.rotation[i, part], wp.vec3(0.0, -1.0, 0.0))
        face = int(0)
        for k in range(1, 3):
            if wp.abs(down[k]) > wp.abs(down[face]):
                face = k
        for corner in range(4):
            at = wp.vec3(sole[0], sole[1], sole[2])
            at[face] = wp.sign(down[face]) * sole[face]
            one = (face + 1) % 3
            two = (face + 2) % 3
            if corner % 2 == 1:
                at[one] = -at[one]
            if corner >= 2:
                at[two] = -at[two]
            touch_planes(world, i, part, x + wp.quat_rotate(world.rotation[i, part], at), 0.0, reach, True)
    else:
        if world.anatomy.snout_radius[part] > 0.0:
            snout = world.position[i, part] + wp.quat_rotate(world.rotation[i, part], world.anatomy.snout[part])
            touch_planes(world, i, part, snout, world.anatomy.snout_radius[part], reach, False)
        end = wp.quat_rotate(world.rotation[i, part], shape)
        touch_planes(world, i, part, x + end, radius, reach, True)
        if wp.length_sq(shape) > 0.0:
            touch_planes(world, i, part, x - end, radius, reach, True)
    choose_grip(world, i, part, found)
    prepare_grip(world, i, part)


@wp.func
def nearest_points(a: wp.vec3, along: wp.vec3, b: wp.vec3, across: wp.vec3):
    """Returns the positions (-1..1) on two segments at which the segments come nearest, given their middles and half
    segments."""
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
    """Adds the contact of two parts that touch."""
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
        add_contact(world, i, first, second, b + world.anatomy.radius[second] * normal, normal, distance - radii, False)
