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
from palaestra.envs.builtin.drawing.plane import BLUE, GOLD, GREEN, RED, VIOLET, Plane
from palaestra.envs.builtin.dungeon.rules import (
    AGENT_RADIUS,
    AGENTS,
    DOOR_HALF,
    DRAGON_RADIUS,
    KEY_RADIUS,
    MOST_DECISIONS,
    OBS,
    PORTAL_HALF,
    PROGRAM,
    RAY_LENGTH,
    RAY_STEP,
    RAYS,
    ROOM,
    TAGS,
    TICKS,
)
from palaestra.envs.builtin.physics.driving import steer
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays and key", (OBS,)),), ActionSpec(branches=(7,)))
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=1)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `escape`'s actions; None for another behavior."""
        return escape(self._columns) if behavior == self.behavior else None

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        room = float(ROOM)
        picture = Plane(room + 1, room + 1)
        picture.floor((0, 0), (room, room))
        picture.box((float(row["door"]), room + 0.25), (float(DOOR_HALF), 0.25), 0.0, GREEN)
        picture.box(row["portal"] * [1 + 0.25 / room, 1], (0.25, float(PORTAL_HALF)), 0.0, VIOLET)
        mates = np.flatnonzero(row["acting"])
        for slot in mates:
            for k, ray in enumerate(row["obs"][slot][:-1].reshape(int(RAYS), int(TAGS) + 2)):
                turn = (-1 if k % 2 else 1) * ((k + 1) // 2) * float(RAY_STEP)
                picture.ray(row["position"][slot], float(row["angle"][slot]) + turn, float(ray[-1]) * float(RAY_LENGTH))
        if row["dragon_lives"]:
            picture.circle(row["dragon"], float(DRAGON_RADIUS), RED)
        if row["key_lies"]:
            picture.circle(row["key"], float(KEY_RADIUS), GOLD)
        for slot in mates:
            color = GOLD if row["holds_key"][slot] else BLUE
            picture.agent(row["position"][slot], float(row["angle"][slot]), float(AGENT_RADIUS), color)
        return picture.to_array()
