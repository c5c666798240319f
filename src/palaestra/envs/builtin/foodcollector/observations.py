"""The columns of FoodCollector and the agents' observations: a grid around each agent, or a camera image."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.camera import add_circle, add_room, make_sight
from palaestra.envs.builtin.sensors.grid import clear_grid, grid_around, mark_box, mark_circle
from palaestra.envs.builtin.sensors.rays import heading

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(5)
HALF = wp.constant(30.0)  # half the floor's side
WALL = wp.constant(1.0)  # thickness
GREENS, REDS = wp.constant(25), wp.constant(25)
FOOD_RADIUS = wp.constant(0.5)
AGENT_RADIUS = wp.constant(1.0)
TAGS = 6
GREEN_TAG, RED_TAG, WALL_TAG, AGENT_TAG, FROZEN_TAG, FIRING_TAG = (wp.constant(tag) for tag in range(TAGS))
EYE = wp.constant(3.0)  # above the agents, so that things apart on the ground are apart in the image
LIME, ROSE, GRAY = wp.vec3(0.3, 1.0, 0.3), wp.vec3(1.0, 0.3, 0.3), wp.vec3(0.6, 0.6, 0.6)
BLUE, ICE, GOLD = wp.vec3(0.3, 0.5, 1.0), wp.vec3(0.7, 0.9, 1.0), wp.vec3(1.0, 0.9, 0.2)


@wp.struct
class World:
    """Columns of FoodCollector, one row per agent or, for the first four, per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    food: wp.array2d(dtype=wp.vec2)  # where each ball lies, the green ones first
    parameters: wp.array2d(dtype=wp.float32)  # laser_length, agent_scale of this episode
    pending: wp.array3d(dtype=wp.float32)
    episodes: wp.array(dtype=wp.int32)
    is_visual: wp.int32  # 1: obs_image is the camera's image, 0: unused, with the grid instead
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)
    frozen: wp.array(dtype=wp.int32)  # physics ticks until it thaws
    firing: wp.array(dtype=wp.bool)
    scout: wp.array(dtype=wp.vec3)  # a place and how far around it the agent touches no food
    action_continuous: wp.array2d(dtype=wp.float32)  # forward, to the right, turn to the left
    action_discrete: wp.array2d(dtype=wp.int64)  # 1: fire
    written: wp.array2d(dtype=wp.int32)
    strips: wp.array3d(dtype=wp.float32)
    bare: wp.array2d(dtype=wp.bool)  # rows of pixels that showed no thing when they were painted
    final_strips: wp.array3d(dtype=wp.float32)
    obs_image: wp.array4d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)
    final_obs_image: wp.array4d(dtype=wp.float32)
    final_obs_vector: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def tag_of(world: World, slot: int):
    """Returns the tag of an agent as others see it."""
    if world.frozen[slot] > 0:
        return FROZEN_TAG
    return wp.where(world.firing[slot], FIRING_TAG, AGENT_TAG)


@wp.func
def observe_grid(world: World, i: int, slot: int):
    """Marks all things near an agent in its grid."""
    grid = grid_around(world.obs_image, world.written, slot, world.position[slot], world.angle[slot], 1.0)
    clear_grid(grid)
    for k in range(world.food.shape[1]):
        mark_circle(grid, wp.where(k < GREENS, GREEN_TAG, RED_TAG), world.food[i, k], FOOD_RADIUS)
    radius = AGENT_RADIUS * world.parameters[i, 1]
    for other in range(i * AGENTS, (i + 1) * AGENTS):
        if other != slot:
            mark_circle(grid, tag_of(world, other), world.position[other], radius)
    for side in range(4):
        out = (HALF + 0.5 * WALL) * wp.where(side < 2, 1.0, -1.0)
        center = wp.where(side % 2 == 0, wp.vec2(out, 0.0), wp.vec2(0.0, out))
        mark_box(grid, WALL_TAG, center, wp.vec2(0.5 * WALL, HALF + WALL), 0.5 * wp.pi * float(side % 2))


@wp.func
def observe_camera(world: World, i: int, slot: int):
    """Adds all things ahead of an agent to its camera's strips."""
    sight = make_sight(world.strips, slot, world.position[slot], world.angle[slot], EYE)
    add_room(sight, wp.vec2(HALF, HALF), 4.0, GRAY)
    for k in range(world.food.shape[1]):
        add_circle(sight, world.food[i, k], FOOD_RADIUS, 1.0, wp.where(k < GREENS, LIME, ROSE))
    radius = AGENT_RADIUS * world.parameters[i, 1]
    for other in range(i * AGENTS, (i + 1) * AGENTS):
        if other != slot:
            tag = tag_of(world, other)
            color = wp.where(tag == FROZEN_TAG, ICE, wp.where(tag == FIRING_TAG, GOLD, BLUE))
            add_circle(sight, world.position[other], radius, 2.0 * radius, color)


@wp.func
def observe(world: World, i: int):
    """Writes the observations of each agent of an area; `draw` paints the images."""
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        ahead = heading(world.angle[slot])
        velocity = world.velocity[slot]
        world.obs_vector[slot, 0] = ahead[1] * velocity[0] - ahead[0] * velocity[1]
        world.obs_vector[slot, 1] = wp.dot(ahead, velocity)
        world.obs_vector[slot, 2] = wp.where(world.frozen[slot] > 0, 1.0, 0.0)
        world.obs_vector[slot, 3] = wp.where(world.firing[slot], 1.0, 0.0)
        if world.is_visual == 1:
            observe_camera(world, i, slot)
        else:
            observe_grid(world, i, slot)
