"""WallJump: get over a wall to the goal behind it, by a jump or, if the wall is high, from a block pushed up to it.

The documentation leaves the scene open. Ours is similar to Unity's: a wall lies across a ground without a rim, 30 wide and 26
long, and the goal is the strip at its far end. Half of a wall's height is in the ground: one of 4 reaches 2 above it and one of
8 reaches 4. A jump lifts by 2.7; the block is 2.4 high, and from there a wall of 10 can be passed. As in Unity's
example the wall is a big one in three of five episodes, played as BigWallJump; in one it is a small one and in one there
is none, both played as SmallWallJump. An episode ends with -1 if the agent or the block falls: without the block a high wall
cannot be passed. An episode is truncated after 400 decisions (2,000 physics ticks).

The distances from the start to the edges, the wall and the goal, and the agent's speeds, are chosen so that random play succeeds
often enough: it passes a small wall or none some 240 times in a million decisions, and a big one some 12
times, and two episodes in five end by a fall. On a longer, narrower ground with slower agents it was twice and never, and most fell.

The 74 numbers of the observation, "14 rays with 4 tags + position + grounded": each ray has a one-hot of four cases (wall,
goal, block or nothing) and the distance. 7 rays start half a meter above the agent's feet, at 0, 30, 60 and 90
degrees to either side; 7 start 2.5 above those and rise by another 2.5 over their length of 20: they tell a high wall from
a low one. Then come x, height and y over 20, from the middle of the wall, and 1 if the agent stands on something.

`big_wall_height`, which the official curriculum sets, replaces a height drawn between the minimum and the maximum if it
is above 0.
"""

from __future__ import annotations

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
from palaestra.envs.builtin.sensors.rays import heading, ray_angle, ray_slabs, write_ray
from palaestra.envs.builtin.walljump import motion as motion
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD, GRAY, INK, Drawing, on_plane, solids
from palaestra.envs.solids import GREEN as LEAF

if TYPE_CHECKING:
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(400)
SMALL = wp.constant(0)  # numbers of the behaviors
BIG = wp.constant(1)
RAYS = wp.constant(7)  # rays at each of two heights
SIGHT = wp.constant(20.0)
RAY_STEP = wp.constant(0.5235987755982988)  # 30 degrees
EYE = wp.constant(0.5)  # above the feet
EYE_UP = wp.constant(2.5)  # height of the upper rays above the lower ones, and their rise over their length
GOAL_TOP = wp.constant(1.0)  # height of the goal for rays
TAGS = wp.constant(3)
WALL = wp.constant(0)
GOAL = wp.constant(1)
BLOCK = wp.constant(2)
SEEN = ("wall", "goal", "block")  # names of these tags
COLUMNS = wp.constant(74)

NEAR_JUMP = -5.5
"""Place from which the agent jumps; an agent that touches the block at the wall is at -4."""
SAFE = 6.0
"""Distance from the middle beyond which the agent moves back to it, away from the sides."""
HALF_LENGTH = (motion.FAR_END - motion.NEAR_END) / 2
MIDDLE = np.array([0.0, (motion.FAR_END + motion.NEAR_END) / 2])
HIGHEST_WALL = 5.0  # above the ground


