"""Pyramids, as in Unity's example: press a switch, find the pyramid that then appears, and touch the golden block on
its top.

3 x 3 rooms of about 33 m with walls of 4.5 m and doors between them. Each episode assigns the rooms anew: one room
holds the agent, one the switch, one is empty until the switch is pressed and then holds the brick pyramid, and six hold
pyramids of stone. Everything appears at a random place in its room, 2 m above the floor, and falls. A pyramid has 25
cubes in four layers; the golden block, 2 m a side, lies on the brick pyramid. The agent, a cube of 25 kg, is fast (up
to 45 m/s) and rams obstacles: bricks of 2 kg fly, stones of 50 kg give way slowly.

It has three fans of 7 sphere casts, 35 m long: one level, up to 70 degrees to each side; one rising by 5 m (65 degrees)
and one by 10 m (75 degrees). Each ray has a one-hot of 6 tags (block, wall, goal, switchOff, switchOn, stone), a flag
for no hit, and the distance as a share of its length. Only the rising fans can see the golden block on its pyramid. A
fourth observation has the switch's state and the agent's velocity: right, up and ahead.

`rooms` has the rooms and the columns, `motion` the agent, `falling_bricks` the cubes that the agent runs into,
`observations` the rays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import INLINE_MORE, Rows, checked_choice, save_final_obs
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.builtin.pyramids.motion import piles_near, step_agent, switch_bottom, turn
from palaestra.envs.builtin.pyramids.observations import LENGTH, MOST_TICKS, RAY_SIZE, RAYS, SIDE_RAYS, TRUTH, observe
from palaestra.envs.builtin.pyramids.rooms import APART, BRICKS, CUBES, EDGE, GOLD, LINE, STANDING, World
from palaestra.envs.builtin.sensors.truth import set_truth
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD as YELLOW
from palaestra.envs.solids import GRAY, GREEN, RED, Drawing, Solids, on_plane, solids, upright

wp.set_module_options({"enable_backward": False, "max_unroll": 1, "cpu_compiler_flags": INLINE_MORE})

NOTHING, FORWARD, BACK, RIGHT, LEFT = range(5)
CHOICES = 5
RUN_UP = 8.0  # meters by which it drives past a golden block that is still up, to ram what carries it again
SLACK = 0.19  # radians off the wanted direction at which the agent goes ahead
CLEAR = 3.6  # meters that the agent's middle keeps from the middles of things
LOOK = 5.0  # meters ahead within which it avoids things
WAYS = 24  # directions that it compares
FASTEST, SLOWEST = 30.0, 6.0  # m/s far from the target, and near it


def fetch_gold(columns: Mapping[str, Tensor]) -> Tensor:
    """Goes to the switch, then to the golden block, room by room and around obstacles."""
    place = columns["place"]
    pressed = columns["pressed"] > 0
    goal, room = next_goal(columns)
    here = room_of(place)
    there = room_of(room)
    is_here = (here == there).all(1, keepdim=True)
    target = torch.where(is_here, goal, door_waypoint(place, here, there))
    things = torch.cat([columns["pile_middle"][:, :BRICKS], columns["switch_place"][:, None]], 1)
    avoided = torch.ones(things.shape[:2], dtype=torch.bool, device=place.device)
    avoided[:, -1] = pressed
    way = free_way(place, target, things, avoided)
    return steer(columns, way, (target - place).norm(dim=1, keepdim=True))


def next_goal(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns the next place to go to, (S, 2), and a place in the same room.

    While the golden block is still up, the agent drives on and rams the bricks below the block.
    """
    gold = columns["cube"][:, BRICKS * CUBES + GOLD]
    is_whole = (columns["pile"][:, BRICKS] <= STANDING)[:, None]
    at = torch.where(is_whole, columns["pile_middle"][:, BRICKS], gold[:, :2])
    off = (at - columns["place"]).norm(dim=1, keepdim=True)
    ahead = torch.stack([columns["angle"].cos(), columns["angle"].sin()], 1)
    beyond = columns["place"] + 4.0 * ahead
    is_free = ((beyond.abs() < 47.0) & ((beyond.abs() - LINE).abs() > 2.0)).all(1, keepdim=True)
    is_behind = ((at - columns["place"]) * ahead).sum(1, keepdim=True) < 0
    rams = ~is_whole & (gold[:, 2:] > 1.6) & (off < RUN_UP) & is_behind & is_free
    goal = torch.where(rams, beyond, at)
    pressed = (columns["pressed"] > 0)[:, None]
    return torch.where(pressed, goal, columns["switch_place"]), torch.where(pressed, at, columns["switch_place"])


