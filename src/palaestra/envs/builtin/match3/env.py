"""Match3: exchange neighboring pieces so that three or more of a color form a line, which is cleared.

The documentation gives the rewards, and the scores of random play (34.2) and greedy play (37.0). Unity's example has six colors, two
special types and episodes of 500 moves; on a board of 9 rows and 8 columns, with a tenth of the pieces worth three points and a fifth
worth two, random play earns 34.24 here and greedy play 37.08 (2,000 episodes each, give or take 0.03), so that is the board. As in
Unity, special pieces only come from above, at random; a decision lasts until nothing falls; and a board without an allowed move is
dealt anew, at no reward.
In the long run everything that falls is worth 1.4 points a piece: clearing more pieces a move earns more, and so do moves low on the
board, where more pieces fall and more lines follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, Tables, WarpEnv
from palaestra.envs.builtin.base.world_columns import save_final_obs
from palaestra.envs.builtin.drawing.plane import BLUE, GOLD, GREEN, PAPER, RED, VIOLET, Plane
from palaestra.envs.builtin.match3 import rules as rules
from palaestra.envs.builtin.match3.rules import CELLS, COLUMNS, KINDS, MOVES, ROWS, WORTHS, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.envs.builtin.drawing.plane import Color

wp.set_module_options({"enable_backward": False})

MOST_DECISIONS = wp.constant(500)
A_POINT = wp.constant(0.01)
TEAL: Color = (72, 170, 178)
COLORS = (RED, GREEN, BLUE, GOLD, VIOLET, TEAL)
MOVE = ActionSpec(branches=(int(MOVES),))
SIZES = {
    **{name: int(CELLS) for name in ("kind", "worth", "marked")},
    **{name: int(CELLS * KINDS) for name in ("obs_cells", "final_obs_cells")},
    **{name: int(CELLS * WORTHS) for name in ("obs_special", "final_obs_special")},
    "action": 1,
    "mask": int(MOVES),
}


@wp.func
def start(world: World, i: int):
    """Starts an episode with a new board."""
    world.age[i] = 0
    rules.deal(world, i)
    rules.observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def play_move(world: World, i: int, move: int):
    """Makes a move and returns its score once nothing falls; a move that makes no line is ignored."""
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


PROGRAM = Program(World, begin, tick)


def points_of_moves(kind: Tensor, worth: Tensor, move: Tensor) -> Tensor:
    """Returns the immediate score of each move, (N,); 0 if it makes no line. Boards are (N, CELLS), with one move each (N,)."""
    index = torch.arange(int(CELLS), device=kind.device).view(int(ROWS), int(COLUMNS))
    near = torch.cat([index[:, :-1].flatten(), index[:-1].flatten()])[move, None]
    far = torch.cat([index[:, 1:].flatten(), index[1:].flatten()])[move, None]
    after = index.flatten().repeat(len(move), 1).scatter_(1, near, far).scatter_(1, far, near)
    board = kind.gather(1, after).view(-1, int(ROWS), int(COLUMNS))
    marked = torch.zeros_like(board, dtype=torch.bool)
    across = (board[..., 1:-1] == board[..., :-2]) & (board[..., 1:-1] == board[..., 2:])
    along = (board[:, 1:-1] == board[:, :-2]) & (board[:, 1:-1] == board[:, 2:])
    for k in range(3):
        marked[..., k : k + int(COLUMNS) - 2] |= across
        marked[:, k : k + int(ROWS) - 2] |= along
    return (marked.flatten(1) * (1 + worth.gather(1, after))).sum(1)


def random_tie_breaks(rng: Tensor) -> Tensor:
    """Returns numbers within 0..1 for each move, (S, MOVES), which look random but depend only on the state of each row."""
    number = rng.long()[:, None] * 0x9E3779B1 + torch.arange(int(MOVES), device=rng.device) * 0x85EBCA77
    for factor in (0x7FEB352D, 0x846CA68B):
        number = number & 0xFFFFFFFF
        number = (number ^ (number >> 15)) * factor
    return ((number ^ (number >> 16)) & 0xFFFFFF) / 0x1000000


def best_move(columns: Mapping[str, Tensor], greedy: bool) -> Action:
    """Chooses a move with the highest immediate score, ties at random; any allowed move if not `greedy`."""
    mask = columns["mask"]
    score = torch.where(mask, 0.9 * random_tie_breaks(columns["rng"]), -1.0)
    if greedy:
        row, move = mask.nonzero(as_tuple=True)
        score[row, move] += points_of_moves(columns["kind"][row], columns["worth"][row], move)
    return Action(torch.zeros(len(score), 0, device=score.device), score.argmax(1, keepdim=True))


def draw_gems(kind: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Draws a board of colors (rows, columns), row 0 at the bottom, with one or two dots on pieces that are worth more."""
    rows, columns = kind.shape
    picture = Plane(columns / 2 + 0.3, rows / 2 + 0.3)
    picture.floor((0, 0), (columns / 2, rows / 2))
    for (row, column), color in np.ndenumerate(kind):
        center = np.array([column - (columns - 1) / 2, row - (rows - 1) / 2])
        picture.circle(center, 0.4, COLORS[color])
        for dot in range(int(worth[row, column])):
            aside = 0.0 if worth[row, column] == 1 else (-0.14, 0.14)[dot]
            picture.circle(center + np.array([aside, 0.0]), 0.1, PAPER)
    return picture.to_array()


