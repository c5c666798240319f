"""Articulated rigid bodies as Unity's physics moves them: impulses act between bodies, each with its own position and
velocity.

A tick integrates gravity and drag, then solves all joints and contacts repeatedly, one at a time, as Unity's solver
does: first with the position errors, after which the bodies move, then without the position errors, which gives the
final velocities. Drives are implicit: their torque is the torque of spring and damper at the end of the tick, up to a
limit.

Axes are Unity's, left-handed; vectors and quaternions follow the same algebra in them.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.creatures.world import Joint, JointRows, World

TICK = wp.constant(0.01333)  # seconds
FRICTION = wp.constant(0.6)
MOST_SPIN = wp.constant(50.0)  # rad/s
MOST_PUSH = wp.constant(10.0)  # m/s, at which bodies that overlap are parted
ERROR_SHARE = wp.constant(1.0)  # share of an error of a joint's position that a tick removes
ANGLE_SHARE = wp.constant(1.0)  # the same of a locked angle
PUSH_SHARE = wp.constant(0.8)  # the same of an overlap
ROUNDS = wp.constant(12)  # of impulses with the errors of position
LAST_ROUNDS = wp.constant(12)  # without
MOST_CONTACTS = wp.constant(32)
LIMIT_NEAR = wp.constant(0.1)  # rad: a limit holds an angle that is nearer, but no farther than
LIMIT_SHARE = wp.constant(0.49)  # of the range
UNLIMITED = wp.constant(1.0e9)  # rad/s


@wp.func
def euler(angles: wp.vec3):
    """Returns Unity's rotation about z, then x, then y."""
    about_x = wp.quat(wp.sin(0.5 * angles[0]), 0.0, 0.0, wp.cos(0.5 * angles[0]))
    about_y = wp.quat(0.0, wp.sin(0.5 * angles[1]), 0.0, wp.cos(0.5 * angles[1]))
    about_z = wp.quat(0.0, 0.0, wp.sin(0.5 * angles[2]), wp.cos(0.5 * angles[2]))
    return about_y * about_x * about_z


@wp.func
def point_response(arm: wp.vec3, inertia: wp.mat33, inverse_mass: float):
    """Returns the matrix that maps an impulse at a body's point to the velocity that it adds to this point."""
    cross = wp.skew(arm)
    return inverse_mass * wp.identity(n=3, dtype=float) - cross * inertia * cross


@wp.func
def row(matrix: wp.mat33, k: int):
    """Returns a row of a matrix."""
    return wp.vec3(matrix[k, 0], matrix[k, 1], matrix[k, 2])


@wp.func
def column(matrix: wp.mat33, k: int):
    """Returns a column of a matrix."""
    return wp.vec3(matrix[0, k], matrix[1, k], matrix[2, k])


@wp.func
def limit_speed(past: float):
    """Returns the least speed that is allowed at an angle `past` its lower limit, in rad."""
    return wp.where(past > 0.0, past * (ERROR_SHARE / TICK), past / TICK)


@wp.func
def twist_of(bend: wp.quat):
    """Returns the twist of a rotation: its turn about x, which a swing about y and z follows."""
    norm = wp.sqrt(bend[3] * bend[3] + bend[0] * bend[0])
    return wp.quat(bend[0] / norm, 0.0, 0.0, bend[3] / norm)


@wp.func
def limit_axis(turned: wp.mat33, frame: wp.quat, other_frame: wp.quat, cone: bool, lean: wp.vec3, k: int):
    """Returns the axis of a joint's row: with a cone, x is the axis of `second`, and y the axis of the swing."""
    if cone and k == 0:
        return wp.quat_rotate(other_frame, wp.vec3(1.0, 0.0, 0.0))
    if cone and k == 1:
        return wp.quat_rotate(frame, wp.vec3(0.0, lean[1], lean[2]))
    return column(turned, k)


@wp.func
def past_cone(y: float, z: float, most_y: float, most_z: float):
    """Returns how far two angles are past the ellipse that limits both (rad), and y and z of the ellipse's normal."""
    size = wp.sqrt(y * y + z * z)
    if size < 1.0e-4 or wp.min(most_y, most_z) <= 0.0:
        return wp.vec3(-wp.min(most_y, most_z), 1.0, 0.0)
    normal_y = y / (size * most_y * most_y)
    normal_z = z / (size * most_z * most_z)
    reach = 1.0 / wp.sqrt((y * normal_y + z * normal_z) / size)  # of the ellipse in this direction
    norm = wp.sqrt(normal_y * normal_y + normal_z * normal_z)
    return wp.vec3((size - reach) * (normal_y * y + normal_z * z) / (norm * size), normal_y / norm, normal_z / norm)


@wp.func
def limit_speeds(joint: Joint, angles: wp.vec3, cone: bool, lean: wp.vec3, k: int):
    """Returns the least and the greatest speed about an axis with which a joint stays within the limits nearby."""
    if cone and k > 0:  # one limit for both, in the row of y
        near = wp.min(LIMIT_NEAR, LIMIT_SHARE * wp.min(joint.high[1], joint.high[2]))
        return wp.vec2(-UNLIMITED, wp.where(k == 1 and lean[0] > -near, -limit_speed(lean[0]), UNLIMITED))
    near = wp.min(LIMIT_NEAR, LIMIT_SHARE * (joint.high[k] - joint.low[k]))
    return wp.vec2(
        wp.where(angles[k] < joint.low[k] + near, limit_speed(joint.low[k] - angles[k]), -UNLIMITED),
        wp.where(angles[k] > joint.high[k] - near, -limit_speed(angles[k] - joint.high[k]), UNLIMITED),
    )


