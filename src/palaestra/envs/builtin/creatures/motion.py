"""One tick of a creature's world."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.creatures.simd_solver import fill_lanes, solve_rounds
from palaestra.envs.builtin.creatures.solver import (
    LAST_ROUNDS,
    MOST_SPIN,
    ROUNDS,
    TICK,
    prepare_joint,
)
from palaestra.envs.builtin.creatures.touches import find_inner_contact, find_outer_contacts
from palaestra.envs.builtin.creatures.world import World


@wp.func
def turned(rotation: wp.quat, spin: wp.vec3):
    """Returns a rotation a tick later. Its sign does not jump."""
    angle = wp.length(spin) * TICK
    if angle < 1.0e-9:
        return rotation
    return wp.normalize(wp.quat_from_axis_angle(wp.normalize(spin), angle) * rotation)


@wp.func
def simulate_tick(world: World, first: int, areas: int):
    """Moves the creatures of some areas by a tick."""
    for i in range(first, first + areas):
        prepare_tick(world, i)
    softness = 1.0 / (TICK * (world.anatomy.damper + TICK * world.anatomy.spring))
    slots = fill_lanes(world, first, areas)
    solve_rounds(world, first, areas, slots, ROUNDS, 1.0, softness)
    for i in range(first, first + areas):
        for part in range(world.anatomy.parts):
            world.position[i, part] = world.position[i, part] + world.velocity[i, part] * TICK
            world.rotation[i, part] = turned(world.rotation[i, part], world.spin[i, part])
    solve_rounds(world, first, areas, slots, LAST_ROUNDS, 0.0, softness)


@wp.func
def prepare_tick(world: World, i: int):
    """Adds gravity and drag, and writes the rows of joints and contacts."""
    world.scratch.contacts[i] = 0
    for part in range(world.anatomy.parts):
        axes = wp.quat_to_matrix(world.rotation[i, part])
        world.scratch.inertia[i, part] = axes * world.anatomy.inverse_inertia[part] * wp.transpose(axes)
    for part in range(world.anatomy.parts):
        find_outer_contacts(world, i, part)
    for k in range(world.anatomy.pairs):
        find_inner_contact(world, i, k)
    pull = wp.vec3(0.0, world.pull[i], 0.0)
    for part in range(world.anatomy.parts):
        world.velocity[i, part] = (world.velocity[i, part] - pull) * (1.0 - world.anatomy.drag * TICK)
        spin = world.spin[i, part] * (1.0 - world.anatomy.angular_drag * TICK)
        world.spin[i, part] = spin * wp.min(1.0, MOST_SPIN / wp.max(wp.length(spin), 1.0e-6))
    for k in range(world.anatomy.joints):
        prepare_joint(world, i, k)
