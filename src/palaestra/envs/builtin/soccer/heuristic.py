"""A heuristic that plays soccer: the nearest of a team goes for the ball, its mates stay between ball and own goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.soccer.field import GOAL_LINE
from palaestra.envs.builtin.soccer.motion import BALL_RADIUS, PLAYER_RADIUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

LENGTH, RADIUS, REACH = float(GOAL_LINE), float(PLAYER_RADIUS), float(PLAYER_RADIUS + BALL_RADIUS)


def chase(columns: Mapping[str, Tensor], teams: Sequence[int]) -> Action:
    """Plays every player of the columns, areas * len(teams) of them; team 0 plays toward x. A player without a mate keeps the goal."""
    place = columns["position"].view(-1, len(teams), 2)
    ball = columns["ball"][:, None].expand_as(place)
    team = torch.tensor(teams, device=place.device)
    side = torch.where(team == 0, 1.0, -1.0)[:, None]
    own, other = (torch.cat([sign * LENGTH * side, torch.zeros_like(side)], 1) for sign in (-1, 1))
    far = (place - ball).norm(dim=2)
    mates = team[:, None] == team
    is_next = (far[:, :, None] <= far[:, None] + 1e9 * ~mates).all(2)
    is_free = (mates.sum(1) > 1) | ((ball - own).norm(dim=2) < (place - own).norm(dim=2) + 1.0)
    behind = _approach_point(place, ball, other, torch.full_like(columns["ball"][:, 0], float(BALL_RADIUS)))
    kept = own + 1.6 * torch.nn.functional.normalize(ball - own, dim=2)
    waits = torch.where((mates.sum(1) > 1)[:, None], (ball + 1.5 * own) / 2.5, kept)
    target = torch.where((is_next & is_free & (far < _chase_range(mates)))[..., None], behind, waits)
    return _move_to(place, columns["angle"].view(-1, len(teams)), target, ball)


def _chase_range(mates: Tensor) -> Tensor:
    """Returns how far from the ball a player may be and still go for it: a keeper must not leave the goal."""
    return torch.where(mates.sum(1) > 1, 1e9, 2.5)


def _approach_point(place: Tensor, ball: Tensor, goal: Tensor, radius: Tensor) -> Tensor:
    """Returns the place to run to: through the ball from behind it, else around it; all (areas, agents, 2)."""
    onward = torch.nn.functional.normalize(goal - ball, dim=2)
    across = torch.stack([-onward[..., 1], onward[..., 0]], 2)
    off = place - ball
    along, beside = (off * onward).sum(2, keepdim=True), (off * across).sum(2, keepdim=True)
    room = radius[:, None, None] + RADIUS + 0.3
    around = ball - 0.5 * onward + torch.where(beside < 0, -1.0, 1.0) * room * 1.2 * across
    return torch.where(along < -0.3 * room, torch.where(beside.abs() < 0.5 * room, ball, ball - room * onward), around - onward)


def _move_to(place: Tensor, angle: Tensor, target: Tensor, ball: Tensor) -> Action:
    """Faces the target, or near it the ball, and runs and sidesteps toward the target; all (areas, agents, ...)."""
    to = target - place
    is_there = to.norm(dim=2, keepdim=True) < 1.0
    watched = torch.where(is_there, ball - place, to)
    off = torch.remainder(torch.atan2(watched[..., 1], watched[..., 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    ahead = to[..., 0] * angle.cos() + to[..., 1] * angle.sin()
    right = to[..., 0] * angle.sin() - to[..., 1] * angle.cos()
    choice = torch.stack([_direction_choice(ahead, 0.2), _direction_choice(right, 0.2), _direction_choice(off, 0.14)], 2).flatten(0, 1)
    return Action(torch.zeros(len(choice), 0, device=choice.device), choice)


def _direction_choice(wish: Tensor, least: float) -> Tensor:
    """Returns 0 for amounts below `least`, else 1 if positive and 2 if negative."""
    return torch.where(wish > least, 1, torch.where(wish < -least, 2, 0))
