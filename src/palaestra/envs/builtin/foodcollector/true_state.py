"""FoodCollector's observation `truth`: the agents, and the nearest food at any distance."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.foodcollector.floor import AGENTS, GREENS, REDS, World
from palaestra.envs.builtin.sensors.rays import MISS, heading
from palaestra.envs.builtin.sensors.truth import seen_from, tell, tell_motion, tell_one

NEAREST = wp.constant(5)  # balls of each kind that it tells of
OTHER = (
    ("another agent, ahead and to the left, / 50 m", 2),
    ("where it looks, ahead and to the left", 2),
    ("how long it is still frozen, as a share of 4 s", 1),
)
TRUTH = (
    ("place, to the right and ahead as seen from above, / 50 m", 2),
    ("heading, in the same directions", 2),
    ("velocity ahead and to the left, / 20 m/s", 2),
    ("how long it is still frozen, as a share of 4 s", 1),
    *(AGENTS - 1) * OTHER,
    *NEAREST * (("the next of the nearest green food, ahead and to the left, / 50 m", 2),),
    *NEAREST * (("the next of the nearest red food, ahead and to the left, / 50 m", 2),),
    ("laser_length and agent_scale", 2),
    ("time left, as a share of the longest episode", 1),
)
UNITS = wp.constant(wp.vec2(50.0, 20.0))  # m and m/s
FROZEN_SECONDS = wp.constant(4.0)
SECONDS = wp.constant(0.02)


@wp.func
def tell_food(world: World, i: int, agent: int, at: int, first: int, count: int):
    """Writes the places of the nearest of `count` balls, beginning with ball `first`; returns the next free column."""
    slot = i * AGENTS + agent
    eye = world.body_position[i, agent]
    ahead = heading(world.body_angle[i, agent])
    told = int(0)  # bits of the balls
    for _ in range(NEAREST):
        nearest = float(MISS)
        which = int(0)
        for k in range(count):
            far = wp.length(world.food[i, first + k] - eye)
            if (told >> k) & 1 == 0 and far < nearest:
                nearest = far
                which = k
        told = told | (1 << which)
        at = tell(world.obs_truth, slot, at, seen_from(ahead, world.food[i, first + which] - eye), UNITS[0])
    return at


@wp.func
def frozen_share(world: World, slot: int):
    """Returns the time for which an agent is still frozen, as a share of the longest."""
    return float(world.frozen[slot]) * SECONDS / FROZEN_SECONDS


@wp.func
def tell_truth(world: World, i: int, agent: int, left: float):
    """Writes the true state, which agents do not observe; `left`: share of the episode that is left."""
    slot = i * AGENTS + agent
    truth = world.obs_truth
    eye = world.body_position[i, agent]
    ahead = heading(world.body_angle[i, agent])
    at = tell_motion(truth, slot, eye, ahead, world.body_velocity[i, agent], UNITS)
    at = tell_one(truth, slot, at, frozen_share(world, slot))
    for k in range(1, AGENTS):
        other = (agent + k) % AGENTS
        at = tell(truth, slot, at, seen_from(ahead, world.body_position[i, other] - eye), UNITS[0])
        at = tell(truth, slot, at, seen_from(ahead, heading(world.body_angle[i, other])), 1.0)
        at = tell_one(truth, slot, at, frozen_share(world, i * AGENTS + other))
    at = tell_food(world, i, agent, at, 0, GREENS)
    at = tell_food(world, i, agent, at, GREENS, REDS)
    at = tell(truth, slot, at, wp.vec2(world.parameters[i, 0], world.parameters[i, 1]), 1.0)
    tell_one(truth, slot, at, left)
