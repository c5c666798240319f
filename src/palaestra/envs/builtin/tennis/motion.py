"""How rackets and the ball of Tennis move, and who loses a rally.

The game is played in the plane: x along the court, y up, the net over x = 0, agent 0 on the left. A racket is described in its
agent's frame, in which it stands at negative x and looks toward the net; the ball is simulated in the
frame of the side that it is over. So the game looks and behaves the same from both sides, to the last digit.

Sizes and speeds are ours: 9 m from the net to the wall behind a side, a net of 1 m, a racket's middle 1 m above the
floor, 8 m/s to run and 4.5 to jump with, physics ticks of 0.02 s. A racket's face leans back by -20 to 70 degrees. It
returns a ball along its normal, with KICK and a share of the speed at which they met, and cannot hit the ball again
until the other racket has. At first no stroke is faster than EASY, which a good player reaches from anywhere: while a stroke could
win a rally at once, good players took risks that lost one rally in ten, to beginners too. Each stroke of a rally raises
its kick and the speed limit, so that rallies between good players end.

The side that the ball is over loses

- when the ball meets the floor for the second time, or for the first time after that side's own stroke;
- when the ball reaches the wall behind after it has met the floor, or after that side's own stroke.

Any other ball at the wall was out, and its striker loses. An agent that strikes the ball into the net loses too.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import SECONDS

NOBODY = wp.constant(-1)

COURT = wp.constant(9.0)  # distance from the net to a wall
NET = wp.constant(1.0)
BALL_RADIUS = wp.constant(0.3)
TOP_SPEED = wp.constant(20.0)  # largest speed of the ball: in a tick it moves at most a racket's thickness
BOUNCE = wp.constant(0.75)  # share of its upward speed that the floor gives back

NEAREST, FARTHEST = wp.constant(-1.0), wp.constant(-8.5)  # range of a racket's middle
STAND = wp.constant(1.0)  # above the floor
HALF_LENGTH = wp.constant(1.2)  # half the length of a racket, times its scale
THICKNESS = wp.constant(0.1)  # half a racket's thickness
SPEED = wp.constant(8.0)
RUSH = wp.constant(1.0)  # m/s that a tick of running can change
JUMP = wp.constant(4.5)
JUMP_ABOVE = wp.constant(0.5)  # value of the action above which the agent jumps
MIDDLE_TILT, MOST_TILT = wp.constant(0.4363323), wp.constant(0.7853982)  # 25 and 45 degrees: tilt at action 0, and added at action 1
TURN = wp.constant(0.0698132)  # 4 degrees a tick
KICK = wp.constant(6.5)  # m/s
REBOUND = wp.constant(0.3)
HASTE = wp.constant(0.4)  # m/s that every stroke of a rally adds to the kick
EASY = wp.constant(9.0)  # m/s: speed limit of the first stroke; HASTE is added for each later one


@wp.struct
class Rally:
    """The ball, and the state that decides the rally."""

    position: wp.vec2
    velocity: wp.vec2
    striker: wp.int32
    bounces: wp.int32
    strokes: wp.int32
    loser: wp.int32  # NOBODY: it goes on


@wp.struct
class Racket:
    """An agent's racket in its own frame."""

    position: wp.vec2
    velocity: wp.vec2
    tilt: wp.float32


@wp.func
def mirror(v: wp.vec2, side: int):
    """Returns a vector of the area in the frame of a side, or back."""
    return wp.vec2(wp.where(side == 0, v[0], -v[0]), v[1])


@wp.func
def move_racket(racket: Racket, order: wp.vec3, gravity: float):
    """Returns a racket after one physics tick of an action."""
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
def hit_ball(rally: Rally, racket: Racket, side: int, half_length: float):
    """Returns the rally after the racket hits the ball, if they meet; in the frame of the side that the ball is over."""
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
    kick = KICK + HASTE * float(rally.strokes)
    velocity = racket.velocity + (REBOUND * approach + kick) * normal
    most = wp.min(EASY + HASTE * float(rally.strokes), TOP_SPEED)
    rally.velocity = velocity * wp.min(1.0, most / wp.max(wp.length(velocity), 1.0e-6))
    rally.position += (BALL_RADIUS + THICKNESS - off) * normal
    rally.striker = side
    rally.bounces = 0
    rally.strokes += 1
    return rally


@wp.func
def judge_rally(rally: Rally, side: int):
    """Bounces the ball off the floor, or decides who lost; in the frame of the side that the ball is over."""
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
def step_ball(rally: Rally, left: Racket, right: Racket, gravity: float, half_length: float):
    """Returns the rally after one physics tick."""
    rally.velocity -= wp.vec2(0.0, gravity * SECONDS)
    rally.position += rally.velocity * SECONDS
    side = wp.where(rally.position[0] > 0.0, 1, 0)
    racket = left
    if side == 1:
        racket = right
    rally.position = mirror(rally.position, side)
    rally.velocity = mirror(rally.velocity, side)
    rally = judge_rally(hit_ball(rally, racket, side, half_length), side)
    rally.position = mirror(rally.position, side)
    rally.velocity = mirror(rally.velocity, side)
    return rally
