"""The rules of Tennis: how a rally begins, what is seen of it, and what it earns; `tennis_motion` says who loses it.

A rally begins with the ball falling onto a side drawn at random, as though the other had played it there. Both agents'
episodes end with it, or as a draw after MOST_DECISIONS.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base import Program
from palaestra.envs.builtin.columns import pending, set_aside
from palaestra.envs.builtin.tennis_motion import HALF_LENGTH, MIDDLE_TILT, NOBODY, STAND, Racket, Rally, flown, mirrored, moved

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(2)
TICKS = wp.constant(5)  # physics ticks a decision
MOST_DECISIONS = wp.constant(500)
VIEW, VIEWS = wp.constant(9), wp.constant(3)
SERVE_HEIGHT = wp.constant(4.0)


@wp.struct
class World:
    """The columns of Tennis: a row a slot, but where `AREA_COLUMNS` has them."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    striker: wp.array(dtype=wp.int32)  # who has struck the ball last; at first who does not receive
    bounces: wp.array(dtype=wp.int32)  # since then
    strokes: wp.array(dtype=wp.int32)  # of this episode
    parameters: wp.array2d(dtype=wp.float32)  # gravity, scale, ball_touch of this episode
    pending: wp.array3d(dtype=wp.float32)
    episodes: wp.array(dtype=wp.int32)
    position: wp.array(dtype=wp.vec2)  # of the racket's middle, in its own frame
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
def see(world: World, i: int, side: int):
    """Writes what an agent sees now, after moving older views back by one."""
    slot = i * AGENTS + side
    old = (VIEWS - 1) * VIEW
    for k in range(old):
        world.obs[slot, k] = world.obs[slot, k + VIEW]
    ball = mirrored(world.ball[i], side)
    ball_velocity = mirrored(world.ball_velocity[i], side)
    for k in range(2):
        world.obs[slot, old + k] = world.position[slot][k]
        world.obs[slot, old + 2 + k] = world.velocity[slot][k]
        world.obs[slot, old + 4 + k] = ball[k]
        world.obs[slot, old + 6 + k] = ball_velocity[k]
    world.obs[slot, old + 8] = world.tilt[slot]


@wp.func
def start(world: World, i: int):
    """Both somewhere in the middle of their sides; the ball above one of these."""
    for k in range(world.parameters.shape[1]):
        world.parameters[i, k] = pending(world, i, k)
    state = world.rng[i]
    receiver = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.ball[i] = mirrored(wp.vec2(wp.randf(state, -7.0, -3.0), SERVE_HEIGHT), receiver)
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
        see(world, i, side)
    world.rng[i] = state


@wp.func
def ordered(world: World, slot: int, report: wp.array(dtype=wp.int32)):
    """An agent's action, within -1 and 1."""
    order = wp.vec3(world.action[slot, 0], world.action[slot, 1], world.action[slot, 2])
    if not wp.isfinite(order):
        report[1] = slot + 1
        order = wp.vec3(0.0, 0.0, 0.0)
    one = wp.vec3(1.0, 1.0, 1.0)
    return wp.min(wp.max(order, -one), one)


@wp.func
def held(world: World, slot: int):
    """An agent's racket."""
    racket = Racket()
    racket.position = world.position[slot]
    racket.velocity = world.velocity[slot]
    racket.tilt = world.tilt[slot]
    return racket


@wp.func
def put(world: World, slot: int, racket: Racket):
    """Keeps an agent's racket."""
    world.position[slot] = racket.position
    world.velocity[slot] = racket.velocity
    world.tilt[slot] = racket.tilt


@wp.func
def played(world: World, i: int, report: wp.array(dtype=wp.int32)):
    """Runs the physics of one decision; who has lost by then, which ends it early, or NOBODY."""
    first = i * AGENTS
    left, right = held(world, first), held(world, first + 1)
    left_order, right_order = ordered(world, first, report), ordered(world, first + 1, report)
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
            left = moved(left, left_order, gravity)
            right = moved(right, right_order, gravity)
            rally = flown(rally, left, right, gravity, half_length)
    put(world, first, left)
    put(world, first + 1, right)
    world.ball[i] = rally.position
    world.ball_velocity[i] = rally.velocity
    world.striker[i] = rally.striker
    world.bounces[i] = rally.bounces
    world.strokes[i] = rally.strokes
    return rally.loser


@wp.kernel
def begin(world: World):
    """Starts every area anew."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """One decision of both agents of every area."""
    i = wp.tid()
    strokes = world.strokes[i]
    loser = played(world, i, report)
    touch = wp.where(world.strokes[i] > strokes, world.parameters[i, 2], 0.0)
    age = world.age[i] + 1
    world.age[i] = age
    lost = loser != NOBODY
    cut = age >= MOST_DECISIONS and not lost
    for side in range(AGENTS):
        slot = i * AGENTS + side
        see(world, i, side)
        result = wp.where(lost, wp.where(side == loser, -1.0, 1.0), 0.0)
        world.reward[slot] = result + wp.where(side == world.striker[i], touch, 0.0)
        world.terminated[slot] = lost
        world.truncated[slot] = cut
    if lost or cut:
        report[0] = 1
        for slot in range(i * AGENTS, i * AGENTS + AGENTS):
            set_aside(world.obs, world.final_obs, slot)
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)
