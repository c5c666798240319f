"""Bodies of the creatures: parts, the joints between them and the parameters of their drives, in Unity's axes and
units.

Unity's axes are left-handed: x to the right, y up, z forward. Quaternions are (x, y, z, w). Euler angles turn about z,
then x, then y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = tuple[float, float, float]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Capsule:
    """A capsule along one of its part's own axes; `height` includes the caps."""

    radius: float
    height: float
    axis: int  # 0: x, 1: y, 2: z
    center: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RoundShape:
    """A sphere."""

    radius: float
    center: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class BoxShape:
    """A box with these edges."""

    size: Vector
    center: Vector = (0.0, 0.0, 0.0)


Collider = Capsule | RoundShape | BoxShape


@dataclass(frozen=True, slots=True)
class JointPlan:
    """A joint in the frame of the part that carries it: x is `axis`, y is close to `secondary`. In degrees."""

    anchor: Vector
    axis: Vector
    secondary: Vector
    x: tuple[float, float] = (0.0, 0.0)  # lowest and highest angle about x
    y: float = 0.0  # highest angle about y in either direction; 0: locked
    z: float = 0.0
    on_parent: bool = False  # the parent carries it, so a positive angle turns this part forward, not back


@dataclass(frozen=True, slots=True)
class Part:
    """A rigid body. Position and angles in the start pose, relative to the parent."""

    name: str
    parent: str | None
    mass: float
    collider: Collider
    place: Vector
    euler: Vector = (0.0, 0.0, 0.0)
    joint: JointPlan | None = None
    extras: tuple[tuple[float, Collider], ...] = ()  # further masses and colliders that are fixed to it
    falls: bool = False  # touching the ground ends the episode
    snout: RoundShape | None = None  # one of the extras that has contacts with ground and walls too, and with the block
    hunts: bool = True  # touching the block moves the block elsewhere


@dataclass(frozen=True, slots=True)
class Drive:
    """The motor of every joint: a spring and a damper toward a target angle, with a limited torque."""

    spring: float  # N m/rad
    damper: float  # N m s/rad
    torque: float  # N m at full strength


@dataclass(frozen=True)
class Creature:
    """A creature and its place: everything from which the physics and the observations are computed."""

    parts: tuple[Part, ...]  # a parent stands before its children
    start: Vector  # position of the first part as an episode begins
    drive: Drive
    drag: float  # 1/s, of velocities
    angular_drag: float
    half: float  # m from the middle of the ground to each wall
    floor: float  # m, height of the ground's top
    block: float  # m, edge of the block that it walks to
    block_start: Vector
    block_range: float  # m, within which of its start the block appears
    speeds: tuple[float, float]  # m/s, least and most wanted
    targets: tuple[str, ...]  # actions in order: "leg0.x" is the target of that part's joint about x
    strengths: tuple[str, ...]  # and then the strengths of the joints of these parts
    # parts in the order in which their joints are solved; empty: from the last to the first
    joint_order: tuple[str, ...] = ()
    # share of its way in a tick that a part looks ahead for contacts: 1 as Continuous Speculative, 0 as Discrete
    foresight: float = 1.0
    # how many of the 12 rounds with errors of position, the last ones, have friction with the ground
    friction_rounds: int = 12

    def index(self, name: str) -> int:
        """Returns the number of a part."""
        return [part.name for part in self.parts].index(name)

    @cached_property
    def parents(self) -> list[int]:
        """The number of each part's parent; -1 for the first part."""
        return [-1 if part.parent is None else self.index(part.parent) for part in self.parts]

    @cached_property
    def jointed(self) -> list[int]:
        """The parts that have a joint with their parent, in the order of the joints."""
        return [number for number, part in enumerate(self.parts) if part.joint is not None]

    @cached_property
    def solved(self) -> list[int]:
        """The parts that have a joint, in the order in which their joints are solved."""
        return [self.index(name) for name in self.joint_order] or self.jointed[::-1]

    def action_numbers(self) -> list[list[int]]:
        """Returns for each joint the actions that set its target about x, y and z, and its strength; -1 for none."""
        targets = {name: number for number, name in enumerate(self.targets)}
        strengths = {name: len(targets) + number for number, name in enumerate(self.strengths)}
        names = [self.parts[number].name for number in self.jointed]
        return [[*(targets.get(f"{name}.{axis}", -1) for axis in "xyz"), strengths.get(name, -1)] for name in names]

    @cached_property
    def rest(self) -> Array:
        """The start pose, relative to the parents: place and quaternion of each part, (parts, 7). The first is at 0."""
        return np.array([(*(part.place if part.parent else (0, 0, 0)), *from_euler(part.euler)) for part in self.parts])


