"""Basic: walk along a line to one of two goals, as in Unity's example; the better goal is further away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import Rows, checked_choice, save_final_obs
from palaestra.envs.builtin.drawing.figures import fixed
from palaestra.envs.solids import BLUE, FLOOR, GRAY, GREEN, INK, Drawing, solids

wp.set_module_options({"enable_backward": False})

PLACES = wp.constant(20)
START = wp.constant(10)
SMALL_GOAL = wp.constant(7)
LARGE_GOAL = wp.constant(17)


@world_struct
class World(EndColumns):
    """Columns of Basic, one row per area."""

    position: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: left, 2: right
    obs: wp.array2d(dtype=wp.float32)  # one-hot


@wp.func
def start(world: World, i: int):
    """Puts the agent in the middle."""
    world.obs[i, world.position[i]] = 0.0
    world.obs[i, START] = 1.0
    world.position[i] = START


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area; nothing is random."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = checked_choice(world, i, 0, 3, report)
    position = world.position[i]
    world.obs[i, position] = 0.0
    if action == 1:
        position -= 1
    if action == 2:
        position += 1
    world.obs[i, position] = 1.0
    world.position[i] = position
    prize = wp.where(position == SMALL_GOAL, 0.1, wp.where(position == LARGE_GOAL, 1.0, 0.0))
    arrived = prize > 0.0
    world.reward[i] = prize - 0.01
    world.terminated[i] = arrived
    if arrived:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)


def walk_right(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Walks to the large goal."""
    return torch.full_like(columns["position"], 2, dtype=torch.int64)[:, None]


GROUND = -0.8


def draw_line(rows: Rows, behavior: str) -> Drawing:
    """Draws the line of places, a ball at each goal, whose size shows the reward, and the agent."""
    middle = (PLACES - 1) / 2
    dots = [(k - middle, GROUND + 0.01, 0.0) for k in range(PLACES)]
    goals = [(SMALL_GOAL - middle, GROUND + 0.4, 0.0), (LARGE_GOAL - middle, GROUND + 0.95, 0.0)]
    place = np.zeros((rows.areas, 1, 3), np.float32) + [0.0, GROUND + 0.42, 0.0]
    place[:, 0, 0] += rows["position"] - middle
    eyes = [(-0.17, 0.12, 0.42), (0.17, 0.12, 0.42)]
    shown = (behavior, rows.slots)
    shapes = (
        fixed(rows.areas, "track", "box", [(0, GROUND - 0.1, 0)], (PLACES, 0.2, 1.6), FLOOR),
        fixed(rows.areas, "places", "cylinder", dots, (0.3, 0.04, 0.3), GRAY),
        fixed(rows.areas, "goals", "sphere", goals, [[0.8] * 3, [1.9] * 3], GREEN),
        solids("agent", "box", place, 0.84, BLUE, agents=shown),
        solids("eyes", "sphere", place + eyes, (0.14, 0.2, 0.06), INK, agents=shown),
    )
    return Drawing(shapes, (middle + 0.7, 1.2, 1.1), elevation=24.0)


class Basic(WarpEnv):
    """Basic: vector 20 (one-hot place), discrete [3]; the best return is 1 - 7 * 0.01 = 0.93."""

    behavior = "Basic"
    summary = "An agent on a line walks to one of two goals: a small goal nearby or a large goal further away."
    rewards = ("-0.01 a decision", "+0.1 at the small goal", "+1 at the large goal")
    episode = "ends at a goal; there is no time limit"
    benchmark = 0.93
    default_areas = 1
    tick_seconds = 0.15
    parameter_ranges: ClassVar = {}
    program = Program(World, begin, tick)
    spec = BehaviorSpec((ObsSpec("Basic", (PLACES,)),), ActionSpec(branches=(3,)), steady=True)
    rule = staticmethod(walk_right)
    picture = staticmethod(draw_line)
