"""A rule that plays Sorter without mistakes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.envs.builtin.sorter.rules import RING

RIM = 16.5  # meters from the middle beyond which a tile may be in the way
INNER = 14.0  # meters from the middle at which it goes around
ALIGNED = math.radians(5)  # this close to a tile's direction, walking outward touches that tile alone


def touch_in_order(columns: Mapping[str, Tensor]) -> Action:
    """Goes inward first, until the next tile lies straight outward; faces the way it goes."""
    position, velocity, heading = columns["position"], columns["velocity"], columns["heading"]
    row = columns["touched"].long()[:, None].clamp(max=columns["place"].shape[1] - 1)
    angle = columns["place"].gather(1, row)[:, 0] * (2 * math.pi / columns["place"].shape[1])
    beside = wrap_angle(torch.atan2(position[:, 0], position[:, 1]) - angle).abs()
    at_rim = position.norm(dim=1) > RIM
    radius = torch.where(at_rim & (beside > ALIGNED), INNER, float(RING))
    away = torch.stack([radius * angle.sin(), radius * angle.cos()], 1) - position
    push = 3 * away - velocity  # brakes earlier the faster it is
    forward = push[:, 0] * heading.sin() + push[:, 1] * heading.cos()
    right = push[:, 0] * heading.cos() - push[:, 1] * heading.sin()
    turn = wrap_angle(heading - torch.atan2(away[:, 0], away[:, 1]))
    sideways = torch.where(right.abs() > forward.abs(), right, 0.0)  # it would replace the push forward
    discrete = torch.stack([to_choice(forward, 2.0), to_choice(sideways, 2.0), to_choice(turn, math.radians(15))], 1)
    return Action(torch.zeros(len(discrete), 0, device=discrete.device), discrete)


def wrap_angle(angle: Tensor) -> Tensor:
    """Returns the same angle within -pi..pi."""
    return torch.atan2(angle.sin(), angle.cos())


def to_choice(value: Tensor, least: float) -> Tensor:
    """Returns 1 for a positive number, 2 for a negative one, 0 for a small one."""
    return (value > least).long() + 2 * (value < -least).long()