def room_of(place: Tensor) -> Tensor:
    """Returns the column and the row of the rooms at these places, (S, 2)."""
    return (place / (2 * LINE) + EDGE / 2).floor().clamp(0, EDGE - 1)


def door_waypoint(place: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Returns the waypoint to pass the next door, (S, 2): beyond the door for an agent in front of it, else in front of
    the door."""
    center = APART * (here - (EDGE - 1) / 2)
    way = (there - here).sign()
    way[:, 1] *= way[:, 0] == 0
    across = way != 0
    half = torch.where((center == 0) & ~across, 6.5, 3.5)  # of the part of a door that the agent uses
    aside = (place - center).clamp(-half, half)
    in_front = ((place - center - aside).abs() * ~across).sum(1, keepdim=True) < 0.5
    line = LINE * (way + (center / APART) * 2).sign()
    return torch.where(across, line + way * torch.where(in_front, 4.0, -4.0), center + aside)


def free_way(place: Tensor, target: Tensor, things: Tensor, avoided: Tensor) -> Tensor:
    """Returns the direction (S, 2) that leads nearest to the target without coming too near to a thing or a wall."""
    angle = torch.arange(WAYS, device=place.device) * (2 * math.pi / WAYS)
    to = target - place
    straight = torch.atan2(to[:, 1], to[:, 0])[:, None] + angle  # (S, WAYS); the first leads straight there
    way = torch.stack([straight.cos(), straight.sin()], -1)
    reach = to.norm(dim=1)[:, None].clamp(max=LOOK)
    near = (things - place[:, None])[:, None]  # (S, 1, T, 2)
    along = (near * way[:, :, None]).sum(-1).clamp(min=torch.zeros(()), max=reach[..., None])
    gap = (near - along[..., None] * way[:, :, None]).norm(dim=-1)
    blocked = ((gap < CLEAR) & (along > 0) & avoided[:, None]).any(-1)
    end = place[:, None] + reach[..., None] * way
    nearest = end.abs() - LINE
    door = end.abs().flip(-1)
    open_door = (door < 8.0) | ((door > 25.2) & (door < 34.0))
    blocked |= ((nearest.abs() < 1.3) & ~open_door).any(-1) | (end.abs() > 48.3).any(-1)
    cost = (target[:, None] - end).norm(dim=-1) + torch.where(blocked, 100.0, 0.0)
    cost[:, 0] -= 0.01
    best = cost.argmin(1)
    return way[torch.arange(len(way), device=way.device), best]


def steer(columns: Mapping[str, Tensor], way: Tensor, far: Tensor) -> Tensor:
    """Returns choices (S, 1): turn toward the direction, then drive, at a speed that suits the distance (S, 1)."""
    change = way * (2.0 * far).clamp(SLOWEST, FASTEST) - 0.6 * columns["velocity"][:, :2]
    off = (
        torch.remainder(torch.atan2(change[:, 1], change[:, 0]) - columns["angle"] + torch.pi, 2 * torch.pi) - torch.pi
    )
    go = torch.where(change.norm(dim=1) > 2.0, FORWARD, NOTHING)
    return torch.where(off.abs() <= SLACK, go, torch.where(off > 0, LEFT, RIGHT))[:, None]


STONE_COLOR, BRICK_COLOR = (176, 180, 178), (188, 122, 92)
LAYERS = np.repeat(np.arange(5), (12, 8, 4, 1, 1))
STANDING_HEIGHT = np.where(LAYERS == 4, 5.0, LAYERS + 0.5)
CROSS, SIDE = 7.5, 7.2525  # half the lengths of the walls between rooms


def draw_rooms(rows: Rows, behavior: str) -> Drawing:
    """Draws the rooms with their pyramids, the switch (red before it is pressed), the golden block, and the agent."""
    cubes = rows["cube"].reshape(rows.areas, rooms.PILES, rooms.CUBES, 3)
    x = np.stack([np.array(list(rooms.STONE_X))] * rooms.BRICKS + [np.array(list(rooms.BRICK_X))])
    offset = np.stack([x, np.broadcast_to(np.array(list(rooms.CUBE_Y)), x.shape)], -1)
    stands = rows["pile"][..., None, None] <= rooms.STANDING
    plane = np.where(stands, rows["pile_place"][:, :, None] + offset, cubes[..., :2])
    height = np.where(stands[..., 0], STANDING_HEIGHT, cubes[..., 2])
    shown = np.broadcast_to(rows["pile"][..., None] != rooms.ABSENT, height.shape)
    shapes = list(_walls(rows.areas))
    for name, part, color in (
        ("stones", slice(0, rooms.BRICKS), STONE_COLOR),
        ("bricks", slice(rooms.BRICKS, None), BRICK_COLOR),
    ):
        place = on_plane(plane[:, part, : rooms.GOLD], height[:, part, : rooms.GOLD]).reshape(rows.areas, -1, 3)
        size = figures.hidden_unless(shown[:, part, : rooms.GOLD].reshape(rows.areas, -1), (0.98, 0.98, 0.98))
        shapes.append(solids(name, "box", place, size, color))
    block = on_plane(plane[:, -1, rooms.GOLD :], height[:, -1, rooms.GOLD :])
    shapes.append(
        solids("golden block", "box", block, figures.hidden_unless(shown[:, -1, rooms.GOLD :], (2.0, 2.0, 2.0)), YELLOW)
    )
    color = np.array([RED, GREEN])[rows["pressed"]][:, None]
    switch = on_plane(rows["switch_place"][:, None], rooms.SWITCH_HALF)
    side = 2 * rooms.SWITCH_HALF
    shapes.append(
        solids("switch", "box", switch, (side, side, side), color, rotation=upright(rows["switch_angle"][:, None]))
    )
    feet = rows["height"][:, None] - 0.5
    shapes += figures.agent(rows["place"][:, None], rows["angle"][:, None], 0.6, (behavior, rows.slots), height=feet)
    return Drawing(tuple(shapes), (rooms.EAST + 1.0, 6.0, rooms.NORTH + 1.0), elevation=58.0)


@cache
def _walls(areas: int) -> tuple[Solids, ...]:
    """Returns the floor, the walls around it, and those between the rooms."""
    pieces = list[tuple[tuple[float, float], tuple[float, float]]]()
    for line in (-16.5, 16.5):
        for piece in range(rooms.PIECES):
            along = (-42.25, -16.55, 16.55, 42.25)[piece]
            half = SIDE if piece in (0, 3) else CROSS
            pieces += [((line, along), (0.5, half)), ((along, line), (half, 0.5))]
    return (
        *figures.room(areas, (rooms.EAST, rooms.NORTH), wall=5.0),
        figures.boxes("inner walls", areas, tuple(pieces), GRAY, rooms.INNER_TOP, rooms.INNER_TOP),
    )


TICKS = wp.constant(5)  # physics ticks per decision
COST = wp.constant(0.0002)  # of a tick
PRIZE = wp.constant(2.0)
TAG_NAMES = ("block", "wall", "goal", "switchOff", "switchOn", "stone")
FANS = (("RayPerceptionSensor", 70.0, 0.0), ("RayPerceptionSensor1", 65.0, 5.0), ("RayPerceptionSensor2", 75.0, 10.0))
FAN_SIZE = RAYS * RAY_SIZE


@wp.func
def start(world: World, i: int):
    """Starts an episode: assigns the rooms to the agent, the switch and the pyramids."""
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
    """Saves the last observation of the episode."""
    save_final_obs(world.obs_low, world.final_obs_low, i)
    save_final_obs(world.obs_middle, world.final_obs_middle, i)
    save_final_obs(world.obs_high, world.final_obs_high, i)
    save_final_obs(world.obs_vector, world.final_obs_vector, i)
    save_final_obs(world.obs_truth, world.final_obs_truth, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after an episode's end run in the next, without an action."""
    i = wp.tid()
    choice = checked_choice(world, i, 0, 5, report)
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
    most_decisions = MOST_TICKS // TICKS
    age_per_decision = TICKS
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {
        behavior: tuple(
            RayFan(name, unity_order(RAYS, math.radians(aside) / SIDE_RAYS), LENGTH, TAG_NAMES, rise=rise)
            for name, aside, rise in FANS
        )
    }
    program = Program(World, begin, tick)
    spec = BehaviorSpec(SENSORS, ActionSpec(branches=(CHOICES,)), steady=True)
    sizes: Mapping[str, Any] = {
        **dict.fromkeys(("pile", "pile_place", "pile_middle", "pile_reach", "untouched"), rooms.PILES),
        **dict.fromkeys(("cube", "cube_velocity", "still"), rooms.PILES * rooms.CUBES),
        "carried": rooms.CUBES,
    }
    rule = staticmethod(fetch_gold)
    picture = staticmethod(draw_rooms)
    truth = TRUTH

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, state: bool = False) -> None:
        """`state`: agents also observe `truth`, the true state of their area."""
        set_truth(self, state)
        super().__init__(areas, device)
