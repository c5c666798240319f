"""Worm: four segments push a long body toward a block."""

from __future__ import annotations

from functools import partial

import warp as wp

from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.creatures import rules
from palaestra.envs.builtin.creatures.assembly import spec_and_sizes
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.creature_drawing import draw_creature
from palaestra.envs.builtin.creatures.species import WORM
from palaestra.envs.builtin.creatures.world import World

PARTS = wp.constant(4)
RAY = wp.constant(10.0)  # m
MOST_ANGLE = wp.constant(30.0 / 180.0)  # half turns; facing the block less well earns nothing
MOST_FALL = wp.constant(2.0)  # m below the start


@wp.func
def head_velocity(world: World, i: int):
    """Returns the velocity of the head's own middle, not its center of mass, which eyes and mouth move forward."""
    return world.velocity[i, 0] + wp.cross(world.spin[i, 0], rules.origin(world, i, 0) - world.position[i, 0])


@wp.func
def off_course(world: World, i: int):
    """Returns the angle between the frame and the head, in half turns."""
    turn = wp.quat_inverse(rules.frame_turn(world, i)) * world.rotation[i, 0]
    return 2.0 * wp.acos(wp.min(wp.abs(turn[3]), 1.0)) / rules.HALF_TURN


@wp.func
def observe(world: World, i: int):
    """Writes the observation of the worm in area `i`: 64 numbers, in Unity's order."""
    frame = rules.frame_turn(world, i)
    head = rules.origin(world, i, 0)
    world.obs[i, 0] = wp.min((head[1] - world.anatomy.floor) / RAY, 1.0)
    at = rules.write_vector(world.obs, i, 1, wp.vec3(0.0, 0.0, world.goal_speed[i]))
    world.obs[i, at] = off_course(world, i)
    at = rules.write_rotation(
        world.obs, i, at + 1, rules.shortest_turn(rules.forward(world.rotation[i, 0]), rules.forward(frame))
    )
    at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.block[i] - world.frame_place[i]))
    for part in range(PARTS):
        world.obs[i, at] = wp.where(rules.touches_ground(world, i, part), 1.0, 0.0)
        velocity = world.velocity[i, part]
        if part == 0:
            velocity = head_velocity(world, i)
        at = rules.write_vector(world.obs, i, at + 1, wp.quat_rotate_inv(frame, velocity))
        at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.spin[i, part]))
        if part > 0:
            at = rules.write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, rules.origin(world, i, part) - head))
            at = rules.write_rotation(world.obs, i, at, rules.local_rotation(world, i, part))
        if part < PARTS - 1:  # the strength of the joint behind it
            world.obs[i, at] = world.strength[i, part]
            at += 1


@wp.func
def earn(world: World, i: int):
    """Returns the reward of a tick."""
    ahead = rules.forward(rules.frame_turn(world, i))
    speed = world.goal_speed[i]
    angle = off_course(world, i)
    facing = wp.where(angle < MOST_ANGLE, 1.0 - angle, 0.0)
    return rules.speed_reward(head_velocity(world, i), ahead * speed, speed) * facing


@wp.func
def is_lost(world: World, i: int):
    """Returns whether the head is far below its start."""
    return rules.origin(world, i, 0)[1] < wp.transform_get_translation(world.anatomy.start[0])[1] - MOST_FALL


class Worm(WarpEnv, like=Crawler):
    """Worm: four segments, three joints; vector 64 (velocities and poses of its parts), 9 continuous actions."""

    behavior = "Worm"
    summary = "Four segments push a long body toward a block."
    rewards = (
        "up to +1 a physics tick for 10 m/s toward the block, less by the angle to it, and 0 from 30 degrees on",
    )
    episode = "is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 800.0
    program = rules.make_program(observe, earn, is_lost)
    creature = WORM
    spec, sizes = spec_and_sizes(creature, {"VectorSensor_size64": 64})
    picture = staticmethod(partial(draw_creature, creature))
