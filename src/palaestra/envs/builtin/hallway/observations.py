"""Observations of Hallway: five rays as thick as a ball, and the time; three frames of each, the oldest first."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.hallway import rules
from palaestra.envs.builtin.hallway.rules import World
from palaestra.envs.builtin.sensors.rays import MISS, heading, next_turn, turned, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_four_walls, cast_upright_box, reach_beside
from palaestra.envs.builtin.sensors.stacking import shift_frames

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

RAYS = wp.constant(5)
BETWEEN = wp.constant(0.6108652381980153)  # radians: 35 degrees
TURN = wp.constant(wp.vec2(math.cos(BETWEEN), math.sin(BETWEEN)))
LENGTH = wp.constant(12.0)  # meters
RADIUS = wp.constant(0.5)  # meters, of the ball that is cast
SEEN = ("symbol_O_Goal", "symbol_X_Goal", "symbol_O", "symbol_X", "wall")
TAGS = wp.constant(5)
WALL_TAG = wp.constant(4)
SYMBOL_TAG = wp.constant(2)  # O's; X's follows. A goal's tag is its mark
RAY = wp.constant(7)  # numbers of a ray
FRAME = wp.constant(35)  # numbers of all rays
FRAMES = wp.constant(3)
WALL_HALF = wp.constant(0.25)  # meters: half their thickness
WALL_ENDS = wp.constant(wp.vec2(25.0, 10.0))  # meters: half the length of the walls across x and across y


@wp.func
def cast_walls(place: wp.vec2, direction: wp.vec2):
    """Returns the distance to the nearest wall that the ball does not touch at its start, or MISS."""
    nearest = float(MISS)
    if wp.min(rules.HALL[0] - wp.abs(place[0]), rules.HALL[1] - wp.abs(place[1])) > RADIUS + FLUSH:
        for k in range(2):
            gap = rules.HALL[k] - RADIUS - wp.sign(direction[k]) * place[k]
            nearest = wp.min(nearest, gap / wp.max(wp.abs(direction[k]), 1.0e-12))
        return nearest
    return cast_four_walls(place, direction, rules.HALL, WALL_ENDS, WALL_HALF, RADIUS)


@wp.func
def observe_ray(world: World, i: int, direction: wp.vec2, at: int):
    """Writes one ray's hit from column `at` on."""
    place = world.place[i]
    nearest = cast_walls(place, direction)
    tag = int(WALL_TAG)
    distance = cast_upright_box(place - world.symbol_place[i], direction, rules.SYMBOL, RADIUS)
    if distance < nearest:
        nearest = distance
        tag = SYMBOL_TAG + world.symbol[i]
    if place[1] + LENGTH * direction[1] > rules.goal_place(0)[1] - rules.PLATE[1] - RADIUS:
        over_plate = reach_beside(RADIUS, world.height[i] - rules.PLATE_TOP)
        for side in range(2):
            to = place - rules.goal_place(side)
            distance = cast_upright_box(
                place - wp.vec2(rules.goal_place(side)[0], rules.SIGN_Y), direction, rules.SIGN, RADIUS
            )
            if over_plate > 0.0:
                distance = wp.min(distance, cast_upright_box(to, direction, rules.PLATE, over_plate))
            if distance < nearest:
                nearest = distance
                tag = (world.left_goal[i] + side) % 2
    write_ray(world.obs, i, at, TAGS, wp.where(nearest <= LENGTH, tag, -1), nearest / LENGTH)


@wp.func
def observe(world: World, i: int, age: int):
    """Writes the observation at this age of the episode, in physics ticks, after moving older frames back by one."""
    newest = shift_frames(world.obs, i, FRAME)
    ahead = heading(world.angle[i])
    turn = wp.vec2(1.0, 0.0)
    for ray in range(RAYS):
        observe_ray(world, i, turned(ahead, turn), newest + ray * RAY)
        turn = next_turn(turn, ray, TURN)
    newest = shift_frames(world.obs_time, i, 1)
    world.obs_time[i, newest] = float(age) / float(rules.MOST_TICKS)
