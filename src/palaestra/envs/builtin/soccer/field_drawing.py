"""Draws the soccer games: the field with its walls and goals, the ball, and the players."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing.figures import agent, boxes, fixed
from palaestra.envs.builtin.soccer.field import BLOCK, GOAL_LINE, NET_BACK, NET_SIDE, NET_THICK, POST, SIDE
from palaestra.envs.builtin.soccer.motion import BALL_RADIUS, PLAYER_RADIUS
from palaestra.envs.solids import FLOOR, GOLD, GRAY, GREEN, PAPER, Color, Drawing, Solids, on_plane, solids, upright

LENGTH = GOAL_LINE
WIDTH = SIDE
MOUTH = NET_SIDE
DEPTH = NET_BACK[1]
TALL = 0.8
"""Drawn height of the walls, lower than their real height, so that one sees over them."""
THICK = 0.46
POST_TALL = 1.8


def draw_field(
    rows: Rows, _behavior: str, sides: Sequence[tuple[str, Sequence[int], Color]], goals: tuple[int, ...]
) -> Drawing:
    """Draws the field with its goals (-1 left, 1 right), the ball, and the players; a side is a behavior, its players,
    a color."""
    shapes = list(field_solids(rows.areas, goals))
    shapes.append(solids("ball", "sphere", on_plane(rows["ball"][:, None], BALL_RADIUS), 2 * BALL_RADIUS, GOLD))
    for number, (behavior, players, color) in enumerate(sides):
        place, angle, slots = (column[:, list(players)] for column in (rows["position"], rows["angle"], rows.slots))
        shapes += agent(place, angle, PLAYER_RADIUS, (behavior, slots), color=color, name=f"side {number}")
    return Drawing(tuple(shapes), (DEPTH + 0.4, 1.4, WIDTH + 0.6), center=(0.0, 0.3, 0.0), elevation=50.0)


@cache
def field_solids(areas: int, goals: tuple[int, ...]) -> tuple[Solids, ...]:
    """Returns the solids that do not move: the ground with its lines, the walls, and the goals."""
    walls = [((0.0, y * (WIDTH + THICK / 2)), (LENGTH, THICK / 2)) for y in (-1, 1)]
    blocks = [((x * (BLOCK + 0.5), 0.0), (0.5, MOUTH)) for x in (-1, 1) if x not in goals]
    ends = tuple(((x * (LENGTH + DEPTH) / 2, 0.0), ((DEPTH - LENGTH) / 2, MOUTH)) for x in goals)
    return (
        boxes("floor", areas, (((0.0, 0.0), (LENGTH, WIDTH)),), FLOOR, 0.0, 0.2),
        fixed(areas, "circle", "cylinder", [(0, 0, 0)], (4.2, 0.02, 4.2), PAPER),
        fixed(areas, "in the circle", "cylinder", [(0, 0, 0)], (3.9, 0.04, 3.9), FLOOR),
        boxes("lines", areas, (((0.0, 0.0), (0.06, WIDTH)),), PAPER, 0.03, 0.02),
        boxes("walls", areas, tuple(walls + blocks), GRAY, TALL, TALL),
        slanting_walls(areas),
        boxes("goals", areas, ends, GREEN, 0.0, 0.2),
        boxes("nets", areas, tuple(net for x in goals for net in net_boxes(x)), GREEN, TALL, TALL),
        *goal_posts(areas, goals),
    )


def slanting_walls(areas: int) -> Solids:
    """Returns the walls from the sides of the field to the mouths of the goals, each 4.8 m long."""
    corners = np.array([(x, y) for x in (-1, 1) for y in (-1, 1)], np.float32)
    middles = on_plane(corners * (14.46, 6.41), TALL / 2)
    turns = upright(-np.prod(corners, 1) * math.pi / 3)
    return fixed(areas, "slanting walls", "box", middles, (4.8, TALL, THICK), GRAY, turns)


def net_boxes(x: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Returns the boxes of a goal's net in the plane: its sides and its back."""
    half = NET_THICK / 2
    deep = (DEPTH - LENGTH) / 2
    sides = [((x * (LENGTH + deep), y * (MOUTH + half)), (deep, half)) for y in (-1, 1)]
    return [*sides, ((x * (DEPTH + half), 0.0), (half, MOUTH + 2 * half))]


def goal_posts(areas: int, goals: tuple[int, ...]) -> tuple[Solids, ...]:
    """Returns the posts and the crossbar of each goal."""
    posts = [(x * LENGTH, POST_TALL / 2, side * POST[1]) for x in goals for side in (-1, 1)]
    bars = [(x * LENGTH, POST_TALL, 0.0) for x in goals]
    return (
        fixed(areas, "posts", "cylinder", posts, (0.2, POST_TALL, 0.2), GREEN),
        fixed(areas, "bars", "box", bars, (0.2, 0.2, 2 * POST[1] + 0.2), GREEN),
    )
