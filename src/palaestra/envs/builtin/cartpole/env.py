"""CartPole: push a cart left or right so that the pole on it stays upright.

Barto, Sutton and Anderson 1983, https://doi.org/10.1109/TSMC.1983.6313077, with the numbers of Gymnasium's CartPole-v1:
the same state and actions give the same next state, in double precision and integrated by explicit Euler steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import Rows, checked_choice, save_final_obs
from palaestra.envs.builtin.drawing.figures import QUARTER, fixed
from palaestra.envs.solids import BLUE, FLOOR, GOLD, GRAY, INK, Drawing, solids

wp.set_module_options({"enable_backward": False})

MOST_DECISIONS = wp.constant(500)
SECONDS = wp.constant(wp.float64(0.02))  # seconds per decision
GRAVITY = wp.constant(wp.float64(9.8))  # m/s^2
POLE_MASS = wp.constant(wp.float64(0.1))  # kg
TOTAL_MASS = wp.constant(wp.float64(1.1))  # kg, with the cart's
HALF_LENGTH = wp.constant(wp.float64(0.5))  # m, of the pole
FORCE = wp.constant(wp.float64(10.0))  # N
FOUR_THIRDS = wp.constant(wp.float64(4.0 / 3.0))
MOST_X = wp.constant(wp.float64(2.4))  # m from the middle
MOST_ANGLE = wp.constant(wp.float64(12 * 2 * 3.141592653589793 / 360))  # rad from upright
START_RANGE = wp.constant(0.05)  # of each number of the state


@world_struct
class World(EndColumns, EpisodeColumns):
    """Columns of CartPole, one row per area."""

    state: wp.array2d(dtype=wp.float64)  # x (m), velocity (m/s), angle (rad), angular velocity (rad/s)
    action: wp.array2d(dtype=wp.int64)  # 0: push left, 1: push right
    obs: wp.array2d(dtype=wp.float32)


@wp.func
def observe(world: World, i: int):
    """Writes the state as the observation."""
    for k in range(4):
        world.obs[i, k] = wp.float32(world.state[i, k])


@wp.func
def start(world: World, i: int):
    """Puts the cart near the middle, with the pole nearly upright."""
    draw = world.rng[i]
    for k in range(4):
        world.state[i, k] = wp.float64(wp.randf(draw, -START_RANGE, START_RANGE))
    world.rng[i] = draw
    world.age[i] = 0
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def push(world: World, i: int, force: wp.float64):
    """Moves cart and pole by one decision; returns whether the pole has fallen or the cart has left the track."""
    x = world.state[i, 0]
    velocity = world.state[i, 1]
    angle = world.state[i, 2]
    turning = world.state[i, 3]
    cosine = wp.cos(angle)
    sine = wp.sin(angle)
    moment = POLE_MASS * HALF_LENGTH
    common = (force + moment * turning * turning * sine) / TOTAL_MASS
    angular = (GRAVITY * sine - cosine * common) / (
        HALF_LENGTH * (FOUR_THIRDS - POLE_MASS * cosine * cosine / TOTAL_MASS)
    )
    linear = common - moment * angular * cosine / TOTAL_MASS
    x += SECONDS * velocity
    angle += SECONDS * turning
    world.state[i, 0] = x
    world.state[i, 1] = velocity + SECONDS * linear
    world.state[i, 2] = angle
    world.state[i, 3] = turning + SECONDS * angular
    return wp.abs(x) > MOST_X or wp.abs(angle) > MOST_ANGLE


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = checked_choice(world, i, 0, 2, report)
    fallen = push(world, i, wp.where(action == 1, FORCE, -FORCE))
    observe(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = 1.0
    world.terminated[i] = fallen
    world.truncated[i] = age >= MOST_DECISIONS and not fallen
    if fallen or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)


def keep_upright(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Pushes so that the pole stays up and the cart comes back to the middle."""
    x, velocity, angle, turning = columns["state"].unbind(1)
    return (angle + 0.25 * turning + 0.02 * x + 0.05 * velocity > 0).long()[:, None]


TRACK = -0.62  # height of the track


def draw_cart(rows: Rows, behavior: str) -> Drawing:
    """Draws the track, whose ends the cart may not pass, and the cart with its pole."""
    x = rows["state"][:, 0, None]
    angle = rows["state"][:, 2, None]
    zero = np.zeros_like(x)
    length = 2 * float(HALF_LENGTH)
    axle = TRACK + 0.34
    cart = np.stack([x, zero, zero], -1)
    pole = cart + np.stack([np.sin(angle) * length / 2, axle + np.cos(angle) * length / 2, zero + 0.2], -1)
    tip = cart + np.stack([np.sin(angle) * length, axle + np.cos(angle) * length, zero + 0.2], -1)
    lean = np.stack([zero, zero, -np.sin(angle / 2), np.cos(angle / 2)], -1)
    wheels = [(side, TRACK + 0.07, front) for side in (-0.18, 0.18) for front in (-0.16, 0.16)]
    ends = [(side * (float(MOST_X) + 0.05), TRACK + 0.06, 0.0) for side in (-1, 1)]
    lying = (QUARTER, 0, 0, QUARTER)
    agents = (behavior, rows.slots)
    shapes = (
        fixed(rows.areas, "track", "box", [(0, TRACK - 0.04, 0)], (2 * float(MOST_X) + 0.3, 0.08, 0.6), FLOOR),
        fixed(rows.areas, "ends", "box", ends, (0.1, 0.12, 0.6), GRAY),
        solids("cart", "box", cart + [0, TRACK + 0.21, 0], (0.56, 0.22, 0.34), BLUE, agents=agents),
        solids("wheels", "cylinder", cart + wheels, (0.14, 0.06, 0.14), INK, rotation=lying, agents=agents),
        solids("pole", "cylinder", pole, (0.07, length, 0.07), GOLD, rotation=lean, agents=agents),
        solids("tip", "sphere", tip, 0.11, GOLD, agents=agents),
        solids("axle", "sphere", cart + [0, axle, 0.2], 0.11, INK, agents=agents),
    )
    return Drawing(shapes, (float(MOST_X) + 0.2, 0.82, 0.4), elevation=14.0)


class CartPole(WarpEnv):
    """CartPole: vector 4 (place, velocity, angle, angular velocity), discrete [2]."""

    behavior = "CartPole"
    summary = (
        "A cart is pushed left and right so that the pole on it stays upright. The same physics as Gymnasium's "
        "CartPole-v1."
    )
    rewards = ("+1 a decision",)
    episode = (
        "ends when the pole leans by 12 degrees or the cart is 2.4 m from the middle, and is truncated after "
        "500 decisions"
    )
    benchmark = 475.0
    default_areas = 128
    most_decisions = MOST_DECISIONS
    tick_seconds = 0.02
    parameter_ranges: ClassVar = {}
    program = Program(World, begin, tick)
    spec = BehaviorSpec((ObsSpec("vector", (4,)),), ActionSpec(branches=(2,)), steady=True)
    sizes: Mapping[str, Any] = {"state": 4}
    rule = staticmethod(keep_upright)
    picture = staticmethod(draw_cart)
