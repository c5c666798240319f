"""Hallway: remember a symbol seen on the way, and choose the goal that bears it at the far end.

The documentation gives 30 numbers by ray casts of objects, goals and walls, and no more. Ours are 5 rays, straight
ahead, then 35 and 70 degrees to the right and left, each of 4 tags (symbol X, symbol O, goal X, goal O), the flag
that nothing was met, and the distance as a share of 20. A wall has no tag: a ray that meets one tells its distance
and sets neither a tag nor the flag, as Unity's do.

The rest is like Unity's example: a hall of 20 x 50, the agent within 5 of a line 15 before its middle, heading
anywhere, the symbol (2 x 2, solid) within 5 of the middle, the goals 7 to the left and right of the far end in either
order. From where the goals can be told apart, a ray ahead does not reach back to the symbol. A push of 1.5 m/s a
tick against a drag of 4/s makes for 17 m/s; turns are 150 degrees/s.
"""

# A kernel is Warp's language in Python's clothes; pyright reads it as Python.
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportInvalidTypeForm=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base import Program, WarpEnv
from palaestra.envs.builtin.driving import CHOICES, detour, moved, steered
from palaestra.envs.builtin.picture_plane import GREEN, RED, VIOLET, Plane
from palaestra.envs.builtin.picture_rooms import marked
from palaestra.envs.builtin.planar import Body, box_body, circle_body, circle_box, circle_off, circle_within
from palaestra.envs.builtin.rays import heading, ray_angle, ray_box, ray_room, write_ray

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks a decision
MOST_DECISIONS = wp.constant(600)  # 3,000 physics ticks
COST = wp.constant(0.0003)  # of a decision
PUSH = wp.constant(1.5)  # m/s a tick
DRAG = wp.constant(4.0)  # 1/s
TURN = wp.constant(0.05235987755982988)  # radians a tick
RADIUS = wp.constant(0.5)  # of the agent
HALL = wp.constant(wp.vec2(10.0, 25.0))  # halves of its sides
SYMBOL = wp.constant(wp.vec2(1.0, 1.0))
GOAL = wp.constant(wp.vec2(2.0, 1.0))
GOAL_X = wp.constant(7.0)
GOAL_Y = wp.constant(22.3)
RAYS = wp.constant(5)
BETWEEN = wp.constant(0.6108652381980153)  # rays, radians
LENGTH = wp.constant(20.0)  # of a ray
TAGS = wp.constant(4)  # symbol X, symbol O, goal X, goal O
WALL = wp.constant(4)  # no tag: it is met, and its distance alone is told


