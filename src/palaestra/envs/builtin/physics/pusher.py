"""The agent of PushBlock and of the scene with several agents: its turns and pushes, and where they lead.

It is a box of 1 x 1 x 1 m and 10 kg; contacts do not turn it. Choice 0 does nothing, 1 and 2 push it forward and back,
3 and 4 turn it right and left, 5 and 6 push it to the left and to the right. A push adds 3 m/s in a physics tick
(sidesteps 2.25 m/s), against a drag of 4/s and the friction of the floor; a turn is 200 degrees a second.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import warp as wp
from torch import Tensor

from palaestra.envs.builtin.physics.contact_solver import fall
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock.rules import AGENT_DRAG, FRICTION, SIDEWAYS, SPEED, TICKS, TURN, move_direction
from palaestra.envs.builtin.sensors.rays import wrapped

CHOICES = wp.constant(7)
NUMBERS = 10  # of the sensor of an agent's body
FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(1, CHOICES)
HALF = wp.constant(0.5)  # half the agent's side
GRAVITY = 14.715  # of the scenes, unless their parameter says otherwise; moves are foreseen with it


@wp.func
def turned(angle: float, choice: int):
    """Returns an agent's angle after a tick of its choice, within -pi to pi."""
    return wrapped(angle + (wp.where(choice == 4, TURN, 0.0) - wp.where(choice == 3, TURN, 0.0)))


@wp.func
def pushed(angle: float, choice: int):
    """Returns the velocity that a tick of a choice adds to an agent at this angle."""
    if choice == 0 or choice == 3 or choice == 4:
        return wp.vec2(0.0, 0.0)
    return SPEED * move_direction(angle, choice)


@wp.func
def act(world: Any, i: int, agent: int, slot: int, active: bool):
    """Turns and pushes an agent by its action if `active`, then applies drag and lets it fall."""
    velocity = world.body_velocity[i, agent]
    if active:
        choice = int(world.action[slot, 0])
        angle = turned(world.body_angle[i, agent], choice)
        world.body_angle[i, agent] = angle
        velocity += pushed(angle, choice)
    world.body_velocity[i, agent] = velocity * (1.0 - AGENT_DRAG * SECONDS)
    fall(world, i, agent, world.pull[i], AGENT_DRAG)


@wp.func
def observe_body(world: Any, i: int, agent: int, slot: int, ahead: wp.vec2):
    """Writes the observation of an agent's body sensor: its velocity to the right, upward and ahead, and constants."""
    velocity = world.body_velocity[i, agent]
    world.obs_body[slot, 0] = ahead[1] * velocity[0] - ahead[0] * velocity[1]
    world.obs_body[slot, 1] = world.body_rise[i, agent]
    world.obs_body[slot, 2] = wp.dot(ahead, velocity)
    world.obs_body[slot, 9] = 1.0  # the body's pose in its own frame is the identity


KEPT = 1.0 - AGENT_DRAG * SECONDS
# m/s that the floor takes in a tick: its friction acts at two points
BRAKE = 2.0 * FRICTION * GRAVITY * SECONDS * KEPT
MOVES = torch.tensor([0, FORWARD, BACK, LEFT, RIGHT])
WAYS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, SIDEWAYS], [0.0, -SIDEWAYS]]) * SPEED


def after_decision(place: Tensor, velocity: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Returns places and velocities of agents after one decision of each of MOVES, both (..., 5, 2), on an empty floor.

    Places and velocities are (..., 2), angles (...).
    """
    ways = WAYS.to(place.device)
    cos = angle.cos()[..., None]
    sin = angle.sin()[..., None]
    push = torch.stack([cos * ways[:, 0] - sin * ways[:, 1], sin * ways[:, 0] + cos * ways[:, 1]], -1)
    speed = velocity[..., None, :].expand_as(push)
    at = place[..., None, :].expand_as(push)
    for _ in range(TICKS):
        speed = (speed + push) * KEPT
        speed = speed * (1 - BRAKE / speed.norm(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(min=0)
        at = at + speed * SECONDS
    return at, speed


def glide(velocity: Tensor) -> Tensor:
    """Returns how far agents with these velocities (..., 2) glide until drag and friction have stopped them."""
    size = velocity.norm(dim=-1, keepdim=True)
    limit = BRAKE / (1 - KEPT)
    ticks = (1 + size / limit).log() / -math.log(KEPT)
    far = SECONDS * (KEPT * size / (1 - KEPT) - limit * ticks)
    return velocity / size.clamp(min=1e-6) * far.clamp(min=0)


def resting_places(place: Tensor, velocity: Tensor, angle: Tensor) -> Tensor:
    """Returns where agents come to rest after two of MOVES each, (..., 5, 5, 2); arguments as for `after_decision`."""
    at, speed = after_decision(place, velocity, angle)
    at, speed = after_decision(at, speed, angle[..., None].expand(at.shape[:-1]))
    return at + glide(speed)


def run_over(place: Tensor, velocity: Tensor, angle: Tensor, target: Tensor) -> Tensor:
    """Returns choices (S, 1), without turns, that lead agents to targets (S, 2), if possible so that they come to rest
    at them."""
    at, speed = after_decision(place, velocity, angle)
    way = at + glide(speed) - place[:, None]
    to = (target - place)[:, None]
    share = ((to * way).sum(2, keepdim=True) / way.square().sum(2, keepdim=True).clamp(min=1e-6)).clamp(0, 1)
    off = (share * way - to).norm(dim=2) + 0.1 * (way - to).norm(dim=2)
    return MOVES.to(place.device)[off.argmin(1)][:, None]
