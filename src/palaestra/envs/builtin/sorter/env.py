"""Sorter: touch numbered tiles in rising order, as in Unity's example.

A round room with a radius of 20 m. An episode has 1 to `num_tiles` tiles, of 20 numbers and on 20 places along the
wall, all drawn anew. The agent is dropped in the middle, and keeps its heading of the last episode. Tiles stand out of
the wall by 0.25 m and stay solid after they were touched. In the observation, tiles are in ascending order of their
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import (
    Rows,
    checked_choice,
    direction_of,
    save_final_obs,
    save_final_rows,
)
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sorter import rules
from palaestra.envs.builtin.sorter.rules import World
from palaestra.envs.solids import FLOOR, GREEN, INK, Drawing, on_plane, solids, upright

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
COST = wp.constant(0.0002)  # of a physics tick


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    world.heading[i] = rules.SOUTH
    rules.start(world, i)
    rules.observe(world, i)


@wp.func
def finish(world: World, i: int, terminated: bool):
    """Ends the episode: saves its final observation, and starts the next."""
    world.terminated[i] = terminated
    world.truncated[i] = not terminated
    rules.observe(world, i)
    save_final_obs(world.obs_body, world.final_obs_body, i)
    save_final_obs(world.obs_vector, world.final_obs_vector, i)
    save_final_rows(world.obs_tiles[i], world.final_obs_tiles[i])
    rules.start(world, i)


@wp.func
def simulate(world: World, i: int, forward: float, right: float, turn: float):
    """Runs the ticks of one decision and writes its reward; returns whether the episode ended: all tiles touched, a
    wrong tile touched, or no time left.

    Ticks that remain run in the next episode, with no action.
    """
    reward = float(0.0)  # Warp takes a literal for a constant
    over = bool(False)
    for _ in range(TICKS):
        world.age[i] += 1
        body = rules.act(rules.body_of(world.position[i], world.velocity[i], world.heading[i]), forward, right, turn)
        # turns count at once, pushes with the physics: a last observation has no push
        world.heading[i] = 0.5 * wp.PI - body.angle
        if not over:
            reward -= COST
        if world.age[i] >= rules.MOST_TICKS:
            finish(world, i, False)
            over = True
            forward = 0.0
            right = 0.0
            turn = 0.0
            body = rules.body_of(world.position[i], world.velocity[i], world.heading[i])
        body, height, rise = rules.move(body, world.height[i], world.rise[i], world.pull[i])
        body, tile = rules.meet_wall(world, i, body)
        world.height[i] = height
        world.rise[i] = rise
        world.position[i] = body.position
        world.velocity[i] = body.velocity
        if tile >= world.touched[i] and not over:
            is_next = tile == world.touched[i]
            reward += wp.where(is_next, 1.0, -1.0)
            if is_next:
                world.touched[i] = tile + 1
            if not is_next or world.touched[i] == world.tiles[i]:
                finish(world, i, True)
                over = True
                forward = 0.0
                right = 0.0
                turn = 0.0
    world.reward[i] = reward
    return over


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    forward = direction_of(checked_choice(world, i, 0, 3, report))
    right = direction_of(checked_choice(world, i, 1, 3, report))
    turn = -direction_of(checked_choice(world, i, 2, 3, report))
    world.terminated[i] = False
    world.truncated[i] = False
    if simulate(world, i, forward, right, turn):
        report[0] = 1
    rules.observe(world, i)


RIM = 16.5  # meters from the middle beyond which a tile may be in the way
INNER = 14.0  # meters from the middle at which it goes around
ALIGNED = math.radians(5)  # this close to a tile's direction, walking outward touches that tile alone


def touch_in_order(columns: Mapping[str, Tensor]) -> Tensor:
    """Goes inward first, until the next tile is straight outward; faces its direction of movement."""
    position = columns["position"]
    velocity = columns["velocity"]
    heading = columns["heading"]
    row = columns["touched"].long()[:, None].clamp(max=columns["place"].shape[1] - 1)
    angle = columns["place"].gather(1, row)[:, 0] * (2 * math.pi / columns["place"].shape[1])
    beside = wrap_angle(torch.atan2(position[:, 0], position[:, 1]) - angle).abs()
    at_rim = position.norm(dim=1) > RIM
    radius = torch.where(at_rim & (beside > ALIGNED), INNER, rules.RING)
    away = torch.stack([radius * angle.sin(), radius * angle.cos()], 1) - position
    push = 3 * away - velocity  # brakes earlier the faster it is
    forward = push[:, 0] * heading.sin() + push[:, 1] * heading.cos()
    right = push[:, 0] * heading.cos() - push[:, 1] * heading.sin()
    turn = wrap_angle(heading - torch.atan2(away[:, 0], away[:, 1]))
    sideways = torch.where(right.abs() > forward.abs(), right, 0.0)  # it would replace the push forward
    return torch.stack([to_choice(forward, 2.0), to_choice(sideways, 2.0), to_choice(turn, math.radians(15))], 1)


def wrap_angle(angle: Tensor) -> Tensor:
    """Returns the same angle within -pi..pi."""
    return torch.atan2(angle.sin(), angle.cos())


def to_choice(value: Tensor, least: float) -> Tensor:
    """Returns 1 for a positive number, 2 for a negative one, 0 for a small one."""
    return (value > least).long() + 2 * (value < -least).long()


# colors of the lowest and the highest number
PALE = np.array([250, 226, 150])
DEEP = np.array([214, 120, 40])
STEP = 0.2  # height of a tile for each number


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the round room with its tiles: touched tiles are green, others taller and darker with their number."""
    number = rows["number"]
    slot = np.arange(rules.NUMBERS)
    angle = rows["place"] * (2 * math.pi / rules.NUMBERS)
    place = rules.RING * np.stack([np.sin(angle), np.cos(angle)], -1)
    shown = slot < rows["tiles"][:, None]
    tall = 0.3 + STEP * number
    share = ((number - 1) / (rules.NUMBERS - 1))[..., None]
    color = np.where((slot < rows["touched"][:, None])[..., None], GREEN, PALE + share * (DEEP - PALE))
    size = np.stack([np.full_like(tall, 2 * rules.TILE[0]), tall, np.full_like(tall, 2 * rules.TILE[1])], -1)
    size = figures.hidden_unless(shown, size)
    wide = 2 * rules.ROOM
    shapes = (
        figures.fixed(rows.areas, "rim", "cylinder", [(0, -0.25, 0)], (wide + 2.2, 0.4, wide + 2.2), INK),
        figures.fixed(rows.areas, "floor", "cylinder", [(0, -0.1, 0)], (wide, 0.2, wide), FLOOR),
        solids("tiles", "box", on_plane(place, tall / 2), size, color, rotation=upright(-angle)),
        *figures.agent(rows["position"][:, None], math.pi / 2 - rows["heading"][:, None], 0.7, (behavior, rows.slots)),
    )
    return Drawing(shapes, (wide / 2 + 1.5, 2.0, wide / 2 + 1.5), elevation=52.0)