@wp.struct
class World:
    """The columns of Hallway, one row an area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    place: wp.array(dtype=wp.vec2)  # of the agent, from the middle of the hall; y is toward the goals
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec2)
    symbol: wp.array(dtype=wp.int32)  # 0: X, 1: O
    symbol_place: wp.array(dtype=wp.vec2)
    left_goal: wp.array(dtype=wp.int32)  # the mark of the goal on the left, 0: X, 1: O; the other is on the right
    action: wp.array2d(dtype=wp.int64)  # 0: forward, 1: back, 2: turn right, 3: turn left
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def goal_place(side: int):
    """The left goal's (0) or the right one's (1)."""
    return wp.vec2(GOAL_X * float(2 * side - 1), GOAL_Y)


@wp.func
def cast(world: World, i: int, ray: int):
    """Writes what one ray meets."""
    place = world.place[i]
    direction = heading(world.angle[i] + ray_angle(ray, BETWEEN))
    nearest = ray_room(place, direction, HALL)
    tag = int(WALL)
    distance = ray_box(place, direction, world.symbol_place[i], SYMBOL, 0.0)
    if distance < nearest:
        nearest = distance
        tag = world.symbol[i]
    for side in range(2):
        distance = ray_box(place, direction, goal_place(side), GOAL, 0.0)
        if distance < nearest:
            nearest = distance
            tag = 2 + (world.left_goal[i] + side) % 2
    write_ray(world.obs, i, ray * (TAGS + 2), TAGS, wp.where(nearest <= LENGTH, tag, -1), nearest / LENGTH)


@wp.func
def see(world: World, i: int):
    """Writes what the agent sees now."""
    for ray in range(RAYS):
        cast(world, i, ray)


@wp.func
def start(world: World, i: int):
    """Everything at a place drawn anew, and a symbol."""
    state = world.rng[i]
    world.place[i] = wp.vec2(wp.randf(state, -3.0, 3.0), wp.randf(state, -20.0, -10.0))
    world.angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.symbol_place[i] = wp.vec2(wp.randf(state, -3.0, 3.0), wp.randf(state, -5.0, 5.0))
    world.symbol[i] = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.left_goal[i] = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.rng[i] = state
    world.age[i] = 0
    see(world, i)


@wp.kernel
def begin(world: World, seed: int):
    """Starts every area anew."""
    i = wp.tid()
    world.rng[i] = wp.rand_init(seed, i)
    world.reward[i] = 0.0
    world.terminated[i] = False
    world.truncated[i] = False
    start(world, i)


@wp.func
def met_goal(world: World, i: int, body: Body):
    """The mark of the goal that the agent touches, 0: X, 1: O; -1: it touches none."""
    for side in range(2):
        goal = box_body(goal_place(side), wp.vec2(0.0, 0.0), 0.0, 0.0, GOAL, 0.0)
        contact = circle_box(body, goal)
        if contact.count > 0:
            return (world.left_goal[i] + side) % 2
    return -1


@wp.func
def drive(world: World, i: int, choice: int):
    """A decision's physics ticks, up to the goal that is touched: its mark, or -1."""
    body = circle_body(world.place[i], world.velocity[i], RADIUS, 1.0)
    body.angle = world.angle[i]
    met = wp.int32(-1)  # a variable, which a literal would not be
    for _ in range(TICKS):
        if met < 0:
            body = moved(body, choice, TURN, PUSH, DRAG)
            body = circle_off(body, world.symbol_place[i], SYMBOL, 0.0)
            body = circle_within(body, HALL)
            met = met_goal(world, i, body)
    world.place[i] = body.position
    world.velocity[i] = body.velocity
    world.angle[i] = body.angle
    return met


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """One decision of every area."""
    i = wp.tid()
    choice = int(world.action[i, 0])
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] > wp.int64(3):
        report[1] = i + 1
        choice = -1
    met = drive(world, i, choice)
    age = world.age[i] + 1
    world.age[i] = age
    # a goal's reward stands in place of the cost of a decision
    world.reward[i] = wp.where(met < 0, -COST, wp.where(met == world.symbol[i], 1.0, -0.1))
    world.terminated[i] = met >= 0
    world.truncated[i] = age >= MOST_DECISIONS and met < 0
    see(world, i)
    if met >= 0 or age >= MOST_DECISIONS:
        report[0] = 1
        for k in range(world.obs.shape[1]):
            world.final_obs[i, k] = world.obs[i, k]
        start(world, i)


PROGRAM = Program(World, begin, tick)
SIZE = int(RAYS) * (int(TAGS) + 2)


def way(columns: Mapping[str, torch.Tensor]) -> Action:
    """Around the symbol, then to the goal of its mark: a rule that knows what an agent must remember."""
    place, symbol = columns["place"], columns["symbol_place"]
    on_left = columns["left_goal"] == columns["symbol"]
    goal = torch.stack([torch.where(on_left, -float(GOAL_X), float(GOAL_X)), torch.full_like(place[:, 0], float(GOAL_Y))], 1)
    target = detour(place, goal, symbol, 1.45)
    discrete = steered(place, columns["angle"], target, 0.14)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


class Hallway(WarpEnv):
    """Hallway: vector 30 (5 rays), discrete [4]: forward, back, turn right, turn left."""

    behavior = "Hallway"
    summary = "An agent sees a symbol, X or O, in a hall, and goes to the goal of that mark at the far end, out of sight of it."
    rewards = ("-0.0003 a decision", "+1 at the goal of the symbol's mark, -0.1 at the other, in place of that decision's -0.0003")
    episode = "ends at a goal, and is cut after 600 decisions (3,000 physics ticks)"
    benchmark = 0.7
    default_areas = 16
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (SIZE,)),), ActionSpec(branches=(CHOICES,)), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=SIZE, final_obs=SIZE, action=1)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """`way`; None for another behavior than its own."""
        return way(self._columns) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        picture = Plane(11.0, 26.0, 480)
        picture.floor((0, 0), tuple(HALL))
        left = int(row["left_goal"])
        for side, mark in ((-1, left), (1, 1 - left)):
            is_right = mark == int(row["symbol"])
            marked(picture, (side * float(GOAL_X), float(GOAL_Y)), tuple(GOAL), mark, GREEN if is_right else RED)
        marked(picture, row["symbol_place"], tuple(SYMBOL), int(row["symbol"]), VIOLET)
        picture.agent(row["place"], float(row["angle"]), 1.5 * float(RADIUS))
        return picture.shown()
