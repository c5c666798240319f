"""How Pyramids looks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.pyramids import rooms
from palaestra.envs.solids import GOLD as YELLOW
from palaestra.envs.solids import GRAY, GREEN, RED, Drawing, Solids, on_plane, solids, upright

if TYPE_CHECKING:
    from palaestra.envs.builtin.base.world_columns import Rows

STONE_COLOR, BRICK_COLOR = (176, 180, 178), (188, 122, 92)
LAYERS = np.repeat(np.arange(5), (12, 8, 4, 1, 1))
STANDING_HEIGHT = np.where(LAYERS == 4, 5.0, LAYERS + 0.5)
CROSS, SIDE = 7.5, 7.2525  # half the lengths of the walls between rooms


def draw_rooms(rows: Rows, behavior: str) -> Drawing:
    """Draws the rooms with their pyramids, the switch, red before it is pressed, the golden block, and the agent."""
    cubes = rows["cube"].reshape(rows.areas, int(rooms.PILES), int(rooms.CUBES), 3)
    x = np.stack([np.array(list(rooms.STONE_X))] * int(rooms.BRICKS) + [np.array(list(rooms.BRICK_X))])
    offset = np.stack([x, np.broadcast_to(np.array(list(rooms.CUBE_Y)), x.shape)], -1)
    stands = rows["pile"][..., None, None] <= int(rooms.STANDING)
    plane = np.where(stands, rows["pile_place"][:, :, None] + offset, cubes[..., :2])
    height = np.where(stands[..., 0], STANDING_HEIGHT, cubes[..., 2])
    shown = np.broadcast_to(rows["pile"][..., None] != int(rooms.ABSENT), height.shape)
    shapes = list(_walls(rows.areas))
    last = int(rooms.GOLD)
    for name, part, color in (
        ("stones", slice(0, int(rooms.BRICKS)), STONE_COLOR),
        ("bricks", slice(int(rooms.BRICKS), None), BRICK_COLOR),
    ):
        place = on_plane(plane[:, part, :last], height[:, part, :last]).reshape(rows.areas, -1, 3)
        size = figures.hidden_unless(shown[:, part, :last].reshape(rows.areas, -1), (0.98, 0.98, 0.98))
        shapes.append(solids(name, "box", place, size, color))
    block = on_plane(plane[:, -1, last:], height[:, -1, last:])
    shapes.append(
        solids("golden block", "box", block, figures.hidden_unless(shown[:, -1, last:], (2.0, 2.0, 2.0)), YELLOW)
    )
    color = np.array([RED, GREEN])[rows["pressed"]][:, None]
    switch = on_plane(rows["switch_place"][:, None], float(rooms.SWITCH_HALF))
    side = 2 * float(rooms.SWITCH_HALF)
    shapes.append(
        solids("switch", "box", switch, (side, side, side), color, rotation=upright(rows["switch_angle"][:, None]))
    )
    feet = rows["height"][:, None] - 0.5
    shapes += figures.agent(rows["place"][:, None], rows["angle"][:, None], 0.6, (behavior, rows.slots), height=feet)
    return Drawing(tuple(shapes), (float(rooms.EAST) + 1.0, 6.0, float(rooms.NORTH) + 1.0), elevation=58.0)


@cache
def _walls(areas: int) -> tuple[Solids, ...]:
    """Returns the floor, the walls around it, and those between the rooms."""
    pieces = list[tuple[tuple[float, float], tuple[float, float]]]()
    for line in (-16.5, 16.5):
        for piece in range(int(rooms.PIECES)):
            along = (-42.25, -16.55, 16.55, 42.25)[piece]
            half = SIDE if piece in (0, 3) else CROSS
            pieces += [((line, along), (0.5, half)), ((along, line), (half, 0.5))]
    top = float(rooms.INNER_TOP)
    return (
        *figures.room(areas, (float(rooms.EAST), float(rooms.NORTH)), wall=5.0),
        figures.boxes("inner walls", areas, tuple(pieces), GRAY, top, top),
    )
