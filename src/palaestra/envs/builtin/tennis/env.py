"""Tennis, as in Unity's former example: two agents keep a ball in play over a net; the first that fails loses.

A rally begins with the ball falling from 6 m onto a side drawn at random, 12.9 m above the floor. Both agents' episodes
end with the rally, which has no time limit. `motion` computes the physics and decides which side loses. Unity removed
the example before ML-Agents 2.

An agent observes position and velocity of its racket and of the ball, and the third number of its racket's rotation as
a quaternion, which is always 0 because the racket is turned around; all in its own frame (meters, the net at 0, its own
side negative). The last three frames are observed, oldest first. It chooses its speed toward the net, its jump, and the
racket's tilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing.figures import fixed
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import clear_frames, shift_frames
from palaestra.envs.builtin.tennis import motion
from palaestra.envs.builtin.tennis.motion import Racket, Rally, mirror
from palaestra.envs.solids import BLUE, FLOOR, GOLD, GRAY, INK, RED, Drawing, solids

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(2)
TICKS = wp.constant(5)  # physics ticks per decision
FRAME_SIZE = wp.constant(9)
FRAMES = wp.constant(3)
SERVE_HEIGHT = wp.constant(6.0)
START_HEIGHT = wp.constant(-1.5)
# distance from the net at which rackets and ball start
LEAST_START = wp.constant(6.0)
MOST_START = wp.constant(8.0)
OBS = FRAME_SIZE * FRAMES
DASH = motion.SPEED * SECONDS * float(TICKS)  # distance that a racket can move in a decision


@world_struct
class World(EndColumns, ParameterColumns):
    """Columns of Tennis: a row per slot, except for `AREA_COLUMNS`."""

    rng: wp.array(dtype=wp.uint32)
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    striker: wp.array(dtype=wp.int32)  # agent that struck the ball last, or NOBODY
    floor: wp.array(dtype=wp.int32)  # what the ball has touched since then
    over: wp.array(dtype=wp.int32)  # 1: the net is no fault any more
    contacts: wp.array(dtype=wp.int32)  # bits of what the ball touches
    strokes: wp.array(dtype=wp.int32)  # strokes in this episode
    parameters: wp.array2d(dtype=wp.float32)  # gravity, scale, ball_touch of this episode
    position: wp.array(dtype=wp.vec2)  # position of the racket's middle
    velocity: wp.array(dtype=wp.vec2)
    tilt: wp.array(dtype=wp.float32)  # radians that the face's normal points below the horizon
    action: wp.array2d(dtype=wp.float32)
    obs: wp.array2d(dtype=wp.float32)


AREA_COLUMNS = ("ball", "ball_velocity", "striker", "floor", "over", "contacts", "strokes", "parameters")


@wp.func
def observe(world: World, i: int, side: int):
    """Writes an agent's current observation, after moving older frames back by one."""
    slot = i * AGENTS + side
    old = shift_frames(world.obs, slot, FRAME_SIZE)
    ball = mirror(world.ball[i], side)
    ball_velocity = mirror(world.ball_velocity[i], side)
    position = mirror(world.position[slot], side)
    velocity = mirror(world.velocity[slot], side)
    for k in range(2):
        world.obs[slot, old + k] = position[k]
        world.obs[slot, old + 2 + k] = velocity[k]
        world.obs[slot, old + 4 + k] = ball[k]
        world.obs[slot, old + 6 + k] = ball_velocity[k]
    world.obs[slot, old + 8] = 0.0  # the third number of a rotation by 180 degrees about the vertical axis


@wp.func
def start(world: World, i: int):
    """Starts an episode: an agent on either side, the ball above one of them, and no older frames."""
    for k in range(world.parameters.shape[1]):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    receiver = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.ball[i] = mirror(wp.vec2(-wp.randf(state, LEAST_START, MOST_START), SERVE_HEIGHT), receiver)
    world.ball_velocity[i] = wp.vec2(0.0, 0.0)
    world.striker[i] = motion.NOBODY
    world.floor[i] = motion.SERVICE
    world.over[i] = 0
    world.contacts[i] = 0
    world.strokes[i] = 0
    world.episodes[i] += 1
    for side in range(AGENTS):
        slot = i * AGENTS + side
        world.position[slot] = mirror(wp.vec2(-wp.randf(state, LEAST_START, MOST_START), START_HEIGHT), side)
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.tilt[slot] = 0.0
        clear_frames(world.obs, slot)
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
def load_rally(world: World, i: int):
    """Returns the state of an area's rally."""
    rally = Rally()
    rally.position = world.ball[i]
    rally.velocity = world.ball_velocity[i]
    rally.striker = world.striker[i]
    rally.floor = world.floor[i]
    rally.over = world.over[i]
    rally.contacts = world.contacts[i]
    rally.strokes = world.strokes[i]
    rally.loser = motion.NOBODY
    return rally


