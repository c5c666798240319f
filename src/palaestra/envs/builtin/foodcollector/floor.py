"""FoodCollector's columns, its observations by grid or camera, and how food falls, rolls and reappears."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, world_struct
from palaestra.envs.builtin.physics.contact_solver import ContactColumns
from palaestra.envs.builtin.physics.rigid_bodies import GRAVITY, SECONDS
from palaestra.envs.builtin.sensors.camera import add_ball, add_box, add_room, make_sight
from palaestra.envs.builtin.sensors.grid import (
    Grid,
    aim_grid,
    clear_grid,
    close_grid,
    grid_around,
    mark_box,
    mark_circle,
    mark_edge,
)
from palaestra.envs.builtin.sensors.sphere_casts import reach_beside

AGENTS = wp.constant(5)
HALF = wp.constant(50.0)  # half the floor's side, where the inner faces of the walls are
OUTER = wp.constant(wp.vec4(-50.97, -51.0, 51.0, 50.97))  # outer faces of the walls: lowest and highest corner
WALL_TOP = wp.constant(2.5)  # above the floor, as all heights here
GREENS = wp.constant(25)
REDS = wp.constant(25)
FOOD_RADIUS = wp.constant(0.75)
SEEN_RADIUS = wp.constant(0.5)  # as the camera shows food, in the middle of its body
AGENT_HALF = wp.constant(0.5)  # half the side of an agent of scale 1
CELL = wp.constant(1.0)
CELLS = 40
SLAB = wp.constant(0.01)  # half the height of the cells, which lie at the height of the agent's middle
TAGS = ("food", "agent", "wall", "badFood", "frozenAgent")
FOOD_TAG, AGENT_TAG, WALL_TAG, BAD_TAG, FROZEN_TAG = (wp.constant(tag) for tag in range(5))
BALLS = GREENS + REDS
THINGS = BALLS + AGENTS + 1  # that a grid may show: food, agents, the wall
CAMERA_AHEAD = wp.constant(0.15)  # of the agent's middle


def color(red: float, green: float, blue: float) -> wp.vec3:
    """Returns a material's color in steps of 1/255, as a PNG file has it."""
    return wp.vec3(*(round(part * 255) / 255 for part in (red, green, blue)))


GREEN = color(0.404, 0.737, 0.42)
RED = color(0.745, 0.227, 0.153)
BLUE = color(0.129, 0.588, 0.953)
GRAY = color(0.392, 0.392, 0.392)
IS_BLUE, IS_GRAY, IS_GREEN, IS_RED = (wp.constant(look) for look in range(4))
"""How an agent looks: as usual, frozen, or just fed with good or bad food."""


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns, ContactColumns):
    """Columns of FoodCollector: one row per area, and from `frozen` on one row per agent. Heights are above rest."""

    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    food: wp.array2d(dtype=wp.vec2)  # where each ball is, the good ones first
    food_height: wp.array2d(dtype=wp.float32)
    food_velocity: wp.array2d(dtype=wp.vec2)
    food_rise: wp.array2d(dtype=wp.float32)  # m/s
    food_roll: wp.array2d(dtype=wp.vec2)  # the velocity at which a ball of this spin would roll
    parameters: wp.array2d(dtype=wp.float32)  # laser_length, agent_scale of this episode
    is_visual: wp.int32  # 1: obs_image is the camera's image, 0: unused, with the grid instead
    owner: wp.array2d(dtype=wp.int32)
    bounds: wp.array2d(dtype=wp.vec4)
    frozen: wp.array(dtype=wp.int32)  # physics ticks until it thaws
    fed: wp.array(dtype=wp.int32)  # physics ticks until it looks as usual after food
    look: wp.array(dtype=wp.int32)
    firing: wp.array(dtype=wp.bool)
    action_continuous: wp.array2d(dtype=wp.float32)  # forward, to the right, turn to the left
    action_discrete: wp.array2d(dtype=wp.int64)  # 1: fire
    written: wp.array2d(dtype=wp.int32)
    strips: wp.array3d(dtype=wp.float32)
    balls: wp.array3d(dtype=wp.float32)
    plain: wp.array2d(dtype=wp.int32)  # last columns of each row of pixels that show only the sky or the floor
    final_strips: wp.array3d(dtype=wp.float32)
    final_balls: wp.array3d(dtype=wp.float32)
    obs_image: wp.array4d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)
    obs_truth: wp.array2d(dtype=wp.float32)


@wp.func
def middle_height(world: World, i: int, agent: int):
    """Returns the height of an agent's middle above the floor."""
    return AGENT_HALF * world.parameters[i, 1] + world.body_height[i, agent]


