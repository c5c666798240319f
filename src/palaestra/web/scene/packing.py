"""Packs drawings for the browser: each solid is a row of numbers, all areas stand in a grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.envs.solids import Drawing, Solids

NUMBERS = 11
"""Numbers of a solid: position (3), quaternion (4), size (3), color as red * 65536 + green * 256 + blue."""
GAP = 0.12
"""Space between areas, as a share of an area's size."""
JUMP = 0.35
"""Share of an area's size: a solid that moves by more within a tick has jumped, as when an episode starts."""
ROOM = 0.08
"""Room above the solids that are seen at first, as a share of half an area's largest side."""
DEGENERATE = 1e-9


def grid(areas: int, half: tuple[float, float, float]) -> NDArray[np.float32]:
    """Returns the middle (areas, 3) of each area in a grid about as wide as deep; the first is at the back left."""
    width, depth = (2 * side * (1 + GAP) for side in (half[0], half[2]))
    columns = min(areas, max(1, math.ceil(math.sqrt(areas * depth / width))))
    rows = math.ceil(areas / columns)
    number = np.arange(areas)
    x = (number % columns - (columns - 1) / 2) * width
    z = (number // columns - (rows - 1) / 2) * depth
    return np.stack([x, np.zeros(areas), z], axis=1).astype(np.float32)


def outline(drawing: Drawing) -> dict[str, Any]:
    """Returns the data that the browser needs once: groups of solids in the order of their rows, and the extent of all
    areas.

    It includes the rows of fixed solids; `rows` returns the rows of the others.
    """
    areas = len(drawing.solids[0].position) if drawing.solids else 0
    middles = grid(areas, drawing.half)
    groups = [
        {
            "name": group.name,
            "shape": group.shape,
            "count": group.position.shape[0] * group.position.shape[1],
            "each": group.position.shape[1],
            "opacity": group.opacity,
            "agents": group.slot is not None,
            "fixed": _packed(group, middles).ravel().tolist() if group.fixed else None,
        }
        for group in drawing.solids
    ]
    return {
        "groups": groups,
        "half": drawing.half,
        "center": drawing.center,
        "elevation": drawing.elevation,
        "heights": heights(drawing),
        "middles": middles.tolist(),
    }


def heights(drawing: Drawing) -> tuple[float, float]:
    """Returns the lowest and highest point of the solids now, with some room above, within an area's extent."""
    high = drawing.half[1]
    seen = [one for one in drawing.solids if (one.size > 0).any()]
    feet = min((float((one.position[..., 1] - one.size[..., 1] / 2).min()) for one in seen), default=-high)
    top = max((float((one.position[..., 1] + one.size[..., 1] / 2).max()) for one in seen), default=high)
    return max(-high, feet), min(high, top + ROOM * max(drawing.half))


def structure(drawing: Drawing) -> tuple[Any, ...]:
    """Returns a cheap fingerprint that changes with the outline, since fixed solids never move."""
    groups = [(one.name, one.shape, one.position.shape[:2], one.opacity, one.fixed) for one in drawing.solids]
    return (groups, drawing.half, drawing.center, drawing.elevation)


def rows(drawing: Drawing) -> NDArray[np.float32]:
    """Returns the numbers (solids, NUMBERS) of all solids that are not fixed, group after group."""
    moving = [group for group in drawing.solids if not group.fixed]
    if not moving:
        return np.zeros((0, NUMBERS), np.float32)
    middles = grid(len(moving[0].position), drawing.half)
    return np.concatenate([_packed(group, middles) for group in moving])


def blend(before: NDArray[np.float32], now: NDArray[np.float32], share: float, extent: float) -> NDArray[np.float32]:
    """Returns rows interpolated between two ticks, at this share of the time from one to the next.

    A solid that has jumped, appeared or vanished is drawn at its new place. `extent` is the size of an area.
    """
    if share >= 1 or before.shape != now.shape:
        return now
    moved = np.abs(now[:, :3] - before[:, :3]).max(axis=1) <= JUMP * extent
    moved &= ((before[:, 7:10] > 0) == (now[:, 7:10] > 0)).all(axis=1)
    share_of = np.where(moved, np.float32(share), np.float32(1))[:, None]
    mixed = now.copy()
    mixed[:, :3] += (1 - share_of) * (before[:, :3] - now[:, :3])
    mixed[:, 7:10] += (1 - share_of) * (before[:, 7:10] - now[:, 7:10])
    same_side = np.sign((before[:, 3:7] * now[:, 3:7]).sum(axis=1, keepdims=True) + DEGENERATE)
    turned = share_of * now[:, 3:7] + (1 - share_of) * same_side * before[:, 3:7]
    mixed[:, 3:7] = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), DEGENERATE)
    return mixed


def _packed(group: Solids, middles: NDArray[np.float32]) -> NDArray[np.float32]:
    areas, each = group.position.shape[:2]
    packed = np.empty((areas, each, NUMBERS), np.float32)
    packed[..., :3] = group.position + middles[:, None]
    packed[..., 3:7] = group.rotation
    # without a height it has no sides to be lit
    packed[..., 7:10] = np.where((group.size > 0).all(-1, keepdims=True), group.size, 0)
    # below 2^24: exact in float32
    packed[..., 10] = group.color.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    return packed.reshape(-1, NUMBERS)
