"""WallJump: get over a wall to the goal behind it, by a jump or, if the wall is high, from a block pushed up to it.

This is Unity's example. The floor, without a rim, is 21 m wide and 21 m long; the wall lies across it, except for half
a meter at each end. Its upper half is above the floor: a wall of height 4 reaches 1.55 m above the floor, one of height
8 reaches 3.55 m. A jump reaches about 2.7 m, and the block is 2.05 m high. The goal is a place behind the wall on the
right. An episode draws one of five walls: none and a small one are played as SmallWallJump, and three big ones as
BigWallJump. The episode ends with -1 if the agent or the block leaves the floor: without the block a big wall cannot be
passed.

A decision is five physics ticks of 0.02 s. Each tick of running adds 3 m/s (half of this in the air) against a drag of
2/s, and each tick of turning turns by 6 degrees. The agent's first episode begins with its back to the wall, each later
episode with its last heading; things that it hits can turn it. If an episode ends within a decision, the remaining
ticks run in the new episode without an action.

Observations are six frames of two ray sensors and of a vector: x, height and y from the middle of the floor, divided by
20, and whether there is ground below. The rays of the second sensor begin 2.5 m above the agent's middle and rise by as
much over their 20 m: they see a big wall, but neither a small wall nor the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.walljump import motion, rules
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD, GRAY, INK, Drawing, on_plane, solids
from palaestra.envs.solids import GREEN as LEAF

LINE = -12.6
"""Position from which the agent moves along the wall, before any block."""
LANE = 3.2
"""Meters beside the block's middle at which the agent passes it."""
AT_WALL = motion.WALL_Y - motion.WALL_HALF[1] - 2 * motion.BLOCK_HALF
"""Position of an agent that touches the block at the wall."""
DECAY = 0.96**5
SUM = 4.43
SUMS = 13.6
RUBBED = 2.87
"""Five ticks of drag: the share of a speed that is left, the sum of an impulse's speeds, the sum of its distances, and
the speed that friction on the floor takes, in m/s."""


def over_the_wall(columns: Mapping[str, Tensor]) -> Tensor:
    """Passes small walls by a jump, big walls from the block. 0: nothing, 1: forward, left, jump, 2: back, right."""
    angle = columns["angle"]
    off = torch.remainder(angle - torch.pi / 2 + torch.pi, 2 * torch.pi) - torch.pi
    turn = (off < -0.28).long() + 2 * (off > 0.28).long()
    target, ahead, jump = plan(columns)
    best = torch.where(ahead, 1, nearest_move(columns, target))
    best = torch.where(turn > 0, 0, best)
    run = torch.where(best < 3, best, 0)
    side = torch.where(best > 2, best - 2, 0)
    return torch.stack([run, turn, side, (jump & (turn == 0)).long()], 1)


def nearest_move(columns: Mapping[str, Tensor], target: Tensor) -> Tensor:
    """Returns the move (S,) after which agents rest nearest to their target: none, forward, back, left, right."""
    place = columns["agent"]
    velocity = columns["agent_speed"]
    angle = columns["angle"]
    c = angle.cos()
    s = angle.sin()
    strength = torch.where(columns["height"] < 1.0, 1.0, motion.IN_AIR)
    ahead = torch.stack([c, s], 1)
    left = motion.SIDEWAYS * torch.stack([-s, c], 1)
    ways = torch.stack([torch.zeros_like(ahead), ahead, -ahead, left, -left], 1)  # (S, 5, 2)
    push = motion.SPEED * strength[:, None, None] * ways
    glide = DECAY * velocity[:, None] + SUM * push
    glide = glide * (1.0 - RUBBED / glide.norm(dim=2, keepdim=True).clamp(min=RUBBED))
    rest = place[:, None] + 0.02 * (SUM * velocity[:, None] + SUMS * push) + coast(glide)
    return (rest - target[:, None]).norm(dim=2).argmin(1)


def coast(velocity: Tensor) -> Tensor:
    """Returns how far agents with these velocities (..., 2) glide until drag and friction have stopped them."""
    speed = velocity.norm(dim=-1, keepdim=True)
    far = speed / 2.04 - 7.78 * torch.log1p(0.063 * speed)
    return velocity / speed.clamp(min=1e-6) * far


