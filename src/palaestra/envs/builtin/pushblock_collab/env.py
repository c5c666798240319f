"""CooperativePushBlock: three agents push blocks into the goal; a large block needs two or three agents.

`rules` describes the game. An agent observes a grid that lies ahead of it and turns with it: 20 x 20 cells of 1 m, from
its own place to 20 m ahead and 10 m to each side, and nothing behind it. Its channels are walls, mates, the goal and
the blocks by size. A second observation has the agent's velocity to the right, upward and ahead, and seven constants:
Unity's sensor also reports the pose of a body's other parts; this body has no other parts. All rewards are group
rewards. The maximum is twelve points minus the cost of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.physics import pusher
from palaestra.envs.builtin.physics.contact_solver import contact_sizes
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock.rules import TICKS
from palaestra.envs.builtin.pushblock_collab.rules import (
    AGENTS,
    BLOCKS,
    BODIES,
    CELLS,
    GOAL,
    GOAL_HALF,
    MOST_TICKS,
    PROGRAM,
    ROOM,
    TAGS,
    THINGS,
)
from palaestra.envs.solids import GOLD, GREEN, RED, VIOLET, Drawing, on_plane, solids, upright

SIZES = torch.tensor([2, 3, 3, 1, 1, 2])
"""Sizes of the blocks, in the order of `size_of`."""
PATIENCE = 40  # decisions
FAR = torch.tensor([0.0, 1e3])
CLEAR = 0.25  # meters between an agent that goes around a block and the block

MOST_WRITTEN = 250
"""Most marked cells of a grid that are cleared one by one; if there are more, all cells are cleared."""
MOST_CONTACTS = 24
"""Most contacts that a physics tick solves."""
BLOCK_COLORS = np.array([(GOLD, RED, VIOLET)[size - 1] for size in SIZES.tolist()])


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with the goal along its near wall, the blocks, colored by size, and the agents."""
    side = SIZES.numpy().astype(np.float32)
    tall = 0.75
    size = figures.hidden_unless(~rows["gone"], np.stack([side, np.full_like(side, tall), side], -1))
    place = rows["body_position"]
    angle = rows["body_angle"]
    shapes = (
        *figures.room(rows.areas, (ROOM, ROOM), wall=1.0, thick=0.5),
        figures.plate("goal", rows.areas, (GOAL[0], GOAL[1]), (ROOM, GOAL_HALF[1]), GREEN),
        solids(
            "blocks",
            "box",
            on_plane(place[:, AGENTS:-1], tall / 2),
            size,
            BLOCK_COLORS,
            rotation=upright(angle[:, AGENTS:-1]),
        ),
        *figures.agent(place[:, :AGENTS], angle[:, :AGENTS], pusher.HALF, (behavior, rows.slots), shape="box"),
    )
    return Drawing(shapes, (ROOM + 0.6, 1.2, ROOM + 0.6), center=(0.0, 0.4, 0.0))


def haul(columns: Mapping[str, Tensor]) -> Tensor:
    """All three agents go around the block nearest to the goal and push it; they dodge and turn to break jams."""
    bodies = columns["body_position"]
    device = columns["body_position"].device
    blocks = torch.where(columns["gone"][..., None], FAR.to(device), bodies[:, AGENTS : AGENTS + BLOCKS])
    areas = torch.arange(len(blocks), device=device)
    place = bodies[:, :AGENTS]
    velocity = columns["body_velocity"][:, :AGENTS]
    angle = columns["body_angle"][:, :AGENTS]
    period = columns["age"][:, None] // PATIENCE
    favored = (period % 2 == 1) & (period // 2 % BLOCKS == torch.arange(BLOCKS, device=device))
    target = (blocks[:, :, 1] - 2.0 * ROOM * favored).argmin(1)
    block = blocks[areas, target][:, None]
    half = (0.5 * SIZES.to(device)[target])[:, None]
    tilt = columns["body_angle"][areas, AGENTS + target][:, None]
    reach = half * (tilt.cos().abs() + tilt.sin().abs())  # half the block's extent along an axis
    rest = pusher.resting_places(place, velocity, angle)
    rank = (place[:, :, None, 0] > place[:, None, :, 0]).sum(2) - 1  # from left to right: -1, 0, 1
    x, y = (place - block).unbind(2)
    clear = reach + pusher.HALF + CLEAR
    lane = 1.15 * rank.float()
    is_behind = y > half + 0.2
    beside = torch.where(x < 0, -1.0, 1.0) * (clear + 0.3 + 1.1 * torch.arange(AGENTS, device=device))
    around = torch.stack([beside, torch.where(x.abs() < clear, y, clear + 0.5)], 2)
    ready = torch.stack([lane, clear.expand_as(lane)], 2)
    goal = block + torch.where(is_behind[..., None], ready, around)
    off = (rest - goal[:, :, None, None]).norm(dim=-1)
    off[..., 0, 1:] = torch.inf  # what is to be done is done first
    choice = pusher.MOVES.to(device)[off.amin(-1).argmin(-1)]
    in_lane = is_behind & ((x - lane).abs() < 0.5)
    choice = torch.where(in_lane, pusher.FORWARD, choice)
    still = (velocity.norm(dim=2) < 0.5) & (columns["age"][:, None] % 10 == 9)
    dodge = torch.tensor(
        [
            [pusher.BACK, pusher.LEFT, pusher.RIGHT],
            [pusher.LEFT, pusher.RIGHT, pusher.BACK],
            [pusher.RIGHT, pusher.BACK, pusher.LEFT],
        ],
        device=device,
    )
    choice = torch.where(still, dodge[columns["age"].long() // 10 % AGENTS], choice)
    turn = torch.remainder(angle + 0.5 * torch.pi + torch.pi, 2 * torch.pi) - torch.pi  # from the direction of the goal
    choice = torch.where(turn > 0.2, pusher.TURN_RIGHT, torch.where(turn < -0.2, pusher.TURN_LEFT, choice))
    return choice.view(-1, 1)


class CooperativePushBlock(WarpEnv):
    """PushBlockCollab: a grid (6, 20, 20) and 10 numbers (the agent's velocity), discrete [7]."""

    behavior = "PushBlockCollab"
    title = "CooperativePushBlock"
    agents = AGENTS
    summary = "Three agents push blocks into the goal; a large block needs two or three agents."
    rewards = (
        "of the group: -0.0005 a decision (-0.0001 a physics tick)",
        "of the group: +1, +2 and +3 when a small, large and very large block reaches the goal",
    )
    episode = (
        "ends when all six blocks are in the goal, and is truncated after 5,000 physics ticks, which are 1,000 "
        "decisions"
    )
    benchmark = 11.0
    default_areas = 16
    areas_per_core = 16
    most_decisions = MOST_TICKS // TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"gravity": (pusher.GRAVITY, 1.0, 100.0)}
    program = PROGRAM
    spec = BehaviorSpec(
        (ObsSpec("GridSensor-OneHot", (len(TAGS), CELLS, CELLS)), ObsSpec("RBSensor", (pusher.NUMBERS,))),
        ActionSpec(branches=(pusher.CHOICES,)),
        steady=True,
    )
    sizes: Mapping[str, Any] = {
        **contact_sizes(BODIES, MOST_CONTACTS),
        "gone": BLOCKS,
        "written": 1 + MOST_WRITTEN,
        "owner": CELLS * CELLS,
        "bounds": THINGS,
    }
    rule = staticmethod(haul)
    picture = staticmethod(draw_room)
