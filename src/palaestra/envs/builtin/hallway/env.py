"""Hallway: remember a symbol seen on the way, and choose the goal with the same mark at the far end, as in Unity's
example.

A hall of 19 x 49.5 m between its walls. The agent is dropped within 3 m of the middle line and 5 m of a line 15 m
before the middle, with any heading; the symbol, a solid board, stands within 5 m of the middle; the goals lie 7 m to
the left and right of the far end in either order. Each goal is a thin plate on the floor with a sign behind it. A
decision is six physics ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import Rows, checked_choice, save_final_obs
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.hallway import rules
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.truth import set_truth
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GREEN, RED, VIOLET, Drawing, on_plane, solids

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AROUND = 0.75  # meters that the agent keeps from the symbol
SLACK = 0.35  # radians: a decision turns by 0.31
SPEED = 16.0  # m/s that it goes at, so that it can turn


def go_to_matching_goal(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Goes around the symbol, then to the goal with its mark; knows the symbol, so need not remember it."""
    place = columns["place"]
    symbol = columns["symbol_place"]
    on_left = columns["left_goal"] == columns["symbol"]
    goal = torch.stack(
        [torch.where(on_left, -rules.GOAL_X, rules.GOAL_X), torch.full_like(place[:, 0], rules.GOAL_Y)], 1
    )
    # the box that it goes around is square: as deep as the symbol is wide
    target = detour(place, goal, symbol, torch.full_like(place[:, :1], rules.SYMBOL[0] + AROUND))
    # the change of velocity to make
    ahead = SPEED * torch.nn.functional.normalize(target - place, dim=1) - columns["velocity"]
    return steer(place, columns["angle"], place + ahead, SLACK)


