"""Soccer by a rule, and drawn for people: the nearest of a team goes for the ball, its mates stay between ball and own goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.picture_plane import BLUE, FLOOR, GOLD, GREEN, INK, PAPER, VIOLET, Plane
from palaestra.envs.builtin.soccer_field import CORNER, GOAL_HALF, HALF, PLAYER_RADIUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from torch import Tensor

LENGTH, WIDTH, RADIUS = float(HALF[0]), float(HALF[1]), float(PLAYER_RADIUS)


def chase(columns: Mapping[str, Tensor], teams: Sequence[int]) -> Action:
    """What every player of the columns does, areas * len(teams) of them; team 0 plays toward x."""
    place = columns["position"].view(-1, len(teams), 2)
    ball = columns["ball"][:, None]
    team = torch.tensor(teams, device=place.device)
    side = torch.where(team == 0, 1.0, -1.0)[:, None]
    own, other = (torch.cat([sign * LENGTH * side, torch.zeros_like(side)], 1) for sign in (-1, 1))
    far = (place - ball).norm(dim=2)
    rivals = team[:, None] != team
    is_next = (far[:, :, None] <= far[:, None] + 1e9 * rivals).all(2, keepdim=True)
    goal = torch.where(is_next, _behind(place, ball, other, columns["ball_radius"]), (ball + 1.5 * own) / 2.5)
    return _headed(place, columns["angle"].view(-1, len(teams)), goal)


def _behind(place: Tensor, ball: Tensor, goal: Tensor, radius: Tensor) -> Tensor:
    """Where to run for: through the ball from behind it, and around it where the player is in front; all (areas, agents, 2)."""
    onward = torch.nn.functional.normalize(goal - ball, dim=2)
    across = torch.stack([-onward[..., 1], onward[..., 0]], 2)
    off = place - ball
    along, beside = (off * onward).sum(2, keepdim=True), (off * across).sum(2, keepdim=True)
    room = radius[:, None, None] + RADIUS + 0.3
    around = ball - 0.5 * onward + torch.where(beside < 0, -1.0, 1.0) * room * 1.2 * across
    return torch.where(along < -0.3 * room, torch.where(beside.abs() < 0.5 * room, ball, ball - room * onward), around - onward)


def _headed(place: Tensor, angle: Tensor, target: Tensor) -> Action:
    """Turns toward the target, and runs while it is ahead; stands where it is there already."""
    to = target - place
    off = torch.remainder(torch.atan2(to[..., 1], to[..., 0]) - angle + torch.pi, 2 * torch.pi) - torch.pi
    turn = torch.where(off > 0.14, 1, torch.where(off < -0.14, 2, 0))
    run = ((off.abs() < 0.6) & (to.norm(dim=2) > 0.3)).long()
    choice = torch.stack([run, torch.zeros_like(run), turn], 2).flatten(0, 1)
    return Action(torch.zeros(len(choice), 0, device=choice.device), choice)


def drawn(row: Mapping[str, np.ndarray], teams: Sequence[int], goals: Sequence[int]) -> np.ndarray:
    """The field from above, with a goal at these ends (-1 left, 1 right); team 0 is blue."""
    plane = Plane(LENGTH + 1, WIDTH + 0.5, 480)
    plane.floor((0, 0), (LENGTH, WIDTH), FLOOR)
    cut = float(CORNER)
    for x in (-1, 1):
        for y in (-1, 1):
            plane.box((x * LENGTH, y * WIDTH), (cut / 2**0.5, cut / 2**0.5), torch.pi / 4, INK)
    for x in goals:
        plane.box((x * (LENGTH + 0.3), 0), (0.3, float(GOAL_HALF)), 0.0, GREEN)
    for place, angle, team in zip(row["position"], row["angle"], teams, strict=True):
        plane.agent(place, float(angle), RADIUS, VIOLET if team else BLUE)
    plane.circle(row["ball"], float(row["ball_radius"]), GOLD)
    plane.circle(row["ball"], 0.4 * float(row["ball_radius"]), PAPER)
    return plane.shown()
