"""A rule that plays Pyramids: to the switch, then into the brick pyramid until the golden block is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.physics.driving import detour
from palaestra.envs.builtin.pyramids.layout import ABSENT, APART, BRICKS, CUBES, EDGE, GOLD, LINE, STANDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

NOTHING, FORWARD, BACK, RIGHT, LEFT = range(5)
CHOICES = 5
SLACK = 0.19  # radians off the target at which the agent goes ahead
CLEAR_OF_PILE, CLEAR_OF_SWITCH = 3.2, 3.6  # meters that the agent's middle keeps from the middles of things
FASTEST, SLOWEST = 22.0, 6.0  # m/s far from the target, and near it


def fetch_gold(columns: Mapping[str, Tensor]) -> Action:
    """Goes to the switch, then to the golden block, room by room and around what stands in the way."""
    place, pressed = columns["place"], columns["pressed"] > 0
    gold = columns["cube"][:, int(BRICKS) * int(CUBES) + int(GOLD), :2]
    is_up = columns["pile"][:, int(BRICKS)] <= int(STANDING)
    gold = torch.where(is_up[:, None], columns["pile_middle"][:, int(BRICKS)], gold)
    goal = torch.where(pressed[:, None], gold, columns["switch_place"])
    here, there = room_of(place), room_of(goal)
    target = torch.where((here == there).all(1, keepdim=True), goal, door_waypoint(place, here, there))
    things = torch.cat([columns["pile_middle"], columns["switch_place"][:, None]], 1)
    shown = torch.cat([columns["pile"] != int(ABSENT), torch.ones_like(pressed)[:, None]], 1)
    away = torch.where(shown & ((things - goal[:, None]).norm(dim=2) > 1.0), (things - place[:, None]).norm(dim=2), torch.inf)
    away[:, int(BRICKS)] = torch.inf  # what is left of it is light
    far, nearest = away.min(1)
    block = things[torch.arange(len(things), device=things.device), nearest]
    half = torch.where(nearest == things.shape[1] - 1, CLEAR_OF_SWITCH, CLEAR_OF_PILE)[:, None]
    target = torch.where((far < 14.0)[:, None], detour(place, target, block, half), target)
    discrete = steer(columns, target)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def room_of(place: Tensor) -> Tensor:
    """Returns the column and the row of the rooms at these places, (S, 2)."""
    return (place / (2 * float(LINE)) + int(EDGE) / 2).floor().clamp(0, int(EDGE) - 1)


def door_waypoint(place: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Returns the waypoint to pass the next door, (S, 2): beyond it if the agent is in front of it, else in front of it."""
    center = float(APART) * (here - (int(EDGE) - 1) / 2)
    way = (there - here).sign()
    way[:, 1] *= way[:, 0] == 0
    aside = ((place - center) * (way == 0)).abs().sum(1, keepdim=True)
    line = float(LINE) * (way + (center / float(APART)) * 2).sign() * (way != 0)
    beyond = line + way * torch.where(aside < 2.5, 4.0, -4.0)
    return torch.where(way == 0, center, beyond)


def steer(columns: Mapping[str, Tensor], target: Tensor) -> Tensor:
    """Returns choices (S, 1): turn to the target, then drive there without being carried past it."""
    to = target - columns["place"]
    speed = columns["velocity"][:, :2]
    wanted = to / to.norm(dim=1, keepdim=True).clamp(min=1e-6) * (2.0 * to.norm(dim=1, keepdim=True)).clamp(SLOWEST, FASTEST)
    change = wanted - 0.6 * speed
    off = torch.remainder(torch.atan2(change[:, 1], change[:, 0]) - columns["angle"] + torch.pi, 2 * torch.pi) - torch.pi
    go = torch.where(change.norm(dim=1) > 2.0, FORWARD, NOTHING)
    return torch.where(off.abs() <= SLACK, go, torch.where(off > 0, LEFT, RIGHT))[:, None]
