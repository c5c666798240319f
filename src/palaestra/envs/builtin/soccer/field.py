"""The field of the soccer games: a room with its corners cut off and a goal in the middle of an end, and its physics.

Positions are from the middle of the field, x along it. Functions take any world with the columns that they use: per area
`ball`, `ball_velocity`, `ball_radius` and `gravity`, and per player `position`, `velocity`, `angle` and `action`.
A player is a circle of mass 1 that runs, sidesteps and turns at once; the ball is a circle that rolls, bounces off walls and is kicked by
a player who runs into it.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from palaestra.envs.builtin.base.world_columns import next_parameter
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS, add_speed, advance, apply_drag, circle_body, circle_circle, resolve_contact
from palaestra.envs.builtin.sensors.rays import MISS, heading

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AREA_COLUMNS = ("rng", "age", "ball", "ball_velocity", "ball_radius", "gravity")
PARAMETER_RANGES = {"ball_scale": (7.5, 4.0, 10.0), "gravity": (9.81, 6.0, 20.0)}
TICKS = wp.constant(5)  # physics ticks per decision
HALF = wp.constant(wp.vec2(7.0, 4.5))  # half the field's sides
CORNER = wp.constant(1.5)  # length that a corner cuts off both sides
SLANT = wp.constant(float((7.0 + 4.5 - 1.5) / 2.0**0.5))  # distance from the middle to the wall across a corner
GOAL_HALF = wp.constant(2.5)  # half a goal's width
PLAYER_RADIUS = wp.constant(0.5)
PUSH = wp.constant(0.5)  # m/s a tick, ahead or back
ASIDE = wp.constant(0.5)  # fraction of PUSH for sidesteps
DRAG = wp.constant(4.0)  # 1/s
TURN = wp.constant(0.05235987755982988)  # radians a tick
SCALE = wp.constant(0.1)  # the ball's radius as a fraction of its scale
BALL_MASS = wp.constant(0.3)
ROLL = wp.constant(0.1)  # the ball's friction with the ground as a fraction of its weight
BOUNCE = wp.constant(0.6)  # fraction of the ball's speed toward a wall that it keeps
KICK = wp.constant(6.0)  # m/s by which a kicked ball leaves a player who runs ahead


@wp.func
def direction_of(choice: wp.int64):
    """Returns +1, -1 or 0 for the choices 1, 2 and 0; invalid choices give 0."""
    return wp.where(choice == wp.int64(1), 1.0, wp.where(choice == wp.int64(2), -1.0, 0.0))


@wp.func
def is_choice(action: wp.array2d(dtype=wp.int64), slot: int):
    """Returns whether all three branches hold one of their three choices."""
    for branch in range(3):  # Warp does not support generators
        if action[slot, branch] < wp.int64(0) or action[slot, branch] > wp.int64(2):
            return False
    return True


@wp.func
def check_actions(world: Any, i: int, players: int, report: wp.array(dtype=wp.int32)):
    """Reports a player of the area whose action is invalid."""
    for slot in range(i * players, (i + 1) * players):
        if not is_choice(world.action, slot):
            report[1] = slot + 1


@wp.func
def keep_off_wall(place: wp.vec2, velocity: wp.vec2, normal: wp.vec2, most: float, bounce: float):
    """Returns position and velocity kept on this side of a wall with this normal, a distance of `most` from the middle."""
    beyond = wp.dot(place, normal) - most
    if beyond <= 0.0:
        return place, velocity
    return place - beyond * normal, velocity - (1.0 + bounce) * wp.max(wp.dot(velocity, normal), 0.0) * normal


@wp.func
def keep_on_field(place: wp.vec2, velocity: wp.vec2, radius: float, bounce: float):
    """Returns position and velocity of a circle kept on the field."""
    x = wp.sign(place[0])
    y = wp.sign(place[1])
    place, velocity = keep_off_wall(place, velocity, wp.vec2(x, y) * 0.7071067811865476, SLANT - radius, bounce)
    place, velocity = keep_off_wall(place, velocity, wp.vec2(x, 0.0), HALF[0] - radius, bounce)
    place, velocity = keep_off_wall(place, velocity, wp.vec2(0.0, y), HALF[1] - radius, bounce)
    return place, velocity


@wp.func
def wall_ahead(eye: wp.vec2, way: wp.vec2):
    """Returns the distance along a unit direction from a place on the field to its edge."""
    far = float(MISS)
    for k in range(2):
        if wp.abs(way[k]) > 1.0e-9:
            far = wp.min(far, (wp.sign(way[k]) * HALF[k] - eye[k]) / way[k])
        slope = (way[0] + float(1 - 2 * k) * way[1]) * 0.7071067811865476
        if wp.abs(slope) > 1.0e-9:
            far = wp.min(far, (wp.sign(slope) * SLANT - (eye[0] + float(1 - 2 * k) * eye[1]) * 0.7071067811865476) / slope)
    return wp.max(far, 0.0)


@wp.func
def move_player(world: Any, slot: int):
    """Moves a player by one physics tick of its action, before any contact."""
    angle = world.angle[slot] + TURN * direction_of(world.action[slot, 2])
    angle -= 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    front = heading(angle)
    body = circle_body(world.position[slot], world.velocity[slot], PLAYER_RADIUS, 1.0)
    body = add_speed(body, front, PUSH * direction_of(world.action[slot, 0]))
    body = add_speed(body, wp.vec2(front[1], -front[0]), PUSH * ASIDE * direction_of(world.action[slot, 1]))
    body = advance(apply_drag(body, DRAG, 0.0))
    world.angle[slot] = angle
    world.position[slot] = body.position
    world.velocity[slot] = body.velocity


@wp.func
def separate_players(world: Any, one: int, other: int):
    """Separates two players who run into each other."""
    if wp.length_sq(world.position[one] - world.position[other]) < 4.0 * PLAYER_RADIUS * PLAYER_RADIUS:
        a = circle_body(world.position[one], world.velocity[one], PLAYER_RADIUS, 1.0)
        b = circle_body(world.position[other], world.velocity[other], PLAYER_RADIUS, 1.0)
        a, b = resolve_contact(a, b, circle_circle(a, b), 0.0)
        world.position[one] = a.position
        world.velocity[one] = a.velocity
        world.position[other] = b.position
        world.velocity[other] = b.velocity


@wp.func
def touch_ball(world: Any, i: int, slot: int):
    """Lets a player who reaches the ball push it, and kick it when running ahead."""
    radius = world.ball_radius[i]
    reach = PLAYER_RADIUS + radius
    if wp.length_sq(world.ball[i] - world.position[slot]) >= reach * reach:
        return
    player = circle_body(world.position[slot], world.velocity[slot], PLAYER_RADIUS, 1.0)
    ball = circle_body(world.ball[i], world.ball_velocity[i], radius, BALL_MASS)
    contact = circle_circle(player, ball)
    player, ball = resolve_contact(player, ball, contact, 0.0)
    if world.action[slot, 0] == wp.int64(1):
        ball.velocity += KICK * wp.max(wp.dot(heading(world.angle[slot]), contact.normal), 0.0) * contact.normal
    world.position[slot] = player.position
    world.velocity[slot] = player.velocity
    world.ball[i] = ball.position
    world.ball_velocity[i] = ball.velocity


@wp.func
def roll_ball(world: Any, i: int):
    """Moves the ball by one physics tick."""
    velocity = world.ball_velocity[i]
    lost = ROLL * world.gravity[i] * SECONDS
    velocity *= wp.max(1.0 - lost / wp.max(wp.length(velocity), 1.0e-6), 0.0)
    place, velocity = keep_on_field(world.ball[i] + velocity * SECONDS, velocity, world.ball_radius[i], BOUNCE)
    world.ball[i] = place
    world.ball_velocity[i] = velocity


@wp.func
def goal_touched(world: Any, i: int):
    """Returns the end whose goal the ball touches: 1 right, -1 left, 0 neither."""
    ball = world.ball[i]
    if wp.abs(ball[0]) >= HALF[0] - world.ball_radius[i] - 1.0e-3 and wp.abs(ball[1]) < GOAL_HALF:
        return int(wp.sign(ball[0]))
    return 0


@wp.func
def simulate_tick(world: Any, i: int, players: int, backward: bool):
    """Runs one physics tick of an area. `backward` reverses the order of the players, so that none is favored."""
    first = i * players
    for k in range(players):
        move_player(world, first + k)
    for k in range(players):
        for other in range(k):
            separate_players(world, first + other, first + k)
    for k in range(players):
        touch_ball(world, i, first + wp.where(backward, players - 1 - k, k))
    roll_ball(world, i)
    for k in range(players):
        place, velocity = keep_on_field(world.position[first + k], world.velocity[first + k], PLAYER_RADIUS, 0.0)
        world.position[first + k] = place
        world.velocity[first + k] = velocity


@wp.func
def simulate(world: Any, i: int, players: int, least: int):
    """Runs a decision's physics ticks until a goal; returns its end (1 right, -1 left, 0 none) and the ticks before it.

    `least` is the first end that has a goal, -1 or 1.
    """
    passed = wp.int32(0)  # a Warp variable; a literal would be a constant
    end = wp.int32(0)
    while passed < TICKS and end == 0:
        simulate_tick(world, i, players, (world.age[i] * TICKS + passed) % 2 == 1)
        end = goal_touched(world, i)
        if end < least:
            end = 0
        if end == 0:
            passed += 1
    return end, passed


@wp.func
def kick_off(world: Any, i: int):
    """Puts the ball at rest near the middle, with the size and gravity of the new episode."""
    state = world.rng[i]
    world.ball[i] = wp.vec2(wp.randf(state, -0.5, 0.5), wp.randf(state, -2.5, 2.5))
    world.rng[i] = state
    world.ball_velocity[i] = wp.vec2(0.0, 0.0)
    world.ball_radius[i] = SCALE * next_parameter(world, i, 0)
    world.gravity[i] = next_parameter(world, i, 1)
    world.age[i] = 0
    world.episodes[i] += 1


@wp.func
def line_up(world: Any, i: int, slot: int, least: float, most: float, lane: float, facing: float):
    """Puts a player at rest between two places along the field, near its lane across it, facing `facing` more or less."""
    state = world.rng[i]
    world.position[slot] = wp.vec2(wp.randf(state, least, most), lane + wp.randf(state, -1.4, 1.4))
    world.angle[slot] = facing + wp.randf(state, -1.0, 1.0)
    world.rng[i] = state
    world.velocity[slot] = wp.vec2(0.0, 0.0)
