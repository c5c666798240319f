"""The hall: its columns, how an episode begins, how the agent moves in a physics tick, and what it observes.

Positions are in meters from the middle of the hall, y toward the goals; heights are above the floor.

The agent is a box with edges of 1 m that contacts can turn. It is dropped, and slides on the floor: while it touches
the floor, each tick's friction takes up to 1.2 times the speed that the floor's push gives, twice the materials'
coefficient of 0.6, since PhysX holds a patch of contacts at two points with the full coefficient each. Recordings of
Unity's hall show the same: an agent that starts from rest covers 0.38 m in the first decision, 0.95 m in the second,
and 2.9 m in the end.
"""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.base.world_columns import next_parameter
from palaestra.envs.builtin.physics.pressing import MOST_SPIN, rub_sole
from palaestra.envs.builtin.physics.rigid_bodies import (
    SECONDS,
    STILL,
    Body,
    add_speed,
    advance,
    apply_drag,
    box_body,
    box_box,
    fixed_box,
    keep_box_within,
    resolve_contact,
)
from palaestra.envs.builtin.sensors.rays import (
    MISS,
    clear_frames,
    heading,
    next_turn,
    shift_frames,
    turned,
    wrapped,
    write_ray,
)
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_four_walls, cast_upright_box, reach_beside
from palaestra.envs.builtin.sensors.truth import seen_from, tell, tell_motion, tell_one

MOST_TICKS = wp.constant(3000)
HALL = wp.constant(wp.vec2(9.5, 24.75))  # half the hall's sides, between its walls
SYMBOL = wp.constant(wp.vec2(2.0, 0.5))  # half the sides of a symbol, which is 4 m high
PLATE = wp.constant(wp.vec2(2.0, 2.0))  # half the sides of a goal's plate
PLATE_TOP = wp.constant(0.05)  # meters
SIGN = wp.constant(wp.vec2(2.04, 0.57))  # half the sides of a goal's sign, which is 4 m high
GOAL_X = wp.constant(7.0)  # of a goal, to either side
GOAL_Y = wp.constant(22.29)
SIGN_Y = wp.constant(24.79)
MIDDLE = wp.constant(0.015)  # x of the point that places are drawn around
EDGE = wp.constant(wp.vec2(0.5, 0.5))  # half the agent's sides
CORNER = wp.constant(0.7072)  # meters from the agent's middle to a corner
MASS = wp.constant(25.0)  # kg
SPEED_UP = wp.constant(1.5)  # m/s a tick
TURN = wp.constant(0.05235987755982988)  # radians a tick: 150 degrees a second
DRAG = wp.constant(2.0)  # 1/s
ANGULAR_DRAG = wp.constant(0.05)  # 1/s
FRICTION = wp.constant(1.2)
REST = wp.constant(0.5)  # height of the agent's center when it stands
DROP = wp.constant(1.0)  # height from which it is dropped
O, X = 0, 1  # marks
NOTHING, FORWARD, BACK, RIGHT, LEFT = range(5)
CHOICES = wp.constant(5)


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of Hallway, one row per area."""

    place: wp.array(dtype=wp.vec2)  # of the agent
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec2)
    spin: wp.array(dtype=wp.float32)  # rad/s
    height: wp.array(dtype=wp.float32)  # of the agent's center
    rise: wp.array(dtype=wp.float32)  # m/s, upward
    pull: wp.array(dtype=wp.float32)  # m/s that gravity adds in a tick of this episode
    symbol: wp.array(dtype=wp.int32)  # 0: O, 1: X
    symbol_place: wp.array(dtype=wp.vec2)
    left_goal: wp.array(dtype=wp.int32)  # the mark of the goal on the left, 0: O, 1: X; the other is on the right
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3: turn right, 4: turn left
    obs: wp.array2d(dtype=wp.float32)  # rays of each frame, the oldest first
    obs_time: wp.array2d(dtype=wp.float32)  # time of each frame, as a share of the longest episode
    obs_truth: wp.array2d(dtype=wp.float32)


@wp.func
def start(world: World, i: int):
    """Starts an episode with random positions, symbol and order of goals; forgets the older frames."""
    state = world.rng[i]
    symbol = wp.where(wp.randf(state) < 0.5, O, X)
    symbol_x = MIDDLE
    if symbol == O:  # Unity's X always stands in the middle
        symbol_x += wp.randf(state, -3.0, 3.0)
    world.symbol[i] = symbol
    world.symbol_place[i] = wp.vec2(symbol_x, wp.randf(state, -5.0, 5.0))
    world.place[i] = wp.vec2(MIDDLE + wp.randf(state, -3.0, 3.0), wp.randf(state, -20.0, -10.0))
    world.angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.left_goal[i] = wp.where(wp.randf(state) < 0.5, O, X)
    world.rng[i] = state
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.spin[i] = 0.0
    world.height[i] = DROP
    world.rise[i] = 0.0
    world.pull[i] = next_parameter(world, i, 0) * SECONDS
    world.episodes[i] += 1
    world.age[i] = 0
    clear_frames(world.obs, i)
    clear_frames(world.obs_time, i)


@wp.func
def goal_place(side: int):
    """Returns the position of the left goal (0) or the right goal (1)."""
    return wp.vec2(GOAL_X * float(2 * side - 1), GOAL_Y)


@wp.func
def load_body(world: World, i: int):
    """Returns the agent's body."""
    return box_body(world.place[i], world.velocity[i], world.angle[i], world.spin[i], EDGE, MASS)


