"""Solids that the page adds to a drawing: arrows above agents that people play, and rays of the chosen agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.envs.ray_fans import RayFan, RayHit
from palaestra.envs.solids import BLUE, GOLD, GRAY, GREEN, INK, RED, VIOLET, Color, Drawing, Solids, solids
from palaestra.runtime.play.assigned_brains import AgentKey

HIT_COLORS = (RED, GREEN, BLUE, GOLD, VIOLET, INK)
"""Colors of a fan's tags, in their order; if there are more tags, the colors repeat."""
THIN, POINT = 0.004, 0.016
"""Thickness of a ray and diameter of the point where it ends, as shares of an area's size."""
ARROW = 0.04
"""Least size of an arrow, as a share of an area's size."""
ABOVE = 1.1
"""Height of an arrow's middle above the top of its agent, as a share of the arrow's size."""
DOWN = (1.0, 0.0, 0.0, 0.0)
"""Rotation of a cone that points down."""


def color_of(hit: RayHit) -> Color:
    """Returns the color for a ray's hit; gray for no hit, and for a hit without a tag."""
    return GRAY if hit.tag is None else HIT_COLORS[hit.tag % len(HIT_COLORS)]


def with_arrows(drawing: Drawing, taken: set[AgentKey]) -> Drawing:
    """Returns the drawing with an arrow above each agent of the first area that a person plays, unless the area has
    only one agent."""
    agents = {
        (group.behavior, slot)
        for group in drawing.solids
        if group.slot is not None
        for slot in group.slot[0].tolist()
        if slot >= 0
    }
    places = []
    sizes = []
    for behavior, slot in sorted(taken):
        found = _body(drawing, behavior, slot)
        if found is not None and found[1] == 0:
            group, _, number = found
            wide, tall, deep = group.size[0, number]
            side = max(wide, deep, ARROW * 2 * max(drawing.half)) if wide else 0.0  # none above an agent that is hidden
            # at a constant place above the agent: what jumps where the agent does is never left behind between two
            # ticks
            places.append(group.position[0, number] + [0, tall / 2 + ABOVE * side, 0])
            sizes.append([0.8 * side, 1.3 * side, 0.8 * side])
    if not places or len(agents) < 2:
        return drawing
    position, size = _everywhere(drawing, 0, np.array(places), np.array(sizes))
    arrow = solids("arrows", "cone", position, size, VIOLET, rotation=DOWN)
    return replace(drawing, solids=(*drawing.solids, replace(arrow, opacity=0.9)))


def with_rays(drawing: Drawing, agent: AgentKey, fans: Sequence[tuple[RayFan, NDArray[np.float32]]]) -> Drawing:
    """Returns the drawing with the rays of an agent, in the colors of their hits; each fan has its observation (n,)."""
    found = _body(drawing, *agent)
    rays = [(fan, hit) for fan, values in fans for hit in fan.hits(values)]
    if found is None or not rays:
        return drawing
    group, area, number = found
    _, y, _, w = group.rotation[area, number]
    heading = 2 * np.arctan2(y, w) + np.array([hit.angle for _, hit in rays])
    tilt = np.arctan2([fan.rise for fan, _ in rays], [fan.length for fan, _ in rays])
    start = group.position[area, number] + np.array([[0.0, fan.height, 0.0] for fan, _ in rays])
    far = np.array([hit.distance for _, hit in rays]) / np.cos(tilt)
    way = np.stack([np.cos(tilt) * np.cos(heading), np.sin(tilt), -np.cos(tilt) * np.sin(heading)], 1)
    sin = np.sin(heading / 2)
    cos = np.cos(heading / 2)
    sin_tilt = np.sin(tilt / 2)
    cos_tilt = np.cos(tilt / 2)
    turn = np.stack([sin * sin_tilt, sin * cos_tilt, cos * sin_tilt, cos * cos_tilt], 1)
    hits = np.array([hit.hit for _, hit in rays])[:, None]
    colors = np.array([color_of(hit) for _, hit in rays])
    extent = 2 * max(drawing.half)
    thick = np.where(hits, THIN, THIN / 2) * extent
    size = np.concatenate([far[:, None], thick, thick], 1)
    lines = solids(
        "rays", "box", *_everywhere(drawing, area, start + way * far[:, None] / 2, size), colors, rotation=turn
    )
    points = _everywhere(drawing, area, start + way * far[:, None], hits * POINT * extent * np.ones(3))
    ends = solids("ray ends", "sphere", *points, colors)
    return replace(drawing, solids=(*drawing.solids, lines, ends))


def _body(drawing: Drawing, behavior: str, slot: int) -> tuple[Solids, int, int] | None:
    """Returns the first group with a solid of the agent, with the solid's area and number; None if there is none."""
    for group in drawing.solids:
        if group.slot is None or group.behavior not in ("", behavior):
            continue
        areas, numbers = np.nonzero(group.slot == slot)
        if len(areas):
            return group, int(areas[0]), int(numbers[0])
    return None


def _everywhere(
    drawing: Drawing, area: int, position: NDArray[Any], size: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns positions and sizes (A, n, 3) of solids (n, 3) of one area; in all others their size is zero."""
    areas = len(drawing.solids[0].position)
    n = len(position)
    sizes = np.zeros((areas, n, 3), np.float32)
    sizes[area] = size
    return np.broadcast_to(position, (areas, n, 3)), sizes
