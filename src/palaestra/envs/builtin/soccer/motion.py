"""How players and ball move in the soccer games, a physics tick of 0.02 s at a time, in the order of PhysX.

A player is a sphere of 50 kg that contacts do not turn, with a drag of 3/s; a tick of running adds 2 m/s, and turning
takes effect on the next tick's direction. The ball weighs 3 kg, has a drag of 1/s, and spins about the vertical axis.
Both stay at one height. Contacts are computed at the places before the tick: bodies bounce if the ball approaches at 2
m/s or more, have friction with a coefficient of 0.6, and overlaps are reduced by eight tenths. A body that would pass a
wall stops at it.

The ball always reaches 0.12 m into the floor. PhysX pushes it out in each tick, without effect as its height is fixed,
and friction then holds the ball back. Both act only on the tick's motion: the ball's velocity stays as it was. (This
follows from PhysX's order of steps. Against random actions, Unity's model wins 98.0 +- 0.1 % of games, after 34
decisions on average; without this effect it would win 97.4 +- 0.2 %, after 37 decisions.)

A player who runs ahead when it first touches the ball kicks it: this adds 13.3 m/s from the next tick on, in the
direction from the player's place after the tick's motion to the point of contact before it.

Columns are, per area, `ball`, `ball_velocity`, `ball_spin`, `kick` and `ball_touch`, and per player `position`,
`velocity`, `angle`, `action`, `touches`, `touched` and `reward`. `strikers` is 2 if the players are two Strikers and a
Goalie, 0 if all players are alike.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from palaestra.envs.builtin.base.world_columns import direction_of
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import heading, wrapped
from palaestra.envs.builtin.soccer.field import WALLS, is_clear, wall

PLAYER_RADIUS = wp.constant(0.5)
BALL_RADIUS = wp.constant(0.6242)
PLAYER_MASS = wp.constant(50.0)
BALL_MASS = wp.constant(3.0)
PLAYER_DRAG = wp.constant(3.0)  # 1/s
BALL_DRAG = wp.constant(1.0)  # 1/s, of its speed and its spin
TURN = wp.constant(0.03490658503988659)  # radians a tick
RUN = wp.constant(2.0)  # m/s a tick at a strength of 1
STRENGTH = wp.constant(wp.vec2(1.0, 0.3))  # ahead or back, and aside
STRIKER_STRENGTH = wp.constant(wp.vec2(1.3, 0.3))
GOALIE_STRENGTH = wp.constant(wp.vec2(1.0, 1.0))
KICK = wp.constant(2000.0 / 3.0 * 0.02)  # m/s: a force of 2,000 N on the ball for a tick
FRICTION = wp.constant(0.6)
BOUNCE = wp.constant(0.8)  # fraction of the ball's approach that a contact gives back
TOUCH_REWARD = wp.constant(0.2)  # for a first touch of the ball, as a fraction of `ball_touch`
SLOWEST_BOUNCE = wp.constant(2.0)  # m/s of approach; slower does not bounce
# fraction of its speed that makes a sliding ball roll on a floor 0.5 m below
HELD = wp.constant(1.0 / (1.0 + 2.5 * (0.5 / 0.6242) ** 2))
# m/s: friction times the speed with which the floor pushes the ball out
MOST_HELD = wp.constant(0.35 * 0.8 * (0.6242 - 0.5) / 0.02)
MOST_SPIN = wp.constant(7.0)  # rad/s of the ball before the contacts of a tick
SHELL = wp.constant(0.02)  # meters between two surfaces from which on they count as touching
SOLID_BALL = wp.constant(2.5)  # mass times squared radius, over the moment of inertia
ROUNDS = wp.constant(6)  # rounds of the contacts if there are several
PARTED = wp.constant(0.8)  # fraction of an overlap that a tick removes
MOST_PARTED = wp.constant(0.2)  # meters a tick


@wp.struct
class Mover:
    """Player or ball: a circle."""

    position: wp.vec2
    velocity: wp.vec2
    spin: wp.float32  # rad/s counterclockwise
    radius: wp.float32
    inverse_mass: wp.float32
    turns: wp.float32  # mass times squared radius, over the moment of inertia: 0 if nothing turns it
    bounce: wp.float32


@wp.func
def player_of(world: Any, slot: int):
    """Returns a player as a circle."""
    mover = Mover()
    mover.position = world.position[slot]
    mover.velocity = world.velocity[slot]
    mover.radius = PLAYER_RADIUS
    mover.inverse_mass = 1.0 / PLAYER_MASS
    return mover


@wp.func
def ball_of(world: Any, i: int):
    """Returns an area's ball as a circle."""
    mover = Mover()
    mover.position = world.ball[i]
    mover.velocity = world.ball_velocity[i]
    mover.spin = world.ball_spin[i]
    mover.radius = BALL_RADIUS
    mover.inverse_mass = 1.0 / BALL_MASS
    mover.turns = SOLID_BALL
    mover.bounce = BOUNCE
    return mover


@wp.func
def keep_player(world: Any, slot: int, mover: Mover):
    """Writes a player back."""
    world.position[slot] = mover.position
    world.velocity[slot] = mover.velocity


