"""Hallway: remember a symbol seen on the way, and choose the goal with the same mark at the far end, as in Unity's
example.

A hall of 19 x 49.5 m between its walls. The agent is dropped within 3 m of the middle line and 5 m of a line 15 m
before the middle, with any heading; the symbol, a solid board, stands within 5 m of the middle; the goals lie 7 m to
the left and right of the far end in either order. Each is a thin plate on the floor with a sign behind it. A decision
is six physics ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.hallway.heuristic import go_to_matching_goal
from palaestra.envs.builtin.hallway.observations import BETWEEN, FRAME, FRAMES, LENGTH, RAYS, SEEN, observe
from palaestra.envs.builtin.hallway.rules import (
    CHOICES,
    GOAL_X,
    GOAL_Y,
    HALL,
    MOST_TICKS,
    NOTHING,
    PLATE,
    PLATE_TOP,
    SIGN,
    SIGN_Y,
    SYMBOL,
    World,
    act,
    load_body,
    move,
    save_body,
    start,
    touched_side,
)
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GREEN, RED, VIOLET, Drawing, on_plane, solids

if TYPE_CHECKING:
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(6)  # physics ticks per decision
COST = wp.constant(1.0 / 3000.0)  # of a physics tick


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i, 1)


@wp.func
def finish(world: World, i: int, reward: float, terminated: bool):
    """Ends the episode: saves its final observation, and starts the next."""
    world.reward[i] = reward
    world.terminated[i] = terminated
    world.truncated[i] = not terminated
    observe(world, i, world.age[i])
    save_final_obs(world.obs, world.final_obs, i)
    save_final_obs(world.obs_time, world.final_obs_time, i)
    start(world, i)


@wp.func
def simulate(world: World, i: int, choice: int):
    """Runs the ticks of one decision; what remains of it after an episode's end passes in the next one, with nothing
    chosen.
    """
    body = load_body(world, i)
    height = world.height[i]
    rise = world.rise[i]
    over = bool(False)  # Warp takes a literal for a constant
    reward = float(0.0)
    for _ in range(TICKS):
        world.age[i] += 1
        body = act(body, choice)
        reward -= COST
        if world.age[i] >= MOST_TICKS:
            save_body(world, i, body)
            finish(world, i, reward, False)
            over = True
            choice = NOTHING
            body = load_body(world, i)
            height = world.height[i]
            rise = world.rise[i]
        body, height, rise = move(body, height, rise, world.pull[i], world.symbol_place[i])
        side = touched_side(body)
        if side >= 0 and not over:
            save_body(world, i, body)
            world.height[i] = height
            is_right = (world.left_goal[i] + side) % 2 == world.symbol[i]
            finish(world, i, wp.where(is_right, 1.0, -0.1), True)
            over = True
            choice = NOTHING
            body = load_body(world, i)
            height = world.height[i]
            rise = world.rise[i]
    save_body(world, i, body)
    world.height[i] = height
    world.rise[i] = rise
    if not over:
        world.reward[i] = reward
    return over


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    choice = int(world.action[i, 0])
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] >= wp.int64(CHOICES):
        report[1] = i + 1
        choice = NOTHING
    world.terminated[i] = False
    world.truncated[i] = False
    if simulate(world, i, choice):
        report[0] = 1
    observe(world, i, world.age[i] + 1)  # Unity counts the coming tick before it observes


PROGRAM = Program(World, begin, tick)


def draw_hall(rows: Rows, behavior: str) -> Drawing:
    """Draws the hall with the goals, the right one green, the symbol, and the agent."""
    left = rows["left_goal"]
    symbol = rows["symbol"]
    wide = tuple(HALL)
    marks = np.stack([left, 1 - left], 1)
    colors = np.where((marks == symbol[:, None])[..., None], GREEN, RED)
    x = np.array([-float(GOAL_X), float(GOAL_X)], np.float32)
    plates, signs = (
        np.broadcast_to(np.stack([x, np.full(2, y, np.float32)], 1), (rows.areas, 2, 2))
        for y in (float(GOAL_Y), float(SIGN_Y))
    )
    shapes = (
        *figures.room(rows.areas, wide, wall=3.0),
        solids("plates", "box", on_plane(plates, 0.0), (2 * PLATE[0], 2 * float(PLATE_TOP), 2 * PLATE[1]), colors),
        *figures.marked("goal", signs, tuple(SIGN), 4.0, 1 - marks, colors),
        *figures.marked("symbol", rows["symbol_place"][:, None], tuple(SYMBOL), 4.0, 1 - symbol[:, None], VIOLET),
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
    """Hallway: rays 105 (5 rays, three frames) and time 3, discrete [5]: nothing, forward, back, turn right, turn
    left.
    """

    behavior = "Hallway"
    summary = (
        "An agent sees a symbol, X or O, in a hall, and goes to the goal of that mark at the far end, out of "
        "sight of it."
    )
    rewards = (
        "-1/3000 a physics tick",
        "+1 at the goal of the symbol's mark, -0.1 at the other, in place of that decision's cost",
    )
    episode = "ends at a goal, and is truncated after 500 decisions (3,000 physics ticks)"
    benchmark = 0.7
    default_areas = 16
    areas_per_core = 256
    most_decisions = int(MOST_TICKS) // int(TICKS)
    age_per_decision = int(TICKS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"gravity": (19.62, 1.0, 100.0)}
    ray_fans: ClassVar = {
        behavior: (
            RayFan(
                "StackingSensor_size3_RayPerceptionSensor",
                unity_order(int(RAYS), float(BETWEEN)),
                float(LENGTH),
                SEEN,
                first=(int(FRAMES) - 1) * int(FRAME),
            ),
        )
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        frames = int(FRAMES)
        rays = ObsSpec("StackingSensor_size3_RayPerceptionSensor", (frames * int(FRAME),))
        time = ObsSpec("StackingSensor_size3_VectorSensor_size1", (frames,))
        spec = BehaviorSpec((rays, time), ActionSpec(branches=(int(CHOICES),)), steady=True)
        sizes = {"obs": rays.shape, "final_obs": rays.shape, "obs_time": time.shape, "final_obs_time": time.shape}
        super().__init__(PROGRAM, spec, areas, device, action=1, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `go_to_matching_goal`'s actions; None for another behavior."""
        return go_to_matching_goal(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_hall(rows, self.behavior)