class Match3(WarpEnv):
    """Match3 as vectors: 72 cells of 6 colors and of 3 worths, one-hot, row 0 at the bottom; discrete [127] with a mask."""

    behavior = "Match3VectorObs"
    summary = "Exchanges pieces on a board so that three or more of a color come to stand in a line."
    rewards = ("+0.01 a piece cleared, +0.02 and +0.03 for the two special types, those that fall into lines included",)
    episode = "is truncated after 500 moves"
    benchmark = 38.5
    default_areas = 10
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = 0.5  # not documented: slow enough to watch
    parameter_ranges: ClassVar = {}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, greedy: bool = True) -> None:
        """`greedy` only affects the heuristic: the move with the highest immediate score or (False) any allowed move."""
        spec = BehaviorSpec((ObsSpec("cells", (int(CELLS * KINDS),)), ObsSpec("special", (int(CELLS * WORTHS),))), MOVE, steady=True)
        super().__init__(PROGRAM, spec, areas, device, planes=False, **SIZES)
        self._greedy = greedy

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `best_move`'s actions; None for another behavior."""
        return best_move(self._columns, self._greedy) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        return draw_gems(row["kind"].reshape(int(ROWS), -1), row["worth"].reshape(int(ROWS), -1))


class Match3Visual(WarpEnv):
    """Match3 as two images: 9 rows x 8 columns, row 0 at the bottom, with a channel per color, and with one per worth."""

    behavior = "Match3VisualObs"
    summary = "Match3 with the board seen as images of a channel for each type."
    rewards = Match3.rewards
    episode = Match3.episode
    benchmark = 39.5
    default_areas = Match3.default_areas
    tick_seconds = Match3.tick_seconds
    parameter_ranges = Match3.parameter_ranges

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, greedy: bool = True) -> None:
        """`greedy` only affects the heuristic: the move with the highest immediate score or (False) any allowed move."""
        cells, special = (ObsSpec(name, (int(types), int(ROWS), int(COLUMNS))) for name, types in (("cells", KINDS), ("special", WORTHS)))
        super().__init__(PROGRAM, BehaviorSpec((cells, special), MOVE, steady=True), areas, device, planes=True, **SIZES)
        images = {
            f"{when}obs_{obs.name}": self._columns[f"{when}obs_{obs.name}"].view(-1, *obs.shape)
            for when in ("", "final_")
            for obs in (cells, special)
        }
        self._tables = Tables({**self._columns, **images}, self.behaviors, (0,) * self.agents)
        self._greedy = greedy

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `best_move`'s actions; None for another behavior."""
        return best_move(self._columns, self._greedy) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        return draw_gems(row["kind"].reshape(int(ROWS), -1), row["worth"].reshape(int(ROWS), -1))
