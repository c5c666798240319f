"""The rules of Tennis: how rackets move, how the ball flies, and who loses a rally.

Played is in the plane: x along the court, y up, the net over x = 0, agent 0 on the left. A racket is told of in its own
agent's frame, in which it stands at negative x and looks toward the net; what happens to the ball is worked out in the
frame of the side that it is over. So the game looks and goes alike from both sides, to the last digit.

Sizes and speeds are ours: 9 m from the net to the wall behind a side, a net of 1 m, a racket's middle 1 m above the
floor, 5 m/s to run and 4.5 to jump with, physics ticks of 0.02 s. A racket's face leans back by -20 to 70 degrees. It
sends off what meets it along its normal, with KICK and a share of the speed at which they met, and meets the ball once
until the other has. Each stroke of a rally adds to the kick, so that rallies between good players end too.

A rally begins with the ball falling onto a side drawn at random, as though the other had played it there. The side that
the ball is over loses

- when the ball meets the floor for the second time, or after a stroke of its own for the first;
- when the ball reaches the wall behind after it has met the floor, or after a stroke of its own.

Any other ball at the wall was out, and its striker loses, as does who strikes the ball into the net.
"""

# A kernel is Warp's language in Python's clothes; pyright reads it as Python.
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportInvalidTypeForm=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base import Program
from palaestra.envs.builtin.columns import set_aside
from palaestra.envs.builtin.planar import SECONDS

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(2)
TICKS = wp.constant(5)  # physics ticks a decision
MOST_DECISIONS = wp.constant(500)
VIEW, VIEWS = wp.constant(9), wp.constant(3)
NOBODY = wp.constant(-1)

COURT = wp.constant(9.0)  # from the net to a wall
NET = wp.constant(1.0)
BALL_RADIUS = wp.constant(0.3)
TOP_SPEED = wp.constant(20.0)  # of the ball: in a tick it goes no further than a racket is thick
BOUNCE = wp.constant(0.75)  # share of its upward speed that the floor gives back
SERVE_HEIGHT = wp.constant(4.0)

NEAREST, FARTHEST = wp.constant(-1.0), wp.constant(-8.5)  # where a racket's middle may be
STAND = wp.constant(1.0)  # above the floor
HALF_LENGTH = wp.constant(2.0)  # of a racket, times its scale
THICKNESS = wp.constant(0.1)  # half of it
SPEED = wp.constant(5.0)
RUSH = wp.constant(0.6)  # m/s that a tick of running can change
JUMP = wp.constant(4.5)
JUMP_ABOVE = wp.constant(0.5)  # of the action
MIDDLE_TILT, MOST_TILT = wp.constant(0.4363323), wp.constant(0.7853982)  # 25 and 45 degrees: of the action 0, and what 1 adds
TURN = wp.constant(0.0698132)  # 4 degrees a tick
KICK = wp.constant(6.5)  # m/s
REBOUND = wp.constant(0.3)
GRIP = wp.constant(0.5)  # share of its speed along a face that the ball loses
HASTE = wp.constant(0.2)  # m/s that every stroke of a rally adds to the kick


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
    parameters: wp.array2d(dtype=wp.float32)  # gravity, scale of this episode
    pending: wp.array2d(dtype=wp.float32)
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


@wp.struct
class Rally:
    """The ball, and what counts for who wins it."""

    position: wp.vec2
    velocity: wp.vec2
    striker: wp.int32
    bounces: wp.int32
    strokes: wp.int32
    loser: wp.int32  # NOBODY: it goes on


@wp.struct
class Racket:
    """In its own agent's frame."""

    position: wp.vec2
    velocity: wp.vec2
    tilt: wp.float32


