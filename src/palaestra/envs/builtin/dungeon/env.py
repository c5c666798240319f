"""DungeonEscape: one agent must give its life for the key that lets the others out.

A dragon walks from one side of a room to a portal in the other, through which it escapes. The agent that touches it dies with
it, and nothing else slays it; it leaves a key. The agent that touches the key holds it, and opens the door by touching it: +1 to the
group. Agents drive as in PushBlock, with its seven choices. Dead agents do not act and are invisible until the next episode.

The documentation leaves the scene open. Ours is a bare room of 12 x 12. The portal is 3 wide and anywhere in the right or left
wall, the dragon starts anywhere along the opposite one, and the door is 4 wide and anywhere in the wall toward y. The
dragon has a radius of 1 and walks straight ahead at 1.8 m/s, a quarter of an agent's speed: it takes some 55 decisions, and agents
can easily keep out of its way. An episode is truncated after 300 decisions (1,500 physics ticks). Random
actions open the door in one episode of 25, which is enough to learn from.

Agents pass through one another. With solid bodies, PPO learned to push a mate into the dragon, which benefits the pusher
alone; no agent then has to sacrifice itself.

15 rays look all around, 24 degrees apart in Unity's order; agents, the dragon and the key come before walls, door and portal.
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
from palaestra.envs.builtin.dungeon.rules import (
    AGENT_RADIUS,
    AGENTS,
    DOOR_HALF,
    MOST_DECISIONS,
    OBS,
    PORTAL_HALF,
    PROGRAM,
    RAY_LENGTH,
    RAY_STEP,
    RAYS,
    ROOM,
    TICKS,
)
from palaestra.envs.builtin.physics.driving import steer
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import BLUE, GOLD, GREEN, INK, RED, VIOLET, Drawing, Solids, on_plane, solids, upright

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from palaestra.envs.solids import Color, Shape


def escape(columns: Mapping[str, torch.Tensor]) -> Action:
    """Sends the living agent nearest the dragon into it, and the one nearest the key to the door with it; the others wait."""
    agents = int(AGENTS)
    place, lives, holds = columns["position"], columns["acting"].view(-1, agents), columns["holds_key"].view(-1, agents)
    door = torch.stack([columns["door"], torch.full_like(columns["door"], float(ROOM))], 1)
    dragon_lives, is_held = columns["dragon_lives"][:, None], holds.any(1, keepdim=True)
    goal = torch.where(dragon_lives, columns["dragon"], torch.where(is_held, door, columns["key"]))
    far = (place.view(-1, agents, 2) - goal[:, None]).norm(dim=2).masked_fill(~lives, torch.inf)
    far = torch.where(is_held & ~holds, torch.inf, far)
    goes = torch.nn.functional.one_hot(far.argmin(1), agents).view(-1, 1)
    choice = steer(place, columns["angle"], goal.repeat_interleave(agents, 0), 0.2) + 1  # choice 0 does nothing, as in PushBlock
    return Action(torch.zeros(len(place), 0, device=place.device), choice * goes)


WINE = (168, 60, 52)


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with its green door and its violet portal, the dragon, the key, and the living agents: golden with the key."""
    room, areas = float(ROOM), rows.areas
    door = np.stack([rows["door"], np.full_like(rows["door"], room + 0.15)], -1)[:, None]
    portal = (rows["portal"] + [0.15, 0.0] * np.sign(rows["portal"]))[:, None]
    key = figures.hidden_unless(rows["key_lies"][:, None], np.ones(3))
    color = np.where(rows["holds_key"][..., None], GOLD, BLUE)
    bow, bit = on_plane(rows["key"][:, None], 0.3), on_plane(rows["key"][:, None] + [0.55, 0.0], 0.3)
    shapes = (
        *figures.room(areas, (room, room), wall=1.2, thick=0.3),
        solids("door", "box", on_plane(door, 0.75), (2 * float(DOOR_HALF), 1.5, 0.36), GREEN),
        solids("portal", "box", on_plane(portal, 0.75), (0.36, 1.5, 2 * float(PORTAL_HALF)), VIOLET),
        *_dragon(rows),
        solids("key's bow", "cylinder", bow, key * [0.7, 0.2, 0.7], GOLD),
        solids("key's bit", "box", bit, key * [0.8, 0.16, 0.18], GOLD),
        *figures.agent(rows["position"], rows["angle"], rows["acting"] * np.float32(AGENT_RADIUS), (behavior, rows.slots), color=color),
    )
    return Drawing(shapes, (room + 0.4, 1.4, room + 0.4), center=(0.0, 0.6, 0.0))


def _dragon(rows: Rows) -> tuple[Solids, ...]:
    """Returns the dragon, which looks toward its portal: body, head, eyes, spikes, wings and tail."""
    angle = np.where(rows["portal"][:, :1] < 0, np.pi, 0.0)
    turn, place = upright(angle)[:, :, None], on_plane(rows["dragon"][:, None])[:, :, None]
    living = figures.hidden_unless(rows["dragon_lives"][:, None], np.ones(3))

    def part(name: str, shape: Shape, offset: ArrayLike, size: ArrayLike, color: Color, tilt: ArrayLike = (0, 0, 0, 1)) -> Solids:
        at = np.atleast_2d(np.asarray(offset, np.float32))
        where = (place + figures.turned_by(turn, at))[:, 0]
        rotation = figures.turned(np.broadcast_to(tilt, (*where.shape[:2], 4)), np.broadcast_to(turn[:, 0], (*where.shape[:2], 4)))
        return solids(f"dragon's {name}", shape, where, living * np.asarray(size), color, rotation=rotation)

    return (
        part("body", "sphere", (0, 0.8, 0), (2.0, 1.4, 1.5), RED),
        part("head", "sphere", (0.9, 1.4, 0), (0.9, 0.75, 0.8), RED),
        part("eyes", "sphere", [(1.2, 1.6, -0.22), (1.2, 1.6, 0.22)], 0.22, GOLD),
        part("spikes", "cone", [(0.3, 1.55, 0), (-0.15, 1.6, 0), (-0.55, 1.4, 0)], (0.35, 0.5, 0.3), INK),
        part("wings", "box", [(-0.1, 1.2, -1.0), (-0.1, 1.2, 1.0)], (0.9, 0.08, 1.1), WINE, [(0.2, 0, 0, 0.98), (-0.2, 0, 0, 0.98)]),
        part("tail", "cone", (-1.2, 0.6, 0), (0.5, 1.1, 0.5), RED, (0, 0, figures.QUARTER, figures.QUARTER)),
    )


class DungeonEscape(WarpEnv):
    """DungeonEscape: 15 rays of 8 numbers (wall, agent, door, key, dragon, portal, nothing, distance) and a key flag, discrete [7]."""

    behavior = "DungeonEscape"
    agents = int(AGENTS)
    summary = "Three agents slay a dragon, at the cost of one, and leave by the door that its key opens."
    rewards = ("+1 to the group when the door is opened",)
    episode = "ends when the door is opened or the dragon escapes, an agent's when it dies, and is truncated after 300 decisions"
    benchmark = 1.0
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {}
    ray_fans: ClassVar = {
        behavior: (
            RayFan(
                "rays and key",
                unity_order(int(RAYS), float(RAY_STEP)),
                float(RAY_LENGTH),
                ("wall", "agent", "door", "key", "dragon", "portal"),
            ),
        )
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays and key", (OBS,)),), ActionSpec(branches=(7,)))
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=1)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `escape`'s actions; None for another behavior."""
        return escape(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_room(rows, self.behavior)
