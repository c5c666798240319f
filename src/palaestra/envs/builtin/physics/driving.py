"""An agent driven over a floor by four choices, as in Hallway and Pyramids: 0 forward, 1 back, 2 turn right, 3 turn left.

The agent is a circle that pushes nothing away. Positions and angles are those of `rigid_bodies`.
"""

from __future__ import annotations

import torch
import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import Body, add_speed, advance, apply_drag
from palaestra.envs.builtin.sensors.rays import heading

CHOICES = 4
FORWARD, BACK, RIGHT, LEFT = range(CHOICES)


@wp.func
def drive(body: Body, choice: int, turn: float, push: float, drag: float):
    """Returns the agent after a tick, before its contacts: turned by `turn` radians, or its velocity changed by `push` m/s."""
    angle = body.angle + wp.where(choice == 3, turn, 0.0) - wp.where(choice == 2, turn, 0.0)
    body.angle = angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    way = wp.where(choice == 0, push, 0.0) - wp.where(choice == 1, push, 0.0)
    if way != 0.0:  # computing a heading is the most expensive step here
        body = add_speed(body, heading(body.angle), way)
    return advance(apply_drag(body, drag, 0.0))


def steer(place: torch.Tensor, angle: torch.Tensor, target: torch.Tensor, slack: float) -> torch.Tensor:
    """Returns choices (S, 1) that lead from places (S, 2) to targets (S, 2): turn until within `slack` radians, then go."""
    to = target - place
    off = torch.remainder(torch.atan2(to[:, 1], to[:, 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    return torch.where(off.abs() <= slack, FORWARD, torch.where(off > 0, LEFT, RIGHT))[:, None]


def detour(place: torch.Tensor, target: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns the next waypoint from places (S, 2) to targets (S, 2) past boxes along the axes at (S, 2) with half sides (S, 1).

    The waypoint is the target or, if the box is in between, the visible corner of a margin around it that makes the way shortest.
    `half` must include the agent's radius.
    """
    around = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]], device=place.device)
    here, to, box, side = (column[:, None] for column in (place, target, block, half))
    corners = box + (side + 0.6) * around
    rest = torch.where(is_blocked(corners, to, box, side), torch.inf, (to - corners).norm(dim=2))
    rest = torch.minimum(rest, 2 * (half + 0.6) + torch.minimum(rest.roll(1, 1), rest.roll(-1, 1)))  # via the next corner
    first = (corners - here).norm(dim=2)
    useless = is_blocked(here, corners, box, side) | (first < 0.5)  # already there
    best = corners[torch.arange(len(place), device=place.device), torch.where(useless, torch.inf, first + rest).argmin(1)]
    return torch.where(is_blocked(place, target, block, half)[:, None], best, target)


def is_blocked(start: torch.Tensor, end: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns whether a box along the axes is between two places; all (..., 2), but `half` (..., 1)."""
    way = end - start
    way = torch.where(way.abs() < 1e-6, 1e-6, way)
    one, two = (block - half - start) / way, (block + half - start) / way
    begins, ends = torch.minimum(one, two).amax(-1), torch.maximum(one, two).amin(-1)
    return (begins < ends) & (begins < 1) & (ends > 0)
