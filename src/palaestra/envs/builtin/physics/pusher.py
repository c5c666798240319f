"""An agent that seven choices drive over a floor, as in Unity's cooperative push block and its dungeon.

It is a box of 1 x 1 x 1 m and 10 kg that no contact turns: 0 does nothing, 1 and 2 push it forward and back, 3 and 4 turn it
right and left, 5 and 6 push it to the left and to the right. A push adds 3 m/s in a physics tick (sidesteps 2.25 m/s), against
a drag of 4/s and the friction of the floor; a turn is 200 degrees a second.
"""

from __future__ import annotations

import math

import torch
import warp as wp
from torch import Tensor

from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import heading

wp.set_module_options({"enable_backward": False})

CHOICES = 7
FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(1, CHOICES)
TICKS = wp.constant(5)  # physics ticks per decision
HALF = wp.constant(0.5)  # half the agent's side
AGENT_MASS = wp.constant(10.0)
AGENT_DRAG = wp.constant(4.0)
PUSH = wp.constant(3.0)  # m/s that a tick of pushing adds
SIDEWAYS = wp.constant(0.75)  # fraction of that for sidesteps
TURN = wp.constant(0.06981317007977318)  # rad a tick
GRAVITY = wp.constant(14.715)  # both scenes have one and a half times the earth's
FRICTION = wp.constant(0.6)


@wp.func
def turned(angle: float, choice: int):
    """Returns an agent's angle after a tick of its choice, within -pi to pi."""
    angle += wp.where(choice == 4, TURN, 0.0) - wp.where(choice == 3, TURN, 0.0)
    return angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))


@wp.func
def pushed(angle: float, choice: int):
    """Returns the velocity that a tick of a choice adds to an agent at this angle."""
    if choice == 0 or choice == 3 or choice == 4:
        return wp.vec2(0.0, 0.0)
    ahead = PUSH * heading(angle)
    if choice == 1:
        return ahead
    if choice == 2:
        return -ahead
    left = SIDEWAYS * wp.vec2(-ahead[1], ahead[0])
    return wp.where(choice == 5, left, -left)


KEPT = 1.0 - float(AGENT_DRAG) * float(SECONDS)
BRAKE = 2.0 * float(FRICTION) * float(GRAVITY) * float(SECONDS)  # m/s that the floor takes in a tick
MOVES = torch.tensor([0, FORWARD, BACK, LEFT, RIGHT])
WAYS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, float(SIDEWAYS)], [0.0, -float(SIDEWAYS)]]) * float(PUSH)


def resting_places(place: Tensor, velocity: Tensor, angle: Tensor) -> Tensor:
    """Returns where agents would come to rest after a decision of each of MOVES, (S, 5, 2), on a floor with nothing on it.

    Places and velocities are (S, 2), angles (S,).
    """
    ways = WAYS.to(place.device)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    push = torch.stack([cos * ways[:, 0] - sin * ways[:, 1], sin * ways[:, 0] + cos * ways[:, 1]], 2)
    speed, at = velocity[:, None].expand_as(push), place[:, None].expand_as(push)
    for _ in range(int(TICKS)):
        speed = (speed + push) * KEPT
        size = speed.norm(dim=2, keepdim=True).clamp(min=1e-6)
        speed = speed * (1 - BRAKE / size).clamp(min=0)
        at = at + speed * float(SECONDS)
    size = speed.norm(dim=2, keepdim=True)
    limit = BRAKE / (1 - KEPT)
    ticks = (1 + size / limit).log() / -math.log(KEPT)
    glide = float(SECONDS) * (KEPT * size / (1 - KEPT) - limit * (ticks + KEPT / (1 - KEPT) * (KEPT**ticks - 1) + KEPT**ticks - 1))
    return at + speed / size.clamp(min=1e-6) * glide.clamp(min=0)


def approach(place: Tensor, velocity: Tensor, angle: Tensor, target: Tensor) -> Tensor:
    """Returns choices (S, 1), none of them turns, that lead agents over targets (S, 2), and rather to rest there than beyond."""
    way = resting_places(place, velocity, angle) - place[:, None]
    to = (target - place)[:, None]
    share = ((to * way).sum(2, keepdim=True) / way.square().sum(2, keepdim=True).clamp(min=1e-6)).clamp(0, 1)
    off = (share * way - to).norm(dim=2) + 0.1 * (way - to).norm(dim=2)
    return MOVES.to(place.device)[off.argmin(1)][:, None]
