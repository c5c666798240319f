"""The columns of the creatures' worlds, and the numbers of a creature's body that their kernels read."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, world_struct


@wp.struct
class Joint:
    """A joint's lasting numbers. A joint connects `second` with `first`, which carries it. Anchors are given from the
    centers of mass."""

    first: wp.int32
    second: wp.int32
    first_anchor: wp.vec3
    second_anchor: wp.vec3
    first_frame: wp.quat
    second_frame: wp.quat
    low: wp.vec3  # rad; equal to `high` where locked
    high: wp.vec3


@wp.struct
class JointRows:
    """A joint's part in one tick: the vectors and numbers that turn velocities into impulses."""

    first_arm: wp.vec3
    second_arm: wp.vec3
    point_mass: wp.mat33
    point_bias: wp.vec3
    axes: wp.mat33  # rows: of turning, such that an impulse about a free one leaves point and locked axes alone
    # columns: what a unit impulse about each axis adds to the spin of `second` and takes from that of `first`,
    first_turn: wp.mat33
    second_turn: wp.mat33
    push: wp.mat33  # and the impulse at the point that goes with it
    mass: wp.vec3  # effective, of each axis
    goal: wp.vec3  # rad/s, that removes the error of a locked axis
    low: wp.vec3  # rad/s, that keep within the limits
    high: wp.vec3
    held: wp.vec3  # impulses so far, of limits
    drive: wp.mat33  # rows: how the spin of `second` as `first` sees it changes what the drive measures
    first_drive: wp.mat33  # columns: what a unit impulse of the drive adds to the spins
    second_drive: wp.mat33
    drive_mass: wp.vec3  # effective, the drive's softness included
    drive_goal: wp.vec3
    given: wp.vec3  # impulses so far, of the drive
    most: float  # impulse of the drive about each axis


@wp.struct
class ContactRow:
    """A contact in one tick, of `first` with `second`; `second` is -1 for the ground or a wall."""

    first: wp.int32
    second: wp.int32
    normal: wp.vec3  # toward `first`
    tangent: wp.vec3
    first_arm: wp.vec3
    second_arm: wp.vec3
    mass: wp.vec3  # effective, along the normal and both tangents
    speed: float  # at least this along the normal
    friction: float  # 0 of contacts with the ground, which a part's grip holds
    loads: float  # 1 if its impulse counts for the grip, else 0
    given: wp.vec3  # impulses so far


@wp.struct
class Grip:
    """Friction of a part with the ground in one tick, at up to two points, along two directions at each."""

    arm: wp.vec3  # from the center of mass to the first point,
    other_arm: wp.vec3  # and to the second
    tangent: wp.vec3  # the first direction; the second is at right angles to it and to the normal
    mass: wp.vec4  # effective: both directions at the first point, then at the second; 0 where there is no point
    speed: wp.vec4  # m/s, that takes each point back to where it was held
    friction: float
    given: wp.vec4  # impulses so far
    slipped: float  # 1 if more was needed than friction gives, else 0


@wp.struct
class Anatomy:
    """The numbers of one kind of creature, the same in all areas."""

    parts: wp.int32
    joints: wp.int32
    pairs: wp.int32
    spring: float
    damper: float
    torque: float
    foresight: float  # share of its way in a tick that a part looks ahead for contacts
    friction_rounds: wp.int32  # with errors of position, the last of which have friction with the ground
    drag: float
    angular_drag: float
    floor: float  # m
    half: float  # m, to the walls
    inverse_mass: wp.array(dtype=float)
    inverse_inertia: wp.array(dtype=wp.mat33)
    shape: wp.array(dtype=wp.vec3)  # half the segment within a capsule or sphere, in the part's axes
    shape_center: wp.array(dtype=wp.vec3)  # from the center of mass to the middle of the shape
    radius: wp.array(dtype=float)
    sole: wp.array(dtype=wp.vec3)  # half the edges of a box, else 0
    joint: wp.array(dtype=Joint)
    # of a round: joints, and -1 - part for the contacts of a part with ground and walls
    order: wp.array(dtype=wp.int32)
    pair: wp.array(dtype=wp.vec2i)  # parts that collide with one another
    start: wp.array(dtype=wp.transform)  # of the centers of mass
    center: wp.array(dtype=wp.vec3)  # from a part's origin to its center of mass, in its own axes
    parent: wp.array(dtype=wp.int32)  # the part that its local rotation is relative to
    drive: wp.array(dtype=wp.int32)  # the joint whose strength is the part's; -1: none
    # (joints, 4) of the target angles about x, y and z, and of the strength; -1: none
    action: wp.array2d(dtype=wp.int32)
    block_half: float  # m
    block_start: wp.vec3
    block_range: float
    most_speed: float  # m/s, wanted
    least_speed: float
    falls: wp.array(dtype=wp.int32)  # 1: touching the ground ends the episode
    hunts: wp.array(dtype=wp.int32)  # 1: touching the block moves it elsewhere
    snout: wp.array(dtype=wp.vec3)  # a further sphere, from the center of mass; it hunts
    snout_radius: wp.array(dtype=float)  # 0: none


@wp.struct
class Scratch:
    """Memory of a tick, (areas, ...), including the areas that one thread simulates together."""

    together: wp.int32
    inertia: wp.array2d(dtype=wp.mat33)  # inverse, in the world's axes
    joint: wp.array2d(dtype=JointRows)
    contact: wp.array2d(dtype=ContactRow)
    contacts: wp.array(dtype=wp.int32)
    grip: wp.array2d(dtype=Grip)
    lanes: wp.array(dtype=float)
    slots: wp.array(dtype=wp.int32)  # two parts each


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns, one row per area. Axes are Unity's; a part's position is its center of mass."""

    anatomy: Anatomy
    scratch: Scratch
    early: wp.array(dtype=wp.int32)  # ticks of this episode before its first decision
    pull: wp.array(dtype=float)  # m/s that gravity adds in a tick of this episode
    position: wp.array2d(dtype=wp.vec3)
    rotation: wp.array2d(dtype=wp.quat)
    velocity: wp.array2d(dtype=wp.vec3)
    spin: wp.array2d(dtype=wp.vec3)  # rad/s
    # of each part, whether it was in touch with the ground as this tick began, 1 or 0
    touches: wp.array2d(dtype=wp.int32)
    held: wp.array2d(dtype=wp.int32)  # of each part, points at which friction holds it on the ground, 0..2
    held_point: wp.array2d(dtype=wp.vec3)  # two of each part, from its center of mass in its own axes,
    held_place: wp.array2d(dtype=wp.vec3)  # and where on the ground they belong
    held_up: wp.array2d(dtype=wp.vec3)  # which way was up in the part's axes as they were chosen
    target: wp.array2d(dtype=wp.vec3)  # rad, of each joint's drive; outlives an episode
    strength: wp.array2d(dtype=float)  # 0..1, of each joint's drive; outlives an episode
    frame_place: wp.array(dtype=wp.vec3)  # the frame of observations: where the first part was a tick ago,
    frame_yaw: wp.array(dtype=float)  # with its z axis toward the block; rad
    block: wp.array(dtype=wp.vec3)  # the target that it walks to
    block_fall: wp.array(dtype=float)  # m/s
    goal_speed: wp.array(dtype=float)  # m/s, wanted in this episode
    action: wp.array2d(dtype=float)
    obs_parts: wp.array2d(dtype=float)
    obs: wp.array2d(dtype=float)
