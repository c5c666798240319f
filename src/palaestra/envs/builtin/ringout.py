"""RingOut: three agents push one another off a ring that shrinks; the last one in wins.

`ringout_rules` says how it is played. An agent sees, in its own frame and in ring radii (a second): its place and velocity, whether it is
in, the ring's radius, and of both others, the next one counterclockwise first, the place and velocity from its own, and whether it is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base import WarpEnv
from palaestra.envs.builtin.picture_plane import BLUE, GOLD, GRAY, GREEN, INK, RED, Plane
from palaestra.envs.builtin.planar import SECONDS
from palaestra.envs.builtin.ringout_rules import (
    AGENTS,
    BETWEEN_AGENTS,
    BETWEEN_WAYS,
    OBS,
    PROGRAM,
    RADIUS,
    RING,
    SHRINKING,
    TICKS,
    WAYS,
    WHOLE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


def hold(columns: Mapping[str, Tensor]) -> Action:
    """Makes for the middle, slows down before it, and pushes back into it whenever it is driven off."""
    wish = -columns["position"] - 0.4 * columns["velocity"]
    frame = float(BETWEEN_AGENTS) * (torch.arange(len(wish), device=wish.device) % int(AGENTS))
    way = torch.round((torch.atan2(wish[:, 1], wish[:, 0]) - frame) / float(BETWEEN_WAYS)).long() % int(WAYS)
    choice = torch.where(wish.norm(dim=1) > 0.1, way + 1, 0)
    return Action(torch.zeros(len(wish), 0, device=wish.device), choice[:, None])


class RingOut(WarpEnv):
    """RingOut: vector 16, discrete [9]: nothing, or a push one of eight ways, counterclockwise from where the middle lies at first."""

    behavior = "RingOut"
    agents = int(AGENTS)
    teams = (0, 1, 2)
    summary = "Three agents push one another off a ring that shrinks; the last one in wins."
    rewards = ("at the end: +1 to the last one in, 0 to the second, -1 to the first one out", "who falls at once share their places")
    episode = "ends when one agent alone is in the ring, which is gone after 250 decisions (1,250 physics ticks)"
    benchmark = None
    default_areas = 16
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"bounce": (0.8, 0.0, 1.0), "drag": (1.5, 0.5, 5.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("vector", (OBS,)),), ActionSpec(branches=(int(WAYS) + 1,)), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=1, parameters=2)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """`hold`; None for another behavior than its own."""
        return hold(self._columns) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        ring = float(RING) * min(max(1 - (int(row["age"]) - int(WHOLE)) / int(SHRINKING), 0.0), 1.0)
        picture = Plane(float(RING) + 1, float(RING) + 1)
        picture.circle((0, 0), float(RING), GRAY)
        picture.circle((0, 0), ring + 0.1, INK)
        picture.circle((0, 0), ring, GREEN)
        for place, inside, color in zip(row["position"], row["inside"], (BLUE, RED, GOLD), strict=True):
            picture.circle(place, float(RADIUS) if inside else float(RADIUS) / 2, color)
        return picture.shown()
