"""A rule that plays Pyramids: to the switch, then into the brick pyramid until the golden block is touched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.pyramids.rooms import APART, BRICKS, CUBES, EDGE, GOLD, LINE, STANDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

NOTHING, FORWARD, BACK, RIGHT, LEFT = range(5)
CHOICES = 5
RUN_UP = 8.0  # meters by which it drives past a golden block that is still up, to ram what carries it again
SLACK = 0.19  # radians off the wanted direction at which the agent goes ahead
CLEAR = 3.6  # meters that the agent's middle keeps from the middles of things
LOOK = 5.0  # meters ahead within which it avoids things
WAYS = 24  # directions that it compares
FASTEST, SLOWEST = 30.0, 6.0  # m/s far from the target, and near it


def fetch_gold(columns: Mapping[str, Tensor]) -> Action:
    """Goes to the switch, then to the golden block, room by room and around what stands in the way."""
    place = columns["place"]
    pressed = columns["pressed"] > 0
    goal, room = next_goal(columns)
    here = room_of(place)
    there = room_of(room)
    is_here = (here == there).all(1, keepdim=True)
    target = torch.where(is_here, goal, door_waypoint(place, here, there))
    things = torch.cat([columns["pile_middle"][:, : int(BRICKS)], columns["switch_place"][:, None]], 1)
    avoided = torch.ones(things.shape[:2], dtype=torch.bool, device=place.device)
    avoided[:, -1] = pressed
    way = free_way(place, target, things, avoided)
    discrete = steer(columns, way, (target - place).norm(dim=1, keepdim=True))
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def next_goal(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns where to go next, (S, 2), and a place in the same room.

    The agent drives on past a golden block that is still up, so as to ram what carries it.
    """
    gold = columns["cube"][:, int(BRICKS) * int(CUBES) + int(GOLD)]
    is_whole = (columns["pile"][:, int(BRICKS)] <= int(STANDING))[:, None]
    at = torch.where(is_whole, columns["pile_middle"][:, int(BRICKS)], gold[:, :2])
    off = (at - columns["place"]).norm(dim=1, keepdim=True)
    ahead = torch.stack([columns["angle"].cos(), columns["angle"].sin()], 1)
    beyond = columns["place"] + 4.0 * ahead
    is_free = ((beyond.abs() < 47.0) & ((beyond.abs() - float(LINE)).abs() > 2.0)).all(1, keepdim=True)
    is_behind = ((at - columns["place"]) * ahead).sum(1, keepdim=True) < 0
    rams = ~is_whole & (gold[:, 2:] > 1.6) & (off < RUN_UP) & is_behind & is_free
    goal = torch.where(rams, beyond, at)
    pressed = (columns["pressed"] > 0)[:, None]
    return torch.where(pressed, goal, columns["switch_place"]), torch.where(pressed, at, columns["switch_place"])


def room_of(place: Tensor) -> Tensor:
    """Returns the column and the row of the rooms at these places, (S, 2)."""
    return (place / (2 * float(LINE)) + int(EDGE) / 2).floor().clamp(0, int(EDGE) - 1)


def door_waypoint(place: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Returns the waypoint to pass the next door, (S, 2): beyond it for an agent in front of it, else before it."""
    center = float(APART) * (here - (int(EDGE) - 1) / 2)
    way = (there - here).sign()
    way[:, 1] *= way[:, 0] == 0
    across = way != 0
    half = torch.where((center == 0) & ~across, 6.5, 3.5)  # of the part of a door that the agent uses
    aside = (place - center).clamp(-half, half)
    in_front = ((place - center - aside).abs() * ~across).sum(1, keepdim=True) < 0.5
    line = float(LINE) * (way + (center / float(APART)) * 2).sign()
    return torch.where(across, line + way * torch.where(in_front, 4.0, -4.0), center + aside)


def free_way(place: Tensor, target: Tensor, things: Tensor, avoided: Tensor) -> Tensor:
    """Returns the direction (S, 2) that leads nearest to the target without coming too near to a thing or a wall."""
    angle = torch.arange(WAYS, device=place.device) * (2 * math.pi / WAYS)
    to = target - place
    straight = torch.atan2(to[:, 1], to[:, 0])[:, None] + angle  # (S, WAYS); the first leads straight there
    way = torch.stack([straight.cos(), straight.sin()], -1)
    reach = to.norm(dim=1)[:, None].clamp(max=LOOK)
    near = (things - place[:, None])[:, None]  # (S, 1, T, 2)
    along = (near * way[:, :, None]).sum(-1).clamp(min=torch.zeros(()), max=reach[..., None])
    gap = (near - along[..., None] * way[:, :, None]).norm(dim=-1)
    blocked = ((gap < CLEAR) & (along > 0) & avoided[:, None]).any(-1)
    end = place[:, None] + reach[..., None] * way
    nearest = end.abs() - float(LINE)
    door = end.abs().flip(-1)
    open_door = (door < 8.0) | ((door > 25.2) & (door < 34.0))
    blocked |= ((nearest.abs() < 1.3) & ~open_door).any(-1) | (end.abs() > 48.3).any(-1)
    cost = (target[:, None] - end).norm(dim=-1) + torch.where(blocked, 100.0, 0.0)
    cost[:, 0] -= 0.01
    best = cost.argmin(1)
    return way[torch.arange(len(way), device=way.device), best]


def steer(columns: Mapping[str, Tensor], way: Tensor, far: Tensor) -> Tensor:
    """Returns choices (S, 1): turn toward the direction, then drive, at a speed that suits the distance (S, 1)."""
    change = way * (2.0 * far).clamp(SLOWEST, FASTEST) - 0.6 * columns["velocity"][:, :2]
    off = (
        torch.remainder(torch.atan2(change[:, 1], change[:, 0]) - columns["angle"] + torch.pi, 2 * torch.pi) - torch.pi
    )
    go = torch.where(change.norm(dim=1) > 2.0, FORWARD, NOTHING)
    return torch.where(off.abs() <= SLACK, go, torch.where(off > 0, LEFT, RIGHT))[:, None]
