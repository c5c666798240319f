"""A heuristic that plays soccer: the nearest player of a team goes to the ball, its mates stay between ball and own
goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palaestra.envs.builtin.soccer.field import GOAL_LINE
from palaestra.envs.builtin.soccer.motion import BALL_RADIUS, PLAYER_RADIUS

LENGTH = GOAL_LINE
REACH = PLAYER_RADIUS + BALL_RADIUS
LEAD = 0.1  # seconds by which players look ahead at the ball
COAST = 0.15  # seconds by which they allow for their own speed, which their drag takes within 0.33
KEPT = 4.5  # meters, distance of a keeper from the middle of the goal


def chase(columns: Mapping[str, Tensor], teams: Sequence[int]) -> Tensor:
    """Plays every player of the columns; team 0 plays toward x. A player without a mate stays near the goal."""
    place, velocity = (columns[name].view(-1, len(teams), 2) for name in ("position", "velocity"))
    ball = (columns["ball"] + LEAD * columns["ball_velocity"])[:, None].expand_as(place)
    team = torch.tensor(teams, device=place.device)
    side = torch.where(team == 0, 1.0, -1.0)[:, None]
    own, other = (torch.cat([sign * LENGTH * side, torch.zeros_like(side)], 1) for sign in (-1, 1))
    far = (place - ball).norm(dim=2)
    mates = team[:, None] == team
    has_mates = (mates.sum(1) > 1)[:, None]
    is_next = (far[:, :, None] <= far[:, None] + 1e9 * ~mates).all(2)[..., None]
    off = ball - own
    kept = own + off.norm(dim=2, keepdim=True).clamp(max=KEPT) * torch.nn.functional.normalize(off, dim=2)
    waits = torch.where(has_mates, (ball + 1.5 * own) / 2.5, kept)
    target = torch.where(is_next & has_mates, _approach_point(place, ball, other), waits)
    return _move_to(place + COAST * velocity, columns["angle"].view(-1, len(teams)), target, ball)


def _approach_point(place: Tensor, ball: Tensor, goal: Tensor) -> Tensor:
    """Returns the place to run to: through the ball from behind it, else around it; all (areas, agents, 2)."""
    onward = torch.nn.functional.normalize(goal - ball, dim=2)
    across = torch.stack([-onward[..., 1], onward[..., 0]], 2)
    off = place - ball
    along = (off * onward).sum(2, keepdim=True)
    beside = (off * across).sum(2, keepdim=True)
    room = REACH + 0.3
    around = ball - 0.5 * onward + torch.where(beside < 0, -1.0, 1.0) * room * 1.2 * across
    return torch.where(
        along < -0.3 * room, torch.where(beside.abs() < 0.5 * room, ball, ball - room * onward), around - onward
    )


def _move_to(place: Tensor, angle: Tensor, target: Tensor, ball: Tensor) -> Tensor:
    """Faces the target, or near it the ball, and runs and sidesteps toward the target; all (areas, agents, ...)."""
    to = target - place
    is_there = to.norm(dim=2, keepdim=True) < 1.0
    watched = torch.where(is_there, ball - place, to)
    off = torch.remainder(torch.atan2(watched[..., 1], watched[..., 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    ahead = to[..., 0] * angle.cos() + to[..., 1] * angle.sin()
    right = to[..., 0] * angle.sin() - to[..., 1] * angle.cos()
    right = torch.where(right.abs() > ahead.abs(), right, 0.0)  # a sidestep would replace running
    choices = [_direction_choice(ahead, 0.2), _direction_choice(right, 0.2), _direction_choice(off, 0.14)]
    return torch.stack(choices, 2).flatten(0, 1)


def _direction_choice(wish: Tensor, least: float) -> Tensor:
    """Returns 0 for amounts below `least`, else 1 if positive and 2 if negative."""
    return torch.where(wish > least, 1, torch.where(wish < -least, 2, 0))