def plan(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the places to go to (S, 2), whether to run ahead instead, and whether to jump."""
    (x, y), (block_x, block_y), height = columns["agent"].unbind(1), columns["block"].unbind(1), columns["height"]
    needs_block = columns["wall"] > 2.6
    goal_x = rules.GOAL_PLACE[0]
    goal_y = rules.GOAL_PLACE[1]
    past = y > motion.WALL_Y + 0.5
    free = torch.where(
        (goal_x - block_x).abs() > LANE, goal_x, torch.where(block_x > 4.0, block_x - LANE, block_x + LANE)
    )
    lane = torch.where(needs_block, block_x, free)
    lined_up = torch.where(needs_block, (x - lane).abs() < 1.1, ((x - block_x).abs() > 2.6) & (x.abs() < 8.5))
    is_behind = y < block_y - 1.9
    is_up = height > 2.6
    is_placed = block_y > AT_WALL + motion.BLOCK_HALF - 0.3
    foot = torch.where(needs_block, AT_WALL, motion.WALL_Y - motion.WALL_HALF[1])
    climbs = ~past & lined_up & ~is_up & (y > foot - 1.3) & (is_placed & is_behind | ~needs_block)
    lift = torch.where(needs_block, motion.BLOCK_TOP, columns["wall"]) + 0.45
    ahead = ~past & torch.where(climbs, height > lift, lined_up & (is_behind | ~needs_block) | is_up)
    jump = climbs | (is_up & ~past & needs_block)
    along = y < block_y - 2.02
    target = torch.stack([torch.where(along, lane, x.clamp(-8.0, 8.0)), torch.where(along, y.clamp(min=LINE), LINE)], 1)
    target = torch.where(climbs[:, None], torch.stack([x, y], 1), target)
    target = torch.where(past[:, None], torch.tensor([goal_x, goal_y], device=x.device), target)
    return target, ahead, jump


RAY_SIZE = rules.FRAMES * rules.FRAME
SELF_SIZE = rules.FRAMES * rules.SELF
OFFSET_SENSOR = f"StackingSensor_size{rules.FRAMES}_OffsetRayPerceptionSensor"
LEVEL_SENSOR = f"StackingSensor_size{rules.FRAMES}_RayPerceptionSensor"
VECTOR_SENSOR = f"StackingSensor_size{rules.FRAMES}_VectorSensor_size{rules.SELF}"
SEEN = ("wall", "goal", "block")
ANGLES = unity_order(rules.RAYS, rules.RAY_STEP)
HALF_LENGTH = (motion.FAR_END - motion.NEAR_END) / 2
MIDDLE = np.array([0.0, (motion.FAR_END + motion.NEAR_END) / 2])
HIGHEST_WALL = 5.0  # above the floor


def draw_scene(rows: Rows, _behavior: str) -> Drawing:
    """Draws the floor, the goal, the wall (darker the higher it is), the block, and the agent."""
    zero = np.zeros((rows.areas, 1, 2))
    goal = (rules.GOAL_PLACE[0], float(rules.GOAL_PLACE[1] - MIDDLE[1]))
    wall = np.maximum(rows["wall"][:, None] - motion.FLOOR, 0.0)
    wall_place = zero + (0.0, motion.WALL_Y - MIDDLE[1])
    wall_size = np.stack(
        [np.full_like(wall, 2 * motion.WALL_HALF[0]), wall, np.full_like(wall, 2 * motion.WALL_HALF[1])], -1
    )
    tall = motion.BLOCK_TOP - motion.BLOCK_BOTTOM
    side = 2 * motion.BLOCK_HALF
    shade = np.array(GRAY) + (np.array(INK) - GRAY) * 0.7 * np.clip(wall[..., None] / HIGHEST_WALL, 0, 1)
    feet = rows["height"][:, None] - motion.FLOOR - motion.AGENT_HALF
    shapes = (
        figures.floor(rows.areas, (motion.HALF_WIDTH, HALF_LENGTH)),
        figures.plate("goal", rows.areas, goal, (rules.GOAL_HALF[0], rules.GOAL_HALF[1]), LEAF),
        solids("wall", "box", on_plane(wall_place, wall / 2), wall_size, shade),
        solids("block", "box", on_plane(rows["block"][:, None] - MIDDLE, tall / 2), (side, tall, side), GOLD),
        *figures.agent(
            (rows["agent"] - MIDDLE)[:, None],
            rows["angle"][:, None],
            motion.AGENT_HALF,
            ("", rows.slots),
            shape="box",
            height=feet,
        ),
    )
    return Drawing(shapes, (motion.HALF_WIDTH + 0.2, 4.0, HALF_LENGTH + 0.2), elevation=50.0)


class WallJump(WarpEnv):
    """WallJump: two ray sensors (210 each) and a vector (24), six frames each, discrete [3, 3, 3, 2]: run, turn,
    sidestep, jump.

    The first choice of running is forward; the first choices of turning and sidestepping are to the left.
    """

    behavior = "WallJump"
    behavior_names = ("SmallWallJump", "BigWallJump")
    summary = "An agent jumps over a wall to a goal; it climbs a high wall from a block that it pushes to the wall."
    rewards = (
        "-0.0005 a physics tick",
        "1 for the decision that reaches the goal",
        "-1 for the decision in which the agent or its block falls",
    )
    episode = "ends at the goal or by a fall, and is truncated after 2,000 physics ticks (400 decisions)"
    benchmark = 0.8
    default_areas = 24
    areas_per_core = 256
    most_decisions = rules.MOST_TICKS // rules.TICKS
    tick_seconds = rules.TICKS * SECONDS
    parameter_ranges: ClassVar = {
        "no_wall_height": (0.0, 0.0, 10.0),
        "small_wall_height": (4.0, 0.0, 10.0),
        "big_wall_height": (8.0, 0.0, 10.0),
        "gravity": (26.9775, 1.0, 100.0),
    }
    ray_fans: ClassVar = dict.fromkeys(
        behavior_names,
        (
            RayFan(OFFSET_SENSOR, ANGLES, rules.SIGHT, SEEN, RAY_SIZE - rules.FRAME, rules.EYE_UP, rules.EYE_UP),
            RayFan(LEVEL_SENSOR, ANGLES, rules.SIGHT, SEEN, RAY_SIZE - rules.FRAME),
        ),
    )
    program = rules.PROGRAM
    spec = BehaviorSpec(
        (ObsSpec(OFFSET_SENSOR, (RAY_SIZE,)), ObsSpec(LEVEL_SENSOR, (RAY_SIZE,)), ObsSpec(VECTOR_SENSOR, (SELF_SIZE,))),
        ActionSpec(branches=(3, 3, 3, 2)),
    )
    rule = staticmethod(over_the_wall)
    picture = staticmethod(draw_scene)
