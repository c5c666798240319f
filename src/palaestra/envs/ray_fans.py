"""Describes rays in an observation, so that the page can show what an agent sees with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RayHit:
    """A ray as an observation describes it."""

    angle: float
    """Radians from straight ahead, counterclockwise seen from above."""
    distance: float
    """Meters to the hit; the ray's length if it hit nothing."""
    tag: int | None
    """Number of the hit tag; None for a hit without a tag, and without a hit."""
    hit: bool
    """Whether it hit anything."""


@dataclass(frozen=True, slots=True)
class RayFan:
    """Rays of one sensor in a vector observation, as Unity's ray sensors lay them out.

    Each ray has a one-hot of the hit tag, a flag that is 1 if nothing was hit, and the distance as a share of the ray's
    length.
    """

    obs: str
    """Name of the observation."""
    angles: tuple[float, ...]
    """Radians of each ray from straight ahead, counterclockwise seen from above, in the order of the columns."""
    length: float
    """Length of the rays in meters."""
    tags: tuple[str, ...]
    """Names of the tags that a ray distinguishes."""
    first: int = 0
    """Column at which the first ray begins, of the newest frame."""
    height: float = 0.0
    """Meters of the rays' start above the middle of the agent's body."""
    rise: float = 0.0
    """Meters by which the end of a ray is higher than its start."""

    def hits(self, values: NDArray[np.float32]) -> list[RayHit]:
        """Returns the rays of one agent's observation (n,)."""
        size = len(self.tags) + 2
        known = len(self.tags)
        rays = values[self.first : self.first + size * len(self.angles)].reshape(len(self.angles), size)
        found: list[RayHit] = []
        for angle, ray in zip(self.angles, rays, strict=True):
            hit = bool(ray[known] < 0.5)
            tag = int(ray[:known].argmax()) if hit and known and ray[:known].max() > 0.5 else None
            found.append(RayHit(angle, float(ray[known + 1]) * self.length if hit else self.length, tag, hit))
        return found


def unity_order(rays: int, step: float, *, ahead: float = 0.0) -> tuple[float, ...]:
    """Returns the angles of rays `step` radians apart around `ahead`: the middle, then alternately right and left."""
    return tuple(ahead + (-(ray + 1) // 2 * step if ray % 2 else ray // 2 * step) for ray in range(rays))
