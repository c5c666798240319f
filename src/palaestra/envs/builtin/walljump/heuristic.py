"""A heuristic that plays WallJump: it faces the wall, pushes the block there and jumps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.envs.builtin.walljump.motion import BLOCK_TOP, HALF_BLOCK, HALF_WALL, RADIUS, TURN

NEAR_JUMP = -5.5
"""Place from which the agent jumps; an agent that touches the block at the wall is at -4."""
SAFE = 6.0
"""Distance from the middle beyond which the agent moves back to it, away from the sides."""


def over_the_wall(columns: Mapping[str, Tensor]) -> Action:
    """Passes walls up to 10 high. Choices: 0 nothing, 1 forward or left, 2 backward or right; 1 jump."""
    place, angle = columns["agent"], columns["angle"]
    # a decision turns by 20 degrees, so the error can be as large as half of that
    off = torch.remainder(angle - torch.pi / 2 + torch.pi, 2 * torch.pi) - torch.pi
    turn = choice(-off, 2.6 * float(TURN))
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
    reach = float(HALF_BLOCK) + float(RADIUS)
    off = block_x - x
    needs_block = (columns["wall"] > float(BLOCK_TOP)) & (y < 0)
    is_up = columns["height"] > 1
    is_behind = y < block_y - reach + 0.1
    is_placed = block_y > -float(HALF_WALL) - float(HALF_BLOCK) - 0.1
    ahead, none = torch.ones_like(x), torch.zeros_like(x)

    straight = torch.stack([(x.clamp(-SAFE, SAFE) - x).clamp(-1, 1), ahead], 1)
    push = torch.stack([(2 * off).clamp(-1, 1), torch.where(off.abs() < 0.5, ahead, none)], 1)
    is_beside = off.abs() > reach + 0.2
    around = torch.stack([torch.where(is_beside, none, -block_x.sign()), torch.where(is_beside, -ahead, none)], 1)

    by_block = torch.where((is_behind | is_up)[:, None], push, around)
    way = torch.where(needs_block[:, None], by_block, straight)
    ready = is_up | (is_placed & is_behind & (off.abs() < 0.5))
    return way, (y > NEAR_JUMP) & (y < 0) & (ready | ~needs_block)