@wp.func
def observe_grid(world: World, i: int, agent: int):
    """Marks all things around an agent in its grid."""
    slot = i * AGENTS + agent
    grid = grid_around(world.obs_image, world.owner, world.written, world.bounds, slot, i)
    grid = aim_grid(grid, world.body_position[i, agent], world.body_angle[i, agent], CELL)
    clear_grid(grid)
    height = middle_height(world, i, agent)
    if height < WALL_TOP + SLAB:
        mark_wall(grid)
    for k in range(world.food.shape[1]):
        gap = wp.abs(FOOD_RADIUS + world.food_height[i, k] - height) - SLAB
        section = reach_beside(FOOD_RADIUS, wp.max(gap, 0.0))
        if section > 0.0:
            mark_circle(grid, 1 + k, wp.where(k < GREENS, FOOD_TAG, BAD_TAG), world.food[i, k], section, FOOD_RADIUS)
    half = AGENT_HALF * world.parameters[i, 1]
    for other in range(AGENTS):
        if other != agent and wp.abs(middle_height(world, i, other) - height) < half + SLAB:
            tag = wp.where(world.frozen[i * AGENTS + other] > 0, FROZEN_TAG, AGENT_TAG)
            mark_box(
                grid,
                1 + world.food.shape[1] + other,
                tag,
                world.body_position[i, other],
                wp.vec2(half, half),
                world.body_angle[i, other],
            )
    close_grid(grid)


@wp.func
def mark_wall(grid: Grid):
    """Marks the cells that the inner and the outer faces of the wall cross, as one thing in the grid."""
    for side in range(4):
        low = wp.where(side < 2, -HALF, HALF)
        inner = wp.vec2(low, -HALF)
        inner_end = wp.vec2(low, HALF)
        out = OUTER[side % 2 + wp.where(side < 2, 0, 2)]
        outer = wp.vec2(out, OUTER[1])
        outer_end = wp.vec2(out, OUTER[3])
        if side % 2 == 1:
            inner = wp.vec2(-HALF, low)
            inner_end = wp.vec2(HALF, low)
            outer = wp.vec2(OUTER[0], out)
            outer_end = wp.vec2(OUTER[2], out)
        mark_edge(grid, 0, WALL_TAG, inner, inner_end, OUTER)
        mark_edge(grid, 0, WALL_TAG, outer, outer_end, OUTER)


@wp.func
def look_color(look: int):
    """Returns the color of an agent."""
    if look == IS_GRAY:
        return GRAY
    if look == IS_GREEN:
        return GREEN
    if look == IS_RED:
        return RED
    return BLUE


@wp.func
def observe_camera(world: World, i: int, agent: int):
    """Adds all things ahead of an agent to the strips and balls of its camera."""
    slot = i * AGENTS + agent
    angle = world.body_angle[i, agent]
    height = middle_height(world, i, agent)
    ahead = wp.vec2(wp.cos(angle), wp.sin(angle))
    eye = world.body_position[i, agent] + CAMERA_AHEAD * world.parameters[i, 1] * ahead
    sight = make_sight(world.strips, world.balls, slot, eye, ahead, height, world.obs_image.shape[2])
    add_room(sight, wp.vec2(HALF, HALF), WALL_TOP, GRAY)
    half = AGENT_HALF * world.parameters[i, 1]
    for other in range(AGENTS):
        if other != agent:
            bottom = world.body_height[i, other]
            add_box(
                sight,
                world.body_position[i, other],
                wp.vec2(half, half),
                world.body_angle[i, other],
                wp.vec2(bottom, bottom + 2.0 * half),
                look_color(world.look[i * AGENTS + other]),
            )
    for k in range(world.food.shape[1]):
        add_ball(
            sight,
            world.food[i, k],
            FOOD_RADIUS + world.food_height[i, k],
            SEEN_RADIUS,
            wp.where(k < GREENS, GREEN, RED),
        )


@wp.func
def observe(world: World, i: int):
    """Writes the observations of each agent of an area; `draw` paints the images."""
    for agent in range(AGENTS):
        if world.is_visual == 1:
            world.obs_vector[i * AGENTS + agent, 0] = wp.where(world.frozen[i * AGENTS + agent] > 0, 1.0, 0.0)
            observe_camera(world, i, agent)
        else:
            observe_grid(world, i, agent)


