"""Tennis: two agents keep a ball in play over a net; the first that fails loses.

A rally begins with the ball falling onto a side drawn at random, as though the other side had played it there. Both agents'
episodes end with the rally, or as a draw after MOST_DECISIONS. `motion` holds the physics and decides who loses.

An agent observes its racket's position and velocity, the ball's, and its racket's tilt in radians, all in its own frame
(meters, the net at 0, its own side negative), and the last three of these frames, oldest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.tennis.motion import (
    BALL_RADIUS,
    COURT,
    HALF_LENGTH,
    MIDDLE_TILT,
    MOST_TILT,
    NET,
    NOBODY,
    SPEED,
    STAND,
    THICKNESS,
    Racket,
    Rally,
    mirror,
    move_racket,
    step_ball,
)
from palaestra.envs.solids import BLUE, FLOOR, GOLD, GRAY, INK, PAPER, RED, Drawing, solids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(2)
TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(500)
FRAME_SIZE, FRAMES = wp.constant(9), wp.constant(3)
SERVE_HEIGHT = wp.constant(4.0)
OBS = int(FRAME_SIZE) * int(FRAMES)
READY = -5.0  # x at which the heuristic waits
DASH = float(SPEED) * float(SECONDS) * float(TICKS)  # distance that a racket can move in a decision
LEAN = 0.9  # tilt in radians at which the face sends balls over the net


@wp.struct
class World:
    """Columns of Tennis: a row per slot, except for `AREA_COLUMNS`."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    striker: wp.array(dtype=wp.int32)  # agent that struck the ball last; at first the one that does not receive it
    bounces: wp.array(dtype=wp.int32)  # bounces since then
    strokes: wp.array(dtype=wp.int32)  # strokes in this episode
    parameters: wp.array2d(dtype=wp.float32)  # gravity, scale, ball_touch of this episode
    pending: wp.array3d(dtype=wp.float32)
    episodes: wp.array(dtype=wp.int32)
    position: wp.array(dtype=wp.vec2)  # position of the racket's middle, in its own frame
    velocity: wp.array(dtype=wp.vec2)
    tilt: wp.array(dtype=wp.float32)  # radians that the face's normal points above the horizon
    action: wp.array2d(dtype=wp.float32)
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


AREA_COLUMNS = ("rng", "age", "ball", "ball_velocity", "striker", "bounces", "strokes", "parameters")


@wp.func
def observe(world: World, i: int, side: int):
    """Writes an agent's current observation, after moving older frames back by one."""
    slot = i * AGENTS + side
    old = (FRAMES - 1) * FRAME_SIZE
    for k in range(old):
        world.obs[slot, k] = world.obs[slot, k + FRAME_SIZE]
    ball = mirror(world.ball[i], side)
    ball_velocity = mirror(world.ball_velocity[i], side)
    for k in range(2):
        world.obs[slot, old + k] = world.position[slot][k]
        world.obs[slot, old + 2 + k] = world.velocity[slot][k]
        world.obs[slot, old + 4 + k] = ball[k]
        world.obs[slot, old + 6 + k] = ball_velocity[k]
    world.obs[slot, old + 8] = world.tilt[slot]


@wp.func
def start(world: World, i: int):
    """Starts an episode: both agents near the middle of their sides, the ball above one of them."""
    for k in range(world.parameters.shape[1]):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    receiver = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.ball[i] = mirror(wp.vec2(wp.randf(state, -7.0, -3.0), SERVE_HEIGHT), receiver)
    world.ball_velocity[i] = wp.vec2(0.0, 0.0)
    world.striker[i] = 1 - receiver
    world.bounces[i] = 0
    world.strokes[i] = 0
    world.age[i] = 0
    world.episodes[i] += 1
    for side in range(AGENTS):
        slot = i * AGENTS + side
        world.position[slot] = wp.vec2(wp.randf(state, -7.0, -3.0), STAND)
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.tilt[slot] = MIDDLE_TILT
        for k in range(world.obs.shape[1]):
            world.obs[slot, k] = 0.0
        observe(world, i, side)
    world.rng[i] = state