@wp.func
def save_body(world: World, i: int, body: Body):
    """Writes the agent's body, with an angle within -pi..pi."""
    world.place[i] = body.position
    world.velocity[i] = body.velocity
    world.angle[i] = wrapped(body.angle)
    world.spin[i] = body.spin


@wp.func
def act(body: Body, choice: int):
    """Returns the agent after a choice has turned it or changed its velocity."""
    if choice == RIGHT:
        body.angle -= TURN
    if choice == LEFT:
        body.angle += TURN
    if choice == FORWARD:
        body = add_speed(body, heading(body.angle), SPEED_UP)
    if choice == BACK:
        body = add_speed(body, heading(body.angle), -SPEED_UP)
    return body


@wp.func
def move(body: Body, height: float, rise: float, pull: float, symbol_place: wp.vec2):
    """Returns the agent's body, height and rise after a tick of the physics."""
    kept = 1.0 - DRAG * SECONDS
    rise = (rise - pull) * kept
    body = apply_drag(body, DRAG, ANGULAR_DRAG)
    press = -rise - (height - REST) / SECONDS  # speed that the floor takes
    if press > 0.0:
        rise += press
        floor = fixed_box(body.position, EDGE, 0.0)
        ahead = wp.vec2(0.0, 0.0)  # counts only for a spin, and sines are slow
        if wp.abs(body.spin) >= STILL:
            ahead = heading(body.angle)
        body, floor = rub_sole(body, floor, ahead, EDGE[0], FRICTION * press * MASS)
    body.spin = wp.clamp(body.spin, -MOST_SPIN, MOST_SPIN)
    body = advance(body)
    away = wp.abs(body.position - symbol_place)
    if away[0] < SYMBOL[0] + CORNER and away[1] < SYMBOL[1] + CORNER:
        symbol = fixed_box(symbol_place, SYMBOL, 0.0)
        symbol, body = resolve_contact(symbol, body, box_box(symbol, body), FRICTION)
    if wp.abs(body.position[0]) > HALL[0] - CORNER or wp.abs(body.position[1]) > HALL[1] - CORNER:
        body = keep_box_within(body, HALL, FRICTION)
    return body, height + rise * SECONDS, rise


@wp.func
def touched_side(body: Body):
    """Returns the side of the goal that the agent touches, 0: left, 1: right; -1 for none."""
    if body.position[1] < GOAL_Y - PLATE[1] - CORNER:
        return -1
    side = wp.where(body.position[0] < 0.0, 0, 1)
    plate = fixed_box(goal_place(side), PLATE, 0.0)
    contact = box_box(plate, body)
    return wp.where(contact.count > 0, side, -1)


RAYS = wp.constant(5)
BETWEEN = wp.constant(0.6108652381980153)  # radians: 35 degrees
RAY_TURN = wp.constant(wp.vec2(math.cos(BETWEEN), math.sin(BETWEEN)))
LENGTH = wp.constant(12.0)  # meters
RADIUS = wp.constant(0.5)  # meters, of the ball that is cast
SEEN = ("symbol_O_Goal", "symbol_X_Goal", "symbol_O", "symbol_X", "wall")
TAGS = wp.constant(5)
WALL_TAG = wp.constant(4)
SYMBOL_TAG = wp.constant(2)  # O's; X's follows. A goal's tag is its mark
RAY = wp.constant(7)  # numbers of a ray
FRAME = wp.constant(35)  # numbers of all rays
FRAMES = wp.constant(3)
WALL_HALF = wp.constant(0.25)  # meters: half their thickness
WALL_ENDS = wp.constant(wp.vec2(25.0, 10.0))  # meters: half the length of the walls across x and across y


