"""Match3, as in Unity's example: exchange neighboring pieces so that three or more of a color form a line, which is
cleared.

Each episode has a board of 6 to 9 rows and 6 to 8 columns with pieces of six colors, and lasts 500 moves. A piece in
ten is worth three points and two in ten are worth two. A decision lasts until nothing falls; every line that forms
gives a reward, and a board without an allowed move is replaced by a new board, without reward.

The scores in Unity's documentation hold for the largest board alone: 34.2 for random play and 37.0 for greedy play; on
boards of 9 x 8 the same play earns 34.24 and 37.08 here (2,000 episodes each, with an error of about 0.03). Over boards
of all sizes random and greedy play earn 32.17 and 34.92, because less falls on smaller boards. The option
`largest_boards` deals only boards of 9 x 8, to compare with Unity's figures. In the long run each falling piece is
worth 1.4 points: moves that clear more pieces earn more, and so do moves low on the board, since more pieces fall and
more lines form.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.tables import Tables
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.match3 import rules as rules
from palaestra.envs.builtin.match3.rules import CELLS, COLUMNS, FEWEST, KINDS, MOVES, OUTSIDE, ROWS, WORTHS, World
from palaestra.envs.solids import (
    BLUE,
    FLOOR,
    GOLD,
    GREEN,
    INK,
    PAPER,
    RED,
    VIOLET,
    Color,
    Drawing,
    Solids,
    on_plane,
    solids,
)
from palaestra.envs.traits import SwapBoard

wp.set_module_options({"enable_backward": False})

MOST_DECISIONS = wp.constant(500)
A_POINT = wp.constant(0.01)
TEAL: Color = (72, 170, 178)
COLORS = (RED, GREEN, BLUE, GOLD, VIOLET, TEAL)
PIECES = "pieces", "dot 0", "dot 1"
"""Groups of solids in the drawing, with one solid for each cell."""
MOVE = ActionSpec(branches=(MOVES,))
SIZES = {
    **dict.fromkeys(("kind", "worth", "marked"), CELLS),
    **dict.fromkeys(("obs_cells", "final_obs_cells"), CELLS * KINDS),
    **dict.fromkeys(("obs_special", "final_obs_special"), CELLS * WORTHS),
}


@wp.func
def start(world: World, i: int):
    """Starts an episode with a new board of a random size."""
    world.age[i] = 0
    state = world.rng[i]
    world.rows[i] = ROWS
    world.columns[i] = COLUMNS
    if not world.largest:
        world.rows[i] = wp.randi(state, FEWEST, ROWS + 1)
        world.columns[i] = wp.randi(state, FEWEST, COLUMNS + 1)
    world.rng[i] = state
    rules.deal(world, i)
    rules.observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def play_move(world: World, i: int, move: int):
    """Makes a move and returns its score when nothing falls any more; a move that makes no line is ignored."""
    if not world.mask[i, move]:
        return 0
    rules.exchange(world, i, move)
    points = rules.settle(world, i)
    if not rules.update_mask(world, i):
        rules.deal(world, i)
    return points


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    points = 0
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] >= wp.int64(MOVES):
        report[1] = i + 1
    else:
        points = play_move(world, i, int(world.action[i, 0]))
    rules.observe(world, i)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = float(points) * A_POINT
    world.truncated[i] = age >= MOST_DECISIONS
    if age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs_cells, world.final_obs_cells, i)
        save_final_obs(world.obs_special, world.final_obs_special, i)
        start(world, i)


def points_of_moves(kind: Tensor, worth: Tensor, move: Tensor) -> Tensor:
    """Returns the immediate score of moves (N,) on boards (N, CELLS); 0 for moves that make no line."""
    index = torch.arange(CELLS, device=kind.device).view(ROWS, COLUMNS)
    near = torch.cat([index[:, :-1].flatten(), index[:-1].flatten()])[move, None]
    far = torch.cat([index[:, 1:].flatten(), index[1:].flatten()])[move, None]
    after = index.flatten().repeat(len(move), 1).scatter_(1, near, far).scatter_(1, far, near)
    board = kind.gather(1, after).view(-1, ROWS, COLUMNS)
    marked = torch.zeros_like(board, dtype=torch.bool)
    across = (
        (board[..., 1:-1] == board[..., :-2]) & (board[..., 1:-1] == board[..., 2:]) & (board[..., 1:-1] != OUTSIDE)
    )
    along = (board[:, 1:-1] == board[:, :-2]) & (board[:, 1:-1] == board[:, 2:]) & (board[:, 1:-1] != OUTSIDE)
    for k in range(3):
        marked[..., k : k + COLUMNS - 2] |= across
        marked[:, k : k + ROWS - 2] |= along
    return (marked.flatten(1) * (1 + worth.gather(1, after))).sum(1)


def random_tie_breaks(rng: Tensor) -> Tensor:
    """Returns numbers within 0..1 for each move, (S, MOVES), that look random but depend only on the state."""
    number = rng.long()[:, None] * 0x9E3779B1 + torch.arange(MOVES, device=rng.device) * 0x85EBCA77
    for factor in (0x7FEB352D, 0x846CA68B):
        number = number & 0xFFFFFFFF
        number = (number ^ (number >> 15)) * factor
    return ((number ^ (number >> 16)) & 0xFFFFFF) / 0x1000000


def best_move(columns: Mapping[str, Tensor], greedy: bool) -> Tensor:
    """Chooses a move with the highest immediate score, ties at random; if not `greedy`, any allowed move."""
    mask = columns["mask"]
    score = torch.where(mask, 0.9 * random_tie_breaks(columns["rng"]), -1.0)
    if greedy:
        row, move = mask.nonzero(as_tuple=True)
        score[row, move] += points_of_moves(columns["kind"][row], columns["worth"][row], move)
    return score.argmax(1, keepdim=True)


def exchange(first: int, second: int) -> int | None:
    """Returns the move that exchanges the pieces of two cells; None if the cells are not neighbors."""
    near = min(first, second)
    far = max(first, second)
    row, column = divmod(near, COLUMNS)
    if far == near + 1 and column + 1 < COLUMNS:
        return row * (COLUMNS - 1) + column
    return ROWS * (COLUMNS - 1) + near if far == near + COLUMNS else None


def draw_gems(rows: Rows, behavior: str) -> Drawing:
    """Draws the board of colored pieces, row 0 in front, with one or two dots on pieces that are worth more."""
    worth = rows["worth"]
    wide = rows["columns"][:, None]
    long = rows["rows"][:, None]
    cell = np.arange(CELLS)
    shown = rows["kind"] >= 0
    place = np.stack([cell % COLUMNS - (wide - 1) / 2, cell // COLUMNS - (long - 1) / 2], -1)
    middle = on_plane(place, 0.32)
    dots = list[Solids]()
    aside = 0.17 * (worth == 2)[..., None] * [1.0, 0.0, 0.0]
    for k, sign in enumerate((-1, 1)):
        size = figures.hidden_unless(worth > k, (0.24, 0.14, 0.24))
        dots.append(solids(f"dot {k}", "sphere", middle + sign * aside + [0.0, 0.27, 0.06], size, PAPER))
    board = np.zeros((rows.areas, 1, 3)) - [0.0, 0.15, 0.0]
    field = np.stack([wide, np.full_like(wide, 0.3, np.float32), long], -1)
    shapes = (
        solids("board", "box", board, field + [0.4, 0.0, 0.4], INK, agents=(behavior, rows.slots)),
        solids("field", "box", board + [0, 0.01, 0], field, FLOOR, agents=(behavior, rows.slots)),
        solids(
            "pieces", "sphere", middle, figures.hidden_unless(shown, (0.84, 0.64, 0.84)), np.array(COLORS)[rows["kind"]]
        ),
        *dots,
    )
    return Drawing(shapes, (COLUMNS / 2 + 0.3, 0.7, ROWS / 2 + 0.3), elevation=66.0)


SENSORS = "Match3 Sensor (cells)", "Match3 Sensor (special)"
VECTORS = ((CELLS * KINDS),), ((CELLS * WORTHS),)
IMAGES = (KINDS, ROWS, COLUMNS), (WORTHS, ROWS, COLUMNS)


class Match3(WarpEnv):
    """Match3 as vectors: 72 cells of 6 colors and of 3 worths, one-hot, row 0 at the bottom; discrete [127], masked."""

    behavior = "Match3VectorObs"
    title = "Match3"
    summary = "Exchanges pieces on a board so that three or more of a color form a line."
    rewards = ("+0.01 a piece cleared, +0.02 and +0.03 for the two special types, also for lines that form by falling",)
    episode = "is truncated after 500 moves"
    benchmark = 38.5
    default_areas = 10
    planes: ClassVar = False
    """Whether observations are images."""
    most_decisions = MOST_DECISIONS
    tick_seconds = 0.5  # not documented: slow enough to watch
    parameter_ranges: ClassVar = {}
    board = SwapBoard(PIECES, COLUMNS, exchange)
    program = Program(World, begin, tick)
    spec = BehaviorSpec(tuple(map(ObsSpec, SENSORS, VECTORS)), MOVE, steady=True)
    picture = staticmethod(draw_gems)

    def __init__(
        self,
        areas: int | None = None,
        device: str | torch.device = "cpu",
        *,
        greedy: bool = True,
        largest_boards: bool = False,
    ) -> None:
        """`greedy` only affects the heuristic: the move with the highest immediate score or (False) any allowed move.

        `largest_boards` deals boards of 9 x 8 only.
        """
        self.sizes = {**SIZES, "planes": self.planes, "largest": largest_boards}
        self.rule = partial(best_move, greedy=greedy)
        WarpEnv.__init__(self, areas, device)  # of both classes
        if self.planes:
            views = {
                f"{when}obs_{column}": self._columns[f"{when}obs_{column}"].view(-1, *shape)
                for when in ("", "final_")
                for column, shape in zip(("cells", "special"), IMAGES, strict=True)
            }
            self._tables = Tables({**self._columns, **views}, self.behaviors, (0,) * self.agents)


class Match3Visual(WarpEnv, like=Match3):
    """Match3 as two images of 9 rows x 8 columns, row 0 at the bottom: a channel per color, and one per worth."""

    behavior = "Match3VisualObs"
    title = "Match3Visual"
    summary = "Match3 with the board seen as images of a channel for each type."
    benchmark = 39.5
    planes = True
    spec = BehaviorSpec(tuple(map(ObsSpec, SENSORS, IMAGES)), MOVE, steady=True)
    __init__ = Match3.__init__