@wp.func
def read_action(world: World, slot: int, report: wp.array(dtype=wp.int32)):
    """Returns an agent's action, clipped to -1..1."""
    order = wp.vec3(world.action[slot, 0], world.action[slot, 1], world.action[slot, 2])
    if not wp.isfinite(order):
        report[1] = slot + 1
        order = wp.vec3(0.0, 0.0, 0.0)
    one = wp.vec3(1.0, 1.0, 1.0)
    return wp.min(wp.max(order, -one), one)


@wp.func
def load_racket(world: World, slot: int):
    """Returns an agent's racket."""
    racket = Racket()
    racket.position = world.position[slot]
    racket.velocity = world.velocity[slot]
    racket.tilt = world.tilt[slot]
    return racket


@wp.func
def store_racket(world: World, slot: int, racket: Racket):
    """Writes an agent's racket back."""
    world.position[slot] = racket.position
    world.velocity[slot] = racket.velocity
    world.tilt[slot] = racket.tilt


@wp.func
def simulate(world: World, i: int, report: wp.array(dtype=wp.int32)):
    """Runs the physics of one decision, which a lost rally ends early; returns the loser, or NOBODY."""
    first = i * AGENTS
    left, right = load_racket(world, first), load_racket(world, first + 1)
    left_order, right_order = read_action(world, first, report), read_action(world, first + 1, report)
    gravity, half_length = world.parameters[i, 0], HALF_LENGTH * world.parameters[i, 1]
    rally = Rally()
    rally.position = world.ball[i]
    rally.velocity = world.ball_velocity[i]
    rally.striker = world.striker[i]
    rally.bounces = world.bounces[i]
    rally.strokes = world.strokes[i]
    rally.loser = NOBODY
    for _ in range(TICKS):
        if rally.loser == NOBODY:
            left = move_racket(left, left_order, gravity)
            right = move_racket(right, right_order, gravity)
            rally = step_ball(rally, left, right, gravity, half_length)
    store_racket(world, first, left)
    store_racket(world, first + 1, right)
    world.ball[i] = rally.position
    world.ball_velocity[i] = rally.velocity
    world.striker[i] = rally.striker
    world.bounces[i] = rally.bounces
    world.strokes[i] = rally.strokes
    return rally.loser


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    strokes = world.strokes[i]
    loser = simulate(world, i, report)
    touch = wp.where(world.strokes[i] > strokes, world.parameters[i, 2], 0.0)
    age = world.age[i] + 1
    world.age[i] = age
    lost = loser != NOBODY
    truncated = age >= MOST_DECISIONS and not lost
    for side in range(AGENTS):
        slot = i * AGENTS + side
        observe(world, i, side)
        result = wp.where(lost, wp.where(side == loser, -1.0, 1.0), 0.0)
        world.reward[slot] = result + wp.where(side == world.striker[i], touch, 0.0)
        world.terminated[slot] = lost
        world.truncated[slot] = truncated
    if lost or truncated:
        report[0] = 1
        for slot in range(i * AGENTS, i * AGENTS + AGENTS):
            save_final_obs(world.obs, world.final_obs, slot)
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)


def return_ball(columns: Mapping[str, Tensor]) -> Action:
    """Goes to where the ball comes down and sends it back, its face always at the same angle; never jumps."""
    mirror = torch.tensor([[[1.0, 1.0]], [[-1.0, 1.0]]], device=columns["ball"].device)
    ball = (columns["ball"] * mirror).transpose(0, 1).reshape(-1, 2)  # a row per slot, in its frame
    velocity = (columns["ball_velocity"] * mirror).transpose(0, 1).reshape(-1, 2)
    gravity = columns["parameters"][:, 0].repeat_interleave(int(AGENTS))
    square = velocity[:, 1] ** 2 + 2 * gravity * (ball[:, 1] - float(STAND))
    seconds = (velocity[:, 1] + square.clamp(min=0).sqrt()) / gravity
    lands = ball[:, 0] + velocity[:, 0] * seconds.clamp(min=0)
    is_mine = columns["striker"].repeat_interleave(int(AGENTS)) != torch.arange(len(ball), device=ball.device) % int(AGENTS)
    place = torch.where(is_mine, lands.clamp(-float(COURT), 0) - 0.2, READY)
    run = (place - columns["position"][:, 0]) / DASH
    turn = torch.full_like(run, (LEAN - float(MIDDLE_TILT)) / float(MOST_TILT))
    continuous = torch.stack([run, torch.zeros_like(run), turn], 1).clamp(-1, 1)
    return Action(continuous, torch.zeros(len(run), 0, dtype=torch.int64, device=run.device))