@wp.func
def keep_ball(world: Any, i: int, mover: Mover):
    """Writes an area's ball back."""
    world.ball[i] = mover.position
    world.ball_velocity[i] = mover.velocity
    world.ball_spin[i] = mover.spin


@wp.func
def held_back(velocity: wp.vec2):
    """Returns the velocity with which the ball moves on the floor in this tick."""
    speed = wp.length(velocity)
    return velocity * (1.0 - wp.min(MOST_HELD, HELD * speed) / wp.max(speed, 1.0e-6))


@wp.func
def is_goalie(world: Any, k: int):
    """Returns whether an area's k-th player is a Goalie."""
    return world.strikers > 0 and k >= world.strikers


@wp.func
def drive(world: Any, slot: int, k: int, acts: bool):
    """Runs and turns an area's k-th player by its action, unless `acts` is False. A sidestep replaces running."""
    velocity = world.velocity[slot]
    if acts:
        strength = STRENGTH
        if world.strikers > 0:
            strength = wp.where(is_goalie(world, k), GOALIE_STRENGTH, STRIKER_STRENGTH)
        front = heading(world.angle[slot])
        aside = direction_of(int(world.action[slot, 1]))
        if aside != 0.0:
            velocity += RUN * strength[1] * aside * wp.vec2(front[1], -front[0])
        else:
            velocity += RUN * strength[0] * direction_of(int(world.action[slot, 0])) * front
        world.angle[slot] = wrapped(world.angle[slot] + TURN * direction_of(int(world.action[slot, 2])))
    world.velocity[slot] = velocity * (1.0 - PLAYER_DRAG * SECONDS)


@wp.func
def speed_after(approach: float, gap: float, bounce: float):
    """Returns how fast two surfaces may approach after a contact (below 0: they part): they bounce, or just touch."""
    if bounce > 0.0 and approach > SLOWEST_BOUNCE and approach * SECONDS > gap:
        return -bounce * approach
    return wp.max(gap, 0.0) / SECONDS


@wp.func
def meet_wall(mover: Mover, n: wp.vec2, gap: float):
    """Returns a circle after its contact with a wall in the direction n, `gap` meters away."""
    approach = wp.dot(mover.velocity, n)
    push = approach - speed_after(approach, gap, mover.bounce)
    if push > 0.0:
        along = wp.vec2(-n[1], n[0])
        slip = wp.dot(mover.velocity, along) + mover.spin * mover.radius
        pull = wp.clamp(slip / (1.0 + mover.turns), -FRICTION * push, FRICTION * push)
        mover.velocity -= push * n + pull * along
        mover.spin -= pull * mover.turns / mover.radius
    return mover


@wp.func
def meet(a: Mover, b: Mover):
    """Returns two circles after their contact; they are near enough to touch."""
    to = b.position - a.position
    far = wp.max(wp.length(to), 1.0e-6)
    n = to / far
    approach = -wp.dot(b.velocity - a.velocity, n)
    push = approach - speed_after(approach, far - a.radius - b.radius, wp.max(a.bounce, b.bounce))
    if push > 0.0:
        soft = a.inverse_mass + b.inverse_mass
        along = wp.vec2(-n[1], n[0])
        slip = wp.dot(b.velocity - a.velocity, along) - b.spin * b.radius - a.spin * a.radius
        turning = a.inverse_mass * a.turns + b.inverse_mass * b.turns
        most = FRICTION * push / soft
        pull = wp.clamp(slip / (soft + turning), -most, most)
        impulse = push / soft * n - pull * along
        a.velocity -= a.inverse_mass * impulse
        b.velocity += b.inverse_mass * impulse
        a.spin += pull * a.inverse_mass * a.turns / a.radius
        b.spin += pull * b.inverse_mass * b.turns / b.radius
    return a, b


@wp.func
def part(a: Mover, b: Mover):
    """Returns two circles, moved apart if they overlap and do not part already."""
    to = b.position - a.position
    overlap = a.radius + b.radius - wp.length(to)
    if overlap <= 0.0:
        return a, b
    n = to / wp.max(wp.length(to), 1.0e-6)
    if wp.dot(b.velocity - a.velocity, n) < 0.5 * BOUNCE * SLOWEST_BOUNCE:
        shift = wp.min(PARTED * overlap, MOST_PARTED) / (a.inverse_mass + b.inverse_mass)
        a.position -= shift * a.inverse_mass * n
        b.position += shift * b.inverse_mass * n
    return a, b


@wp.func
def are_near(a: wp.vec2, b: wp.vec2, reach: float):
    """Returns whether two places are within reach of each other."""
    return wp.length_sq(a - b) < reach * reach


@wp.func
def meet_walls(mover: Mover, closed_left: bool):
    """Returns a circle after its contacts with walls, and their number."""
    met = wp.int32(0)  # a Warp variable; a literal would be a constant
    for which in range(WALLS):
        n, gap = wall(mover.position, mover.radius, closed_left, which)
        if gap < SHELL:
            mover = meet_wall(mover, n, gap)
            met += 1
    return mover, met


