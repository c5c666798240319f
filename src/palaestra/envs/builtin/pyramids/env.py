"""Pyramids, as Unity has it: press a switch, find the pyramid that appears somewhere, and touch the golden block on its
top.

3 x 3 rooms of about 33 m with walls of 4.5 m and doors between them. Each episode deals the rooms anew: one holds the
agent, one the switch, one nothing until the switch is pressed and then the brick pyramid, and six hold pyramids of
stone. Everything appears at a random place in its room, 2 m above the floor, and falls. A pyramid has 25 cubes in four
layers; on the brick one lies the golden block, 2 m a side. The agent, a cube of 25 kg, is fast (up to 45 m/s) and rams
its way: bricks of 2 kg fly, stones of 50 kg give way slowly.

It sees three fans of 7 sphere casts, 35 m long: level and 70 degrees aside, rising by 5 m (65 degrees) and by 10 m (75
degrees). Each has 6 tags (block, wall, goal, switchOff, switchOn, stone), a flag for no hit, and the share of its
length. The golden block on its pyramid shows in the rising fans alone. A fourth observation has the switch's state and
the agent's velocity: right, up and ahead.

`rooms` has the rooms and the columns, `motion` the agent, `falling_bricks` the cubes that it runs into, `observations`
the rays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import INLINE_MORE, checked_choice, save_final_obs
from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.builtin.pyramids.heuristic import CHOICES, fetch_gold
from palaestra.envs.builtin.pyramids.motion import piles_near, step_agent, switch_bottom, turn
from palaestra.envs.builtin.pyramids.observations import LENGTH, RAY_SIZE, RAYS, SIDE_RAYS, observe
from palaestra.envs.builtin.pyramids.rooms import World
from palaestra.envs.builtin.pyramids.rooms_drawing import draw_rooms
from palaestra.envs.ray_fans import RayFan, unity_order

if TYPE_CHECKING:
    from collections.abc import Mapping


wp.set_module_options({"enable_backward": False, "max_unroll": 1, "cpu_compiler_flags": INLINE_MORE})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(5000)
COST = wp.constant(0.0002)  # of a tick
PRIZE = wp.constant(2.0)
TAG_NAMES = ("block", "wall", "goal", "switchOff", "switchOn", "stone")
FANS = (("RayPerceptionSensor", 70.0, 0.0), ("RayPerceptionSensor1", 65.0, 5.0), ("RayPerceptionSensor2", 75.0, 10.0))
FAN_SIZE = int(RAYS) * int(RAY_SIZE)


@wp.func
def start(world: World, i: int):
    """Starts an episode: deals the rooms to the agent, the switch and the pyramids."""
    state = world.rng[i]
    free = int(511)  # bits of the rooms that are still empty
    for k in range(rooms.ROOMS):
        skip = wp.randi(state, 0, rooms.ROOMS - k)
        room = int(0)
        while free & (1 << room) == 0 or skip > 0:
            skip -= wp.where(free & (1 << room) == 0, 0, 1)
            room += 1
        free = free - (1 << room)
        place = rooms.room_center(room) + wp.vec2(
            wp.randf(state, -rooms.ASTRAY, rooms.ASTRAY), wp.randf(state, -rooms.ASTRAY, rooms.ASTRAY)
        )
        if k < rooms.PILES:
            world.pile[i, k] = wp.where(k == rooms.BRICKS, rooms.ABSENT, rooms.STANDING)
            world.pile_place[i, k] = place
            world.pile_middle[i, k] = place + rooms.MIDDLE
            world.pile_reach[i, k] = rooms.REACH
        elif k == rooms.PILES:
            world.switch_place[i] = place
        else:
            world.place[i] = place
    world.switch_angle[i] = 0.0
    world.switch_spin[i] = 0.0
    world.pressed[i] = 0
    world.pressed_age[i] = 0
    world.angle[i] = wp.pi * (0.5 - float(wp.randi(state, 0, 360)) / 180.0)
    world.velocity[i] = wp.vec3(0.0, 0.0, 0.0)
    world.height[i] = rooms.DROP
    world.rng[i] = state
    world.age[i] = 0


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i, switch_bottom(world, i))


@wp.func
def save_last(world: World, i: int):
    """Keeps the last observation of the episode."""
    save_final_obs(world.obs_low, world.final_obs_low, i)
    save_final_obs(world.obs_middle, world.final_obs_middle, i)
    save_final_obs(world.obs_high, world.final_obs_high, i)
    save_final_obs(world.obs_vector, world.final_obs_vector, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after an episode's end pass in the next, without an action."""
    i = wp.tid()
    choice = checked_choice(world, i, 5, report)
    reward = float(0.0)
    won = wp.bool(False)
    cut = wp.bool(False)
    near = piles_near(world, i)
    left = int(TICKS)
    waits = wp.bool(True)  # for an observation
    while waits:
        waits = wp.bool(False)
        while left > 0 and not waits:
            left -= 1
            world.age[i] = world.age[i] + 1
            is_new = won or cut  # the rest of the decision passes in the next episode
            late = world.age[i] >= MOST_TICKS
            touched = wp.bool(False)
            if is_new or not late:
                touched = step_agent(world, i, choice, near)
            else:
                turn(world, i, choice)
            if not is_new:
                reward -= COST
                won = touched
                cut = late
                waits = won or cut
        observe(world, i, switch_bottom(world, i))
        if waits:
            save_last(world, i)
            start(world, i)
            if cut:  # after the action of its last tick, whose physics pass in the next episode
                left += 1
                world.age[i] = -1
            near = piles_near(world, i)
            choice = 0
    world.reward[i] = wp.where(won, PRIZE, reward)  # the prize replaces the cost of the decision
    world.terminated[i] = won
    world.truncated[i] = cut
    if won or cut:
        report[0] = 1


PROGRAM = Program(World, begin, tick)


SENSORS = (*(ObsSpec(name, (FAN_SIZE,)) for name, _, _ in FANS), ObsSpec("VectorSensor_size4", (4,)))


class Pyramids(WarpEnv):
    """Pyramids: vectors 56, 56, 56 (21 rays) and 4, discrete [5]: nothing, forward, back, turn right, turn left."""

    behavior = "Pyramids"
    summary = "An agent presses a switch, finds the pyramid that appears, rams it and touches its golden block."
    rewards = ("-0.0002 a physics tick, -0.001 a decision", "+2 for the golden block, in place of that decision's cost")
    episode = "ends with the golden block, and is truncated after 5,000 physics ticks (1,000 decisions)"
    benchmark = 1.75
    default_areas = 16
    areas_per_core = 128
    most_decisions = int(MOST_TICKS) // int(TICKS)
    age_per_decision = int(TICKS)
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {
        behavior: tuple(
            RayFan(
                name, unity_order(int(RAYS), math.radians(aside) / int(SIDE_RAYS)), float(LENGTH), TAG_NAMES, rise=rise
            )
            for name, aside, rise in FANS
        )
    }
    program = PROGRAM
    spec = BehaviorSpec(SENSORS, ActionSpec(branches=(CHOICES,)), steady=True)
    sizes: Mapping[str, Any] = {
        **dict.fromkeys(("pile", "pile_place", "pile_middle", "pile_reach", "untouched"), int(rooms.PILES)),
        **dict.fromkeys(("cube", "cube_velocity", "still"), int(rooms.PILES) * int(rooms.CUBES)),
        "carried": int(rooms.CUBES),
    }
    rule = staticmethod(fetch_gold)
    picture = staticmethod(draw_rooms)