FLOOR_HEIGHT, SPAN = -3.2, 3.0  # of the drawing: the court lies low, so that high balls are seen; SPAN is its depth


def draw_court(rows: Rows, behavior: str) -> Drawing:
    """Draws the court from the side with its net, the ball with a disc on the floor below it, and the rackets."""
    areas, court = rows.areas, float(COURT)
    sign = np.array([1.0, -1.0], np.float32)
    x, y, tilt = sign * rows["position"][..., 0], rows["position"][..., 1] + FLOOR_HEIGHT, sign * rows["tilt"]
    zero, long = np.zeros_like(x), 2 * float(HALF_LENGTH) * np.broadcast_to(rows["parameters"][:, 1:2], x.shape)
    face = np.stack([np.full_like(x, 2 * float(THICKNESS)), long, np.full_like(x, 1.2)], -1)
    lean, agents, colors = np.stack([zero, zero, np.sin(tilt / 2), np.cos(tilt / 2)], -1), (behavior, rows.slots), np.array([BLUE, RED])
    ball = np.stack([rows["ball"][:, 0], rows["ball"][:, 1] + FLOOR_HEIGHT, 0 * rows["ball"][:, 0]], -1)[:, None]
    leg = np.stack([zero + 0.14, y - FLOOR_HEIGHT, zero + 0.14], -1)
    lines = [(side * court, FLOOR_HEIGHT + 0.005, 0.0) for side in (-0.5, 0.5)]
    ends = [(side * (court + 0.1), FLOOR_HEIGHT + 0.4, 0.0) for side in (-1, 1)]
    middle = np.zeros((areas, 1, 3))
    shapes = (
        solids("floor", "box", middle + [0, FLOOR_HEIGHT - 0.1, 0], (2 * court, 0.2, SPAN), FLOOR, fixed=True),
        solids("lines", "box", np.broadcast_to(lines, (areas, 2, 3)), (0.08, 0.02, SPAN), PAPER, fixed=True),
        solids("net", "box", middle + [0, FLOOR_HEIGHT + float(NET) / 2, 0], (0.12, float(NET), SPAN), INK, fixed=True),
        solids(
            "ends",
            "box",
            np.broadcast_to(ends, (areas, 2, 3)),
            (0.2, 1, SPAN),
            GRAY,
            fixed=True,
        ),
        solids("racket", "box", np.stack([x, y, zero], -1), face, colors, rotation=lean, agents=agents),
        solids("leg", "cylinder", np.stack([x, (y + FLOOR_HEIGHT) / 2, zero], -1), leg, INK, agents=agents),
        solids("foot", "cylinder", np.stack([x, zero + FLOOR_HEIGHT + 0.08, zero], -1), (0.7, 0.16, 0.7), colors, agents=agents),
        solids("ball", "sphere", ball, 2 * float(BALL_RADIUS), GOLD),
    )
    return Drawing(shapes, (court + 0.3, 3.5, SPAN / 2), elevation=12.0)


class Tennis(WarpEnv):
    """Tennis: vector 27 (three frames of 9), three continuous actions: toward the net, up, the racket's tilt."""

    behavior = "Tennis"
    agents = int(AGENTS)
    teams = (0, 1)
    summary = "Two agents keep a ball in play over a net; the first that fails loses."
    rewards = ("+1 to the winner of the rally", "-1 to the loser", "ball_touch, a parameter, to the agent that strikes the ball")
    episode = "ends with the rally, and is truncated after 500 decisions (2,500 physics ticks), a draw"
    benchmark = None
    default_areas = 16
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"gravity": (9.81, 6.0, 20.0), "scale": (0.5, 0.2, 5.0), "ball_touch": (0.0, 0.0, 1.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("vector", (OBS,)),), ActionSpec(continuous=3), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=3, parameters=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `return_ball`'s actions; None for another behavior."""
        return return_ball(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_court(rows, self.behavior)
