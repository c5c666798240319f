"""Hallway: remember a symbol seen on the way, and choose the goal with the same mark at the far end.

The documentation only says that 30 numbers are ray casts of objects, goals and walls. Ours are 5 rays, straight
ahead, then 35 and 70 degrees to the right and left, each of 4 tags (goal X, goal O, symbol X, symbol O), a flag
for no hit, and the distance as a share of 15. A wall has no tag: a ray that hits one gives its distance
and sets neither a tag nor the flag, as in Unity.

The rest is like Unity's example: a hall of 20 x 50; the agent starts within 5 of a line 15 before the middle, anywhere
across it, with any heading; the symbol (4 x 4, solid) is within 5 of the middle; the goals are 5 to the left and right of the far end
in either order. From where the goals come into sight, a ray ahead does not reach back to the symbol. (When all agents
started near the middle line and goals were at the walls, 7 away, policies settled for one side before they had learned
how the symbol matters.) A push of 2 m/s a tick against a drag of 4/s gives 23 m/s; turns are 150 degrees/s.

HallwayUnity matches Unity's later model of the hall: agents start within 3 of the middle line, the goals are
7 away from it, the wall has the last tag (7 numbers a ray), the last three frames and times are observed, and the first
of five choices does nothing. The order of the tags was found by playing that model here with each of the 120 orders, and the
length of a ray by trying several: with these it goes to the right goal in every episode. (Whether X or O comes
first cannot be found this way; only the name depends on it.)
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
from palaestra.envs.builtin.physics.driving import CHOICES, detour, drive, steer
from palaestra.envs.builtin.physics.rigid_bodies import Body, box_body, circle_body, circle_box, keep_circle_out, keep_circle_within
from palaestra.envs.builtin.sensors.rays import heading, ray_angle, ray_box, ray_room, write_ray
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GREEN, RED, VIOLET, Drawing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(600)  # 3,000 physics ticks
COST = wp.constant(0.0003)  # cost of a decision
PUSH = wp.constant(2.0)  # m/s a tick
DRAG = wp.constant(4.0)  # 1/s
TURN = wp.constant(0.05235987755982988)  # radians a tick
RADIUS = wp.constant(0.5)  # radius of the agent
HALL = wp.constant(wp.vec2(10.0, 25.0))  # half the hall's sides
SYMBOL = wp.constant(wp.vec2(2.0, 2.0))
GOAL = wp.constant(wp.vec2(2.0, 1.0))
GOAL_Y = wp.constant(22.3)
RAYS = wp.constant(5)
BETWEEN = wp.constant(0.6108652381980153)  # angle between rays in radians
LENGTH = wp.constant(15.0)  # length of a ray
GOAL_TAG = wp.constant(0)  # X's; O's follows
SYMBOL_TAG = wp.constant(2)
WALL_TAG = wp.constant(4)  # beyond the four tags, so only the distance of a hit is written
SEEN = ("goal X", "goal O", "symbol X", "symbol O")  # names of the tags
ANGLES = unity_order(int(RAYS), float(BETWEEN))


@wp.struct
class World:
    """Columns of Hallway, one row per area."""

    tags: wp.int32  # 4, or 5 with the wall's
    frames: wp.int32  # frames in an observation
    idle: wp.int32  # 1: the first choice does nothing
    goal_x: wp.float32  # distance of the goals from the middle line
    start_x: wp.float32  # largest distance of the agent's start from the middle line
    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    place: wp.array(dtype=wp.vec2)  # position of the agent, from the middle of the hall; y is toward the goals
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec2)
    symbol: wp.array(dtype=wp.int32)  # 0: X, 1: O
    symbol_place: wp.array(dtype=wp.vec2)
    left_goal: wp.array(dtype=wp.int32)  # the mark of the goal on the left, 0: X, 1: O; the other is on the right
    action: wp.array2d(dtype=wp.int64)  # beginning at `idle`: forward, back, turn right, turn left
    obs: wp.array2d(dtype=wp.float32)  # rays of each frame, oldest first
    obs_time: wp.array2d(dtype=wp.float32)  # time of each frame, as a share of the longest episode; of width 0 if not observed
    final_obs: wp.array2d(dtype=wp.float32)
    final_obs_time: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def goal_place(world: World, side: int):
    """Returns the position of the left goal (0) or the right one (1)."""
    return wp.vec2(world.goal_x * float(2 * side - 1), GOAL_Y)


@wp.func
def observe_ray(world: World, i: int, ray: int, at: int):
    """Writes one ray's hit from column `at` on."""
    place = world.place[i]
    direction = heading(world.angle[i] + ray_angle(ray, BETWEEN))
    nearest = ray_room(place, direction, HALL)
    tag = int(WALL_TAG)
    distance = ray_box(place, direction, world.symbol_place[i], SYMBOL, 0.0)
    if distance < nearest:
        nearest = distance
        tag = SYMBOL_TAG + world.symbol[i]
    for side in range(2):
        distance = ray_box(place, direction, goal_place(world, side), GOAL, 0.0)
        if distance < nearest:
            nearest = distance
            tag = GOAL_TAG + (world.left_goal[i] + side) % 2
    write_ray(world.obs, i, at, world.tags, wp.where(nearest <= LENGTH, tag, -1), nearest / LENGTH)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, after moving older frames back by one."""
    width = world.tags + 2
    last = (world.frames - 1) * RAYS * width
    for k in range(last):
        world.obs[i, k] = world.obs[i, k + RAYS * width]
    for ray in range(RAYS):
        observe_ray(world, i, ray, last + ray * width)
    times = world.obs_time.shape[1]
    if times > 0:
        for k in range(times - 1):
            world.obs_time[i, k] = world.obs_time[i, k + 1]
        world.obs_time[i, times - 1] = float(world.age[i]) / float(MOST_DECISIONS)


@wp.func
def start(world: World, i: int):
    """Starts an episode with random positions, symbol and order of goals."""
    state = world.rng[i]
    world.place[i] = wp.vec2(wp.randf(state, -world.start_x, world.start_x), wp.randf(state, -20.0, -10.0))
    world.angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.symbol_place[i] = wp.vec2(wp.randf(state, -3.0, 3.0), wp.randf(state, -5.0, 5.0))
    world.symbol[i] = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.left_goal[i] = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.rng[i] = state
    world.age[i] = 0
    for k in range(world.obs.shape[1]):
        world.obs[i, k] = 0.0
    for k in range(world.obs_time.shape[1]):
        world.obs_time[i, k] = 0.0
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def touched_goal(world: World, i: int, body: Body):
    """Returns the mark of the goal that the agent touches, 0: X, 1: O; -1 for none."""
    for side in range(2):
        goal = box_body(goal_place(world, side), wp.vec2(0.0, 0.0), 0.0, 0.0, GOAL, 0.0)
        contact = circle_box(body, goal)
        if contact.count > 0:
            return (world.left_goal[i] + side) % 2
    return -1


@wp.func
def simulate(world: World, i: int, choice: int):
    """Runs a decision's physics ticks until a goal is touched; returns its mark, or -1."""
    body = circle_body(world.place[i], world.velocity[i], RADIUS, 1.0)
    body.angle = world.angle[i]
    met = wp.int32(-1)  # a Warp variable; a literal would be a constant
    for _ in range(TICKS):
        if met < 0:
            body = drive(body, choice, TURN, PUSH, DRAG)
            body = keep_circle_out(body, world.symbol_place[i], SYMBOL, 0.0)
            body = keep_circle_within(body, HALL)
            met = touched_goal(world, i, body)
    world.place[i] = body.position
    world.velocity[i] = body.velocity
    world.angle[i] = body.angle
    return met


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    choice = int(world.action[i, 0]) - world.idle
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] > wp.int64(3 + world.idle):
        report[1] = i + 1
        choice = -1
    met = simulate(world, i, choice)
    age = world.age[i] + 1
    world.age[i] = age
    # a goal's reward replaces the cost of a decision
    world.reward[i] = wp.where(met < 0, -COST, wp.where(met == world.symbol[i], 1.0, -0.1))
    world.terminated[i] = met >= 0
    world.truncated[i] = age >= MOST_DECISIONS and met < 0
    observe(world, i)
    if met >= 0 or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        save_final_obs(world.obs_time, world.final_obs_time, i)
        start(world, i)