class Sorter(WarpEnv):
    """Sorter: tiles (20, 23) of variable length, the body 10 and a vector 8 (position, direction, two frames), discrete
    [3, 3, 3].

    A tile has a one-hot of its number, its position relative to the agent, and whether it was touched. Choices 1 and 2
    of the branches: forward and back, right and left (instead of the first branch), turn left and turn right.
    """

    behavior = "Sorter"
    summary = "An agent in a round room touches numbered tiles in rising order."
    rewards = ("-0.0002 a physics tick", "+1 at the tile that is next", "-1 at any other untouched tile")
    episode = "ends when all are touched, or a wrong one, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 9.8  # with up to 20 tiles, 10.5 on average: what Unity's own model earns
    default_areas = 16
    most_decisions = rules.MOST_TICKS // TICKS
    age_per_decision = TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"num_tiles": (20.0, 1.0, 20.0), "gravity": (rules.OWN_GRAVITY, 1.0, 100.0)}
    program = Program(World, begin, tick)
    spec = BehaviorSpec(
        (
            ObsSpec("BufferSensor", (rules.NUMBERS, rules.ROW)),
            ObsSpec("RBSensor", (rules.BODY,)),
            ObsSpec("StackingSensor_size2_VectorSensor_size4", (2 * rules.FRAME,)),
        ),
        ActionSpec(branches=(3, 3, 3)),
        steady=True,
    )
    sizes: Mapping[str, Any] = {"number": rules.NUMBERS, "place": rules.NUMBERS}
    rule = staticmethod(touch_in_order)
    picture = staticmethod(draw_room)
