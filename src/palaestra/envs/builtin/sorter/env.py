"""Sorter: touch numbered tiles in rising order.

A round room with `num_tiles` tiles, of 20 numbers and on 20 places along a circle, all drawn anew for each episode;
the agent starts in the middle, looking anywhere. Positions are divided by 20 and lie along the room's own axes, east and
north, as the directions do; a tile's is relative to the agent. Tiles are flat: one is touched by walking onto it, and
a touched one may be walked on freely. As in Unity's example an episode is truncated after 5,000 physics ticks, and speeds
are such that the room is crossed in two seconds. The documentation leaves sizes open: neighboring tiles lie far enough
apart that the agent can pass between them, and no further than it can reach.

The tiles come before the vector, because Unity orders sensors by name (`BufferSensor`, `VectorSensor_size4`):
a model trained here reads what Unity's agent sends. Rows of tiles are in rising order of their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.solids import FLOOR, GREEN, INK, Drawing, on_plane, solids

if TYPE_CHECKING:
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

TICKS = wp.constant(5)  # physics ticks per decision
SECONDS = wp.constant(0.02)  # a physics tick
MOST_DECISIONS = wp.constant(1000)
NUMBERS = wp.constant(20)  # numbers to draw from; also the number of places
ROW = wp.constant(23)  # one-hot of the number, relative position, visited
SCALE = wp.constant(20.0)  # distance that an observation shows as 1
RING = wp.constant(16.0)  # radius of the circle of tiles
REACH = wp.constant(17.0)  # furthest the agent's center gets from the middle
TOUCH = wp.constant(2.0)  # distance of centers: a tile of radius 1.25, an agent of 0.75; neighbors lie 5 apart
PUSH = wp.constant(2.0)  # m/s gained in a physics tick
DRAG = wp.constant(4.0)  # 1/s: 23 m/s at most
TURN = wp.constant(4.0 * 0.017453292519943295)  # a physics tick: 200 degrees a second
COST = wp.constant(0.0002)
NONE = wp.constant(-1)
INNER = 10.0  # radius of a circle on which no tile is in the way
ALIGNED = math.radians(8)  # this close to a tile's direction, walking outward touches that tile alone


@wp.struct
class World:
    """Columns of Sorter, one row per area. Rows of `obs_tiles` beyond `tiles` are all zero."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    tiles: wp.array(dtype=wp.int32)  # number of tiles in this episode
    touched: wp.array(dtype=wp.int32)  # number of touched tiles: the first ones, since they are in order
    number: wp.array2d(dtype=wp.int32)  # number of each tile, 0..19, rising
    place: wp.array2d(dtype=wp.int32)  # place of each tile, 0..19, counted from the north through the east
    position: wp.array(dtype=wp.vec2)  # east, north
    velocity: wp.array(dtype=wp.vec2)
    heading: wp.array(dtype=wp.float32)  # radians from the north through the east
    pending: wp.array3d(dtype=wp.float32)  # num_tiles
    episodes: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)  # forward, back; right, left; turn left, turn right: 1, 2, each with 0 for neither
    obs_tiles: wp.array3d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)
    final_obs_tiles: wp.array3d(dtype=wp.float32)
    final_obs_vector: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def tile_position(place: int):
    """Returns the position of a tile's place."""
    angle = float(place) * (2.0 * wp.PI / float(NUMBERS))
    return wp.vec2(RING * wp.sin(angle), RING * wp.cos(angle))


@wp.func
def observe(world: World, i: int):
    """Writes the parts of the observation that change within an episode."""
    position = world.position[i]
    heading = world.heading[i]
    world.obs_vector[i, 0] = position[0] / SCALE
    world.obs_vector[i, 1] = position[1] / SCALE
    world.obs_vector[i, 2] = wp.sin(heading)
    world.obs_vector[i, 3] = wp.cos(heading)
    touched = world.touched[i]
    for tile in range(world.tiles[i]):
        away = (tile_position(world.place[i, tile]) - position) / SCALE
        world.obs_tiles[i, tile, NUMBERS] = away[0]
        world.obs_tiles[i, tile, NUMBERS + 1] = away[1]
        world.obs_tiles[i, tile, NUMBERS + 2] = wp.where(tile < touched, 1.0, 0.0)


