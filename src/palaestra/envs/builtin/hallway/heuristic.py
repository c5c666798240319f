"""A rule that plays Hallway: goes around the symbol, then to the goal with its mark, without having to remember it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.hallway.rules import FORWARD, GOAL_X, GOAL_Y, SYMBOL
from palaestra.envs.builtin.physics.driving import detour, steer

AROUND = 0.75  # meters that the agent keeps from the symbol
SLACK = 0.35  # radians: a decision turns by 0.31
SPEED = 16.0  # m/s that it goes at, so that it can turn


def go_to_matching_goal(columns: Mapping[str, torch.Tensor]) -> Action:
    """Returns the rule's choices."""
    place, symbol = columns["place"], columns["symbol_place"]
    on_left = columns["left_goal"] == columns["symbol"]
    goal = torch.stack([torch.where(on_left, -float(GOAL_X), float(GOAL_X)), torch.full_like(place[:, 0], float(GOAL_Y))], 1)
    # the box that it goes around is square: as deep as the symbol is wide
    target = detour(place, goal, symbol, torch.full_like(place[:, :1], SYMBOL[0] + AROUND))
    ahead = SPEED * torch.nn.functional.normalize(target - place, dim=1) - columns["velocity"]  # the change of velocity to make
    discrete = steer(place, columns["angle"], place + ahead, SLACK) + FORWARD
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)
