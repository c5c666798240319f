"""FoodCollector: five agents gather green food and leave the red; a laser freezes others.

`rules` describes the game. With the grid sensor the behavior is GridFoodCollector, with a camera at
the agent's eyes VisualFoodCollector. The documentation counts six channels of the grid and does not name them; ours
are green food, red food, walls, agents, frozen agents and firing agents. The agent's own state is in its vector.
The documented benchmark of 10 is far below the possible: `gather` earns ten times that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.foodcollector.observations import AGENTS, GREENS, HALF, REDS, TAGS
from palaestra.envs.builtin.foodcollector.rules import BEAM, GRID, MOST_DECISIONS, TICKS, VISUAL
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.camera import STRIPS
from palaestra.envs.solids import BLUE, GOLD, GRAY, GREEN, RED, Drawing, on_plane, solids, upright

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

CELLS = 40
MOST_WRITTEN = 640
"""Most marked cells of a grid that are cleared one by one: more than a crowd in a corner marks. Beyond that, all are."""
ACTION = ActionSpec(continuous=3, branches=(2,))
VECTOR = ObsSpec("vector", (4,))
BERTH = 4.0  # distance from the agent's edge within which it avoids red food


def gather(columns: Mapping[str, Tensor]) -> Action:
    """Goes for the nearest green food with no red food beside it, also sideways, and keeps away from red on its way; never fires."""
    food, radius = columns["food"], columns["parameters"][:, 1, None, None]
    position = columns["position"].view(len(food), int(AGENTS), 2)
    green, red = food[:, : int(GREENS)], food[:, int(GREENS) :]
    beside = torch.cdist(green, red).amin(2)[:, None] < 1.5 * radius  # (areas, 1, greens)
    choice = (torch.cdist(position, green) + 20.0 * beside).argmin(2)
    to = torch.nn.functional.normalize(green.gather(1, choice[..., None].expand(-1, -1, 2)) - position, dim=2)
    off = position[:, :, None] - red[:, None]  # (areas, agents, reds, 2)
    far = off.norm(dim=3, keepdim=True).clamp(min=1e-3)
    ahead = (off * to[:, :, None]).sum(3, keepdim=True) < 0
    urge = ((radius[..., None] + BERTH - far) / BERTH).clamp(min=0) * ahead
    way = (to + (urge * off / far).sum(2)).view(-1, 2)
    angle = columns["angle"]
    aim = torch.atan2(way[:, 1], way[:, 0])
    turn = (torch.remainder(aim - angle + torch.pi, 2 * torch.pi) - torch.pi).clamp(-0.5, 0.5) * 2
    cos, sin = angle.cos(), angle.sin()
    local = torch.stack([cos * way[:, 0] + sin * way[:, 1], sin * way[:, 0] - cos * way[:, 1]], 1)
    local = torch.nn.functional.normalize(local, dim=1)
    return Action(torch.cat([local, turn[:, None]], 1), torch.zeros(len(angle), 1, dtype=torch.int64, device=angle.device))


def draw_floor(rows: Rows, behavior: str) -> Drawing:
    """Draws the floor, the food, and the agents: gray while frozen, with a beam that ends at a wall while firing."""
    half, reach = float(HALF), rows["parameters"][:, 0, None]
    radius = rows["parameters"][:, 1, None]
    place, angle, agents = rows["position"], rows["angle"], (behavior, rows.slots)
    way = np.stack([np.cos(angle), np.sin(angle)], -1)
    to_wall = ((half - place * np.sign(way)) / np.maximum(np.abs(way), 1e-6)).min(-1)
    beam = np.minimum(float(BEAM) * reach, to_wall)
    shot = figures.hidden_unless(rows["firing"], np.stack([beam, np.full_like(beam, 0.3), np.full_like(beam, 0.3)], -1))
    middle = on_plane(figures.ahead(place, angle, beam / 2), 0.9 * radius)
    food, kinds = on_plane(rows["food"], 0.7), np.where(np.arange(rows["food"].shape[1])[:, None] < int(GREENS), GREEN, RED)
    color = np.where(rows["frozen"][..., None] > 0, GRAY, BLUE)
    shapes = (
        *figures.room(rows.areas, (half, half), wall=2.0, thick=1.0),
        solids("food", "sphere", food, 1.4, kinds),
        *figures.agent(place, angle, np.broadcast_to(1.25 * radius, angle.shape), agents, color=color),
        solids("beam", "box", middle, shot, GOLD, rotation=upright(angle), agents=agents),
    )
    return Drawing(shapes, (half + 1, 2.0, half + 1), center=(0.0, 0.5, 0.0))


def _sizes(image: ObsSpec) -> dict[str, int | tuple[int, ...]]:
    """Returns the sizes of the columns that both environments share."""
    vector = VECTOR.shape[0]
    return {
        "food": int(GREENS) + int(REDS),
        "parameters": 2,
        "obs_image": image.shape,
        "final_obs_image": image.shape,
        "obs_vector": vector,
        "final_obs_vector": vector,
        "action_continuous": ACTION.continuous,
        "action_discrete": len(ACTION.branches),
    }


class FoodCollector(WarpEnv):
    """GridFoodCollector: a grid (6, 40, 40), vector 4 (velocity to the right and ahead, frozen, firing), continuous 3 and discrete [2]."""

    behavior = "GridFoodCollector"
    agents = int(AGENTS)
    summary = "Five agents gather green food and leave the red; a laser freezes others."
    rewards = ("+1 for green food", "-1 for red food")
    episode = "is truncated after 1,000 decisions (5,000 physics ticks); food that is eaten comes up again elsewhere"
    benchmark = 10.0
    default_areas = 4
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = {"laser_length": (1.0, 0.2, 7.0), "agent_scale": (1.0, 0.5, 5.0)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        image = ObsSpec("grid", (TAGS, CELLS, CELLS))
        spec = BehaviorSpec((image, VECTOR), ACTION, steady=True)
        sizes = {
            "is_visual": 0,
            "written": 1 + MOST_WRITTEN,
            "strips": (1, STRIPS),
            "final_strips": (1, STRIPS),
            "bare": 1,
            **_sizes(image),
        }
        super().__init__(GRID, spec, areas, device, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `gather`'s actions; None for another behavior."""
        return gather(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_floor(rows, self.behavior)


class VisualFoodCollector(WarpEnv):
    """VisualFoodCollector: FoodCollector with an image (3, height, width) of what lies ahead in place of the grid."""

    behavior = "VisualFoodCollector"
    agents = FoodCollector.agents
    summary = "FoodCollector, seen through the agents' eyes."
    rewards = FoodCollector.rewards
    episode = FoodCollector.episode
    benchmark = FoodCollector.benchmark
    default_areas = FoodCollector.default_areas
    tick_seconds = FoodCollector.tick_seconds
    parameter_ranges = FoodCollector.parameter_ranges

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, height: int = 36, width: int = 36) -> None:
        """`height` and `width` are those of the image, in pixels. Raises EnvError for sizes that are too small or too large."""
        if min(height, width) < 20 or max(height, width) > 512:
            raise EnvError(f"{self.behavior} with an image of {height} x {width}: expected 20 to 512 pixels each way")
        image = ObsSpec("image", (3, height, width))
        spec = BehaviorSpec((image, VECTOR), ACTION, steady=True)
        sizes = {
            "is_visual": 1,
            "written": 1,
            "strips": (width + 1, STRIPS),
            "final_strips": (width + 1, STRIPS),
            "bare": height,
            **_sizes(image),
        }
        super().__init__(VISUAL, spec, areas, device, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `gather`'s actions; None for another behavior."""
        return gather(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_floor(rows, self.behavior)
