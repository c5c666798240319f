"""Pyramids: press a switch, find the pyramid that appears somewhere, knock it over and take its golden brick.

The documentation gives 148 numbers: ray casts of switch, bricks, golden brick and walls, and the switch's state. Ours
are 21 rays, each of 5 tags (switch off, switch on, brick, golden brick, wall), a flag for no hit, and the
distance as a share of 30; then 1 if the switch has been pressed. As in Unity's example there are three sensors of 7
rays, one above the other: the lowest looks straight ahead, then in steps of 70/3 degrees to the right and left up to
70, the second a third of a step further left, the highest a third further right. A pyramid tapers, so that each sees
a narrower piece of it, and only the highest the golden brick on its top; when that has fallen, only the lowest does.

The rest is ours, in the proportions of Unity's example: 3 x 3 rooms of 13 x 13 with doors of 4 in the middle of the walls
between them, each with one thing within 2 of its middle, dealt anew for each episode: the agent, the switch, six heaps of
bricks that hide nothing, and an empty one where the pyramid appears. A pyramid that is touched falls: its bricks stay,
the golden one rolls 3.5 away from its middle, to the far side. A push of 2 m/s a tick against a drag of 8/s makes
for 10 m/s; turns are 200 degrees/s.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.physics.driving import CHOICES, detour, drive, steer
from palaestra.envs.builtin.physics.rigid_bodies import Body, circle_body, keep_circle_out
from palaestra.envs.builtin.pyramids.observations import (
    ASTRAY,
    BETWEEN,
    BRICK,
    BRICKS,
    DOOR,
    EDGE,
    FALL,
    FANS,
    HALF,
    LENGTH,
    NOTHING,
    PYRAMID,
    RAYS,
    ROOMS,
    RUBBLE,
    SWITCH,
    TAGS,
    World,
    half_side,
    observe,
    room_center,
    row_of,
)
from palaestra.envs.builtin.sensors.rays import heading
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD, GRAY, RED, Drawing, Solids, on_plane, solids
from palaestra.envs.solids import GREEN as LEAF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(1000)  # 5,000 physics ticks
COST = wp.constant(0.001)  # cost of a decision
PRIZE = wp.constant(2.0)
PUSH = wp.constant(2.0)  # m/s a tick
DRAG = wp.constant(8.0)  # 1/s
TURN = wp.constant(0.06981317007977318)  # radians a tick
RADIUS = wp.constant(0.5)  # radius of the agent
CLEAR_OF_HEAP, CLEAR_OF_SWITCH = 2.05, 1.05  # slightly less than half a thing's side plus the agent's radius
SIZE = int(FANS) * int(RAYS) * (int(TAGS) + 2) + 1


@wp.func
def start(world: World, i: int):
    """Starts an episode: deals each room its thing and puts the agent into a room of its own."""
    state = world.rng[i]
    for room in range(ROOMS):
        world.thing[i, room] = BRICKS
        astray = wp.vec2(wp.randf(state, -ASTRAY, ASTRAY), wp.randf(state, -ASTRAY, ASTRAY))
        world.thing_place[i, room] = room_center(room % EDGE, room // EDGE) + astray
    home = wp.randi(state, 0, ROOMS)
    switch = (home + wp.randi(state, 1, ROOMS)) % ROOMS
    prize = home
    while (prize - home) * (prize - switch) == 0:
        prize = wp.randi(state, 0, ROOMS)
    world.thing[i, home] = NOTHING
    world.thing[i, switch] = SWITCH
    world.thing[i, prize] = NOTHING
    world.prize_room[i] = prize
    world.pressed[i] = 0
    world.place[i] = world.thing_place[i, home]
    world.angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.golden[i] = wp.vec2(0.0, 0.0)
    world.rng[i] = state
    world.age[i] = 0
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def keep_off_walls(body: Body, column: int, row: int):
    """Returns the agent kept out of the wall pieces next to it in its room."""
    center = room_center(column, row)
    local = body.position - center
    if wp.max(wp.abs(local[0]), wp.abs(local[1])) < HALF - 1.01 * RADIUS:
        return body
    for k in range(2):
        side = wp.where(local[k] < 0.0, -1, 1)
        beyond = wp.where(k == 0, column, row) + side
        begins = wp.where(beyond < 0 or beyond >= EDGE, -HALF, DOOR)  # a wall without a room beyond has no door
        at = wp.vec2(0.0, 0.0)
        half = wp.vec2(0.0, 0.0)
        at[k] = float(side) * HALF
        at[1 - k] = wp.where(local[1 - k] < 0.0, -0.5, 0.5) * (begins + HALF)
        half[1 - k] = 0.5 * (HALF - begins)
        body = keep_circle_out(body, center + at, half, 0.0)
    return body


@wp.func
def touches(body: Body, at: wp.vec2, half: float):
    """Returns whether the agent touches a box along the axes."""
    to = wp.vec2(wp.abs(body.position[0] - at[0]), wp.abs(body.position[1] - at[1]))
    gap = wp.vec2(wp.max(to[0] - half, 0.0), wp.max(to[1] - half, 0.0))
    return wp.length_sq(gap) < RADIUS * RADIUS


@wp.func
def topple(world: World, i: int, room: int, way: wp.vec2):
    """Topples the pyramid: its golden brick rolls off, within 75 degrees of the direction of the push."""
    state = world.rng[i]
    angle = wp.atan2(way[1], way[0]) + wp.randf(state, -1.3, 1.3)
    world.rng[i] = state
    world.thing[i, room] = RUBBLE
    world.golden[i] = world.thing_place[i, room] + FALL * heading(angle)


@wp.func
def touch_thing(world: World, i: int, room: int, body: Body):
    """Applies the effect of touching a room's switch or pyramid; returns True if the golden brick was touched."""
    thing = world.thing[i, room]
    if thing == RUBBLE and touches(body, world.golden[i], BRICK):
        return True
    side = half_side(thing, 0)
    if side > 0.0 and touches(body, world.thing_place[i, room], side):
        if thing == SWITCH and world.pressed[i] == 0:
            world.pressed[i] = 1
            world.thing[i, world.prize_room[i]] = PYRAMID
        if thing == PYRAMID:
            topple(world, i, room, world.thing_place[i, room] - body.position)
    return False