@wp.func
def prepare_drive(
    world: World,
    rows: JointRows,
    most: float,
    wanted: wp.quat,
    now: wp.quat,
    first_inertia: wp.mat33,
    second_inertia: wp.mat33,
):
    """Returns the rows with a drive. The drive measures half the angle from the wanted rotation to the current one."""
    error = wp.quat_inverse(wanted) * now
    if error[3] < 0.0:
        wanted = -wanted
        error = -error
    spring = world.anatomy.spring
    damper = world.anatomy.damper + TICK * spring
    for n in range(3):
        unit = wp.quat(0.0, 0.0, 0.0, 0.0)
        unit[n] = 1.0
        change = wp.quat_inverse(wanted) * unit * now
        for k in range(3):
            rows.drive[k, n] = 0.5 * change[k]
    rows.first_drive = first_inertia * wp.transpose(rows.drive)
    rows.second_drive = second_inertia * wp.transpose(rows.drive)
    rows.most = most
    for k in range(3):
        response = wp.dot(row(rows.drive, k), column(rows.first_drive, k) + column(rows.second_drive, k))
        rows.drive_mass[k] = 1.0 / (response + 1.0 / (TICK * damper))
        rows.drive_goal[k] = -error[k] * spring / damper
    return rows


@wp.func
def prepare_joint(world: World, i: int, number: int):
    """Writes a joint's rows for this tick."""
    anatomy = world.anatomy
    joint = anatomy.joint[number]
    rows = JointRows()
    first_inertia = world.scratch.inertia[i, joint.first]
    second_inertia = world.scratch.inertia[i, joint.second]
    first_turn = world.rotation[i, joint.first]
    second_turn = world.rotation[i, joint.second]
    rows.first_arm = wp.quat_rotate(first_turn, joint.first_anchor)
    rows.second_arm = wp.quat_rotate(second_turn, joint.second_anchor)
    gap = world.position[i, joint.second] + rows.second_arm - world.position[i, joint.first] - rows.first_arm
    rows.point_bias = gap * (-ERROR_SHARE / TICK)
    rows.point_mass = wp.inverse(
        point_response(rows.first_arm, first_inertia, anatomy.inverse_mass[joint.first])
        + point_response(rows.second_arm, second_inertia, anatomy.inverse_mass[joint.second])
    )
    frame = first_turn * joint.first_frame
    other_frame = second_turn * joint.second_frame
    bend = wp.quat_inverse(frame) * other_frame  # of `second` as `first` sees it
    if bend[3] < 0.0:
        bend = -bend
    twist = twist_of(bend)
    swing = bend * wp.quat_inverse(twist)
    angles = wp.vec3(
        2.0 * wp.atan2(twist[0], twist[3]), 2.0 * wp.atan2(swing[1], swing[3]), 2.0 * wp.atan2(swing[2], swing[3])
    )
    turned = wp.quat_to_matrix(frame * wp.normalize(wp.quat(0.0, swing[1], 0.0, swing[3])))  # about y
    cone = joint.high[1] > 0.0 and joint.high[2] > 0.0
    lean = past_cone(angles[1], angles[2], joint.high[1], joint.high[2])
    for back in range(3):
        k = 2 - back  # x last, since it is locked only if all are
        axis = limit_axis(turned, frame, other_frame, cone, lean, k)
        for other in range(k + 1, 3):
            if joint.low[other] == joint.high[other]:
                turn = column(rows.first_turn, other) + column(rows.second_turn, other)
                axis -= row(rows.axes, other) * (wp.dot(axis, turn) * rows.mass[other])
        first_spin = first_inertia * axis
        second_spin = second_inertia * axis
        push = rows.point_mass * (wp.cross(second_spin, rows.second_arm) + wp.cross(first_spin, rows.first_arm))
        first_spin -= first_inertia * wp.cross(rows.first_arm, push)
        second_spin -= second_inertia * wp.cross(rows.second_arm, push)
        for n in range(3):
            rows.axes[k, n] = axis[n]
            rows.first_turn[n, k] = first_spin[n]
            rows.second_turn[n, k] = second_spin[n]
            rows.push[n, k] = push[n]
        rows.mass[k] = 1.0 / wp.dot(axis, first_spin + second_spin)
        if joint.low[k] == joint.high[k]:
            rows.goal[k] = -angles[k] * (ANGLE_SHARE / TICK)
        else:
            speeds = limit_speeds(joint, angles, cone, lean, k)
            rows.low[k] = speeds[0]
            rows.high[k] = speeds[1]
    most = world.strength[i, number] * anatomy.torque * TICK
    wanted = frame * euler(world.target[i, number])
    world.scratch.joint[i, number] = prepare_drive(
        world, rows, most, wanted, other_frame, first_inertia, second_inertia
    )
