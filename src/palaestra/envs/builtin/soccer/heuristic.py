"""A heuristic that plays soccer, and the picture: the nearest of a team goes for the ball, its mates stay between ball and own goal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.drawing.figures import agent, boxes
from palaestra.envs.builtin.soccer.field import CORNER, GOAL_HALF, HALF, PLAYER_RADIUS
from palaestra.envs.solids import FLOOR, GOLD, GRAY, GREEN, PAPER, Drawing, on_plane, solids, upright

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from palaestra.envs.builtin.base.world_columns import Rows
    from palaestra.envs.solids import Color, Solids

LENGTH, WIDTH, RADIUS = float(HALF[0]), float(HALF[1]), float(PLAYER_RADIUS)


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
    behind = _approach_point(place, ball, other, columns["ball_radius"])
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


def draw_field(rows: Rows, sides: Sequence[tuple[str, Sequence[int], Color]], goals: tuple[int, ...]) -> Drawing:
    """Draws the field with a goal at these ends (-1 left, 1 right), the ball, and sides: a behavior, players of an area, and a color."""
    shapes = list(field_solids(rows.areas, goals))
    size = 2 * rows["ball_radius"][:, None, None]
    ball = on_plane(rows["ball"][:, None], size[..., 0] / 2)
    shapes.append(solids("ball", "sphere", ball, size, GOLD))
    for number, (behavior, players, color) in enumerate(sides):
        chosen = list(players)
        agents = behavior, rows.slots[:, chosen]
        shapes += agent(rows["position"][:, chosen], rows["angle"][:, chosen], RADIUS, agents, color=color, name=f"side {number}")
    return Drawing(tuple(shapes), (LENGTH + 1.2, 1.4, WIDTH + 0.4), center=(0.0, 0.3, 0.0), elevation=50.0)


@cache
def field_solids(areas: int, goals: tuple[int, ...]) -> tuple[Solids, ...]:
    """Returns what does not move: the ground with its lines, the walls, and the goals."""
    cut, goal, thick, tall = float(CORNER), float(GOAL_HALF), 0.15, 0.7
    lane = (WIDTH - cut - goal) / 2
    walls = [((0.0, y * (WIDTH + thick)), (LENGTH - cut, thick)) for y in (-1, 1)]
    for x in (-1, 1):
        walls += [((x * (LENGTH + thick), y * (goal + lane)), (thick, lane)) for y in (-1, 1)]
        if x not in goals:
            walls.append(((x * (LENGTH + thick), 0.0), (thick, goal)))
    corners = np.array([(x * (LENGTH - cut / 2), y * (WIDTH - cut / 2)) for x in (-1, 1) for y in (-1, 1)])
    outward = thick / 2**0.5 * np.sign(corners)
    slants = np.broadcast_to(on_plane(corners + outward, tall / 2), (areas, 4, 3))
    turns = upright(-np.arctan2(np.sign(corners[:, 0]), np.sign(corners[:, 1])))
    lines = (((0.0, 0.0), (0.05, WIDTH)),)
    circle = solids("circle", "cylinder", np.zeros((areas, 1, 3)), (3.1, 0.02, 3.1), PAPER, fixed=True)
    middles = np.broadcast_to(on_plane([(x * (LENGTH - cut), y * (WIDTH - cut)) for x in (-1, 1) for y in (-1, 1)], -0.1), (areas, 4, 3))
    inner = solids("in the circle", "cylinder", np.zeros((areas, 1, 3)), (2.9, 0.04, 2.9), FLOOR, fixed=True)
    nets = tuple(((x * (LENGTH + 0.5), 0.0), (0.5, goal)) for x in goals)
    return (
        boxes("floor", areas, (((0.0, 0.0), (LENGTH, WIDTH - cut)), ((0.0, 0.0), (LENGTH - cut, WIDTH))), FLOOR, 0.0, 0.2),
        solids("floor's corners", "box", middles, (cut * 2**0.5, 0.2, cut * 2**0.5), FLOOR, rotation=upright(np.pi / 4), fixed=True),
        circle,
        inner,
        boxes("lines", areas, lines, PAPER, 0.03, 0.02),
        boxes("walls", areas, tuple(walls), GRAY, tall, tall),
        solids("corners", "box", slants, (cut * 2**0.5, tall, 2 * thick), GRAY, rotation=turns, fixed=True),
        boxes("goals", areas, nets, GREEN, 0.03, 0.23),
        *(goal_posts(areas, goals, goal)),
    )


def goal_posts(areas: int, goals: tuple[int, ...], half: float) -> tuple[Solids, ...]:
    """Returns the posts and the crossbar of each goal."""
    posts = np.array([(x * LENGTH, 0.75, y * half) for x in goals for y in (-1, 1)])
    bars = np.array([(x * LENGTH, 1.5, 0.0) for x in goals])
    return (
        solids("posts", "cylinder", np.broadcast_to(posts, (areas, *posts.shape)), (0.2, 1.5, 0.2), GREEN, fixed=True),
        solids("bars", "box", np.broadcast_to(bars, (areas, *bars.shape)), (0.2, 0.2, 2 * half + 0.2), GREEN, fixed=True),
    )