@wp.func
def stop_at_walls(mover: Mover, closed_left: bool):
    """Returns a circle back inside if it passed a wall."""
    for which in range(WALLS):
        n, gap = wall(mover.position, mover.radius, closed_left, which)
        if gap < 0.0:
            mover = meet_wall(mover, n, gap)
            mover.position += gap * n
    return mover


@wp.func
def meet_each_other(world: Any, i: int, players: int):
    """Applies all contacts of an area once, at the places before the tick; returns their number."""
    met = wp.int32(0)
    closed = world.strikers > 0
    for k in range(players):
        slot = i * players + k
        for other in range(i * players, slot):
            if are_near(world.position[other], world.position[slot], 2.0 * PLAYER_RADIUS + SHELL):
                a, b = meet(player_of(world, other), player_of(world, slot))
                keep_player(world, other, a)
                keep_player(world, slot, b)
                met += 1
        if are_near(world.ball[i], world.position[slot], PLAYER_RADIUS + BALL_RADIUS + SHELL):
            a, b = meet(player_of(world, slot), ball_of(world, i))
            keep_player(world, slot, a)
            keep_ball(world, i, b)
            met += 1
        if not is_clear(world.position[slot], PLAYER_RADIUS + SHELL):
            mover, walls = meet_walls(player_of(world, slot), closed)
            keep_player(world, slot, mover)
            met += walls
    if not is_clear(world.ball[i], BALL_RADIUS + SHELL):
        mover, walls = meet_walls(ball_of(world, i), closed)
        keep_ball(world, i, mover)
        met += walls
    return met


@wp.func
def part_from_each_other(world: Any, i: int, players: int):
    """Moves apart what overlaps."""
    for k in range(players):
        slot = i * players + k
        for other in range(i * players, slot):
            if are_near(world.position[other], world.position[slot], 2.0 * PLAYER_RADIUS):
                a, b = part(player_of(world, other), player_of(world, slot))
                keep_player(world, other, a)
                keep_player(world, slot, b)
        if are_near(world.ball[i], world.position[slot], PLAYER_RADIUS + BALL_RADIUS):
            a, b = part(player_of(world, slot), ball_of(world, i))
            keep_player(world, slot, a)
            keep_ball(world, i, b)


@wp.func
def stay_on_field(world: Any, i: int, players: int):
    """Puts players and ball that have passed a wall back on the field."""
    closed = world.strikers > 0
    for slot in range(i * players, (i + 1) * players):
        if not is_clear(world.position[slot], PLAYER_RADIUS):
            keep_player(world, slot, stop_at_walls(player_of(world, slot), closed))
    if not is_clear(world.ball[i], BALL_RADIUS):
        keep_ball(world, i, stop_at_walls(ball_of(world, i), closed))


@wp.func
def note_touch(world: Any, i: int, slot: int):
    """Records whether a player touches the ball before the tick moves them, and at which point if the touch is new."""
    to = world.ball[i] - world.position[slot]
    far = wp.length(to)
    gap = far - PLAYER_RADIUS - BALL_RADIUS
    if gap >= SHELL:
        world.touches[slot] = 0
    elif world.touches[slot] == 0:
        world.touches[slot] = 2
        world.touched[slot] = world.position[slot] + (PLAYER_RADIUS + 0.5 * gap) / wp.max(far, 1.0e-6) * to
    else:
        world.touches[slot] = 1


@wp.func
def kick(world: Any, i: int, slot: int, k: int, acts: bool):
    """Rewards a player who has just touched the ball, and lets it kick the ball if it runs ahead or is the Goalie."""
    if is_goalie(world, k) or (acts and world.action[slot, 0] == wp.int64(1)):
        world.kick[i] += KICK * wp.normalize(world.touched[slot] - world.position[slot])
    if acts:
        world.reward[slot] += TOUCH_REWARD * world.ball_touch[i]


@wp.func
def simulate_tick(world: Any, i: int, players: int, acts: bool):
    """Runs a physics tick of an area. `acts`: players follow their actions; after an episode's end they wait."""
    first = i * players
    for k in range(players):
        drive(world, first + k, k, acts)
        note_touch(world, i, first + k)
    world.ball_velocity[i] = (world.ball_velocity[i] + world.kick[i]) * (1.0 - BALL_DRAG * SECONDS)
    world.ball_spin[i] = wp.clamp(world.ball_spin[i] * (1.0 - BALL_DRAG * SECONDS), -MOST_SPIN, MOST_SPIN)
    world.kick[i] = wp.vec2(0.0, 0.0)
    contacts = meet_each_other(world, i, players)
    rounds = wp.where(contacts > 1, int(ROUNDS), 1)
    for _ in range(1, rounds):
        meet_each_other(world, i, players)
    for slot in range(first, first + players):
        world.position[slot] += world.velocity[slot] * SECONDS
    world.ball[i] += held_back(world.ball_velocity[i]) * SECONDS
    stay_on_field(world, i, players)
    if contacts > 0:
        for _ in range(rounds):
            part_from_each_other(world, i, players)
            stay_on_field(world, i, players)
    for k in range(players):
        if world.touches[first + k] == 2:
            kick(world, i, first + k, k, acts)