def joint_axes(axis: Vector, secondary: Vector) -> Array:
    """Returns a joint's three axes as rows."""
    x = np.array(axis, dtype=float) / np.linalg.norm(axis)
    y = np.array(secondary, dtype=float) - np.dot(x, secondary) * x
    y /= np.linalg.norm(y)
    return np.array([x, y, np.cross(x, y)], dtype=float)


def from_axes(axes: Array) -> Array:
    """Returns the quaternion that turns the axes x, y and z into these rows."""
    m = axes.T
    w = np.sqrt(max(0.0, 1 + np.trace(m))) / 2
    if w > 1e-3:
        return np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 4 * w * w]) / (4 * w)
    k = int(np.argmax(np.diag(m)))  # half a turn about an axis near this one
    column = m[:, k] + np.eye(3)[k]
    return np.append(column / np.linalg.norm(column), 0.0)


def times(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns the product of two quaternions, the rotation b followed by a."""
    ax = np.asarray(a)[:3]
    aw = np.asarray(a)[3]
    bx = np.asarray(b)[:3]
    bw = np.asarray(b)[3]
    return np.append(aw * bx + bw * ax + np.cross(ax, bx), aw * bw - np.dot(ax, bx))


def conjugate(quaternion: ArrayLike) -> Array:
    """Returns the inverse rotation."""
    return np.asarray(quaternion) * [-1, -1, -1, 1]


def rotate(quaternion: ArrayLike, vector: ArrayLike) -> Array:
    """Returns the turned vector."""
    return times(times(quaternion, [*np.asarray(vector), 0.0]), conjugate(quaternion))[:3]


def from_euler(degrees: Sequence[float]) -> Array:
    """Returns the quaternion of Unity's Euler angles."""
    about = [np.append(np.eye(3)[k] * np.sin(half), np.cos(half)) for k, half in enumerate(np.radians(degrees) / 2)]
    return times(about[1], times(about[0], about[2]))


def mass_center(part: Part) -> Array:
    """Returns a part's center of mass, in its own axes."""
    masses = ((part.mass, part.collider), *part.extras)
    weights = np.array([mass for mass, _ in masses])
    return weights / weights.sum() @ np.array([collider.center for _, collider in masses])


def total_inertia(part: Part) -> Array:
    """Returns a part's inertia (3, 3) about its center of mass; the mass is spread evenly over its collider."""
    total = np.zeros((3, 3))
    for mass, collider in ((part.mass, part.collider), *part.extras):
        arm = np.array(collider.center) - mass_center(part)
        total += np.diag(inertia(mass, collider)) + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return total


def inertia(mass: float, collider: Collider) -> Array:
    """Returns the moments of inertia of an evenly filled shape about its middle."""
    if isinstance(collider, RoundShape):
        return np.full(3, 0.4 * mass * collider.radius**2)
    if isinstance(collider, BoxShape):
        squares = np.square(collider.size)
        return mass / 12 * (squares.sum() - squares)
    radius = collider.radius
    length = collider.height - 2 * collider.radius
    share = length / (length + 4 / 3 * radius)  # of the cylinder; the rest is in the caps
    tube = mass * share
    caps = mass * (1 - share)
    across = tube * (length**2 / 12 + radius**2 / 4) + caps * (
        0.4 * radius**2 + length**2 / 4 + 3 / 8 * length * radius
    )
    return np.where(np.arange(3) == collider.axis, tube * radius**2 / 2 + caps * 0.4 * radius**2, across)
