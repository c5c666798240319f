"""DungeonEscape: one agent must sacrifice itself for the key that lets the others out.

A dragon walks to a portal in a corner of a room of 25 x 25 m with four columns. Only an agent's touch slays the dragon,
and that agent dies too; the dragon leaves a key, the agent a tombstone. The agent that touches the key carries it, and
opens the door by touching the door's lock: +1 to the group. Agents can leave through the portal too. Agents that left
the room do not act until the next episode. `rules` and `observations` have the numbers of Unity's scene.

An agent observes its own velocity to the right, upward and ahead (with seven constants, as in CooperativePushBlock),
whether it carries the key, and 15 rays within 60 degrees of straight ahead, each as thick as a ball of 0.5 m, in three
frames with the oldest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.dungeon.observations import (
    AGENTS,
    COLUMN,
    COLUMN_HALF,
    DRAGON_HALF,
    FRAME,
    FRAMES,
    HANGING_KEY,
    KEY_HALF,
    LOCK,
    LOCK_HALF,
    PORTAL,
    PORTAL_ANGLE,
    PORTAL_HALF,
    RAY_LENGTH,
    RAY_STEP,
    RAYS,
    ROOM,
    STONE_HALF,
    TAGS,
    TRUTH,
)
from palaestra.envs.builtin.dungeon.rules import MOST_TICKS, PROGRAM
from palaestra.envs.builtin.physics.contact_solver import contact_sizes
from palaestra.envs.builtin.physics.pusher import CHOICES, GRAVITY, HALF, NUMBERS, run_over
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock.rules import TICKS
from palaestra.envs.builtin.sensors.truth import set_truth
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import (
    BLUE,
    GOLD,
    GRAY,
    GREEN,
    INK,
    RED,
    VIOLET,
    Color,
    Drawing,
    Shape,
    Solids,
    on_plane,
    solids,
    upright,
)

MOST_CONTACTS = 12
"""Most contacts that a physics tick solves."""
COLUMN_BERTH, STONE_BERTH = 2.0, 1.6
"""Meters from the middle of a column and of the tombstone at which the rule passes it."""
COLUMNS = [(COLUMN[0] * x, COLUMN[1] * y) for x in (-1, 1) for y in (-1, 1)]


def escape(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Sends the agent nearest to the dragon into the dragon, and the agent nearest to the key to the door with it; the
    others wait."""
    place = columns["body_position"][:, :AGENTS]
    lives = columns["acting"].view(-1, AGENTS)
    holds = columns["holds_key"].view(-1, AGENTS)
    lock = torch.tensor([LOCK[0], LOCK[1]], device=place.device)
    dragon_lives = columns["dragon_lives"][:, None]
    is_held = holds.any(1, keepdim=True)
    goal = torch.where(dragon_lives, columns["dragon"], torch.where(is_held, lock, columns["key"]))
    far = (place - goal[:, None]).norm(dim=2).masked_fill(~lives, torch.inf)
    far = torch.where(is_held & ~holds, torch.inf, far)
    goes = torch.nn.functional.one_hot(far.argmin(1), AGENTS).view(-1, 1)
    place = place.reshape(-1, 2)
    goal = goal.repeat_interleave(AGENTS, 0)
    velocity = columns["body_velocity"][:, :AGENTS].reshape(-1, 2)
    angle = columns["body_angle"][:, :AGENTS].reshape(-1)
    stone = torch.where(columns["stone_stands"][:, None], columns["stone"], torch.full_like(columns["stone"], 1e3))
    choice = run_over(place, velocity, angle, past_obstacles(place, goal, stone.repeat_interleave(AGENTS, 0)))
    return choice * goes


def past_obstacles(place: torch.Tensor, goal: torch.Tensor, stone: torch.Tensor) -> torch.Tensor:
    """Returns the next waypoints to goals (S, 2): beside the nearest column or tombstone (S, 2) in between, if any."""
    columns = torch.tensor(COLUMNS, device=place.device).expand(len(place), -1, -1)
    obstacle = torch.cat([columns, stone[:, None]], 1)
    berth = torch.tensor([COLUMN_BERTH] * len(COLUMNS) + [STONE_BERTH], device=place.device)
    way = goal - place
    far = way.norm(dim=1, keepdim=True).clamp(min=1e-6)
    ahead = way / far
    to = obstacle - place[:, None]
    along = (to * ahead[:, None]).sum(2)
    across = ahead[:, :1] * to[..., 1] - ahead[:, 1:] * to[..., 0]
    blocks = (along > 0) & (along < far) & (across.abs() < berth - 0.2)
    nearest = torch.where(blocks, along, torch.inf).argmin(1)
    rows = torch.arange(len(place), device=place.device)
    left = torch.stack([-ahead[:, 1], ahead[:, 0]], 1)
    side = (torch.where(across[rows, nearest] > 0, -1.0, 1.0) * berth[nearest])[:, None]
    return torch.where(blocks.any(1)[:, None], obstacle[rows, nearest] + side * left, goal)