@wp.func
def simulate(world: World, i: int, choice: int):
    """Runs a decision's physics ticks until the golden brick is touched; returns whether it was."""
    body = circle_body(world.place[i], world.velocity[i], RADIUS, 1.0)
    body.angle = world.angle[i]
    won = wp.bool(False)
    for _ in range(TICKS):
        if not won:
            body = drive(body, choice, TURN, PUSH, DRAG)
            column = row_of(body.position[0])
            row = row_of(body.position[1])
            room = row * EDGE + column
            won = touch_thing(world, i, room, body)
            side = half_side(world.thing[i, room], 0)
            if side > 0.0 and touches(body, world.thing_place[i, room], 1.01 * side):
                body = keep_circle_out(body, world.thing_place[i, room], wp.vec2(side, side), 0.0)
            body = keep_off_walls(body, column, row)
    world.place[i] = body.position
    world.velocity[i] = body.velocity
    world.angle[i] = body.angle
    return won


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    choice = int(world.action[i, 0])
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] > wp.int64(3):
        report[1] = i + 1
        choice = -1
    won = simulate(world, i, choice)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = wp.where(won, PRIZE, -COST)  # the prize replaces the cost of a decision
    world.terminated[i] = won
    world.truncated[i] = age >= MOST_DECISIONS and not won
    if won or age >= MOST_DECISIONS:
        report[0] = 1
        observe(world, i)
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)
    else:
        observe(world, i)


PROGRAM = Program(World, begin, tick)


