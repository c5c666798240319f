"""Pictures of creatures: the parts, placed around the creature's position on the ground, tiles that pass by, and the
block."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.creatures.anatomy import BoxShape, Capsule, Creature, mass_center
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.solids import BLUE, GOLD, GRAY, Drawing, Solids, solids

TILES = 5
"""Tiles along each side of the shown ground."""


def draw_creature(creature: Creature, rows: Rows, behavior: str) -> Drawing:
    """Draws each area's creature in the middle, with everything within eight times the block's edge, or 3.2 m if that
    is more."""
    far = max(8.0 * creature.block, 3.2)
    root = rows["position"][:, :1] * (1.0, 0.0, 1.0)
    floor = np.array([0.0, creature.floor, 0.0], np.float32)
    place = mirrored(rows["position"] - root - floor)
    turn = (rows["rotation"] * (-1.0, -1.0, 1.0, 1.0)).astype(np.float32)  # Unity's quaternions in a drawing's axes
    shapes = (
        *ground(root, far),
        target(rows, creature, root + floor, far),
        *parts(creature, place, turn, behavior, rows.slots),
    )
    return Drawing(shapes, (far, 1.2, far), elevation=25.0, center=(0.0, 0.8, 0.0))


def mirrored(place: NDArray[np.floating]) -> NDArray[np.float32]:
    """Returns Unity's positions (..., 3) in a drawing's axes."""
    return (place * (1.0, 1.0, -1.0)).astype(np.float32)


def ground(root: NDArray[np.floating], far: float) -> tuple[Solids, ...]:
    """Returns the floor under the creature, and tiles that do not move with the creature as it walks."""
    side = 2 * far / TILES
    middles = (np.arange(TILES) - TILES // 2) * side
    grid = np.stack(np.meshgrid(middles, middles), -1).reshape(1, -1, 2)
    flat = mirrored(root)[..., (0, 2)]
    at = grid - np.mod(flat + side / 2, side) + side / 2
    at = np.clip(at, -far + side / 4, far - side / 4)
    tiles = np.stack([at[..., 0], np.full(at.shape[:2], 0.005), at[..., 1]], -1)
    return (figures.floor(len(root), (far, far)), solids("tiles", "box", tiles, (side / 2, 0.01, side / 2), GRAY))


def target(rows: Rows, creature: Creature, origin: NDArray[np.floating], far: float) -> Solids:
    """Returns the block to which the creature walks, moved to the edge of the picture if it is further away."""
    place = mirrored(rows["block"][:, None] - origin)
    edge = far - creature.block / 2
    beyond = np.abs(place[..., (0, 2)]).max(-1, keepdims=True) / edge
    place = place / np.where(beyond > 1.0, beyond, 1.0) * (1.0, 0.0, 1.0) + (0.0, 1.0, 0.0) * place
    return solids("block", "box", place, (creature.block,) * 3, GOLD)


def parts(
    creature: Creature, place: NDArray[np.float32], turn: NDArray[np.float32], behavior: str, slots: NDArray[np.int64]
) -> tuple[Solids, ...]:
    """Returns boxes, balls and tubes at the places (A, parts, 3) and rotations (A, parts, 4) of centers of mass."""
    groups: dict[str, list[tuple[ArrayLike, ArrayLike, ArrayLike]]] = {"feet": [], "limbs": [], "joints": []}
    for k, part in enumerate(creature.parts):
        shape = part.collider
        turned = turn[:, k]
        middle = place[:, k] + figures.turned_by(turned, mirrored(np.array(shape.center) - mass_center(part)))
        if isinstance(shape, BoxShape):
            groups["feet"].append((middle, turned, shape.size))
            continue
        ends = [middle]
        if isinstance(shape, Capsule):
            half = np.eye(3)[shape.axis] * (1.0, 1.0, -1.0) * (shape.height / 2 - shape.radius)
            ends = [middle + figures.turned_by(turned, end) for end in (half, -half)]
            lay = figures.turned(np.broadcast_to(UPRIGHT_TO[shape.axis], turned.shape), turned)
            groups["limbs"].append((middle, lay, (2 * shape.radius, 2 * np.abs(half).max(), 2 * shape.radius)))
        unturned = np.broadcast_to((0.0, 0.0, 0.0, 1.0), turned.shape)
        groups["joints"] += [(end, unturned, (2 * shape.radius,) * 3) for end in ends]
    drawn = []
    for (name, group), shape in zip(groups.items(), ("box", "cylinder", "sphere"), strict=True):
        if group:
            places, turns, sizes = zip(*group, strict=True)
            middles = np.stack(places, 1)
            rotation = np.stack(turns, 1)
            drawn.append(solids(name, shape, middles, sizes, BLUE, rotation=rotation, agents=(behavior, slots)))
    return tuple(drawn)


UPRIGHT_TO = {
    0: (0.0, 0.0, -float(figures.QUARTER), float(figures.QUARTER)),
    1: (0.0, 0.0, 0.0, 1.0),
    2: (float(figures.QUARTER), 0.0, 0.0, float(figures.QUARTER)),
}
"""Quaternions that turn a cylinder along y so that it lies along x, y or z."""