PROGRAM = Program(World, begin, tick)


def go_to_matching_goal(columns: Mapping[str, torch.Tensor], goal_x: float, idle: int) -> Action:
    """Goes around the symbol, then to the goal with its mark, without having to remember it. `idle` choices come first."""
    place, symbol = columns["place"], columns["symbol_place"]
    on_left = columns["left_goal"] == columns["symbol"]
    goal = torch.stack([torch.where(on_left, -goal_x, goal_x), torch.full_like(place[:, 0], float(GOAL_Y))], 1)
    target = detour(place, goal, symbol, torch.full_like(place[:, :1], 2.45))
    discrete = steer(place, columns["angle"], target, 0.14) + idle
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def draw_hall(rows: Rows, behavior: str, goal_x: float) -> Drawing:
    """Draws the hall with the goals, the right one green, the symbol, and the agent."""
    left, symbol, wide = rows["left_goal"], rows["symbol"], tuple(HALL)
    marks = np.stack([left, 1 - left], 1)
    colors = np.where((marks == symbol[:, None])[..., None], GREEN, RED)
    goals = np.broadcast_to(np.array([[-goal_x, float(GOAL_Y)], [goal_x, float(GOAL_Y)]]), (rows.areas, 2, 2))
    shapes = (
        *figures.room(rows.areas, wide, wall=1.5),
        *figures.marked("goal", goals, tuple(GOAL), 1.5, marks, colors),
        *figures.marked("symbol", rows["symbol_place"][:, None], tuple(SYMBOL), 2.0, symbol[:, None], VIOLET),
        *figures.agent(rows["place"][:, None], rows["angle"][:, None], 1.5 * float(RADIUS), (behavior, rows.slots)),
    )
    return Drawing(shapes, (wide[0] + 0.5, 2.0, wide[1] + 0.5), elevation=62.0)


