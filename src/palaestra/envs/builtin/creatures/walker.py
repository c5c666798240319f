"""Walker: a body with arms, legs and a head walks toward a block, at a speed that differs from episode to episode."""

from __future__ import annotations

from functools import partial

import warp as wp

from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.creatures import rules
from palaestra.envs.builtin.creatures.assembly import spec_and_sizes
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.creature_drawing import draw_creature
from palaestra.envs.builtin.creatures.species import WALKER
from palaestra.envs.builtin.creatures.world import World

PARTS = wp.constant(16)
HEAD = wp.constant(3)
# parts in the order of the observation
SEEN = wp.constant(wp.types.vector(16, wp.int32)(0, 2, 1, 3, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7, 8, 9))


@wp.func
def observe(world: World, i: int):
    """Writes the observation of the walker in area `i`: 243 numbers, in Unity's order."""
    frame = rules.frame_turn(world, i)
    ahead = rules.forward(frame)
    mean = rules.mean_velocity(world, i)
    world.obs[i, 0] = wp.length(ahead * world.goal_speed[i] - mean)
    at = rules.write_vector(world.obs, i, 1, wp.quat_rotate_inv(frame, mean))
    at = rules.write_vector(world.obs, i, at, wp.vec3(0.0, 0.0, world.goal_speed[i]))
    at = rules.write_rotation(world.obs, i, at, rules.shortest_turn(rules.forward(world.rotation[i, 0]), ahead))
    at = rules.write_rotation(world.obs, i, at, rules.shortest_turn(rules.forward(world.rotation[i, HEAD]), ahead))
    at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.block[i] - world.frame_place[i]))
    hips = rules.origin(world, i, 0)
    for k in range(PARTS):
        part = SEEN[k]
        world.obs[i, at] = wp.where(rules.touches_ground(world, i, part), 1.0, 0.0)
        at = rules.write_vector(world.obs, i, at + 1, wp.quat_rotate_inv(frame, world.velocity[i, part]))
        at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.spin[i, part]))
        at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, rules.origin(world, i, part) - hips))
        joint = world.anatomy.drive[part]
        if joint >= 0 and world.anatomy.action[joint, 3] >= 0:
            at = rules.write_rotation(world.obs, i, at, rules.local_rotation(world, i, part))
            world.obs[i, at] = world.strength[i, joint]
            at += 1


@wp.func
def earn(world: World, i: int):
    """Returns the reward of a tick."""
    ahead = rules.forward(rules.frame_turn(world, i))
    speed = world.goal_speed[i]
    face = rules.forward(world.rotation[i, HEAD])
    facing = 0.5 * (ahead[0] * face[0] + ahead[2] * face[2] + 1.0)
    return rules.speed_reward(rules.mean_velocity(world, i), ahead * speed, speed) * facing


class Walker(WarpEnv, like=Crawler):
    """Walker: 16 parts, 15 joints; one vector (243) with velocities and poses of its parts, 39 continuous actions."""

    behavior = "Walker"
    summary = "A body with arms, legs and a head walks toward a block, at a speed that differs from episode to episode."
    rewards = (
        "up to +1 a physics tick for the wanted velocity, times how far the head faces the block",
        "-1 if more than shins and feet touch the ground",
    )
    episode = (
        "ends when a part other than shins and feet touches the ground, and is truncated after 1,000 decisions "
        "(5,000 physics ticks)"
    )
    benchmark = 2500.0
    program = rules.make_program(observe, earn, rules.never)
    creature = WALKER
    spec, sizes = spec_and_sizes(creature, {"VectorSensor_size243": 243})
    picture = staticmethod(partial(draw_creature, creature))