RANGE = wp.constant(45.0)  # all things start this far from the middle at most, along each axis
FALL = wp.constant(1.75)  # meters above its place of rest at which an eaten ball comes up again
FLOOR_FRICTION = wp.constant(0.6 * 9.81 * 0.02)  # m/s that the floor takes from a sliding ball in a tick
SPIN_KEPT = wp.constant(1.0 - 0.05 * 0.02)  # in a tick
FASTEST_ROLL = wp.constant(5.25)  # m/s: nothing spins faster than 7 rad/s
STILL = wp.constant(1.0e-3)  # m/s


@wp.func
def random_place(state: wp.uint32):
    """Returns a random place."""
    x = wp.randf(state, -RANGE, RANGE)
    y = wp.randf(state, -RANGE, RANGE)
    return state, wp.vec2(x, y)


@wp.func
def scatter_food(world: World, i: int):
    """Puts all food on the floor at random places."""
    state = world.rng[i]
    for k in range(world.food.shape[1]):
        state, place = random_place(state)
        world.food[i, k] = place
        world.food_height[i, k] = 0.0
        world.food_velocity[i, k] = wp.vec2(0.0, 0.0)
        world.food_rise[i, k] = 0.0
        world.food_roll[i, k] = wp.vec2(0.0, 0.0)
    world.rng[i] = state


@wp.func
def raise_food(world: World, i: int, k: int):
    """Makes an eaten ball reappear elsewhere, above the floor; it keeps its velocity and spin."""
    state, place = random_place(world.rng[i])
    world.rng[i] = state
    world.food[i, k] = place
    world.food_height[i, k] = FALL


@wp.func
def roll(world: World, i: int, k: int):
    """Applies a tick of gravity, or of the floor's friction, which turns sliding into rolling, to a ball."""
    spin = world.food_roll[i, k] * SPIN_KEPT
    velocity = world.food_velocity[i, k]
    if world.food_height[i, k] > 0.0:
        rise = world.food_rise[i, k] - GRAVITY * SECONDS
        height = wp.max(world.food_height[i, k] + rise * SECONDS, 0.0)
        world.food_height[i, k] = height
        world.food_rise[i, k] = wp.where(height > 0.0, rise, 0.0)
    else:
        slip = velocity - spin
        size = wp.length(slip)
        if size > 0.0:
            lost = wp.min(FLOOR_FRICTION, size * 2.0 / 7.0) / size
            velocity -= lost * slip
            spin += 2.5 * lost * slip
    fast = wp.length(spin)
    if fast > FASTEST_ROLL:
        spin *= FASTEST_ROLL / fast
    if wp.length_sq(velocity) < STILL * STILL and fast < STILL:
        velocity = wp.vec2(0.0, 0.0)
        spin = velocity
    world.food_velocity[i, k] = velocity
    world.food_roll[i, k] = spin


@wp.func
def bump(world: World, i: int, k: int, other: int):
    """Resolves the contact of two balls, if they meet: afterward they neither approach nor overlap each other."""
    to = world.food[i, other] - world.food[i, k]
    gap = wp.length_sq(to)
    if gap > 4.0 * FOOD_RADIUS * FOOD_RADIUS or gap < 1.0e-6:
        return
    rise = world.food_height[i, other] - world.food_height[i, k]
    distance = wp.sqrt(gap + rise * rise)
    if distance > 2.0 * FOOD_RADIUS:
        return
    n = to / distance
    approach = wp.dot(world.food_velocity[i, k] - world.food_velocity[i, other], n)
    push = 0.5 * wp.max(approach, 0.0) * n
    world.food_velocity[i, k] -= push
    world.food_velocity[i, other] += push
    part = (FOOD_RADIUS - 0.5 * distance) * n
    world.food[i, k] -= part
    world.food[i, other] += part


@wp.func
def move_food(world: World, i: int):
    """Moves all balls by a tick."""
    inner = HALF - FOOD_RADIUS
    count = world.food.shape[1]
    for k in range(count):
        velocity = world.food_velocity[i, k]
        if world.food_height[i, k] > 0.0 or wp.length_sq(velocity) > 0.0 or wp.length_sq(world.food_roll[i, k]) > 0.0:
            roll(world, i, k)
            velocity = world.food_velocity[i, k]
            place = world.food[i, k] + velocity * SECONDS
            held = wp.vec2(wp.clamp(place[0], -inner, inner), wp.clamp(place[1], -inner, inner))
            for axis in range(2):
                if held[axis] != place[axis]:
                    velocity[axis] = 0.0
            world.food[i, k] = held
            world.food_velocity[i, k] = velocity
            for other in range(count):
                if other != k and wp.abs(world.food[i, other][0] - held[0]) < 2.0 * FOOD_RADIUS:
                    bump(world, i, k, other)
