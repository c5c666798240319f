"""An agent that four choices drive over a floor, as in Hallway and Pyramids: 0 forward, 1 back, 2 turn right, 3 turn left.

It is a circle that pushes nothing away. Places and angles are those of `planar`.
"""

# A kernel is Warp's language in Python's clothes; pyright reads it as Python.
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportInvalidTypeForm=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import warp as wp

from palaestra.envs.builtin.planar import Body, advanced, dragged, driven
from palaestra.envs.builtin.rays import heading

CHOICES = 4
FORWARD, BACK, RIGHT, LEFT = range(CHOICES)


@wp.func
def moved(body: Body, choice: int, turn: float, push: float, drag: float):
    """The agent after a tick, before its contacts: turned by `turn` radians, or its velocity changed by `push` m/s."""
    angle = body.angle + wp.where(choice == 3, turn, 0.0) - wp.where(choice == 2, turn, 0.0)
    body.angle = angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    way = wp.where(choice == 0, push, 0.0) - wp.where(choice == 1, push, 0.0)
    return advanced(dragged(driven(body, heading(body.angle), way), drag, 0.0))


def steered(place: torch.Tensor, angle: torch.Tensor, target: torch.Tensor, slack: float) -> torch.Tensor:
    """Choices (S, 1) that lead from places (S, 2) to targets (S, 2): turn until within `slack` radians, then go."""
    to = target - place
    off = torch.remainder(torch.atan2(to[:, 1], to[:, 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    return torch.where(off.abs() <= slack, FORWARD, torch.where(off > 0, LEFT, RIGHT))[:, None]


def detour(place: torch.Tensor, target: torch.Tensor, block: torch.Tensor, berth: float) -> torch.Tensor:
    """Where to head for so as to pass a block (S, 2) by a `berth` on the way to a target (S, 2): the target where it is not in between."""
    to, block = target - place, block - place
    far = to.norm(dim=1, keepdim=True).clamp(min=1e-6)
    way = to / far
    left = torch.stack([-way[:, 1], way[:, 0]], 1)
    depth, off = (block * way).sum(1, keepdim=True), (block * left).sum(1, keepdim=True)
    is_between = (depth > 0) & (depth < far) & (off.abs() < berth)
    beside = block - left * torch.where(off > 0, 1.2, -1.2) * berth
    return place + torch.where(is_between, beside, to)
