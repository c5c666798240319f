"""A rule that knows where everything is in Pyramids: to the switch, into the pyramid, to the golden brick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.physics.driving import detour, steered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

HALF, EDGE = 6.5, 3  # of a room's side; rooms along a side
SWITCH, RUBBLE = 1, 4
ROUND_HEAP, ROUND_SWITCH = 2.05, 1.05  # half of a thing's side and the agent's radius, a little less


def way(columns: Mapping[str, Tensor]) -> Action:
    """From room to room, sideways first, around what stands in the one that the agent is in."""
    place = columns["place"]
    target, room = aim(columns)
    here = (place / (2 * HALF) + EDGE / 2).floor().clamp(0, EDGE - 1)  # (S, 2): column and row
    there = torch.stack([room % EDGE, room // EDGE], 1)
    is_here = (here == there).all(1, keepdim=True)
    number = (here[:, 1] * EDGE + here[:, 0]).long()
    block, thing = picked(columns["thing_place"], number), picked(columns["thing"], number)
    half = torch.where(thing == SWITCH, ROUND_SWITCH, ROUND_HEAP)[:, None]
    is_in_the_way = (thing > 0) & ((target - block).norm(dim=1) > 0.1)
    target = torch.where(is_here, target, door(place, here, there))
    target = torch.where(is_in_the_way[:, None], detour(place, target, block, half), target)
    discrete = steered(place, columns["angle"], target, 0.18)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def aim(columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What to touch next, (S, 2), and the room that it is in, (S,)."""
    thing, pressed, prize = columns["thing"], columns["pressed"] > 0, columns["prize_room"].long()
    room = torch.where(pressed, prize, (thing == SWITCH).float().argmax(1))
    has_fallen = picked(thing, prize) == RUBBLE
    return torch.where(has_fallen[:, None], columns["golden"], picked(columns["thing_place"], room)), room


def door(place: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Where to head for so as to pass the next door, (S, 2): through it from in front of it, else to that place."""
    center = 2 * HALF * (here - (EDGE - 1) / 2)
    way = (there - here).sign()
    way[:, 1] *= way[:, 0] == 0
    aside = ((place - center) * (way == 0)).abs().sum(1, keepdim=True)
    return center + way * (HALF + torch.where(aside < 1.2, 1.5, -1.5))


def picked(table: Tensor, room: Tensor) -> Tensor:
    """Each row's entry of one room: of (S, rooms, ...) by (S,)."""
    return table[torch.arange(len(room), device=room.device), room]
