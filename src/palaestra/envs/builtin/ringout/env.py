"""RingOut: three agents push one another off a ring that shrinks; the last agent in the ring wins.

The sizes and speeds are Palaestra's own: a ring of radius 5, discs of radius 0.5 and equal mass that are pushed at 10
m/s^2 against a drag of 1.5/s (6.7 m/s at most), physics ticks of 0.02 s. Discs that meet bounce like curling stones: an
agent that rams another passes its speed on. The ring keeps its size for 50 decisions and is gone after 200 more, so
somebody always wins. An agent whose center is past the rim is out: it stays there, without colliding, until the episode
ends, which happens when only one agent is in.

All rewards are paid then: the first place earns 1, the second 0, the last -1; agents that fall on the same physics tick
share the mean of their places.

An agent observes, in its own frame and in units of the ring's radius (velocities per second): its position and
velocity, whether it is in, the ring's radius, and for each other agent (the next one counterclockwise first) relative
position, relative velocity and whether that agent is in. In an agent's frame the ring's center is the origin and the
agent starts near (-3, 0): the frames of the second and third agent are turned by 120 and 240 degrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing.figures import fixed
from palaestra.envs.builtin.physics.rigid_bodies import (
    SECONDS,
    add_speed,
    advance,
    apply_drag,
    circle_body,
    circle_circle,
)
from palaestra.envs.builtin.sensors.rays import heading, rotate
from palaestra.envs.solids import BLUE, FLOOR, GOLD, GREEN, INK, PAPER, RED, Drawing, on_plane, solids

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(3)
TICKS = wp.constant(5)  # physics ticks per decision
RING = wp.constant(5.0)
WHOLE = wp.constant(50)  # decisions for which the ring keeps its size
SHRINKING = wp.constant(200)  # decisions in which it shrinks to nothing
RADIUS = wp.constant(0.5)
PUSH = wp.constant(0.2)  # m/s a physics tick
WAYS = wp.constant(8)
BETWEEN_AGENTS = wp.constant(2.0943951)  # 120 degrees
BETWEEN_WAYS = wp.constant(0.7853982)  # 45 degrees
START = wp.constant(3.0)  # distance from the middle
SCATTER = wp.constant(0.5)  # largest random offset each way
# numbers in an observation: of the agent and the ring, and of each other agent
OWN = wp.constant(6)
OF_EACH = wp.constant(5)
OBS = OWN + (AGENTS - 1) * OF_EACH


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of RingOut: a row per slot, except for `AREA_COLUMNS`."""

    parameters: wp.array2d(dtype=wp.float32)  # bounce, drag of this episode
    position: wp.array(dtype=wp.vec2)  # from the ring's middle
    velocity: wp.array(dtype=wp.vec2)
    shift: wp.array(dtype=wp.vec2)  # displacement by the contacts of a physics tick
    kick: wp.array(dtype=wp.vec2)  # change of velocity by the contacts of a physics tick
    inside: wp.array(dtype=wp.bool)
    earned: wp.array(dtype=wp.float32)  # reward of an agent that is out, paid at the end
    action: wp.array2d(dtype=wp.int64)
    obs: wp.array2d(dtype=wp.float32)


AREA_COLUMNS = ("parameters",)


@wp.func
def ring_radius(age: int):
    """Returns the ring's radius after this many decisions."""
    return RING * wp.clamp(1.0 - float(age - WHOLE) / float(SHRINKING), 0.0, 1.0)


@wp.func
def write_vector(world: World, slot: int, at: int, v: wp.vec2):
    """Writes a vector in the agent's frame, in units of the ring's radius (velocities per second)."""
    seen = rotate(v, -BETWEEN_AGENTS * float(slot % AGENTS)) / RING
    world.obs[slot, at] = seen[0]
    world.obs[slot, at + 1] = seen[1]