class Hallway(WarpEnv):
    """Hallway: vector 30 (5 rays), discrete [4]: forward, back, turn right, turn left."""

    behavior = "Hallway"
    summary = "An agent sees a symbol, X or O, in a hall, and goes to the goal of that mark at the far end, out of sight of it."
    rewards = ("-0.0003 a decision", "+1 at the goal of the symbol's mark, -0.1 at the other, in place of that decision's -0.0003")
    episode = "ends at a goal, and is truncated after 600 decisions (3,000 physics ticks)"
    benchmark = 0.7
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {behavior: (RayFan("rays", ANGLES, float(LENGTH), SEEN),)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (30,)),), ActionSpec(branches=(CHOICES,)), steady=True)
        sizes = {"obs": 30, "final_obs": 30, "obs_time": 0, "final_obs_time": 0}
        super().__init__(PROGRAM, spec, areas, device, tags=4, frames=1, idle=0, goal_x=5, start_x=8, action=1, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `go_to_matching_goal`'s actions; None for another behavior."""
        return go_to_matching_goal(self._columns, 5.0, 0) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_hall(rows, self.behavior, 5.0)


class HallwayUnity(WarpEnv):
    """HallwayUnity: rays 105 and time 3 (three frames), discrete [5]: nothing, forward, back, turn right, turn left."""

    behavior = "Hallway"
    summary = "Hallway with the observations and choices of Unity's own model of it: three frames, a clock, a choice to do nothing."
    rewards = Hallway.rewards
    episode = Hallway.episode
    benchmark = 0.7
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {behavior: (RayFan("rays", ANGLES, float(LENGTH), (*SEEN, "wall"), first=70),)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (105,)), ObsSpec("time", (3,))), ActionSpec(branches=(CHOICES + 1,)), steady=True)
        sizes = {"obs": 105, "final_obs": 105, "obs_time": 3, "final_obs_time": 3}
        super().__init__(PROGRAM, spec, areas, device, tags=5, frames=3, idle=1, goal_x=7, start_x=3, action=1, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `go_to_matching_goal`'s actions; None for another behavior."""
        return go_to_matching_goal(self._columns, 7.0, 1) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_hall(rows, self.behavior, 7.0)
