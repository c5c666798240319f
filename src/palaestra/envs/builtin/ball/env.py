"""3DBall and 3DBallHard: keep a ball on a block by tilting it.

The documentation leaves the physics open. Ours is a rigid sphere on a tilting box, measured against recordings
of Unity's own: a cube with edges of 5 about its center, a ball of diameter `scale` that drops from 1 above it,
inelastic contacts with a friction coefficient of 0.6, ticks of 0.02 s integrated semi-implicitly. The mass cancels
out of all that; it only matters for the drag of the air, which is small for a mass of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing.figures import turned_by
from palaestra.envs.solids import BLUE, GOLD, INK, Drawing, solids

if TYPE_CHECKING:
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(1000)
SECONDS = wp.constant(0.02)  # seconds per physics tick
DEGREE = wp.constant(0.017453292519943295)
HALF_EDGE = wp.constant(2.5)
FRICTION = wp.constant(0.6)
DRAG = wp.constant(0.01)  # N s/m for a diameter of 1 (Stokes: in proportion to it)
START_RANGE = wp.constant(0.75)  # distance from the middle; with Unity's 1.5, a policy that samples its actions loses one ball in a hundred
TILT_LIMIT = wp.constant(0.25)  # limit of the quaternion's component: about 29 degrees


@wp.struct
class World:
    """Columns of 3DBall, one row per area."""

    frames: wp.int32  # frames in an observation; with more than one, velocities are left out
    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    tilt: wp.array(dtype=wp.quat)
    position: wp.array(dtype=wp.vec3)  # position of the ball, from the block's center
    velocity: wp.array(dtype=wp.vec3)
    spin: wp.array(dtype=wp.vec3)  # rad/s
    parameters: wp.array2d(dtype=wp.float32)  # scale, gravity, mass of this episode
    pending: wp.array3d(dtype=wp.float32)
    episodes: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.float32)
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, after moving older frames back by one."""
    tilt = world.tilt[i]
    position = world.position[i]
    velocity = world.velocity[i]
    at = 2
    if world.frames == 1:
        world.obs[i, 0] = tilt[2]
        world.obs[i, 1] = tilt[0]
        for k in range(3):
            world.obs[i, 5 + k] = velocity[k]
    else:
        at = 3 * world.frames - 3
        last = 5 * world.frames - 2
        for k in range(at):
            world.obs[i, k] = world.obs[i, k + 3]
        for k in range(at + 3, last):
            world.obs[i, k] = world.obs[i, k + 2]
        world.obs[i, last] = tilt[2]
        world.obs[i, last + 1] = tilt[0]
    for k in range(3):
        world.obs[i, at + k] = position[k]


@wp.func
def start(world: World, i: int):
    """Starts an episode: a block tilted by up to 10 degrees about x, then z, and the ball above it, near the middle."""
    for k in range(3):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    about_x = wp.randf(state, -10.0, 10.0) * DEGREE
    about_z = wp.randf(state, -10.0, 10.0) * DEGREE
    x = wp.randf(state, -START_RANGE, START_RANGE)
    z = wp.randf(state, -START_RANGE, START_RANGE)
    world.rng[i] = state
    world.tilt[i] = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), about_x) * wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), about_z)
    world.position[i] = wp.vec3(x, HALF_EDGE + 1.0 + 0.5 * world.parameters[i, 0], z)
    world.velocity[i] = wp.vec3(0.0, 0.0, 0.0)
    world.spin[i] = wp.vec3(0.0, 0.0, 0.0)
    world.age[i] = 0
    world.episodes[i] += 1
    for k in range(world.obs.shape[1]):
        world.obs[i, k] = 0.0
    observe(world, i)


@wp.struct
class Sphere:
    """The moving ball."""

    position: wp.vec3
    velocity: wp.vec3
    spin: wp.vec3


@wp.func
def tilt_block(tilt: wp.quat, about_z: wp.quat, about_x: wp.quat):
    """Returns the block's tilt after one physics tick of turning about its own z, then its own x, each up to a limit."""
    if about_z[2] * tilt[2] <= 0.0 or wp.abs(tilt[2]) < TILT_LIMIT:
        tilt = tilt * about_z
    if about_x[0] * tilt[0] <= 0.0 or wp.abs(tilt[0]) < TILT_LIMIT:
        tilt = tilt * about_x
    return tilt


@wp.func
def step_ball(ball: Sphere, tilt: wp.quat, radius: float, gravity: float, kept: float):
    """Returns the ball after one physics tick: gravity and drag, then the impulses of a contact, then the move.

    `kept` is the share of its velocity that remains after drag.
    """
    ball.velocity = kept * (ball.velocity - wp.vec3(0.0, gravity * SECONDS, 0.0))
    local = wp.quat_rotate_inv(tilt, ball.position)
    normal = wp.quat_rotate(tilt, wp.vec3(0.0, 1.0, 0.0))
    gap = local[1] - HALF_EDGE - radius
    if wp.abs(local[0]) > HALF_EDGE or wp.abs(local[2]) > HALF_EDGE:  # past the top's edge
        edge = wp.vec3(HALF_EDGE, HALF_EDGE, HALF_EDGE)
        away = local - wp.min(wp.max(local, -edge), edge)
        distance = wp.length(away)
        normal = wp.quat_rotate(tilt, away / distance)
        gap = distance - radius
    push = -wp.dot(ball.velocity, normal) - wp.max(gap, 0.0) * (1.0 / SECONDS)
    if push > 0.0:
        ball.velocity += push * normal
        arm = -radius * normal
        slip = ball.velocity + wp.cross(ball.spin, arm)
        slip -= wp.dot(slip, normal) * normal
        # a solid sphere stops slipping at 2/7 of the slip: 1 / (1 + m r^2 / I) with I = 2/5 m r^2
        pull = -2.0 / 7.0 * slip
        most = FRICTION * push
        if wp.length_sq(pull) > most * most:
            pull *= most / wp.length(pull)
        ball.velocity += pull
        ball.spin += wp.cross(arm, pull) * (2.5 / (radius * radius))
    ball.position += ball.velocity * SECONDS
    if gap < 0.0:
        ball.position -= gap * normal  # the block has turned into the ball: moves it out without adding speed
    return ball