@wp.func
def observe(world: World, i: int, slot: int):
    """Writes an agent's observation: itself, the ring, and the other agents in order, or zeros."""
    position = world.position[slot]
    velocity = world.velocity[slot]
    write_vector(world, slot, 0, position)
    write_vector(world, slot, 2, velocity)
    world.obs[slot, 4] = wp.where(world.inside[slot], 1.0, 0.0)
    world.obs[slot, 5] = ring_radius(world.age[i]) / RING
    for k in range(AGENTS - 1):
        other = i * AGENTS + (slot + 1 + k) % AGENTS
        at = OWN + k * OF_EACH
        there = wp.where(world.inside[other], 1.0, 0.0)
        write_vector(world, slot, at, there * (world.position[other] - position))
        write_vector(world, slot, at + 2, there * (world.velocity[other] - velocity))
        world.obs[slot, at + 4] = there


@wp.func
def start(world: World, i: int):
    """Starts an episode: all agents in the ring, far apart and at rest."""
    for k in range(2):
        world.parameters[i, k] = next_parameter(world, i, k)
    world.age[i] = 0
    world.episodes[i] += 1
    state = world.rng[i]
    for j in range(AGENTS):
        slot = i * AGENTS + j
        x = wp.randf(state, -SCATTER, SCATTER) - START
        y = wp.randf(state, -SCATTER, SCATTER)
        world.position[slot] = rotate(wp.vec2(x, y), BETWEEN_AGENTS * float(j))
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.inside[slot] = True
        world.earned[slot] = 0.0
    world.rng[i] = state
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        observe(world, i, slot)


@wp.func
def move_agent(world: World, i: int, slot: int):
    """Moves an agent by one physics tick of its action."""
    body = circle_body(world.position[slot], world.velocity[slot], RADIUS, 1.0)
    way = int(world.action[slot, 0])
    if way > 0 and way <= WAYS:
        body = add_speed(body, heading(BETWEEN_WAYS * float(way - 1) + BETWEEN_AGENTS * float(slot % AGENTS)), PUSH)
    body = advance(apply_drag(body, world.parameters[i, 1], 0.0))
    world.position[slot] = body.position
    world.velocity[slot] = body.velocity


@wp.func
def collide(world: World, i: int, slot: int):
    """Stores the effect of collisions on an agent, computed from positions before all collisions, so that the order
    does not matter."""
    body = circle_body(world.position[slot], world.velocity[slot], RADIUS, 1.0)
    shift = wp.vec2(0.0, 0.0)
    kick = wp.vec2(0.0, 0.0)
    for other in range(i * AGENTS, (i + 1) * AGENTS):
        if other != slot and world.inside[other]:
            mate = circle_body(world.position[other], world.velocity[other], RADIUS, 1.0)
            contact = circle_circle(body, mate)
            if contact.count > 0:
                approach = wp.max(wp.dot(body.velocity - mate.velocity, contact.normal), 0.0)
                shift -= 0.5 * contact.depth * contact.normal
                kick -= 0.5 * (1.0 + world.parameters[i, 0]) * approach * contact.normal
    world.shift[slot] = shift
    world.kick[slot] = kick


@wp.func
def is_over_rim(world: World, slot: int, ring: float):
    """Returns whether an agent that was in the ring is out now."""
    return world.inside[slot] and wp.length_sq(world.position[slot]) >= ring * ring


@wp.func
def eliminate(world: World, i: int, left: int):
    """Removes the agents past the rim and sets their points; returns how many of `left` agents are still in."""
    ring = ring_radius(world.age[i])
    fallen = int(0)  # Warp takes a literal for a constant
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if is_over_rim(world, slot, ring):
            fallen += 1
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if is_over_rim(world, slot, ring):
            world.inside[slot] = False
            world.velocity[slot] = wp.vec2(0.0, 0.0)
            world.earned[slot] = 2.0 - float(left) + 0.5 * float(fallen - 1)  # the mean of places `left` and upward
    return left - fallen