WINE = (168, 60, 52)


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with columns, green door and violet portal, the dragon, the key, the tombstone and the agents."""
    areas = rows.areas
    key = figures.hidden_unless(rows["key_lies"][:, None], np.ones(3))
    stone = figures.hidden_unless(rows["stone_stands"][:, None], (2 * STONE_HALF[0], 1.4, 2 * STONE_HALF[1]))
    grave = on_plane(rows["stone"][:, None], 0.7)
    door = (2 * LOCK_HALF[0], 1.8, 2 * LOCK_HALF[1])
    portal = (2 * PORTAL_HALF[0], 2.0, 2 * PORTAL_HALF[1])
    color = np.where(rows["holds_key"][..., None], GOLD, BLUE)
    bow = on_plane(rows["key"][:, None], 0.5)
    bit = on_plane(rows["key"][:, None] + [0.55, 0.0], 0.5)
    place = rows["body_position"][:, :AGENTS]
    angle = rows["body_angle"][:, :AGENTS]
    feet = tuple((column, (COLUMN_HALF, COLUMN_HALF)) for column in COLUMNS)
    shapes = (
        *figures.room(areas, (ROOM, ROOM), wall=1.2, thick=0.5),
        figures.boxes("columns' feet", areas, feet, GRAY, 0.2, 0.2),
        figures.fixed(areas, "columns", "cylinder", [(x, 0.9, -y) for x, y in COLUMNS], (1.44, 1.8, 1.44), GRAY),
        figures.fixed(areas, "door", "box", [(LOCK[0], 0.9, -LOCK[1])], door, GREEN),
        figures.fixed(areas, "portal", "box", [(PORTAL[0], 1.0, -PORTAL[1])], portal, VIOLET, upright(PORTAL_ANGLE)),
        *_dragon(rows),
        solids("key's bow", "cylinder", bow, key * [0.7, 0.2, 0.7], GOLD),
        solids("key's bit", "box", bit, key * [0.8, 0.16, 0.18], GOLD),
        solids("tombstone", "box", grave, stone, INK, rotation=upright(rows["stone_angle"][:, None])),
        *figures.agent(
            place, angle, rows["acting"] * np.float32(HALF), (behavior, rows.slots), color=color, shape="box"
        ),
    )
    return Drawing(shapes, (ROOM + 0.6, 1.4, ROOM + 0.6), center=(0.0, 0.6, 0.0))


def _dragon(rows: Rows) -> tuple[Solids, ...]:
    """Returns the dragon, which looks toward its portal, and the key that it carries."""
    angle = rows["dragon_angle"][:, None]
    turn = upright(angle)[:, :, None]
    place = on_plane(rows["dragon"][:, None])[:, :, None]
    spread = [(0.2, 0, 0, 0.98), (-0.2, 0, 0, 0.98)]
    living = figures.hidden_unless(rows["dragon_lives"][:, None], np.ones(3))

    def part(
        name: str, shape: Shape, offset: ArrayLike, size: ArrayLike, color: Color, tilt: ArrayLike = (0, 0, 0, 1)
    ) -> Solids:
        at = np.atleast_2d(np.asarray(offset, np.float32))
        where = (place + figures.turned_by(turn, at))[:, 0]
        rotation = figures.turned(
            np.broadcast_to(tilt, (*where.shape[:2], 4)), np.broadcast_to(turn[:, 0], (*where.shape[:2], 4))
        )
        return solids(f"dragon's {name}", shape, where, living * np.asarray(size), color, rotation=rotation)

    return (
        part("body", "sphere", (0, 0.75, 0), (2 * DRAGON_HALF, 1.3, 2 * DRAGON_HALF), RED),
        part("head", "sphere", (0.6, 1.3, 0), (0.75, 0.65, 0.7), RED),
        part("eyes", "sphere", [(0.85, 1.45, -0.2), (0.85, 1.45, 0.2)], 0.2, GOLD),
        part("spikes", "cone", [(0.2, 1.45, 0), (-0.15, 1.5, 0), (-0.45, 1.35, 0)], (0.3, 0.45, 0.25), INK),
        part("wings", "box", [(-0.1, 1.1, -0.9), (-0.1, 1.1, 0.9)], (0.8, 0.08, 1.0), WINE, spread),
        part("tail", "cone", (-1.0, 0.5, 0), (0.45, 1.0, 0.45), RED, (0, 0, figures.QUARTER, figures.QUARTER)),
        part("key", "box", (HANGING_KEY[0], 0.4, HANGING_KEY[1]), (2 * KEY_HALF[0], 0.4, 2 * KEY_HALF[1]), GOLD),
    )


RAY_SENSOR = f"StackingSensor_size{FRAMES}_RayPerceptionSensor"


class DungeonEscape(WarpEnv):
    """DungeonEscape: 10 numbers (velocity), three frames of 15 rays of 8 numbers, and a key flag, discrete [7]."""

    behavior = "DungeonEscape"
    agents = AGENTS
    summary = "Three agents slay a dragon, at the cost of one, and leave by the door that its key opens."
    rewards = ("+1 to the group when the door is opened",)
    episode = (
        "ends when the door is opened, the dragon escapes, or the portal takes the key or the last agent; an "
        "agent's when it dies or leaves by the portal; is truncated after 15,000 physics ticks, which are 3,000 "
        "decisions"
    )
    benchmark = 1.0
    default_areas = 16
    areas_per_core = 64
    most_decisions = MOST_TICKS // TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"gravity": (GRAVITY, 1.0, 100.0)}
    ray_fans: ClassVar = {
        behavior: (RayFan(RAY_SENSOR, unity_order(RAYS, RAY_STEP), RAY_LENGTH, TAGS, first=(FRAMES - 1) * FRAME),)
    }
    program = PROGRAM
    spec = BehaviorSpec(
        (ObsSpec("RBSensor", (NUMBERS,)), ObsSpec(RAY_SENSOR, (FRAMES * FRAME,)), ObsSpec("VectorSensor_size1", (1,))),
        ActionSpec(branches=(CHOICES,)),
    )
    sizes = contact_sizes(AGENTS, MOST_CONTACTS)
    rule = staticmethod(escape)
    picture = staticmethod(draw_room)
    truth = TRUTH

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, state: bool = False) -> None:
        """`state`: agents also observe `truth`, the true state of their area."""
        set_truth(self, state)
        super().__init__(areas, device)