@wp.func
def mirrored(v: wp.vec2, side: int):
    """A vector of the area in the frame of a side, or back."""
    return wp.vec2(wp.where(side == 0, v[0], -v[0]), v[1])


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
    for k in range(2):
        world.parameters[i, k] = world.pending[i, k]
    state = world.rng[i]
    receiver = wp.where(wp.randf(state) < 0.5, 0, 1)
    world.ball[i] = mirrored(wp.vec2(wp.randf(state, -7.0, -3.0), SERVE_HEIGHT), receiver)
    world.ball_velocity[i] = wp.vec2(0.0, 0.0)
    world.striker[i] = 1 - receiver
    world.bounces[i] = 0
    world.strokes[i] = 0
    world.age[i] = 0
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
def moved(racket: Racket, order: wp.vec3, gravity: float):
    """A racket after one physics tick of an action."""
    gained = wp.clamp(SPEED * order[0] - racket.velocity[0], -RUSH, RUSH)
    across = racket.velocity[0] + gained
    up = racket.velocity[1] - gravity * SECONDS
    if racket.position[1] <= STAND:
        up = wp.where(order[1] > JUMP_ABOVE, JUMP, 0.0)
    x = racket.position[0] + across * SECONDS
    if x < FARTHEST or x > NEAREST:
        across = 0.0
    racket.position = wp.vec2(wp.clamp(x, FARTHEST, NEAREST), wp.max(racket.position[1] + up * SECONDS, STAND))
    racket.velocity = wp.vec2(across, up)
    racket.tilt += wp.clamp(MIDDLE_TILT + MOST_TILT * order[2] - racket.tilt, -TURN, TURN)
    return racket


@wp.func
def struck(rally: Rally, racket: Racket, side: int, half_length: float):
    """The ball, in the frame of the side that it is over, after its racket where that meets it."""
    to = rally.position - racket.position
    reach = half_length + BALL_RADIUS + THICKNESS
    if rally.striker == side or wp.length_sq(to) > reach * reach:
        return rally
    normal = wp.vec2(wp.cos(racket.tilt), wp.sin(racket.tilt))
    off = wp.dot(to, normal)
    relative = rally.velocity - racket.velocity
    approach = -wp.dot(relative, normal)
    if approach <= 0.0 or wp.abs(off) > BALL_RADIUS + THICKNESS or wp.abs(wp.dot(to, wp.vec2(-normal[1], normal[0]))) > half_length:
        return rally
    sliding = relative + approach * normal
    kick = KICK + HASTE * float(rally.strokes)
    velocity = racket.velocity + (1.0 - GRIP) * sliding + (REBOUND * approach + kick) * normal
    rally.velocity = velocity * wp.min(1.0, TOP_SPEED / wp.max(wp.length(velocity), 1.0e-6))
    rally.position += (BALL_RADIUS + THICKNESS - off) * normal
    rally.striker = side
    rally.bounces = 0
    rally.strokes += 1
    return rally


@wp.func
def judged(rally: Rally, side: int):
    """The ball, in the frame of the side that it is over, off the floor; or the rally lost by one of them."""
    own = rally.striker == side
    x = rally.position[0]
    if x > -BALL_RADIUS and rally.position[1] < NET + BALL_RADIUS:
        rally.loser = rally.striker
    elif x < BALL_RADIUS - COURT:
        rally.loser = wp.where(own or rally.bounces > 0, side, rally.striker)
    elif rally.position[1] < BALL_RADIUS and rally.velocity[1] < 0.0:
        rally.bounces += 1
        if own or rally.bounces > 1:
            rally.loser = side
        rally.position = wp.vec2(x, BALL_RADIUS)
        rally.velocity = wp.vec2(rally.velocity[0], -BOUNCE * rally.velocity[1])
    return rally


@wp.func
def flown(rally: Rally, left: Racket, right: Racket, gravity: float, half_length: float):
    """The ball after one physics tick."""
    rally.velocity -= wp.vec2(0.0, gravity * SECONDS)
    rally.position += rally.velocity * SECONDS
    side = wp.where(rally.position[0] > 0.0, 1, 0)
    racket = left
    if side == 1:
        racket = right
    rally.position = mirrored(rally.position, side)
    rally.velocity = mirrored(rally.velocity, side)
    rally = judged(struck(rally, racket, side, half_length), side)
    rally.position = mirrored(rally.position, side)
    rally.velocity = mirrored(rally.velocity, side)
    return rally


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
    loser = played(world, i, report)
    age = world.age[i] + 1
    world.age[i] = age
    lost = loser != NOBODY
    cut = age >= MOST_DECISIONS and not lost
    for side in range(AGENTS):
        slot = i * AGENTS + side
        see(world, i, side)
        world.reward[slot] = wp.where(lost, wp.where(side == loser, -1.0, 1.0), 0.0)
        world.terminated[slot] = lost
        world.truncated[slot] = cut
    if lost or cut:
        report[0] = 1
        for slot in range(i * AGENTS, i * AGENTS + AGENTS):
            set_aside(world.obs, world.final_obs, slot)
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)