@wp.func
def simulate(world: World, i: int):
    """Runs the physics of one decision, or until at most one agent is left; returns how many agents are in."""
    left = int(0)  # Warp takes a literal for a constant
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if world.inside[slot]:
            left += 1
    for _ in range(TICKS):
        if left > 1:
            for slot in range(i * AGENTS, (i + 1) * AGENTS):
                if world.inside[slot]:
                    move_agent(world, i, slot)
            for slot in range(i * AGENTS, (i + 1) * AGENTS):
                if world.inside[slot]:
                    collide(world, i, slot)
            for slot in range(i * AGENTS, (i + 1) * AGENTS):
                if world.inside[slot]:
                    world.position[slot] += world.shift[slot]
                    world.velocity[slot] += world.kick[slot]
            left = eliminate(world, i, left)
    return left


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        way = world.action[slot, 0]
        if way < wp.int64(0) or way > wp.int64(WAYS):
            report[1] = slot + 1
    world.age[i] += 1
    done = simulate(world, i) < 2
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        observe(world, i, slot)
        points = wp.where(world.inside[slot], 1.0, world.earned[slot])
        world.reward[slot] = wp.where(done, points, 0.0)
        world.terminated[slot] = done
    if done:
        report[0] = 1
        for slot in range(i * AGENTS, (i + 1) * AGENTS):
            save_final_obs(world.obs, world.final_obs, slot)
        start(world, i)


def hold_center(columns: Mapping[str, Tensor]) -> Tensor:
    """Moves to the center, slows down before it, and pushes back when driven off."""
    wish = -columns["position"] - 0.4 * columns["velocity"]
    frame = BETWEEN_AGENTS * (torch.arange(len(wish), device=wish.device) % AGENTS)
    way = torch.round((torch.atan2(wish[:, 1], wish[:, 0]) - frame) / BETWEEN_WAYS).long() % WAYS
    return torch.where(wish.norm(dim=1) > 0.1, way + 1, 0)[:, None]


def draw_ring(rows: Rows, behavior: str) -> Drawing:
    """Draws the ring, which shrinks on its base, and the agents; agents that are out lie beside the ring, small."""
    inside = rows["inside"]
    size = 2 * RING * np.clip(1 - (rows["age"] - WHOLE) / SHRINKING, 0, 1)[:, None]
    flat = np.full_like(size, 0.2)
    radius = RADIUS * np.where(inside, 1.0, 0.5)
    middle = np.zeros((rows.areas, 1, 3))
    agents = (behavior, rows.slots)
    colors = np.array([BLUE, RED, GOLD])
    low = np.where(inside, 0.0, -0.16)
    body = np.stack([2 * radius, 0.9 * radius, 2 * radius], -1)
    knob = np.stack([radius, 0.6 * radius, radius], -1)
    shapes = (
        fixed(rows.areas, "base", "cylinder", [(0, -0.26, 0)], (2 * RING + 2.2, 0.2, 2 * RING + 2.2), FLOOR),
        solids("rim", "cylinder", middle - [0, 0.11, 0], np.stack([size + 0.2, flat, size + 0.2], -1), INK),
        solids("ring", "cylinder", middle - [0, 0.1, 0], np.stack([size, flat, size], -1), GREEN),
        solids("agent", "cylinder", on_plane(rows["position"], low + 0.45 * radius), body, colors, agents=agents),
        solids("knob", "sphere", on_plane(rows["position"], low + 0.9 * radius), knob, PAPER, agents=agents),
    )
    return Drawing(shapes, (RING + 1.2, 0.7, RING + 1.2))


class RingOut(WarpEnv):
    """RingOut: vector 16, discrete [9]: nothing, or a push in one of eight directions, counterclockwise."""

    behavior = "RingOut"
    agents = AGENTS
    teams = (0, 1, 2)
    summary = "Three agents push one another off a ring that shrinks; the last agent inside wins."
    rewards = (
        "at the end: +1 to the last one in, 0 to the second, -1 to the first one out",
        "agents that fall at once share their places",
    )
    episode = "ends when one agent alone is in the ring, which is gone after 250 decisions (1,250 physics ticks)"
    benchmark = None
    default_areas = 16
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"bounce": (0.8, 0.0, 1.0), "drag": (1.5, 0.5, 5.0)}
    program = Program(World, begin, tick, area_columns=AREA_COLUMNS)
    spec = BehaviorSpec((ObsSpec("vector", (OBS,)),), ActionSpec(branches=(WAYS + 1,)), steady=True)
    rule = staticmethod(hold_center)
    picture = staticmethod(draw_ring)
