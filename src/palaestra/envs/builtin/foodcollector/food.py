"""The balls of food in FoodCollector: how they fall, roll, meet one another, and where they come up again."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.foodcollector.observations import FOOD_RADIUS, HALF, World
from palaestra.envs.builtin.physics.rigid_bodies import GRAVITY, SECONDS

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

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
    """Lays all food on the floor at random places."""
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
    """Makes an eaten ball come up elsewhere, above the floor; it keeps its velocity and spin."""
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
    """Resolves the contact of two balls, if they meet: neither approaches the other or overlaps it afterward."""
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
