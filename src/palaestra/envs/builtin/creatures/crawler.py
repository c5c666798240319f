"""Crawler: four legs carry a ball toward a block, at a speed that differs from episode to episode."""

from __future__ import annotations

from typing import ClassVar

import torch
import warp as wp

from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.creatures.assembly import sizes_of
from palaestra.envs.builtin.creatures.looks import draw_creature
from palaestra.envs.builtin.creatures.rules import (
    DECISION_SECONDS,
    MOST_DECISIONS,
    PARAMETER_RANGES,
    forward,
    frame_turn,
    local_rotation,
    make_program,
    mean_velocity,
    origin,
    shortest_turn,
    speed_reward,
    touches_ground,
    write_rotation,
    write_vector,
)
from palaestra.envs.builtin.creatures.species import CRAWLER
from palaestra.envs.builtin.creatures.world import World
from palaestra.envs.solids import Drawing

PARTS = wp.constant(9)
RAY = wp.constant(10.0)  # m


@wp.func
def observe(world: World, i: int):
    """Writes both observations."""
    frame = frame_turn(world, i)
    place = world.frame_place[i]
    for part in range(PARTS):
        at = write_vector(world.obs_parts, i, 7 * part, wp.quat_rotate_inv(frame, origin(world, i, part) - place))
        write_rotation(world.obs_parts, i, at, wp.quat_inverse(frame) * world.rotation[i, part])
        write_vector(world.obs_parts, i, 63 + 3 * part, wp.quat_rotate_inv(frame, world.velocity[i, part]))
        turn = wp.quat_inverse(frame) * world.rotation[i, part]
        if part > 0:
            turn = local_rotation(world, i, part)
        write_rotation(world.obs_parts, i, 90 + 4 * part, turn)
    ahead = forward(frame)
    mean = mean_velocity(world, i)
    goal = ahead * world.goal_speed[i]
    world.obs[i, 0] = wp.length(goal - mean)
    at = write_vector(world.obs, i, 1, wp.quat_rotate_inv(frame, mean))
    at = write_vector(world.obs, i, at, wp.vec3(0.0, 0.0, world.goal_speed[i]))
    at = write_rotation(world.obs, i, at, shortest_turn(forward(world.rotation[i, 0]), ahead))
    at = write_vector(world.obs, i, at, wp.quat_rotate_inv(frame, world.block[i] - place))
    world.obs[i, at] = wp.min((world.position[i, 0][1] - world.anatomy.floor) / RAY, 1.0)
    at += 1
    for part in range(PARTS):
        world.obs[i, at] = wp.where(touches_ground(world, i, part), 1.0, 0.0)
        at += 1
        if part > 0:
            world.obs[i, at] = world.strength[i, world.anatomy.drive[part]]
            at += 1


@wp.func
def earn(world: World, i: int):
    """Returns the reward of a tick."""
    ahead = forward(frame_turn(world, i))
    speed = world.goal_speed[i]
    facing = 0.5 * (wp.dot(ahead, forward(world.rotation[i, 0])) + 1.0)
    return speed_reward(mean_velocity(world, i), ahead * speed, speed) * facing


@wp.func
def never(world: World, i: int):
    """Returns False: it never gives up."""
    return False


PROGRAM = make_program(observe, earn, never)


class Crawler(WarpEnv):
    """Crawler: four legs, eight joints; two vectors (126 and 32) with velocities and poses of its parts, 20 continuous
    actions.
    """

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
    creature = CRAWLER
    default_areas = 10
    areas_per_core = 16
    most_decisions = MOST_DECISIONS
    tick_seconds = DECISION_SECONDS
    parameter_ranges: ClassVar = PARAMETER_RANGES
    sensors: ClassVar = {"PhysicsBodySensor:Body": 126, "VectorSensor_size32": 32}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec, sizes = sizes_of(self.creature, self.sensors, device)
        super().__init__(PROGRAM, spec, areas, device, **sizes)

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_creature(rows, self.creature, self.behavior)