def fetch_golden_brick(columns: Mapping[str, Tensor]) -> Action:
    """Goes to the switch, into the pyramid and to the golden brick, sideways through the rooms first, around their things."""
    place = columns["place"]
    target, room = next_target(columns)
    here = (place / (2 * float(HALF)) + int(EDGE) / 2).floor().clamp(0, int(EDGE) - 1)  # (S, 2): column and row
    there = torch.stack([room % int(EDGE), room // int(EDGE)], 1)
    is_here = (here == there).all(1, keepdim=True)
    number = (here[:, 1] * int(EDGE) + here[:, 0]).long()
    block, thing = pick_room(columns["thing_place"], number), pick_room(columns["thing"], number)
    half = torch.where(thing == int(SWITCH), CLEAR_OF_SWITCH, CLEAR_OF_HEAP)[:, None]
    is_in_the_way = (thing > 0) & ((target - block).norm(dim=1) > 0.1)
    target = torch.where(is_here, target, door_waypoint(place, here, there))
    target = torch.where(is_in_the_way[:, None], detour(place, target, block, half), target)
    discrete = steer(place, columns["angle"], target, 0.18)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def next_target(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns the next thing to touch, (S, 2), and its room, (S,)."""
    thing, pressed, prize = columns["thing"], columns["pressed"] > 0, columns["prize_room"].long()
    room = torch.where(pressed, prize, (thing == int(SWITCH)).float().argmax(1))
    has_fallen = pick_room(thing, prize) == int(RUBBLE)
    return torch.where(has_fallen[:, None], columns["golden"], pick_room(columns["thing_place"], room)), room


def door_waypoint(place: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Returns the waypoint to pass the next door, (S, 2): beyond it if the agent is in front of it, else in front of it."""
    center = 2 * float(HALF) * (here - (int(EDGE) - 1) / 2)
    way = (there - here).sign()
    way[:, 1] *= way[:, 0] == 0
    aside = ((place - center) * (way == 0)).abs().sum(1, keepdim=True)
    return center + way * (float(HALF) + torch.where(aside < 1.2, 1.5, -1.5))


def pick_room(table: Tensor, room: Tensor) -> Tensor:
    """Returns each row's entry for one room: of (S, rooms, ...) by (S,)."""
    return table[torch.arange(len(room), device=room.device), room]


SIDES = np.array([(0, 0, 0), (0.6, 0.4, 0), (1.6, 1.2, 0.8), (1.6, 1.2, 0.8), (1.6, 0, 0)])  # half the sides of each thing's layers
LAYER = 0.9  # height of a layer
SWITCH_COLORS = np.array([RED, LEAF])  # before and after the switch is pressed
BRICK_COLORS = ((152, 156, 156), (176, 180, 178), (198, 201, 199))


def draw_rooms(rows: Rows, behavior: str) -> Drawing:
    """Draws the rooms with their heaps of bricks, the switch, red before it is pressed, the golden brick, and the agent."""
    thing, half = rows["thing"], float(EDGE) * float(HALF)
    shapes = list(_walls(rows.areas))
    for level, gray in enumerate(BRICK_COLORS):
        side = SIDES[thing, level]
        color = np.where(((thing == int(PYRAMID)) & (level == 2))[..., None], GOLD, gray)
        if level == 1:
            color = np.where((thing == int(SWITCH))[..., None], SWITCH_COLORS[rows["pressed"]][:, None], color)
        size = np.stack([2 * side, LAYER * (side > 0), 2 * side], -1)
        shapes.append(solids(f"layer {level}", "box", on_plane(rows["thing_place"], (level + 0.5) * LAYER), size, color))
    brick = figures.hidden_unless((thing == int(RUBBLE)).any(1, keepdims=True), 2 * float(BRICK) * np.ones(3))
    shapes.append(solids("golden brick", "box", on_plane(rows["golden"][:, None], float(BRICK)), brick, GOLD))
    shapes += figures.agent(rows["place"][:, None], rows["angle"][:, None], 1.8 * float(RADIUS), (behavior, rows.slots))
    return Drawing(tuple(shapes), (half + 0.5, 2.5, half + 0.5), elevation=58.0)


@cache
def _walls(areas: int) -> tuple[Solids, ...]:
    """Returns the floor, the walls around it, and those between rooms on either side of each door."""
    edge, half, door = int(EDGE), float(HALF), float(DOOR)
    length = (half - door) / 2
    pieces = []
    for k in range(1, edge):
        at = 2 * half * k - edge * half
        for other in range(edge):
            middle = 2 * half * other - edge * half + half
            for side in (-1, 1):
                along = middle + side * (door + length)
                pieces += [((at, along), (0.15, length)), ((along, at), (length, 0.15))]
    return (*figures.room(areas, (edge * half, edge * half), wall=1.5), figures.boxes("inner walls", areas, tuple(pieces), GRAY, 1.5, 1.5))


class Pyramids(WarpEnv):
    """Pyramids: vector 148 (21 rays and the switch's state), discrete [4]: forward, back, turn right, turn left."""

    behavior = "Pyramids"
    summary = "An agent presses a switch, finds the pyramid that appears, knocks it over and takes its golden brick."
    rewards = ("-0.001 a decision", "+2 for the golden brick, in place of that decision's -0.001")
    episode = "ends with the golden brick, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 1.75
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {
        behavior: tuple(
            RayFan(
                "rays",
                unity_order(int(RAYS), float(BETWEEN), ahead=lean * float(BETWEEN) / 3),
                float(LENGTH),
                ("switch", "pressed switch", "brick", "golden brick", "wall"),
                first=fan * int(RAYS) * (int(TAGS) + 2),
                height=0.3 * fan,
            )
            for fan, lean in enumerate((0, 1, -1))
        )
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (SIZE,)),), ActionSpec(branches=(CHOICES,)), steady=True)
        rooms = int(ROOMS)
        super().__init__(PROGRAM, spec, areas, device, obs=SIZE, final_obs=SIZE, action=1, thing=rooms, thing_place=rooms)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `fetch_golden_brick`'s actions; None for another behavior."""
        return fetch_golden_brick(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_rooms(rows, self.behavior)