def steer(place: torch.Tensor, angle: torch.Tensor, target: torch.Tensor, slack: float) -> torch.Tensor:
    """Returns choices (S, 1) that lead to targets (S, 2): turn to within `slack` radians, then go forward."""
    to = target - place
    off = torch.remainder(torch.atan2(to[:, 1], to[:, 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    return torch.where(off.abs() <= slack, rules.FORWARD, torch.where(off > 0, rules.LEFT, rules.RIGHT))[:, None]


def detour(place: torch.Tensor, target: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns the next waypoint from places (S, 2) to targets (S, 2) past boxes along the axes at (S, 2) with half
    sides (S, 1).

    The waypoint is the target or, if the box is in between, the visible corner of a margin around the box that makes
    the way shortest. `half` must include the agent's radius.
    """
    around = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]], device=place.device)
    here, to, box, side = (column[:, None] for column in (place, target, block, half))
    corners = box + (side + 0.6) * around
    rest = torch.where(is_blocked(corners, to, box, side), torch.inf, (to - corners).norm(dim=2))
    # via the next corner
    rest = torch.minimum(rest, 2 * (half + 0.6) + torch.minimum(rest.roll(1, 1), rest.roll(-1, 1)))
    first = (corners - here).norm(dim=2)
    useless = is_blocked(here, corners, box, side) | (first < 0.5)  # already there
    best = corners[
        torch.arange(len(place), device=place.device), torch.where(useless, torch.inf, first + rest).argmin(1)
    ]
    return torch.where(is_blocked(place, target, block, half)[:, None], best, target)


def is_blocked(start: torch.Tensor, end: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns whether a box along the axes is between two places; arguments are (..., 2), but `half` is (..., 1)."""
    way = end - start
    way = torch.where(way.abs() < 1e-6, 1e-6, way)
    one = (block - half - start) / way
    two = (block + half - start) / way
    begins = torch.minimum(one, two).amax(-1)
    ends = torch.maximum(one, two).amin(-1)
    return (begins < ends) & (begins < 1) & (ends > 0)


TICKS = wp.constant(6)  # physics ticks per decision
RAY_SENSOR = "StackingSensor_size3_RayPerceptionSensor"
TIME_SENSOR = "StackingSensor_size3_VectorSensor_size1"
COST = wp.constant(1.0 / 3000.0)  # of a physics tick


@wp.kernel
def begin(world: rules.World):
    """Starts a new episode in every area."""
    i = wp.tid()
    rules.start(world, i)
    rules.observe(world, i, 1)


@wp.func
def finish(world: rules.World, i: int, reward: float, terminated: bool):
    """Ends the episode: saves its final observation, and starts the next episode."""
    world.reward[i] = reward
    world.terminated[i] = terminated
    world.truncated[i] = not terminated
    rules.observe(world, i, world.age[i])
    save_final_obs(world.obs, world.final_obs, i)
    save_final_obs(world.obs_time, world.final_obs_time, i)
    save_final_obs(world.obs_truth, world.final_obs_truth, i)
    rules.start(world, i)


@wp.func
def simulate(world: rules.World, i: int, choice: int):
    """Runs a decision's ticks; ticks that remain after an episode's end run in the next episode."""
    body = rules.load_body(world, i)
    height = world.height[i]
    rise = world.rise[i]
    over = bool(False)  # Warp takes a literal for a constant
    reward = float(0.0)
    for _ in range(TICKS):
        world.age[i] += 1
        body = rules.act(body, choice)
        reward -= COST
        if world.age[i] >= rules.MOST_TICKS:
            rules.save_body(world, i, body)
            finish(world, i, reward, False)
            over = True
            choice = rules.NOTHING
            body = rules.load_body(world, i)
            height = world.height[i]
            rise = world.rise[i]
        body, height, rise = rules.move(body, height, rise, world.pull[i], world.symbol_place[i])
        side = rules.touched_side(body)
        if side >= 0 and not over:
            rules.save_body(world, i, body)
            world.height[i] = height
            is_right = (world.left_goal[i] + side) % 2 == world.symbol[i]
            finish(world, i, wp.where(is_right, 1.0, -0.1), True)
            over = True
            choice = rules.NOTHING
            body = rules.load_body(world, i)
            height = world.height[i]
            rise = world.rise[i]
    rules.save_body(world, i, body)
    world.height[i] = height
    world.rise[i] = rise
    if not over:
        world.reward[i] = reward
    return over


@wp.kernel
def tick(world: rules.World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    choice = checked_choice(world, i, 0, rules.CHOICES, report)
    world.terminated[i] = False
    world.truncated[i] = False
    if simulate(world, i, choice):
        report[0] = 1
    rules.observe(world, i, world.age[i] + 1)  # Unity counts the coming tick before it observes


def draw_hall(rows: Rows, behavior: str) -> Drawing:
    """Draws the hall with the goals (the right goal is green), the symbol, and the agent."""
    left = rows["left_goal"]
    symbol = rows["symbol"]
    wide = tuple(rules.HALL)
    marks = np.stack([left, 1 - left], 1)
    colors = np.where((marks == symbol[:, None])[..., None], GREEN, RED)
    x = np.array([-rules.GOAL_X, rules.GOAL_X], np.float32)
    plates, signs = (
        np.broadcast_to(np.stack([x, np.full(2, y, np.float32)], 1), (rows.areas, 2, 2))
        for y in (rules.GOAL_Y, rules.SIGN_Y)
    )
    shapes = (
        *figures.room(rows.areas, wide, wall=3.0),
        solids(
            "plates",
            "box",
            on_plane(plates, 0.0),
            (2 * rules.PLATE[0], 2 * rules.PLATE_TOP, 2 * rules.PLATE[1]),
            colors,
        ),
        *figures.marked("goal", signs, tuple(rules.SIGN), 4.0, 1 - marks, colors),
        *figures.marked("symbol", rows["symbol_place"][:, None], tuple(rules.SYMBOL), 4.0, 1 - symbol[:, None], VIOLET),
        *figures.agent(
            rows["place"][:, None],
            rows["angle"][:, None],
            0.5,
            (behavior, rows.slots),
            height=rows["height"][:, None] - 0.5,
        ),
    )
    return Drawing(shapes, (wide[0] + 0.5, 4.0, wide[1] + 0.5), elevation=62.0)


class Hallway(WarpEnv):
    """Hallway: rays 105 (5 rays, three frames) and time 3, discrete [5]: nothing, forward, back, turn right, left."""

    behavior = "Hallway"
    summary = (
        "An agent sees a symbol, X or O, in a hall, remembers it, and goes to the goal with the same mark at the "
        "far end."
    )
    rewards = (
        "-1/3000 a physics tick",
        "+1 at the goal with the symbol's mark, -0.1 at the other goal, instead of that decision's cost",
    )
    episode = "ends at a goal, and is truncated after 500 decisions (3,000 physics ticks)"
    benchmark = 0.7
    default_areas = 16
    areas_per_core = 256
    most_decisions = rules.MOST_TICKS // TICKS
    age_per_decision = TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"gravity": (19.62, 1.0, 100.0)}
    ray_fans: ClassVar = {
        behavior: (
            RayFan(
                RAY_SENSOR,
                unity_order(rules.RAYS, rules.BETWEEN),
                rules.LENGTH,
                rules.SEEN,
                first=(rules.FRAMES - 1) * rules.FRAME,
            ),
        )
    }
    program = Program(rules.World, begin, tick)
    spec = BehaviorSpec(
        (ObsSpec(RAY_SENSOR, (rules.FRAMES * rules.FRAME,)), ObsSpec(TIME_SENSOR, (rules.FRAMES,))),
        ActionSpec(branches=(rules.CHOICES,)),
        steady=True,
    )
    rule = staticmethod(go_to_matching_goal)
    picture = staticmethod(draw_hall)
    truth = rules.TRUTH

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, state: bool = False) -> None:
        """`state`: agents also observe `truth`, the true state of their area."""
        set_truth(self, state)
        super().__init__(areas, device)
