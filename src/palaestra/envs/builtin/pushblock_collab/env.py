"""CooperativePushBlock: three agents push blocks into the goal; the larger ones take two of them, or all three.

`rules` describes the game. An agent observes a grid that lies ahead of it and turns with it: 20 x 20 cells of
half a meter, 10 m ahead and 5 m to each side, as Unity's shows most of its room ahead and nothing behind. Its channels are
small, medium and large blocks, the goal, walls and mates. All rewards are group rewards. The documented benchmark is 11;
the maximum is twelve points less the cost of time, and `haul`, which knows the whole state, earns 11.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock.rules import TICKS
from palaestra.envs.builtin.pushblock_collab.observations import AGENTS, BLOCKS, DEEP, GOAL_EDGE, LARGE, MEDIUM, RADIUS, SMALL, TAGS, WIDE
from palaestra.envs.builtin.pushblock_collab.rules import AGENT_DRAG, MOST_DECISIONS, PROGRAM, SPEED
from palaestra.envs.solids import GOLD, GREEN, RED, VIOLET, Drawing, on_plane, solids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

CELLS = 20
MOST_WRITTEN = 320
"""Most marked cells of a grid that are cleared one by one; beyond that, all are."""
SIZES = torch.tensor([1] * int(SMALL) + [2] * int(MEDIUM) + [3] * int(LARGE))
HALVES = 0.5 + 0.25 * SIZES  # half the blocks' sides
PATIENCE = 50  # decisions
COAST = 1.0 / float(AGENT_DRAG) - float(SECONDS)
TAP = float(TICKS) * float(SPEED) * COAST  # distance that a move of one decision carries an agent before it rests
FAR = torch.tensor([0.0, -1e3])
WAYS = torch.tensor([[0.0, 1.0], [0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]])  # directions of actions 1, 2, 5, 6 for an agent that faces the goal


def haul(columns: Mapping[str, Tensor]) -> Action:
    """Faces the goal, goes around a block to places behind it, and pushes, all three together; switches blocks over time to break jams."""
    blocks = torch.where(columns["block_gone"][..., None], FAR.to(columns["age"].device), columns["block_position"])
    areas, device = len(blocks), blocks.device
    halves, numbers = HALVES.to(device), torch.arange(int(BLOCKS), device=device)
    place = (columns["position"] + columns["velocity"] * COAST).view(areas, int(AGENTS), 2)  # where the agents would come to rest
    period = columns["age"][:, None] // PATIENCE
    favored = (period % 2 == 1) & (period // 2 % int(BLOCKS) == numbers)
    target = (blocks[:, :, 1] + halves + 2.0 * float(DEEP) * favored).argmax(1)
    block, half = blocks[torch.arange(areas, device=device), target][:, None], halves[target][:, None]
    rank = (place[:, :, None, 0] > place[:, None, :, 0]).sum(2) - 1  # from left to right: -1, 0, 1
    x = place[:, :, 0] - block[:, :, 0]
    aside = rank * (half - 0.1).clamp(max=1.05) - x
    below = columns["position"].view_as(place)[:, :, 1] - block[:, :, 1]
    is_behind, is_beside, is_in_line = below < 0.1 - half - float(RADIUS), x.abs() > half + float(RADIUS), aside.abs() < 0.4 * TAP
    outward = torch.where(x < 0, -1.0, 1.0)
    onward = torch.stack([aside, torch.where(is_in_line, 100.0, -0.1)], 2)
    around = torch.stack([torch.where(is_beside, 0.1, 1.0) * outward, torch.where(is_beside, -1.0, -0.1)], 2)
    choice = _clear_way(place, torch.where(is_behind[..., None], onward, around), blocks)
    off = torch.remainder(columns["angle"] - 0.5 * torch.pi + torch.pi, 2 * torch.pi) - torch.pi
    choice = torch.where(off > 0.2, 3, torch.where(off < -0.2, 4, choice.view(-1)))
    return Action(torch.zeros(len(choice), 0, device=device), choice[:, None])


def _clear_way(place: Tensor, wish: Tensor, blocks: Tensor) -> Tensor:
    """Returns the move nearest to the wish (areas, agents, 2) that runs into no block, unless the wish is longer than ten."""
    ways = WAYS.to(place.device)
    ahead = place[:, :, None] + TAP * ways  # (areas, agents, ways, 2)
    meets = ((ahead[:, :, :, None] - blocks[:, None, None]).abs() < (HALVES.to(place.device) + float(RADIUS))[:, None]).all(4)
    score = (wish[:, :, None] * ways).sum(3) - 10.0 * meets.any(3)
    return torch.tensor([1, 2, 5, 6], device=place.device)[score.argmax(2)]


BLOCK_COLORS = np.array([(GOLD, RED, VIOLET)[size - 1] for size in SIZES.tolist()])


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with the goal along its far wall, the blocks, colored by size, and the agents."""
    wide, deep, edge = float(WIDE), float(DEEP), float(GOAL_EDGE)
    half = HALVES.numpy()
    size = figures.hidden_unless(~rows["block_gone"], np.stack([2 * half, 1.5 * half, 2 * half], -1))
    shapes = (
        *figures.room(rows.areas, (wide, deep), wall=0.8, thick=0.3),
        figures.plate("goal", rows.areas, (0.0, (deep + edge) / 2), (wide, (deep - edge) / 2), GREEN),
        solids("blocks", "box", on_plane(rows["block_position"], 0.75 * half), size, BLOCK_COLORS),
        *figures.agent(rows["position"], rows["angle"], float(RADIUS), (behavior, rows.slots)),
    )
    return Drawing(shapes, (wide + 0.4, 1.2, deep + 0.4), center=(0.0, 0.4, 0.0))


class CooperativePushBlock(WarpEnv):
    """PushBlockCollab: a grid (6, 20, 20), discrete [7]."""

    behavior = "PushBlockCollab"
    agents = int(AGENTS)
    summary = "Three agents push blocks into the goal; the larger ones take two of them, or all three."
    rewards = (
        "of the group: -0.0001 a decision",
        "of the group: +1, +2 and +3 when a small, medium and large block reaches the goal",
    )
    episode = "ends when all seven blocks are in the goal, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 11.0
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"most_pushers": (3.0, 1.0, 3.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        grid = ObsSpec("grid", (TAGS, CELLS, CELLS))
        spec = BehaviorSpec((grid,), ActionSpec(branches=(7,)), steady=True)
        blocks = dict.fromkeys(("block_position", "block_velocity", "block_gone"), int(BLOCKS))
        super().__init__(
            PROGRAM, spec, areas, device, **blocks, action=1, written=1 + MOST_WRITTEN, obs_grid=grid.shape, final_obs_grid=grid.shape
        )

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `haul`'s actions; None for another behavior."""
        return haul(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_room(rows, self.behavior)