@wp.func
def simulate(world: World, i: int, ticks: int, left_order: wp.vec3, right_order: wp.vec3):
    """Runs up to `ticks` physics ticks, until the rally is lost; returns the ticks left, and the loser or NOBODY."""
    first = i * AGENTS
    left = load_racket(world, first)
    right = load_racket(world, first + 1)
    gravity = world.parameters[i, 0]
    radius = 0.5 * world.parameters[i, 1]
    rally = load_rally(world, i)
    while ticks > 0 and rally.loser == motion.NOBODY:
        ticks -= 1
        left = motion.move_racket(left, left_order, gravity, 0)
        right = motion.move_racket(right, right_order, gravity, 1)
        rally = motion.move_ball(rally, gravity)
        if rally.position[0] < 0.0:
            rally, left = motion.meet_racket(rally, left, 0, radius)
        else:
            rally, right = motion.meet_racket(rally, right, 1, radius)
        rally = motion.meet_court(rally, radius)
        rally.velocity = motion.limit(rally.velocity)
    store_racket(world, first, left)
    store_racket(world, first + 1, right)
    world.ball[i] = rally.position
    world.ball_velocity[i] = rally.velocity
    world.striker[i] = rally.striker
    world.floor[i] = rally.floor
    world.over[i] = rally.over
    world.contacts[i] = rally.contacts
    world.strokes[i] = rally.strokes
    return ticks, rally.loser


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    for side in range(AGENTS):
        observe(world, i, side)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after a rally's end run in the next rally, with no action."""
    i = wp.tid()
    first = i * AGENTS
    strokes = world.strokes[i]
    left_order = read_action(world, first, report)
    right_order = read_action(world, first + 1, report)
    left, loser = simulate(world, i, int(TICKS), left_order, right_order)
    touch = wp.where(world.strokes[i] > strokes, world.parameters[i, 2], 0.0)
    lost = loser != motion.NOBODY
    for side in range(AGENTS):
        slot = first + side
        observe(world, i, side)
        result = wp.where(lost, wp.where(side == loser, -1.0, 1.0), 0.0)
        world.reward[slot] = result + wp.where(side == world.striker[i], touch, 0.0)
        world.terminated[slot] = lost
    if lost:
        report[0] = 1
        for side in range(AGENTS):
            save_final_obs(world.obs, world.final_obs, first + side)
        start(world, i)
        still = wp.vec3(0.0, 0.0, 0.0)
        simulate(world, i, left, still, still)
        for side in range(AGENTS):
            observe(world, i, side)


READY = -7.0  # x at which the heuristic waits
BEHIND = 0.2  # meters that it stands behind the ball
AIM = 7.0  # x of the opponent's court at which it aims
TILTS = torch.linspace(-1.0, 0.4, 15)


def return_ball(columns: Mapping[str, Tensor]) -> Tensor:
    """Follows a ball that comes to the agent's side, with the tilt that would send it to the other side's middle."""
    mirror = torch.tensor([[[1.0, 1.0]], [[-1.0, 1.0]]], device=columns["ball"].device)
    ball = (columns["ball"] * mirror).transpose(0, 1).reshape(-1, 2)  # a row per slot, in its frame
    velocity = (columns["ball_velocity"] * mirror).transpose(0, 1).reshape(-1, 2)
    racket = (columns["position"].view(-1, 2, 2).transpose(0, 1) * mirror).transpose(0, 1).reshape(-1, 2)
    is_mine = columns["striker"].repeat_interleave(AGENTS) != torch.arange(len(ball), device=ball.device) % AGENTS
    comes = is_mine & (ball[:, 0] + 0.3 * velocity[:, 0] < -0.5)
    soon = ball + velocity * SECONDS * float(TICKS)
    height = soon[:, 1].clamp(motion.FLOOR + 0.8, motion.JUMP_BELOW - 0.1)
    place = torch.where(comes, (soon[:, 0] - BEHIND).clamp(max=-1.0), READY)
    run = ((place - racket[:, 0]) / DASH).clamp(-1, 1)
    jump = torch.where(racket[:, 1] < torch.where(comes, height, motion.JUMP_BELOW), 1.0, 0.0)
    return torch.stack([run, jump, best_tilt(ball, velocity, run)], 1)


