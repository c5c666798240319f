"""A rule that plays CooperativePushBlock, knowing the whole state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.physics.pusher import BACK, FORWARD, HALF, LEFT, MOVES, RIGHT, TURN_LEFT, TURN_RIGHT, resting_places
from palaestra.envs.builtin.pushblock_collab.observations import AGENTS, BLOCKS, ROOM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

SIZES = torch.tensor([2, 3, 3, 1, 1, 2])
"""Sizes of the blocks, as `size_of` has them."""
PATIENCE = 40  # decisions
FAR = torch.tensor([0.0, 1e3])
CLEAR = 0.25  # meters between an agent that goes around a block and the block


def haul(columns: Mapping[str, Tensor]) -> Action:
    """Faces the goal, goes around the block nearest to it, and pushes, all three together; dodges and turns to others to break jams."""
    agents = int(AGENTS)
    bodies, device = columns["body_position"], columns["body_position"].device
    blocks = torch.where(columns["gone"][..., None], FAR.to(device), bodies[:, agents : agents + int(BLOCKS)])
    areas = torch.arange(len(blocks), device=device)
    place, velocity, angle = bodies[:, :agents], columns["body_velocity"][:, :agents], columns["body_angle"][:, :agents]
    period = columns["age"][:, None] // PATIENCE
    favored = (period % 2 == 1) & (period // 2 % int(BLOCKS) == torch.arange(int(BLOCKS), device=device))
    target = (blocks[:, :, 1] - 2.0 * float(ROOM) * favored).argmin(1)
    block, half = blocks[areas, target][:, None], (0.5 * SIZES.to(device)[target])[:, None]
    tilt = columns["body_angle"][areas, agents + target][:, None]
    reach = half * (tilt.cos().abs() + tilt.sin().abs())  # half the block's extent along an axis
    rest = resting_places(place, velocity, angle)
    rank = (place[:, :, None, 0] > place[:, None, :, 0]).sum(2) - 1  # from left to right: -1, 0, 1
    x, y = (place - block).unbind(2)
    clear = reach + float(HALF) + CLEAR
    lane = 1.15 * rank.float()
    is_behind = y > half + 0.2
    beside = torch.where(x < 0, -1.0, 1.0) * (clear + 0.3 + 1.1 * torch.arange(agents, device=device))
    around = torch.stack([beside, torch.where(x.abs() < clear, y, clear + 0.5)], 2)
    ready = torch.stack([lane, clear.expand_as(lane)], 2)
    goal = block + torch.where(is_behind[..., None], ready, around)
    off = (rest - goal[:, :, None, None]).norm(dim=-1)
    off[..., 0, 1:] = torch.inf  # what is to be done is done first
    choice = MOVES.to(device)[off.amin(-1).argmin(-1)]
    in_lane = is_behind & ((x - lane).abs() < 0.5)
    choice = torch.where(in_lane, FORWARD, choice)
    still = (velocity.norm(dim=2) < 0.5) & (columns["age"][:, None] % 10 == 9)
    dodge = torch.tensor([[BACK, LEFT, RIGHT], [LEFT, RIGHT, BACK], [RIGHT, BACK, LEFT]], device=device)
    choice = torch.where(still, dodge[columns["age"].long() // 10 % agents], choice)
    turn = torch.remainder(angle + 0.5 * torch.pi + torch.pi, 2 * torch.pi) - torch.pi  # from the direction of the goal
    choice = torch.where(turn > 0.2, TURN_RIGHT, torch.where(turn < -0.2, TURN_LEFT, choice))
    return Action(torch.zeros(choice.numel(), 0, device=device), choice.view(-1, 1))
