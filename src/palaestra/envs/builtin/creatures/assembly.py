"""Turns a creature's description into the numbers that kernels read, and allocates their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.creatures import anatomy as bodies
from palaestra.envs.builtin.creatures.anatomy import BoxShape, Creature, RoundShape
from palaestra.envs.builtin.creatures.simd_solver import CONTACT_NUMBERS, GRIP_NUMBERS, JOINT_NUMBERS, TOGETHER
from palaestra.envs.builtin.creatures.solver import MOST_CONTACTS
from palaestra.envs.builtin.creatures.world import Anatomy, ContactRow, Grip, Joint, JointRows, Scratch


def make_anatomy(creature: Creature, device: str) -> Any:
    """Returns the creature's numbers on a device."""
    parts = creature.parts
    out = Anatomy()
    centers = np.array([bodies.mass_center(part) for part in parts])
    poses = start_poses(creature)
    joints = [k for k, part in enumerate(parts) if part.joint is not None]
    joint_of = {part: number for number, part in enumerate(creature.jointed)}
    joined = {frozenset((k, creature.parents[k])) for k in joints}
    pairs = [(a, b) for a in range(len(parts)) for b in range(a) if frozenset((a, b)) not in joined]
    starts = np.array(
        [
            [*(pose[:3] + bodies.rotate(pose[3:], center)), *pose[3:]]
            for pose, center in zip(poses, centers, strict=True)
        ]
    )
    out.parts = len(parts)
    out.joints = len(joints)
    out.pairs = len(pairs)
    drive = creature.drive
    out.spring = drive.spring
    out.damper = drive.damper
    out.torque = drive.torque
    out.foresight = creature.foresight
    out.friction_rounds = creature.friction_rounds
    out.drag = creature.drag
    out.angular_drag = creature.angular_drag
    out.floor = creature.floor
    out.half = creature.half
    out.block_half = creature.block / 2
    out.block_start = wp.vec3(*creature.block_start)
    out.block_range = creature.block_range
    out.least_speed, out.most_speed = creature.speeds

    def put(values: Any, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    masses = [part.mass + sum(mass for mass, _ in part.extras) for part in parts]
    out.inverse_mass = put(1 / np.array(masses), float)
    out.inverse_inertia = put([np.linalg.inv(bodies.total_inertia(part)) for part in parts], wp.mat33)
    out.center = put(centers, wp.vec3)
    out.shape = put([_half_segment(part.collider) for part in parts], wp.vec3)
    out.shape_center = put(
        [np.array(part.collider.center) - center for part, center in zip(parts, centers, strict=True)], wp.vec3
    )
    out.radius = put([_radius(part.collider) for part in parts], float)
    out.sole = put(
        [np.array(part.collider.size) / 2 if isinstance(part.collider, BoxShape) else (0, 0, 0) for part in parts],
        wp.vec3,
    )
    out.joint = put([_joint(creature, poses, centers, k) for k in joints], Joint)
    out.order = put(np.array(solving_order(creature), np.int32), wp.int32)
    out.pair = put(np.array(pairs, np.int32), wp.vec2i)
    out.start = put(starts, wp.transform)
    out.parent = put(creature.parents, wp.int32)
    out.drive = put([joint_of.get(k, -1) for k in range(len(parts))], wp.int32)
    out.falls = put([part.falls for part in parts], wp.int32)
    out.hunts = put([part.hunts for part in parts], wp.int32)
    snouts = [part.snout or RoundShape(0.0) for part in parts]
    out.snout = put([np.array(snout.center) - center for snout, center in zip(snouts, centers, strict=True)], wp.vec3)
    out.snout_radius = put([snout.radius for snout in snouts], float)
    out.action = put(np.array(creature.action_numbers(), np.int32), wp.int32)
    return out


def make_scratch(creature: Creature, areas: int, device: str) -> Any:
    """Returns the memory of a tick, for all areas."""
    scratch = Scratch()
    scratch.inertia = wp.zeros((areas, len(creature.parts)), dtype=wp.mat33, device=device)
    scratch.joint = wp.zeros((areas, len(creature.jointed)), dtype=JointRows, device=device)
    scratch.contact = wp.zeros((areas, MOST_CONTACTS), dtype=ContactRow, device=device)
    scratch.contacts = wp.zeros(areas, dtype=wp.int32, device=device)
    scratch.grip = wp.zeros((areas, len(creature.parts)), dtype=Grip, device=device)
    on_host = device == "cpu"
    scratch.together = TOGETHER if on_host else 1
    rows = (
        len(creature.jointed) * JOINT_NUMBERS
        + len(creature.parts) * (9 + GRIP_NUMBERS)
        + TOGETHER * MOST_CONTACTS * CONTACT_NUMBERS
    )
    scratch.lanes = wp.zeros(rows * TOGETHER if on_host else 0, dtype=float, device=device)
    scratch.slots = wp.zeros(2 * MOST_CONTACTS * (TOGETHER if on_host else areas), dtype=wp.int32, device=device)
    return scratch


def solving_order(creature: Creature) -> list[int]:
    """Returns the order in which the solver visits joints (by number) and the contacts of parts (as -1 - part).

    Joints are put, in order, into rounds in which no part has two joints; a part's contacts follow its last joint.
    """
    rounds: list[set[int]] = []
    chosen: list[tuple[int, int, int]] = []
    done = [0] * len(creature.parts)
    for part in creature.solved:
        ends = {part, creature.parents[part]}
        at = next((k for k, busy in enumerate(rounds) if not busy & ends), len(rounds))
        if at == len(rounds):
            rounds.append(set())
        rounds[at] |= ends
        chosen.append((at, len(chosen), creature.jointed.index(part)))
        for end in ends:
            done[end] = max(done[end], at + 1)
    contacts = [(at, -1, -1 - part) for part, at in enumerate(done)]
    return [what for _, _, what in sorted(chosen + contacts)]


def start_poses(creature: Creature) -> np.ndarray:
    """Returns place and rotation (parts, 7) of each part at the start of an episode, before the creature is turned."""
    poses: list[np.ndarray] = []
    for parent, rest in zip(creature.parents, creature.rest, strict=True):
        if parent < 0:
            poses.append(np.array([*creature.start, *rest[3:]]))
            continue
        above = poses[parent]
        poses.append(np.array([*(above[:3] + bodies.rotate(above[3:], rest[:3])), *bodies.times(above[3:], rest[3:])]))
    return np.array(poses)


def _half_segment(collider: bodies.Collider) -> np.ndarray:
    if isinstance(collider, RoundShape):
        return np.zeros(3)
    # for contacts with the creature itself, a capsule as wide as the mean of its short edges
    if isinstance(collider, BoxShape):
        return np.eye(3)[np.argmax(collider.size)] * (max(collider.size) / 2 - _radius(collider))
    return np.eye(3)[collider.axis] * (collider.height / 2 - collider.radius)


def _radius(collider: bodies.Collider) -> float:
    return float(sum(sorted(collider.size)[:2]) / 4) if isinstance(collider, BoxShape) else collider.radius


def _joint(creature: Creature, poses: np.ndarray, centers: np.ndarray, number: int) -> Any:
    plan = creature.parts[number].joint
    parent = creature.parents[number]
    assert plan is not None
    first, second = (parent, number) if plan.on_parent else (number, parent)
    anchor = poses[first, :3] + bodies.rotate(poses[first, 3:], plan.anchor)
    frame = bodies.times(poses[first, 3:], bodies.from_axes(bodies.joint_axes(plan.axis, plan.secondary)))
    out = Joint()
    out.first = first
    out.second = second
    out.first_anchor, out.second_anchor = (
        wp.vec3(*(bodies.rotate(bodies.conjugate(poses[k, 3:]), anchor - poses[k, :3]) - centers[k]))
        for k in (first, second)
    )
    out.first_frame, out.second_frame = (
        wp.quat(*bodies.times(bodies.conjugate(poses[k, 3:]), frame)) for k in (first, second)
    )
    low, high = np.radians([plan.x, (-plan.y, plan.y), (-plan.z, plan.z)]).T
    out.low = wp.vec3(*low)
    out.high = wp.vec3(*high)
    return out


def spec_and_sizes(creature: Creature, sensors: Mapping[str, int]) -> tuple[BehaviorSpec, dict[str, Any]]:
    """Returns the spec, and the sizes of a creature's world. `sensors`: the size of each observation, by name."""
    parts = len(creature.parts)
    actions = len(creature.targets) + len(creature.strengths)
    obs = tuple(ObsSpec(name, (size,)) for name, size in sensors.items())
    sizes: dict[str, Any] = {} if len(obs) > 1 else {"obs_parts": 0, "final_obs_parts": 0}
    sizes |= dict.fromkeys(("target", "strength"), len(creature.jointed))
    sizes |= dict.fromkeys(("position", "rotation", "velocity", "spin", "touches", "held", "held_up"), parts)
    sizes |= dict.fromkeys(("held_point", "held_place"), 2 * parts)
    sizes |= {
        "anatomy": lambda _, device: make_anatomy(creature, device),
        "scratch": lambda areas, device: make_scratch(creature, areas, device),
    }
    return BehaviorSpec(obs, ActionSpec(continuous=actions), steady=True), sizes