def best_tilt(ball: Tensor, velocity: Tensor, run: Tensor) -> Tensor:
    """Returns the tilt (S,) that sends a ball (S, 2) as near as possible to AIM, from a racket that moves at the speed
    `run` (S,)."""
    choice = TILTS.to(ball.device)
    # (tilts, 2)
    normal = torch.stack([(motion.MOST_TILT * choice).cos(), -(motion.MOST_TILT * choice).sin()], 1)
    approach = (motion.SPEED * run[:, None] * normal[:, 0] - velocity @ normal.T).clamp(min=0)
    share = 2 * motion.RACKET_MASS / (motion.RACKET_MASS + motion.BALL_MASS)
    after = (velocity[:, None] + share * approach[..., None] * normal).clamp(-motion.TOP_SPEED, motion.TOP_SPEED)
    fall = (after[..., 1] ** 2 + 2 * 9.81 * (ball[:, 1:] - motion.FLOOR).clamp(min=0)).sqrt()
    lands = ball[:, :1] + after[..., 0] * (after[..., 1] + fall) / 9.81
    return choice[(lands - AIM).abs().argmin(1)]


SPAN = 3.0  # depth of the drawing


def draw_court(rows: Rows, behavior: str) -> Drawing:
    """Draws the court from the side with its net, the walls, the ball and the rackets."""
    x = rows["position"][..., 0]
    y = rows["position"][..., 1]
    tilt = np.array([-1.0, 1.0], np.float32) * rows["tilt"]
    zero = np.zeros_like(x)
    face = (2 * motion.RACKET_HALF[0], 2 * motion.RACKET_HALF[1], 1.4)
    lean = np.stack([zero, zero, np.sin(tilt / 2), np.cos(tilt / 2)], -1)
    agents = (behavior, rows.slots)
    colors = np.array([BLUE, RED])
    ball = np.concatenate([rows["ball"], 0 * rows["ball"][:, :1]], -1)[:, None]
    wide = np.broadcast_to(rows["parameters"][:, None, 1:2], (rows.areas, 1, 3))
    ends = [(side * (motion.WALL + 0.1), motion.FLOOR + 3.0, 0.0) for side in (-1, 1)]
    net = (2 * motion.NET_HALF[0], 2 * motion.NET_HALF[1], SPAN)
    shapes = (
        fixed(rows.areas, "floor", "box", [(0, motion.FLOOR - 0.1, 0)], (2 * motion.WALL, 0.2, SPAN), FLOOR),
        fixed(rows.areas, "net", "box", [(0, motion.NET_MIDDLE[1], 0)], net, INK),
        fixed(rows.areas, "ends", "box", ends, (0.2, 6.0, SPAN), GRAY),
        solids("racket", "box", np.stack([x, y, zero], -1), face, colors, rotation=lean, agents=agents),
        solids("ball", "sphere", ball, wide, GOLD),
    )
    return Drawing(shapes, (motion.WALL + 0.3, 7.0, SPAN / 2), elevation=12.0)


class Tennis(WarpEnv):
    """Tennis: vector 27 (three frames of 9), three continuous actions: toward the net, jump, the racket's tilt."""

    behavior = "Tennis"
    agents = AGENTS
    teams = (0, 1)
    summary = "Two agents keep a ball in play over a net; the first that fails loses."
    rewards = (
        "+1 to the winner of the rally",
        "-1 to the loser",
        "ball_touch, a parameter, to the agent that strikes the ball",
    )
    episode = "ends with the rally; there is no time limit"
    benchmark = None
    default_areas = 16
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"gravity": (9.81, 6.0, 20.0), "scale": (0.5, 0.2, 5.0), "ball_touch": (0.0, 0.0, 1.0)}
    program = Program(World, begin, tick, area_columns=AREA_COLUMNS)
    spec = BehaviorSpec(
        (ObsSpec("StackingSensor_size3_VectorSensor_size9", (OBS,)),), ActionSpec(continuous=3), steady=True
    )
    rule = staticmethod(return_ball)
    picture = staticmethod(draw_court)
