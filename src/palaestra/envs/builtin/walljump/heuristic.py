"""A rule that plays WallJump, by the action after which it would rest nearest to where its plan says."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.envs.builtin.walljump import motion as motion
from palaestra.envs.builtin.walljump.observations import GOAL_PLACE

LINE = -12.6
"""Where the agent moves along the wall, before any block."""
LANE = 3.2
"""Meters beside the block's middle at which the agent passes it."""
AT_WALL = float(motion.WALL_Y) - float(motion.WALL_HALF[1]) - 2 * float(motion.BLOCK_HALF)
"""Where an agent stands that touches the block at the wall."""
DECAY = 0.96**5
SUM = 4.43
SUMS = 13.6
RUBBED = 2.87
"""Five ticks of drag: what they leave of a speed, the sums of an impulse's speeds and ways in each, and the floor's
share in m/s.
"""


def over_the_wall(columns: Mapping[str, Tensor]) -> Action:
    """Passes small walls by a jump, big ones from the block. 0: nothing, 1: forward, left, jump, 2: back, right."""
    angle = columns["angle"]
    off = torch.remainder(angle - torch.pi / 2 + torch.pi, 2 * torch.pi) - torch.pi
    turn = (off < -0.28).long() + 2 * (off > 0.28).long()
    target, ahead, jump = plan(columns)
    best = torch.where(ahead, 1, nearest_move(columns, target))
    best = torch.where(turn > 0, 0, best)
    run = torch.where(best < 3, best, 0)
    side = torch.where(best > 2, best - 2, 0)
    discrete = torch.stack([run, turn, side, (jump & (turn == 0)).long()], 1)
    return Action(torch.zeros(len(angle), 0, device=angle.device), discrete)


def nearest_move(columns: Mapping[str, Tensor], target: Tensor) -> Tensor:
    """Returns the move (S,) after which agents rest nearest to their target: none, forward, back, left, right."""
    place = columns["agent"]
    velocity = columns["agent_speed"]
    angle = columns["angle"]
    c = angle.cos()
    s = angle.sin()
    sideways = float(motion.SIDEWAYS)
    strength = torch.where(columns["height"] < 1.0, 1.0, float(motion.IN_AIR))
    ahead = torch.stack([c, s], 1)
    left = sideways * torch.stack([-s, c], 1)
    ways = torch.stack([torch.zeros_like(ahead), ahead, -ahead, left, -left], 1)  # (S, 5, 2)
    push = float(motion.SPEED) * strength[:, None, None] * ways
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
    """Returns where to go (S, 2), whether to run ahead instead, and whether to jump."""
    (x, y), (block_x, block_y), height = columns["agent"].unbind(1), columns["block"].unbind(1), columns["height"]
    needs_block = columns["wall"] > 2.6
    goal_x = float(GOAL_PLACE[0])
    goal_y = float(GOAL_PLACE[1])
    past = y > float(motion.WALL_Y) + 0.5
    free = torch.where(
        (goal_x - block_x).abs() > LANE, goal_x, torch.where(block_x > 4.0, block_x - LANE, block_x + LANE)
    )
    lane = torch.where(needs_block, block_x, free)
    lined_up = torch.where(needs_block, (x - lane).abs() < 1.1, ((x - block_x).abs() > 2.6) & (x.abs() < 8.5))
    is_behind = y < block_y - 1.9
    is_up = height > 2.6
    is_placed = block_y > AT_WALL + float(motion.BLOCK_HALF) - 0.3
    foot = torch.where(needs_block, AT_WALL, float(motion.WALL_Y) - float(motion.WALL_HALF[1]))
    climbs = ~past & lined_up & ~is_up & (y > foot - 1.3) & (is_placed & is_behind | ~needs_block)
    lift = torch.where(needs_block, float(motion.BLOCK_TOP), columns["wall"]) + 0.45
    ahead = ~past & torch.where(climbs, height > lift, lined_up & (is_behind | ~needs_block) | is_up)
    jump = climbs | (is_up & ~past & needs_block)
    along = y < block_y - 2.02
    target = torch.stack([torch.where(along, lane, x.clamp(-8.0, 8.0)), torch.where(along, y.clamp(min=LINE), LINE)], 1)
    target = torch.where(climbs[:, None], torch.stack([x, y], 1), target)
    target = torch.where(past[:, None], torch.tensor([goal_x, goal_y], device=x.device), target)
    return target, ahead, jump
