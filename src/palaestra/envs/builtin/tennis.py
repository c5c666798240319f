"""Tennis: two agents keep a ball in play over a net; the first that fails loses.

`tennis_motion` says how it is played. An agent sees its racket's place and velocity, the ball's, and its racket's tilt in radians, all in
its own frame (meters, the net at 0, its own side below), and the last three of these views, oldest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base import WarpEnv
from palaestra.envs.builtin.picture_plane import BLUE, GOLD, INK, RED, Plane
from palaestra.envs.builtin.planar import SECONDS
from palaestra.envs.builtin.tennis_motion import (
    BALL_RADIUS,
    COURT,
    HALF_LENGTH,
    MIDDLE_TILT,
    MOST_TILT,
    NET,
    SPEED,
    STAND,
    THICKNESS,
)
from palaestra.envs.builtin.tennis_rules import AGENTS, PROGRAM, TICKS, VIEW, VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

OBS = int(VIEW) * int(VIEWS)
READY = -5.0  # where it waits
DASH = float(SPEED) * float(SECONDS) * float(TICKS)  # how far a decision can carry it
LEAN = 0.9  # radians of the face that sends balls over the net


def rally(columns: Mapping[str, Tensor]) -> Action:
    """Goes to where the ball comes down to its racket and sends it back, its face always leaning alike; never jumps."""
    mirror = torch.tensor([[[1.0, 1.0]], [[-1.0, 1.0]]], device=columns["ball"].device)
    ball = (columns["ball"] * mirror).transpose(0, 1).reshape(-1, 2)  # a row a slot, in its frame
    velocity = (columns["ball_velocity"] * mirror).transpose(0, 1).reshape(-1, 2)
    gravity = columns["parameters"][:, 0].repeat_interleave(int(AGENTS))
    square = velocity[:, 1] ** 2 + 2 * gravity * (ball[:, 1] - float(STAND))
    seconds = (velocity[:, 1] + square.clamp(min=0).sqrt()) / gravity
    lands = ball[:, 0] + velocity[:, 0] * seconds.clamp(min=0)
    is_mine = columns["striker"].repeat_interleave(int(AGENTS)) != torch.arange(len(ball), device=ball.device) % int(AGENTS)
    place = torch.where(is_mine, lands.clamp(-float(COURT), 0) - 0.2, READY)
    run = (place - columns["position"][:, 0]) / DASH
    turn = torch.full_like(run, (LEAN - float(MIDDLE_TILT)) / float(MOST_TILT))
    continuous = torch.stack([run, torch.zeros_like(run), turn], 1).clamp(-1, 1)
    return Action(continuous, torch.zeros(len(run), 0, dtype=torch.int64, device=run.device))


class Tennis(WarpEnv):
    """Tennis: vector 27 (three views of 9), three continuous actions: toward the net, up, the racket's tilt."""

    behavior = "Tennis"
    agents = int(AGENTS)
    teams = (0, 1)
    summary = "Two agents keep a ball in play over a net; the first that fails loses."
    rewards = ("+1 to the winner of the rally", "-1 to the loser", "ball_touch, a parameter, to who strikes the ball")
    episode = "ends with the rally, and is cut after 500 decisions (2,500 physics ticks), a draw"
    benchmark = None
    default_areas = 16
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"gravity": (9.81, 6.0, 20.0), "scale": (0.5, 0.2, 5.0), "ball_touch": (0.0, 0.0, 1.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("vector", (OBS,)),), ActionSpec(continuous=3), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=3, parameters=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """`rally`; None for another behavior than its own."""
        return rally(self._columns) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        court, half_length = float(COURT), float(HALF_LENGTH) * float(row["parameters"][1])
        picture = Plane(court + 0.5, 4.0, 480)
        picture.box((0, -3.5), (court, 0.25), 0.0, INK)
        picture.box((0, float(NET) / 2 - 3.25), (0.08, float(NET) / 2), 0.0, INK)
        for side, color in enumerate((BLUE, RED)):
            (x, y), tilt, sign = row["position"][side], float(row["tilt"][side]), 1 - 2 * side
            picture.box((sign * x, y - 3.25), (float(THICKNESS), half_length), sign * tilt, color)
        picture.circle(row["ball"] - [0, 3.25], float(BALL_RADIUS), GOLD)
        return picture.shown()
