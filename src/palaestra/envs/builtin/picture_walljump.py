"""A picture of WallJump for people: from above, what is higher drawn larger, and the taller the wall the darker."""

from __future__ import annotations

import numpy as np

from palaestra.envs.builtin.picture_plane import GOLD, GRAY, GREEN, INK, Plane
from palaestra.envs.builtin.walljump_motion import FAR_END, GOAL, HALF_BLOCK, HALF_WALL, HALF_WIDTH, NEAR_END, RADIUS

HALF_LENGTH = (FAR_END - NEAR_END) / 2
MIDDLE = np.array([0.0, (FAR_END + NEAR_END) / 2])
MOST = 5.0  # how far the highest wall reaches above the ground


def from_above(row: dict[str, np.ndarray]) -> np.ndarray:
    """The scene of one area, (H, W, 3) uint8; the goal is at the top."""
    picture = Plane(HALF_WIDTH + 1, HALF_LENGTH + 1)
    picture.floor((0, 0), (HALF_WIDTH, HALF_LENGTH))
    picture.box(np.array([0, (GOAL + FAR_END) / 2]) - MIDDLE, (HALF_WIDTH, (FAR_END - GOAL) / 2), 0.0, GREEN)
    wall, height = float(row["wall"]), float(row["height"])
    if wall > 0:
        shade = np.array(GRAY) + (np.array(INK) - GRAY) * wall / MOST
        picture.box(-MIDDLE, (HALF_WIDTH, HALF_WALL), 0.0, (int(shade[0]), int(shade[1]), int(shade[2])))
    picture.box(row["block"] - MIDDLE, (HALF_BLOCK, HALF_BLOCK), 0.0, GOLD)
    if height > 0:
        picture.circle(row["agent"] - MIDDLE + np.array([0.1, -0.1]) * height, RADIUS, GRAY)  # its shadow
    picture.agent(row["agent"] - MIDDLE, float(row["angle"]), RADIUS * (1 + 0.15 * height))
    return picture.shown()
