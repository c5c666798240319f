"""How to touch the tiles of Sorter in order without a wrong one on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.timestep import Action

RING, INNER = 16.0, 10.0
"""Radius of the circle of tiles, and of one on which no tile is in the way."""
ALIGNED = math.radians(8)
"""So near to a tile's direction the way outward meets that tile alone."""


def walk(columns: Mapping[str, Tensor]) -> Action:
    """Goes inward first, until the next tile lies straight outward; looks where it goes."""
    position, velocity, heading = columns["position"], columns["velocity"], columns["heading"]
    row = columns["touched"].long()[:, None].clamp(max=columns["place"].shape[1] - 1)
    angle = columns["place"].gather(1, row)[:, 0] * (2 * math.pi / columns["place"].shape[1])
    beside = _turned(torch.atan2(position[:, 0], position[:, 1]) - angle).abs()
    at_rim = position.norm(dim=1) > INNER
    radius = torch.where(at_rim & (beside > ALIGNED), INNER - 2, RING)
    away = torch.stack([radius * angle.sin(), radius * angle.cos()], 1) - position
    push = 3 * away - velocity  # the faster, the sooner it brakes
    forward = push[:, 0] * heading.sin() + push[:, 1] * heading.cos()
    right = push[:, 0] * heading.cos() - push[:, 1] * heading.sin()
    turn = _turned(heading - torch.atan2(away[:, 0], away[:, 1]))
    discrete = torch.stack([_choice(forward, 2.0), _choice(right, 2.0), _choice(turn, math.radians(15))], 1)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def _turned(angle: Tensor) -> Tensor:
    """The same angle within -pi..pi."""
    return torch.atan2(angle.sin(), angle.cos())


def _choice(value: Tensor, least: float) -> Tensor:
    """1 for a positive number, 2 for a negative one, 0 for a small one."""
    return (value > least).long() + 2 * (value < -least).long()
