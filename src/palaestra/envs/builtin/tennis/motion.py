"""How rackets and the ball of Tennis move, and who wins a rally.

The game is played in the plane: x along the court, y up, the net over x = 0, agent 0 on the left. A racket is a box
that its agent drives at up to 30 m/s, tilts at will and lets fall; the ball bounces off everything without losing
speed, and without friction. Both coordinates of its velocity are kept within 9 m/s after every physics tick of 0.02 s.

A rally is decided when the ball comes into contact with

- a racket that has hit the ball last: the racket's side loses;
- the floor of the side that has hit the ball last, or of a side whose floor the ball has touched since, or any floor
  before the first stroke: that side loses;
- the wall of the side that has hit the ball last, or of a side whose floor it has touched since: that side loses; at
  any other wall the ball was out;
- the net, during the first stroke of a rally: the side that has hit the ball last loses; later the ball only bounces.

A contact counts as it begins: a ball that stays on a racket has been hit once.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import SECONDS

NOBODY = wp.constant(-1)

WALL = wp.constant(11.88)  # distance from the net to a wall
FLOOR = wp.constant(-6.9)
NET_HALF = wp.constant(wp.vec2(0.061, 0.5335))
NET_MIDDLE = wp.constant(wp.vec2(0.0, -6.967))
TOP_SPEED = wp.constant(9.0)  # of the ball, along each axis
BALL_MASS = wp.constant(0.75)
RACKET_MASS = wp.constant(4.0)
THRESHOLD = wp.constant(2.0)  # m/s: slower contacts do not bounce

RACKET_HALF = wp.constant(wp.vec2(0.0635, 0.494))  # along its normal, and along its face
NEAREST = wp.constant(1.0)  # distance from the net to which an action brings a racket back
SPEED = wp.constant(30.0)  # m/s
JUMP = wp.constant(7.0)  # m/s
JUMP_ABOVE = wp.constant(0.5)  # value of the action above which the agent jumps
JUMP_BELOW = wp.constant(-1.5)  # height below which it can
MOST_TILT = wp.constant(0.9599311)  # 55 degrees

# what the ball has touched since the last stroke
SERVICE, NO_FLOOR, LEFT_FLOOR, RIGHT_FLOOR = (wp.constant(state) for state in (0, 1, 2, 3))
# bits of contacts
TOUCHES_LEFT_WALL = wp.constant(1)
TOUCHES_FLOOR = wp.constant(2)
TOUCHES_NET = wp.constant(4)
# the last one times 2 for the right racket
TOUCHES_RIGHT_WALL = wp.constant(8)
TOUCHES_RACKET = wp.constant(16)


@wp.struct
class Rally:
    """The ball, and the state that decides the rally."""

    position: wp.vec2
    velocity: wp.vec2
    striker: wp.int32  # NOBODY: at the service
    floor: wp.int32  # SERVICE, NO_FLOOR, LEFT_FLOOR or RIGHT_FLOOR
    # 1: the first stroke of the rally has been returned or has met a floor, and the net is no fault any more
    over: wp.int32
    contacts: wp.int32  # bits of what the ball touches
    strokes: wp.int32
    loser: wp.int32  # NOBODY: it goes on


@wp.struct
class Racket:
    """An agent's racket; its normal points to the net, and down for a positive tilt."""

    position: wp.vec2
    velocity: wp.vec2
    tilt: wp.float32


@wp.func
def mirror(v: wp.vec2, side: int):
    """Returns a vector of the area in the frame of a side, in which its own half is negative; or the reverse."""
    return wp.vec2(wp.where(side == 0, v[0], -v[0]), v[1])


@wp.func
def move_racket(racket: Racket, order: wp.vec3, gravity: float, side: int):
    """Returns a racket after one physics tick of an action."""
    sign = wp.where(side == 0, 1.0, -1.0)
    racket.tilt = MOST_TILT * order[2]
    up = racket.velocity[1]
    if order[1] > JUMP_ABOVE and racket.position[1] < JUMP_BELOW:
        up = JUMP
    x = sign * wp.min(sign * racket.position[0], -NEAREST)
    c = wp.cos(racket.tilt)
    s = wp.abs(wp.sin(racket.tilt))
    wide = RACKET_HALF[0] * c + RACKET_HALF[1] * s
    tall = RACKET_HALF[0] * s + RACKET_HALF[1] * c
    velocity = wp.vec2(sign * SPEED * order[0], up - gravity * SECONDS)
    position = wp.vec2(x, racket.position[1]) + velocity * SECONDS
    if position[1] < FLOOR + tall:
        position[1] = FLOOR + tall
        velocity[1] = wp.max(velocity[1], 0.0)
    if wp.abs(position[0]) > WALL - wide:
        position[0] = wp.clamp(position[0], wide - WALL, WALL - wide)
        velocity[0] = 0.0
    racket.position = position
    racket.velocity = velocity
    return racket


@wp.func
def bounce(velocity: wp.vec2, normal: wp.vec2):
    """Returns the ball's velocity after a contact with something that does not move."""
    approach = -wp.dot(velocity, normal)
    if approach <= 0.0:
        return velocity
    return velocity + wp.where(approach > THRESHOLD, 2.0, 1.0) * approach * normal


