"""FoodCollector: five agents gather green food and avoid red food; a laser freezes other agents.

`rules` describes the game on a floor of 100 x 100 m. With the grid sensor the behavior is GridFoodCollector: 40 x 40
cells of 1 m around the agent, at the height of its middle, for food, agents, walls, bad food and frozen agents; the
agent's own state is not observed. With a camera at the agent's eyes the behavior is VisualFoodCollector, which also
observes whether the agent is frozen. The documented benchmark, a reward of 10, is far below what is possible, as
`gather` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.foodcollector.floor import (
    AGENT_HALF,
    AGENTS,
    BALLS,
    CELLS,
    FOOD_RADIUS,
    GREENS,
    HALF,
    TAGS,
    THINGS,
)
from palaestra.envs.builtin.foodcollector.rules import BEAM, GRID, MOST_TICKS, TICKS, TURN, VISUAL
from palaestra.envs.builtin.foodcollector.true_state import TRUTH
from palaestra.envs.builtin.physics.contact_solver import contact_sizes
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.camera import BALL, STRIPS
from palaestra.envs.builtin.sensors.truth import set_truth
from palaestra.envs.solids import BLUE, GOLD, GRAY, GREEN, RED, Drawing, on_plane, solids, upright

MOST_WRITTEN = 400
"""Most marked cells of a grid that are cleared one by one: more than a crowd marks. If there are more, all cells are
cleared."""
MOST_CONTACTS = 24
"""Most contacts that a physics tick solves."""
ACTION = ActionSpec(continuous=3, branches=(2,))
IMAGE = ObsSpec("GridSensor-OneHot", (len(TAGS), CELLS, CELLS))
BERTH = 6.0  # distance from the agent's edge within which it avoids bad food


def gather(columns: Mapping[str, Tensor]) -> Tensor:
    """Goes to the nearest green food without red food beside it, keeps away from red food on its way; never fires."""
    food = columns["food"]
    radius = 0.5 * columns["parameters"][:, 1, None, None] + FOOD_RADIUS
    position = columns["body_position"][:, :AGENTS]
    green = food[:, :GREENS]
    red = food[:, GREENS:]
    beside = torch.cdist(green, red).amin(2)[:, None] < 1.5 * radius  # (areas, 1, greens)
    choice = (torch.cdist(position, green) + 20.0 * beside).argmin(2)
    to = torch.nn.functional.normalize(green.gather(1, choice[..., None].expand(-1, -1, 2)) - position, dim=2)
    off = position[:, :, None] - red[:, None]  # (areas, agents, reds, 2)
    far = off.norm(dim=3, keepdim=True).clamp(min=1e-3)
    ahead = (off * to[:, :, None]).sum(3, keepdim=True) < 0
    urge = ((radius[..., None] + BERTH - far) / BERTH).clamp(min=0) * ahead
    way = (to + (urge * off / far).sum(2)).view(-1, 2)
    angle = columns["body_angle"][:, :AGENTS].reshape(-1)
    aim = torch.atan2(way[:, 1], way[:, 0])
    off_aim = torch.remainder(aim - angle + torch.pi, 2 * torch.pi) - torch.pi
    turn = torch.where(off_aim.abs() > 0.5 * TICKS * TURN, off_aim.sign(), 0.0)
    cos = angle.cos()
    sin = angle.sin()
    local = torch.stack([cos * way[:, 0] + sin * way[:, 1], sin * way[:, 0] - cos * way[:, 1]], 1)
    local = torch.nn.functional.normalize(local, dim=1)
    return torch.cat([local, turn[:, None]], 1)


def draw_floor(rows: Rows, behavior: str) -> Drawing:
    """Draws the floor, the food, and the agents: gray while frozen; while one fires, a beam that ends at a wall."""
    reach = rows["parameters"][:, 0, None]
    size = rows["parameters"][:, 1, None]
    place = rows["body_position"][:, :AGENTS]
    angle = rows["body_angle"][:, :AGENTS]
    way = np.stack([np.cos(angle), np.sin(angle)], -1)
    to_wall = ((HALF - place * np.sign(way)) / np.maximum(np.abs(way), 1e-6)).min(-1)
    beam = np.minimum(BEAM * reach, to_wall)
    shot = figures.hidden_unless(rows["firing"], np.stack([beam, np.full_like(beam, 0.3), np.full_like(beam, 0.3)], -1))
    height = rows["body_height"][:, :AGENTS]
    middle = on_plane(figures.ahead(place, angle, beam / 2), height + 0.5 * size)
    food = on_plane(rows["food"], rows["food_height"] + FOOD_RADIUS)
    kinds = np.where(np.arange(BALLS)[:, None] < GREENS, GREEN, RED)
    body = np.broadcast_to(AGENT_HALF * size, angle.shape)
    color = np.where(rows["frozen"][..., None] > 0, GRAY, BLUE)
    shapes = (
        *figures.room(rows.areas, (HALF, HALF), wall=2.5, thick=1.0),
        solids("food", "sphere", food, 2 * FOOD_RADIUS, kinds),
        *figures.agent(place, angle, body, (behavior, rows.slots), color=color, height=height, shape="box"),
        solids("beam", "box", middle, shot, GOLD, rotation=upright(angle), agents=(behavior, rows.slots)),
    )
    return Drawing(shapes, (HALF + 1, 2.0, HALF + 1), center=(0.0, 0.5, 0.0))


def _sizes(image: ObsSpec, written: int, width: int) -> dict[str, int | tuple[int, ...]]:
    """Returns the sizes of the columns, for as many recorded cells and a camera image of this width, 0 without one."""
    sizes: dict[str, int | tuple[int, ...]] = {name: BALLS for name in GRID.world.vars if name.startswith("food")}
    sizes |= contact_sizes(AGENTS, MOST_CONTACTS)
    sizes |= dict.fromkeys(("obs_vector", "final_obs_vector"), int(width > 0))
    sizes |= dict.fromkeys(("strips", "final_strips"), (STRIPS, width + 1))
    sizes |= dict.fromkeys(("balls", "final_balls"), (1 + BALLS * (width > 0), BALL))
    return sizes | {
        "written": 1 + written,
        "owner": CELLS * CELLS,
        "bounds": THINGS,
        "is_visual": int(width > 0),
        "plain": image.shape[1],
    }


class FoodCollector(WarpEnv):
    """GridFoodCollector: a grid (5, 40, 40), continuous 3 (ahead, to the right, turn left), discrete [2] (1: fire)."""

    behavior = "GridFoodCollector"
    title = "FoodCollector"
    agents = AGENTS
    summary = "Five agents gather green food and avoid red food; a laser freezes other agents."
    rewards = ("+1 for green food", "-1 for red food")
    episode = "is truncated after 5,000 physics ticks, which are 1,000 decisions; eaten food appears again elsewhere"
    benchmark = 10.0
    default_areas = 4
    areas_per_core = 8
    most_decisions = MOST_TICKS // TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"laser_length": (1.0, 0.2, 7.0), "agent_scale": (1.0, 0.5, 5.0)}
    program = GRID
    spec = BehaviorSpec((IMAGE,), ACTION, steady=True)
    sizes = _sizes(IMAGE, MOST_WRITTEN, 0)
    rule = staticmethod(gather)
    picture = staticmethod(draw_floor)
    truth = TRUTH

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, state: bool = False) -> None:
        """`state`: agents also observe `truth`, the true state of their area."""
        set_truth(self, state)
        super().__init__(areas, device)


class VisualFoodCollector(WarpEnv, like=FoodCollector):
    """VisualFoodCollector: FoodCollector with an image (3, 84, 84) in place of the grid, and with an observation of
    whether the agent is frozen."""

    behavior = "VisualFoodCollector"
    title = "VisualFoodCollector"
    summary = "FoodCollector, seen through the agents' eyes."
    program = VISUAL

    def __init__(
        self,
        areas: int | None = None,
        device: str | torch.device = "cpu",
        *,
        height: int = 84,
        width: int = 84,
        state: bool = False,
    ) -> None:
        """`height` and `width` are those of the image, in pixels; `state`: agents also observe `truth`. Raises EnvError
        for too small or too large images."""
        if min(height, width) < 20 or max(height, width) > 512:
            raise EnvError(f"{self.behavior} with an image of {height} x {width}: expected 20 to 512 pixels each way")
        image = ObsSpec("CameraSensor", (3, height, width))
        self.spec = BehaviorSpec((image, ObsSpec("VectorSensor_size1", (1,))), ACTION, steady=True)
        self.sizes = _sizes(image, 0, width)
        set_truth(self, state)
        super().__init__(areas, device)
