"""A rule that plays Hallway without having to remember the symbol.

It keeps below its full speed: the agent slides on for meters, and turns by 18 degrees a decision.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.hallway.rules import FORWARD, GOAL_X, GOAL_Y, LEFT, RIGHT, SYMBOL

AROUND = 0.75  # meters that the agent keeps from the symbol
SLACK = 0.35  # radians: a decision turns by 0.31
SPEED = 16.0  # m/s that it goes at, so that it can turn


def go_to_matching_goal(columns: Mapping[str, torch.Tensor]) -> Action:
    """Goes around the symbol, then to the goal with its mark, without having to remember it."""
    place = columns["place"]
    symbol = columns["symbol_place"]
    on_left = columns["left_goal"] == columns["symbol"]
    goal = torch.stack(
        [torch.where(on_left, -float(GOAL_X), float(GOAL_X)), torch.full_like(place[:, 0], float(GOAL_Y))], 1
    )
    # the box that it goes around is square: as deep as the symbol is wide
    target = detour(place, goal, symbol, torch.full_like(place[:, :1], SYMBOL[0] + AROUND))
    # the change of velocity to make
    ahead = SPEED * torch.nn.functional.normalize(target - place, dim=1) - columns["velocity"]
    discrete = steer(place, columns["angle"], place + ahead, SLACK)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def steer(place: torch.Tensor, angle: torch.Tensor, target: torch.Tensor, slack: float) -> torch.Tensor:
    """Returns choices (S, 1) that lead to targets (S, 2): turn until within `slack` radians, then go forward."""
    to = target - place
    off = torch.remainder(torch.atan2(to[:, 1], to[:, 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    return torch.where(off.abs() <= slack, FORWARD, torch.where(off > 0, LEFT, RIGHT))[:, None]


def detour(place: torch.Tensor, target: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns the next waypoint from places (S, 2) to targets (S, 2) past boxes along the axes at (S, 2) with half
    sides (S, 1).

    The waypoint is the target or, if the box is in between, the visible corner of a margin around it that makes the way
    shortest. `half` must include the agent's radius.
    """
    around = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]], device=place.device)
    here, to, box, side = (column[:, None] for column in (place, target, block, half))
    corners = box + (side + 0.6) * around
    rest = torch.where(is_blocked(corners, to, box, side), torch.inf, (to - corners).norm(dim=2))
    # via the next corner
    rest = torch.minimum(rest, 2 * (half + 0.6) + torch.minimum(rest.roll(1, 1), rest.roll(-1, 1)))
    first = (corners - here).norm(dim=2)
    useless = is_blocked(here, corners, box, side) | (first < 0.5)  # already there
    best = corners[
        torch.arange(len(place), device=place.device), torch.where(useless, torch.inf, first + rest).argmin(1)
    ]
    return torch.where(is_blocked(place, target, block, half)[:, None], best, target)


def is_blocked(start: torch.Tensor, end: torch.Tensor, block: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Returns whether a box along the axes is between two places; all (..., 2), but `half` (..., 1)."""
    way = end - start
    way = torch.where(way.abs() < 1e-6, 1e-6, way)
    one = (block - half - start) / way
    two = (block + half - start) / way
    begins = torch.minimum(one, two).amax(-1)
    ends = torch.maximum(one, two).amin(-1)
    return (begins < ends) & (begins < 1) & (ends > 0)