@wp.struct
class World:
    """Columns of WallJump, one row per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    agent: wp.array(dtype=wp.vec2)
    agent_speed: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # heading of the agent, counterclockwise from the wall's direction
    height: wp.array(dtype=wp.float32)  # height of the agent's feet
    climb: wp.array(dtype=wp.float32)
    jump: wp.array(dtype=wp.int32)
    jump_from: wp.array(dtype=wp.float32)
    grounded: wp.array(dtype=wp.bool)
    block: wp.array(dtype=wp.vec2)
    block_speed: wp.array(dtype=wp.vec2)
    wall: wp.array(dtype=wp.float32)  # height of the wall's top above the ground
    plays: wp.array(dtype=wp.int32)
    played: wp.array(dtype=wp.int32)
    pending: wp.array3d(dtype=wp.float32)  # in the order of `parameter_ranges`
    episodes: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation."""
    place = world.agent[i]
    eye = world.height[i] + EYE
    rays = int(RAYS)  # not a constant, because Warp would unroll the loop
    for ray in range(rays):
        way = heading(world.angle[i] + ray_angle(ray, RAY_STEP))
        to_wall = ray_slabs(place, way, wp.vec2(motion.HALF_WIDTH, motion.HALF_WALL))
        goal = wp.vec2(0.0, 0.5 * (motion.GOAL + motion.FAR_END))
        to_goal = ray_slabs(place - goal, way, wp.vec2(motion.HALF_WIDTH, motion.FAR_END - goal[1]))
        to_block = ray_slabs(place - world.block[i], way, wp.vec2(motion.HALF_BLOCK, motion.HALF_BLOCK))
        for upper in range(2):
            start = eye + EYE_UP * float(upper)
            rise = EYE_UP / SIGHT * float(upper)
            tag = int(-1)
            nearest = float(SIGHT)
            if to_wall < nearest and start + rise * to_wall < world.wall[i]:
                nearest = to_wall
                tag = WALL
            if to_goal < nearest and start + rise * to_goal < GOAL_TOP:
                nearest = to_goal
                tag = GOAL
            if to_block < nearest and start + rise * to_block < motion.BLOCK_TOP:
                nearest = to_block
                tag = BLOCK
            write_ray(world.obs, i, (TAGS + 2) * (rays * upper + ray), TAGS, tag, nearest / SIGHT)
    world.obs[i, COLUMNS - 4] = place[0] / SIGHT
    world.obs[i, COLUMNS - 3] = world.height[i] / SIGHT
    world.obs[i, COLUMNS - 2] = place[1] / SIGHT
    world.obs[i, COLUMNS - 1] = wp.where(world.grounded[i], 1.0, 0.0)


@wp.func
def wall_height(world: World, i: int, kind: int, share: float):
    """Returns how far the wall of a new episode reaches above the ground."""
    height = next_parameter(world, i, 0) + share * (next_parameter(world, i, 1) - next_parameter(world, i, 0))
    if next_parameter(world, i, 2) > 0.0:
        height = next_parameter(world, i, 2)
    if kind == 0:
        height = 0.0
    if kind == 1:
        height = next_parameter(world, i, 3)
    return 0.5 * height


@wp.func
def start(world: World, i: int):
    """Starts an episode: the agent faces the wall more or less, with the block in between."""
    state = world.rng[i]
    kind = wp.randi(state, 0, 5)
    world.plays[i] = wp.where(kind < 2, SMALL, BIG)
    world.wall[i] = wall_height(world, i, kind, wp.randf(state))
    world.agent[i] = wp.vec2(wp.randf(state, -8.0, 8.0), wp.randf(state, -10.0, -8.0))
    world.block[i] = wp.vec2(wp.randf(state, -6.0, 6.0), wp.randf(state, -5.0, -3.0))
    world.angle[i] = wp.randf(state, 0.25 * wp.PI, 0.75 * wp.PI)
    world.rng[i] = state
    world.agent_speed[i] = wp.vec2(0.0, 0.0)
    world.block_speed[i] = wp.vec2(0.0, 0.0)
    world.height[i] = 0.0
    world.climb[i] = 0.0
    world.jump[i] = 0
    world.grounded[i] = True
    world.age[i] = 0
    world.episodes[i] += 1
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    world.played[i] = world.plays[i]


@wp.func
def load_scene(world: World, i: int):
    """Returns the scene of an area."""
    scene = motion.Scene()
    scene.agent = motion.agent_body(world.agent[i], world.agent_speed[i], world.angle[i])
    scene.block = motion.block_body(world.block[i], world.block_speed[i])
    scene.height = world.height[i]
    scene.climb = world.climb[i]
    scene.jump = world.jump[i]
    scene.jump_from = world.jump_from[i]
    scene.wall = world.wall[i]
    scene.grounded = world.grounded[i]
    return scene