@wp.func
def deal_tiles(world: World, i: int, tiles: int):
    """Draws numbers, in rising order, and a different place for each; clears the rows of the last episode's tiles."""
    state = world.rng[i]
    for tile in range(world.tiles[i]):
        for k in range(world.obs_tiles.shape[2]):
            world.obs_tiles[i, tile, k] = 0.0
    laid = int(0)  # Warp takes a literal for a constant
    taken = int(0)  # a bit a place
    for number in range(world.number.shape[1]):
        # with this probability every set of numbers is equally likely
        if wp.randi(state, 0, NUMBERS - number) < tiles - laid:
            place = wp.randi(state, 0, NUMBERS)
            while (taken >> place) & 1 == 1:
                place = wp.randi(state, 0, NUMBERS)
            taken = taken | (1 << place)
            world.number[i, laid] = number
            world.place[i, laid] = place
            world.obs_tiles[i, laid, number] = 1.0
            laid += 1
    world.tiles[i] = tiles
    world.touched[i] = 0
    world.rng[i] = state


@wp.func
def start(world: World, i: int):
    """Starts an episode: new tiles, and the agent in the middle with a random heading."""
    deal_tiles(world, i, int(next_parameter(world, i, 0)))
    state = world.rng[i]
    world.heading[i] = wp.randf(state, 0.0, 2.0 * wp.PI)
    world.rng[i] = state
    world.position[i] = wp.vec2(0.0, 0.0)
    world.velocity[i] = wp.vec2(0.0, 0.0)
    world.age[i] = 0
    world.episodes[i] += 1
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def direction_of(choice: int):
    """Returns +1, -1 or 0 for the choices 1, 2 and 0."""
    return float(choice & 1) - float(choice >> 1)


@wp.func
def move(world: World, i: int, forward: float, right: float, turn: float):
    """Runs one physics tick: turns, pushes, drags, and keeps the agent in the room."""
    heading = world.heading[i] + TURN * turn
    north = wp.vec2(wp.sin(heading), wp.cos(heading))
    east = wp.vec2(north[1], -north[0])
    velocity = (world.velocity[i] + PUSH * (forward * north + right * east)) * (1.0 - DRAG * SECONDS)
    position = world.position[i] + velocity * SECONDS
    distance = wp.length(position)
    if distance > REACH:
        outward = position / distance
        position = REACH * outward
        velocity -= wp.max(wp.dot(velocity, outward), 0.0) * outward
    world.heading[i] = heading
    world.velocity[i] = velocity
    world.position[i] = position


@wp.func
def touched_tile(world: World, i: int):
    """Returns the untouched tile that the agent is on, or NONE; tiles are too far apart for two."""
    found = int(NONE)
    for tile in range(world.touched[i], world.tiles[i]):
        if wp.length_sq(tile_position(world.place[i, tile]) - world.position[i]) < TOUCH * TOUCH:
            found = tile
    return found


@wp.func
def simulate(world: World, i: int, forward: float, right: float, turn: float):
    """Runs one decision and writes its reward; returns True if the episode ended: all tiles touched, or a wrong one."""
    reward = float(-COST)
    done = bool(False)
    left = int(TICKS)
    while left > 0 and not done:
        move(world, i, forward, right, turn)
        tile = touched_tile(world, i)
        if tile == world.touched[i]:
            reward += 1.0
            world.touched[i] = tile + 1
            done = tile + 1 == world.tiles[i]
        elif tile != NONE:
            reward -= 1.0
            done = True
        left -= 1
    world.reward[i] = reward
    return done


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    choice = wp.vec3i(0, 0, 0)
    for branch in range(3):
        taken = world.action[i, branch]
        if taken < wp.int64(0) or taken > wp.int64(2):
            report[1] = i + 1
        else:
            choice[branch] = int(taken)
    done = simulate(world, i, direction_of(choice[0]), direction_of(choice[1]), -direction_of(choice[2]))
    observe(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    world.terminated[i] = done
    world.truncated[i] = age >= MOST_DECISIONS and not done
    if done or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs_vector, world.final_obs_vector, i)
        for tile in range(world.obs_tiles.shape[1]):
            for k in range(world.obs_tiles.shape[2]):
                world.final_obs_tiles[i, tile, k] = world.obs_tiles[i, tile, k]
        start(world, i)


PROGRAM = Program(World, begin, tick)