@wp.func
def has_fallen(position: wp.vec3):
    """Returns whether the ball has fallen."""
    return position[1] < -2.0 or wp.abs(position[0]) > 3.0 or wp.abs(position[2]) > 3.0


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def simulate(world: World, i: int, action: wp.vec2):
    """Runs the physics of one decision; returns True if the ball has fallen, which ends the decision early."""
    about_z = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 2.0 * DEGREE * action[0])
    about_x = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 2.0 * DEGREE * action[1])
    scale = world.parameters[i, 0]
    gravity = world.parameters[i, 1]
    kept = 1.0 / (1.0 + DRAG * scale / world.parameters[i, 2] * SECONDS)
    tilt = world.tilt[i]
    ball = Sphere()
    ball.position = world.position[i]
    ball.velocity = world.velocity[i]
    ball.spin = world.spin[i]
    left = int(TICKS)
    fallen = bool(False)  # Warp takes a literal for a constant
    while left > 0 and not fallen:
        tilt = tilt_block(tilt, about_z, about_x)
        ball = step_ball(ball, tilt, 0.5 * scale, gravity, kept)
        fallen = has_fallen(ball.position)
        left -= 1
    world.tilt[i] = wp.normalize(tilt)
    world.position[i] = ball.position
    world.velocity[i] = ball.velocity
    world.spin[i] = ball.spin
    return fallen


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = wp.vec2(world.action[i, 0], world.action[i, 1])
    if not wp.isfinite(action):
        report[1] = i + 1
        action = wp.vec2(0.0, 0.0)
    fallen = simulate(world, i, wp.vec2(wp.clamp(action[0], -1.0, 1.0), wp.clamp(action[1], -1.0, 1.0)))
    observe(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = wp.where(fallen, -1.0, 0.1)
    world.terminated[i] = fallen
    world.truncated[i] = age >= MOST_DECISIONS and not fallen
    if fallen or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)


PROGRAM = Program(World, begin, tick)


def balance(columns: Mapping[str, torch.Tensor]) -> Action:
    """Tilts against the ball's position and velocity, less so the more the block is tilted; never drops the ball at default gravity."""
    tilt, position, velocity = columns["tilt"], columns["position"], columns["velocity"]
    about_z = position[:, 0] + 2 * velocity[:, 0] - 10 * tilt[:, 2]
    about_x = -position[:, 2] - 2 * velocity[:, 2] - 10 * tilt[:, 0]
    continuous = torch.stack([about_z, about_x], 1).clamp(-1, 1)
    return Action(continuous, torch.zeros(len(continuous), 0, dtype=torch.int64, device=continuous.device))


EYES = np.array([[-0.75, 0.6, 2.5], [0.75, 0.6, 2.5]], np.float32)


def draw_ball(rows: Rows, behavior: str) -> Drawing:
    """Draws the block, whose eyes look at the viewer, and the ball on it. Unity's z points away from the viewer."""
    turn, place = rows["tilt"] * np.float32([-1, -1, 1, 1]), rows["position"] * np.float32([1, 1, -1])
    edge, agents = 2 * float(HALF_EDGE), (behavior, rows.slots)
    middle = np.zeros((rows.areas, 1, 3), np.float32)
    eyes = turn[:, None] * np.ones((1, 2, 1), np.float32)
    shapes = (
        solids("block", "box", middle, edge, BLUE, rotation=turn[:, None], agents=agents),
        solids("eyes", "sphere", turned_by(eyes, EYES), (0.55, 0.9, 0.2), INK, rotation=eyes, agents=(behavior, rows.slots)),
        solids("ball", "sphere", place[:, None], rows["parameters"][:, :1, None], GOLD),
    )
    return Drawing(shapes, (3.5, 4.0, 3.5), elevation=30.0)


class Ball(WarpEnv):
    """3DBall: vector 8 (block's rotation z and x, ball's position and velocity), two continuous actions."""

    behavior = "3DBall"
    summary = "A block tilts itself to keep a ball on top."
    rewards = ("+0.1 a decision while the ball stays", "-1 when it falls")
    episode = "ends when the ball falls, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 100.0
    default_areas = 12
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"scale": (1.0, 0.2, 10.0), "gravity": (9.81, 4.0, 105.0), "mass": (1.0, 0.1, 20.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("vector", (8,)),), ActionSpec(continuous=2), steady=True)
        super().__init__(PROGRAM, spec, areas, device, frames=1, obs=8, final_obs=8, action=2, parameters=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `balance`'s actions; None for another behavior."""
        return balance(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_ball(rows, self.behavior)


class BallHard(WarpEnv):
    """3DBallHard: 3DBall without the velocity, but with the last nine frames of 5, oldest first."""

    behavior = "3DBallHard"
    summary = "3DBall without the ball's velocity: it must be inferred from the last nine frames."
    rewards = Ball.rewards
    episode = Ball.episode
    benchmark = 100.0
    default_areas = 12
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = Ball.tick_seconds
    parameter_ranges = Ball.parameter_ranges

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("vector", (45,)),), ActionSpec(continuous=2), steady=True)
        super().__init__(PROGRAM, spec, areas, device, frames=9, obs=45, final_obs=45, action=2, parameters=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `balance`'s actions; None for another behavior."""
        return balance(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_ball(rows, self.behavior)