@wp.func
def cast_walls(place: wp.vec2, direction: wp.vec2):
    """Returns the distance to the nearest wall that the ray's ball does not touch at its start, or MISS."""
    nearest = float(MISS)
    if wp.min(HALL[0] - wp.abs(place[0]), HALL[1] - wp.abs(place[1])) > RADIUS + FLUSH:
        for k in range(2):
            gap = HALL[k] - RADIUS - wp.sign(direction[k]) * place[k]
            nearest = wp.min(nearest, gap / wp.max(wp.abs(direction[k]), 1.0e-12))
        return nearest
    return cast_four_walls(place, direction, HALL, WALL_ENDS, WALL_HALF, RADIUS)


@wp.func
def observe_ray(world: World, i: int, direction: wp.vec2, at: int):
    """Writes one ray's hit from column `at` on."""
    place = world.place[i]
    nearest = cast_walls(place, direction)
    tag = int(WALL_TAG)
    distance = cast_upright_box(place - world.symbol_place[i], direction, SYMBOL, RADIUS)
    if distance < nearest:
        nearest = distance
        tag = SYMBOL_TAG + world.symbol[i]
    if place[1] + LENGTH * direction[1] > goal_place(0)[1] - PLATE[1] - RADIUS:
        over_plate = reach_beside(RADIUS, world.height[i] - PLATE_TOP)
        for side in range(2):
            to = place - goal_place(side)
            distance = cast_upright_box(place - wp.vec2(goal_place(side)[0], SIGN_Y), direction, SIGN, RADIUS)
            if over_plate > 0.0:
                distance = wp.min(distance, cast_upright_box(to, direction, PLATE, over_plate))
            if distance < nearest:
                nearest = distance
                tag = (world.left_goal[i] + side) % 2
    write_ray(world.obs, i, at, TAGS, wp.where(nearest <= LENGTH, tag, -1), nearest / LENGTH)


TRUTH = (
    ("place across the hall, to the right, and along it, / 25 m", 2),
    ("heading, in the same directions", 2),
    ("velocity ahead and to the left, / 20 m/s", 2),
    ("the symbol's mark: 1 for X, 0 for O", 1),
    ("the symbol, ahead and to the left, / 25 m", 2),
    ("the goal of that mark, ahead and to the left, / 25 m", 2),
    ("that goal's side: 1 for the right, -1 for the left", 1),
    ("time left, as a share of the longest episode", 1),
)
UNITS = wp.constant(wp.vec2(25.0, 20.0))  # m and m/s


@wp.func
def tell_truth(world: World, i: int, age: int, ahead: wp.vec2):
    """Writes the true state, which the agent does not observe."""
    place = world.place[i]
    side = wp.where(world.left_goal[i] == world.symbol[i], 0, 1)
    at = tell_motion(world.obs_truth, i, place, ahead, world.velocity[i], UNITS)
    at = tell_one(world.obs_truth, i, at, float(world.symbol[i]))
    at = tell(world.obs_truth, i, at, seen_from(ahead, world.symbol_place[i] - place), UNITS[0])
    at = tell(world.obs_truth, i, at, seen_from(ahead, goal_place(side) - place), UNITS[0])
    at = tell_one(world.obs_truth, i, at, float(2 * side - 1))
    tell_one(world.obs_truth, i, at, 1.0 - float(age) / float(MOST_TICKS))


@wp.func
def observe(world: World, i: int, age: int):
    """Writes the observation when the episode is `age` physics ticks old, after moving older frames back by one."""
    newest = shift_frames(world.obs, i, FRAME)
    ahead = heading(world.angle[i])
    turn = wp.vec2(1.0, 0.0)
    for ray in range(RAYS):
        observe_ray(world, i, turned(ahead, turn), newest + ray * RAY)
        turn = next_turn(turn, ray, RAY_TURN)
    newest = shift_frames(world.obs_time, i, 1)
    world.obs_time[i, newest] = float(age) / float(MOST_TICKS)
    if world.obs_truth.shape[1] > 0:
        tell_truth(world, i, age, ahead)
