"""Crawler: four legs carry a ball toward a block, at a speed that differs from episode to episode."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import warp as wp

from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.creatures import rules
from palaestra.envs.builtin.creatures.assembly import spec_and_sizes
from palaestra.envs.builtin.creatures.creature_drawing import draw_creature
from palaestra.envs.builtin.creatures.species import CRAWLER
from palaestra.envs.builtin.creatures.world import World

PARTS = wp.constant(9)
RAY = wp.constant(10.0)  # m


@wp.func
def observe(world: World, i: int):
    """Writes both observations."""
    frame = rules.frame_turn(world, i)
    place = world.frame_place[i]
    for part in range(PARTS):
        at = rules.write_vector(
            world.obs_parts, i, 7 * part, wp.quat_rotate_inv(frame, rules.origin(world, i, part) - place)
        )
        rules.write_rotation(world.obs_parts, i, at, wp.quat_inverse(frame) * world.rotation[i, part])
        rules.write_vector(world.obs_parts, i, 63 + 3 * part, wp.quat_rotate_inv(frame, world.velocity[i, part]))
        turn = wp.quat_inverse(frame) * world.rotation[i, part]
        if part > 0:
            turn = rules.local_rotation(world, i, part)
        rules.write_rotation(world.obs_parts, i, 90 + 4 * part, turn)
    ahead = rules.forward(frame)
    mean = rules.mean_velocity(world, i)
    goal = ahead * world.goal_speed[i]
    world.obs[i, 0] = wp.length(goal - mean)
    at = rules.write_vector(world.obs, i, 1, wp.quat_rotate_inv(frame, mean))
    at = rules.write_vector(world.obs, i, at, wp.vec3(0.0, 0.0, world.goal_speed[i]))
    at = rules.write_rotation(world.obs, i, at, rules.shortest_turn(rules.forward(world.rotation[i, 0]), ahead))
    at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.block[i] - place))
    world.obs[i, at] = wp.min((world.position[i, 0][1] - world.anatomy.floor) / RAY, 1.0)
    at += 1
    for part in range(PARTS):
        world.obs[i, at] = wp.where(rules.touches_ground(world, i, part), 1.0, 0.0)
        at += 1
        if part > 0:
            world.obs[i, at] = world.strength[i, world.anatomy.drive[part]]
            at += 1


@wp.func
def earn(world: World, i: int):
    """Returns the reward of a tick."""
    ahead = rules.forward(rules.frame_turn(world, i))
    speed = world.goal_speed[i]
    facing = 0.5 * (wp.dot(ahead, rules.forward(world.rotation[i, 0])) + 1.0)
    return rules.speed_reward(rules.mean_velocity(world, i), ahead * speed, speed) * facing


class Crawler(WarpEnv):
    """Crawler: four legs, eight joints; vectors 126 and 32 (velocities, poses of its parts), 20 continuous actions."""

    behavior = "Crawler"
    summary = "Four legs carry a body toward a block, at a speed that differs from episode to episode."
    rewards = (
        "up to +1 a physics tick for the wanted velocity, times how far it faces the block",
        "-1 if body or upper legs touch the ground",
    )
    episode = (
        "ends when body or an upper leg touches the ground, and is truncated after 1,000 decisions (5,000 "
        "physics ticks)"
    )
    benchmark = 3000.0
    default_areas = 10
    areas_per_core = 16
    most_decisions = rules.MOST_DECISIONS
    tick_seconds = rules.DECISION_SECONDS
    parameter_ranges: ClassVar = rules.PARAMETER_RANGES
    program = rules.make_program(observe, earn, rules.never)
    creature = CRAWLER
    spec, sizes = spec_and_sizes(creature, {"PhysicsBodySensor:Body": 126, "VectorSensor_size32": 32})
    picture = staticmethod(partial(draw_creature, creature))