@wp.func
def away_from_box(local: wp.vec2, half: wp.vec2):
    """Returns the unit vector from a box about the origin to a point, and the point's distance from the box."""
    nearest = wp.min(wp.max(local, -half), half)
    away = local - nearest
    distance = wp.length(away)
    if distance > 1.0e-6:
        return away / distance, distance
    gaps = half - wp.vec2(wp.abs(local[0]), wp.abs(local[1]))
    k = wp.where(gaps[0] < gaps[1], 0, 1)
    away = wp.vec2(0.0, 0.0)
    away[k] = wp.where(local[k] < 0.0, -1.0, 1.0)
    return away, -gaps[k]


@wp.func
def lose(rally: Rally, side: int):
    """Returns the rally, now lost by this side unless it has been decided already."""
    rally.loser = wp.where(rally.loser == NOBODY, side, rally.loser)
    return rally


@wp.func
def meet_racket(rally: Rally, racket: Racket, side: int, radius: float):
    """Returns the rally and the racket after a contact of ball and racket, if there is one."""
    sign = wp.where(side == 0, 1.0, -1.0)
    normal = wp.vec2(sign * wp.cos(racket.tilt), -wp.sin(racket.tilt))
    face = wp.vec2(-normal[1], normal[0])
    bit = TOUCHES_RACKET * (1 + side)
    touched = (rally.contacts & bit) != 0
    rally.contacts = rally.contacts & (63 - bit)
    to = rally.position - racket.position
    if wp.length_sq(to) > (0.5 + radius) * (0.5 + radius):
        return rally, racket
    local, gap = away_from_box(wp.vec2(wp.dot(to, normal), wp.dot(to, face)), RACKET_HALF)
    if gap > radius:
        return rally, racket
    rally.contacts = rally.contacts | bit
    if not touched:
        if rally.striker == side:
            rally = lose(rally, side)
        if rally.floor != SERVICE:
            rally.over = 1
        rally.striker = side
        rally.floor = NO_FLOOR
        rally.strokes += 1
    away = local[0] * normal + local[1] * face
    soft = 1.0 / BALL_MASS + 1.0 / RACKET_MASS
    approach = -wp.dot(rally.velocity - racket.velocity, away)
    if approach > 0.0:
        impulse = wp.where(approach > THRESHOLD, 2.0, 1.0) * approach / soft
        rally.velocity += (impulse / BALL_MASS) * away
        racket.velocity -= (impulse / RACKET_MASS) * away
    rally.position += (radius - gap) * away
    return rally, racket


@wp.func
def meet_court(rally: Rally, radius: float):
    """Returns the rally after the ball's contacts with the walls, the floor and the net."""
    before = rally.contacts
    now = before & (TOUCHES_RACKET * 3)
    x = rally.position[0]
    side = wp.where(x < 0.0, 0, 1)
    sign = wp.where(x < 0.0, 1.0, -1.0)
    own = wp.where(side == 0, LEFT_FLOOR, RIGHT_FLOOR)
    if wp.abs(x) > WALL - radius:
        bit = wp.where(side == 0, TOUCHES_LEFT_WALL, TOUCHES_RIGHT_WALL)
        now = now | bit
        if before & bit == 0:
            rally = lose(rally, wp.where(rally.striker == side or rally.floor == own, side, 1 - side))
        rally.velocity = bounce(rally.velocity, wp.vec2(sign, 0.0))
        rally.position = wp.vec2(-sign * (WALL - radius), rally.position[1])
    if rally.position[1] < FLOOR + radius:
        now = now | TOUCHES_FLOOR
        if before & TOUCHES_FLOOR == 0:
            if rally.striker == side or rally.floor == own or rally.floor == SERVICE:
                rally = lose(rally, side)
            rally.floor = own
            rally.over = 1
        rally.velocity = bounce(rally.velocity, wp.vec2(0.0, 1.0))
        rally.position = wp.vec2(rally.position[0], FLOOR + radius)
    if wp.abs(x) < NET_HALF[0] + radius:
        away, gap = away_from_box(rally.position - NET_MIDDLE, NET_HALF)
        if gap <= radius:
            now = now | TOUCHES_NET
            if before & TOUCHES_NET == 0 and rally.over == 0 and rally.striker != NOBODY:
                rally = lose(rally, rally.striker)
            rally.velocity = bounce(rally.velocity, away)
            rally.position += (radius - gap) * away
    rally.contacts = now
    return rally


@wp.func
def move_ball(rally: Rally, gravity: float):
    """Returns the rally with the ball moved by one physics tick; its velocity is not limited yet."""
    rally.velocity -= wp.vec2(0.0, gravity * SECONDS)
    rally.position += rally.velocity * SECONDS
    return rally


@wp.func
def limit(velocity: wp.vec2):
    """Returns the ball's velocity, clipped to its limits."""
    most = wp.vec2(TOP_SPEED, TOP_SPEED)
    return wp.min(wp.max(velocity, -most), most)