@wp.func
def store_scene(world: World, i: int, scene: motion.Scene):
    """Writes the scene back."""
    world.agent[i] = scene.agent.position
    world.agent_speed[i] = scene.agent.velocity
    world.angle[i] = scene.agent.angle
    world.block[i] = scene.block.position
    world.block_speed[i] = scene.block.velocity
    world.height[i] = scene.height
    world.climb[i] = scene.climb
    world.jump[i] = scene.jump
    world.jump_from[i] = scene.jump_from
    world.grounded[i] = scene.grounded


@wp.func
def direction_of(choice: wp.int64):
    """Returns +1, -1 or 0 for the choices 1, 2 and 0."""
    return wp.where(choice == wp.int64(1), 1.0, wp.where(choice == wp.int64(2), -1.0, 0.0))


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    for branch in range(4):
        if world.action[i, branch] < wp.int64(0) or world.action[i, branch] > wp.int64(wp.where(branch == 3, 1, 2)):
            report[1] = i + 1
            world.action[i, branch] = wp.int64(0)
    world.played[i] = world.plays[i]
    order = motion.Order()
    order.ahead = direction_of(world.action[i, 0])
    order.turn = direction_of(world.action[i, 1])
    order.aside = -direction_of(world.action[i, 2])
    order.jump = world.action[i, 3] == wp.int64(1)
    ticks = int(TICKS)
    scene, outcome = motion.simulate(load_scene(world, i), order, ticks)
    store_scene(world, i, scene)
    observe(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = float(outcome) - 0.0005
    world.terminated[i] = outcome != 0
    world.truncated[i] = age >= MOST_DECISIONS and outcome == 0
    if outcome != 0 or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)


PROGRAM = Program(World, begin, tick)


def over_the_wall(columns: Mapping[str, Tensor]) -> Action:
    """Passes walls up to 10 high. Choices: 0 nothing, 1 forward or left, 2 backward or right; 1 jump."""
    place, angle = columns["agent"], columns["angle"]
    # a decision turns by 20 degrees, so the error can be as large as half of that
    off = torch.remainder(angle - torch.pi / 2 + torch.pi, 2 * torch.pi) - torch.pi
    turn = choice(-off, 2.6 * float(motion.TURN))
    way, jump = plan(columns)
    c, s = angle.cos(), angle.sin()
    run = choice(way[:, 0] * c + way[:, 1] * s, 0.35)
    side = choice(way[:, 1] * c - way[:, 0] * s, 0.35)
    still = torch.zeros_like(run)
    faces = turn == 0
    discrete = torch.stack([torch.where(faces, run, still), turn, torch.where(faces, side, still), jump.long()], 1)
    return Action(torch.zeros(len(place), 0, device=place.device), discrete)


def choice(amount: Tensor, least: float) -> Tensor:
    """Returns 1 for amounts above `least`, 2 for those below -`least`, else 0."""
    return (amount > least).long() + 2 * (amount < -least).long()


