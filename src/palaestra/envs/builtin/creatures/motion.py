"""One tick of a creature's world."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.creatures.solver import (
    GRAVITY,
    GRIPPING,
    LAST_ROUNDS,
    MOST_SPIN,
    ROUNDS,
    TICK,
    prepare_joint,
    solve_joint,
)
from palaestra.envs.builtin.creatures.touches import find_inner_contact, find_outer_contacts, solve_contact
from palaestra.envs.builtin.creatures.world import World

wp.set_module_options({"enable_backward": False, "max_unroll": 3})


@wp.func
def turned(rotation: wp.quat, spin: wp.vec3):
    """Returns a rotation a tick later. Its sign does not jump."""
    angle = wp.length(spin) * TICK
    if angle < 1.0e-9:
        return rotation
    return wp.normalize(wp.quat_from_axis_angle(wp.normalize(spin), angle) * rotation)


@wp.func
def simulate_tick(world: World, i: int):
    """Moves the creature of one area by a tick."""
    world.scratch.contacts[i] = 0
    for part in range(world.anatomy.parts):
        axes = wp.quat_to_matrix(world.rotation[i, part])
        world.scratch.inertia[i, part] = axes * world.anatomy.inverse_inertia[part] * wp.transpose(axes)
        world.velocity[i, part] = (world.velocity[i, part] - wp.vec3(0.0, GRAVITY * TICK, 0.0)) * (1.0 - world.anatomy.drag * TICK)
        spin = world.spin[i, part] * (1.0 - world.anatomy.angular_drag * TICK)
        world.spin[i, part] = spin * wp.min(1.0, MOST_SPIN / wp.max(wp.length(spin), 1.0e-6))
    for part in range(world.anatomy.parts):
        find_outer_contacts(world, i, part)
    for k in range(world.anatomy.pairs):
        find_inner_contact(world, i, k)
    for k in range(world.anatomy.joints):
        prepare_joint(world, i, k)
    for round_ in range(ROUNDS):
        solve_round(world, i, 1.0, round_ >= ROUNDS - GRIPPING)
    for part in range(world.anatomy.parts):
        world.position[i, part] = world.position[i, part] + world.velocity[i, part] * TICK
        world.rotation[i, part] = turned(world.rotation[i, part], world.spin[i, part])
    for _ in range(LAST_ROUNDS):
        solve_round(world, i, 0.0, True)


@wp.func
def solve_round(world: World, i: int, biased: float, grips: bool):
    """Gives all impulses once. `biased` is 1 to remove errors of position, else 0."""
    for n in range(world.anatomy.order.shape[0]):
        number = world.anatomy.order[n]
        if number >= 0:
            solve_joint(world, i, number, biased)
        else:
            for k in range(world.scratch.contacts[i]):
                if world.scratch.contact[i, k].second < 0 and world.scratch.contact[i, k].first == -1 - number:
                    solve_contact(world, i, k, biased, grips)
    for k in range(world.scratch.contacts[i]):
        if world.scratch.contact[i, k].second >= 0:
            solve_contact(world, i, k, biased, grips)