def touch_in_order(columns: Mapping[str, Tensor]) -> Action:
    """Goes inward first, until the next tile lies straight outward; faces the way it goes."""
    position, velocity, heading = columns["position"], columns["velocity"], columns["heading"]
    row = columns["touched"].long()[:, None].clamp(max=columns["place"].shape[1] - 1)
    angle = columns["place"].gather(1, row)[:, 0] * (2 * math.pi / columns["place"].shape[1])
    beside = _wrap_angle(torch.atan2(position[:, 0], position[:, 1]) - angle).abs()
    at_rim = position.norm(dim=1) > INNER
    radius = torch.where(at_rim & (beside > ALIGNED), INNER - 2, float(RING))
    away = torch.stack([radius * angle.sin(), radius * angle.cos()], 1) - position
    push = 3 * away - velocity  # brakes earlier the faster it is
    forward = push[:, 0] * heading.sin() + push[:, 1] * heading.cos()
    right = push[:, 0] * heading.cos() - push[:, 1] * heading.sin()
    turn = _wrap_angle(heading - torch.atan2(away[:, 0], away[:, 1]))
    discrete = torch.stack([_choice(forward, 2.0), _choice(right, 2.0), _choice(turn, math.radians(15))], 1)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def _wrap_angle(angle: Tensor) -> Tensor:
    """Returns the same angle within -pi..pi."""
    return torch.atan2(angle.sin(), angle.cos())


def _choice(value: Tensor, least: float) -> Tensor:
    """Returns 1 for a positive number, 2 for a negative one, 0 for a small one."""
    return (value > least).long() + 2 * (value < -least).long()


PALE, DEEP = np.array([250, 226, 150]), np.array([214, 120, 40])  # colors of the lowest and the highest number
STEP = 0.18  # height of a post for each number


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the round room with its tiles, touched ones green, others the darker the higher their number, as is the post on each."""
    areas, number = rows.areas, rows["number"]
    slot = np.arange(int(NUMBERS))
    angle = rows["place"] * (2 * math.pi / int(NUMBERS))
    place = float(RING) * np.stack([np.sin(angle), np.cos(angle)], -1)
    shown, tall = slot < rows["tiles"][:, None], 0.3 + STEP * (number + 1)
    share = (number / (int(NUMBERS) - 1))[..., None]
    color = np.where((slot < rows["touched"][:, None])[..., None], GREEN, PALE + share * (DEEP - PALE))
    post = figures.hidden_unless(shown, np.stack([np.full_like(tall, 0.7), tall, np.full_like(tall, 0.7)], -1))
    middle, wide = np.zeros((areas, 1, 3)), 2 * (float(REACH) + 0.75)
    shapes = (
        solids("rim", "cylinder", middle - [0, 0.25, 0], (wide + 0.8, 0.4, wide + 0.8), INK, fixed=True),
        solids("floor", "cylinder", middle - [0, 0.1, 0], (wide, 0.2, wide), FLOOR, fixed=True),
        solids("tiles", "cylinder", on_plane(place, 0.05), figures.hidden_unless(shown, (2.5, 0.1, 2.5)), color),
        solids("posts", "cylinder", on_plane(place, tall / 2), post, color),
        *figures.agent(rows["position"][:, None], math.pi / 2 - rows["heading"][:, None], 0.9, (behavior, rows.slots)),
    )
    return Drawing(shapes, (wide / 2 + 0.5, 1.6, wide / 2 + 0.5), elevation=52.0)


class Sorter(WarpEnv):
    """Sorter: tiles (20, 23) of variable length and vector 4 (position, direction), discrete [3, 3, 3].

    A tile has a one-hot of its number, its position relative to the agent, and whether it was touched. Choices 1 and 2 of the
    branches: forward and back, right and left, turn left and turn right.
    """

    behavior = "Sorter"
    summary = "An agent in a round room touches numbered tiles in rising order."
    rewards = ("-0.0002 a decision", "+1 at the tile that is next", "-1 at any other that was not touched yet")
    episode = "ends when all are touched, or a wrong one, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 1.9  # with the default of 2 tiles; the maximum is just below 2
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"num_tiles": (2.0, 1.0, 20.0)}

    def __init__(self, areas: int | None = None, device: str = "cpu") -> None:
        tiles, numbers = (int(NUMBERS), int(ROW)), int(NUMBERS)
        spec = BehaviorSpec((ObsSpec("tiles", tiles), ObsSpec("vector", (4,))), ActionSpec(branches=(3, 3, 3)), steady=True)
        sizes = {"number": numbers, "place": numbers, "obs_tiles": tiles, "final_obs_tiles": tiles}
        super().__init__(PROGRAM, spec, areas, device, **sizes, obs_vector=4, final_obs_vector=4, action=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `touch_in_order`'s actions; None for another behavior."""
        return touch_in_order(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_room(rows, self.behavior)