def plan(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns the direction to go in, (S, 2), each axis within -1..1, and whether to jump, (S,)."""
    (x, y), (block_x, block_y) = columns["agent"].unbind(1), columns["block"].unbind(1)
    reach = float(motion.HALF_BLOCK) + float(motion.RADIUS)
    off = block_x - x
    needs_block = (columns["wall"] > float(motion.BLOCK_TOP)) & (y < 0)
    is_up = columns["height"] > 1
    is_behind = y < block_y - reach + 0.1
    is_placed = block_y > -float(motion.HALF_WALL) - float(motion.HALF_BLOCK) - 0.1
    ahead, none = torch.ones_like(x), torch.zeros_like(x)

    straight = torch.stack([(x.clamp(-SAFE, SAFE) - x).clamp(-1, 1), ahead], 1)
    push = torch.stack([(2 * off).clamp(-1, 1), torch.where(off.abs() < 0.5, ahead, none)], 1)
    is_beside = off.abs() > reach + 0.2
    around = torch.stack([torch.where(is_beside, none, -block_x.sign()), torch.where(is_beside, -ahead, none)], 1)

    by_block = torch.where((is_behind | is_up)[:, None], push, around)
    way = torch.where(needs_block[:, None], by_block, straight)
    ready = is_up | (is_placed & is_behind & (off.abs() < 0.5))
    return way, (y > NEAR_JUMP) & (y < 0) & (ready | ~needs_block)


def draw_scene(rows: Rows) -> Drawing:
    """Draws the ground, the goal along its far edge, the wall, darker the higher it is, the block, and the agent."""
    wide, zero = float(motion.HALF_WIDTH), np.zeros((rows.areas, 1, 2))
    goal = ((motion.GOAL + motion.FAR_END) / 2 - MIDDLE[1], (motion.FAR_END - motion.GOAL) / 2)
    wall, block = rows["wall"][:, None], (2 * motion.HALF_BLOCK, motion.BLOCK_TOP, 2 * motion.HALF_BLOCK)
    size = np.stack([np.full_like(wall, 2 * wide), wall, np.full_like(wall, 2 * motion.HALF_WALL)], -1)
    shade = np.array(GRAY) + (np.array(INK) - GRAY) * 0.7 * np.clip(wall[..., None] / HIGHEST_WALL, 0, 1)
    shapes = (
        figures.floor(rows.areas, (wide, HALF_LENGTH)),
        figures.plate("goal", rows.areas, (0.0, goal[0]), (wide, goal[1]), LEAF),
        solids("wall", "box", on_plane(zero - MIDDLE, wall / 2), size, shade),
        solids("block", "box", on_plane(rows["block"][:, None] - MIDDLE, motion.BLOCK_TOP / 2), block, GOLD),
        *figures.agent(
            (rows["agent"] - MIDDLE)[:, None], rows["angle"][:, None], 1.5 * motion.RADIUS, ("", rows.slots), height=rows["height"][:, None]
        ),
    )
    return Drawing(shapes, (wide + 0.2, 4.0, HALF_LENGTH + 0.2), elevation=50.0)


class WallJump(WarpEnv):
    """WallJump: vector 74 (14 rays, place, grounded), discrete [3, 3, 3, 2]: run, turn, sidestep (1 one way, 2 the other), jump."""

    behavior = "WallJump"
    behavior_names = ("SmallWallJump", "BigWallJump")
    summary = "An agent jumps over a wall to a goal; a high one it climbs from a block that it pushes there."
    rewards = ("-0.0005 a decision", "+1 at the goal", "-1 when it falls off the ground, or its block does")
    episode = "ends at the goal or by a fall, and is truncated after 400 decisions"
    benchmark = 0.8
    default_areas = 24
    tick_seconds = float(TICKS) * float(motion.SECONDS)
    parameter_ranges: ClassVar = {
        "big_wall_min_height": (8.0, 0.0, 10.0),
        "big_wall_max_height": (8.0, 0.0, 10.0),
        "big_wall_height": (0.0, 0.0, 10.0),
        "small_wall_height": (4.0, 0.0, 5.0),
    }
    ray_fans: ClassVar = dict.fromkeys(
        behavior_names,
        (
            RayFan("vector", unity_order(int(RAYS), float(RAY_STEP)), float(SIGHT), SEEN),
            RayFan(
                "vector",
                unity_order(int(RAYS), float(RAY_STEP)),
                float(SIGHT),
                SEEN,
                int(RAYS) * (int(TAGS) + 2),
                float(EYE_UP),
                float(EYE_UP),
            ),
        ),
    )

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        columns = int(COLUMNS)
        spec = BehaviorSpec((ObsSpec("vector", (columns,)),), ActionSpec(branches=(3, 3, 3, 2)))
        super().__init__(PROGRAM, spec, areas, device, obs=columns, final_obs=columns, action=4)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `over_the_wall`'s actions; None for another behavior."""
        return over_the_wall(self._columns) if behavior in self.behaviors else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_scene(rows)
