"""PushBlock: push a block against the goal, a shelf along one wall.

This is Unity's example. The room measures 25 x 25 m; the goal takes its last 4.15 m and is as high as the walls; the
block only has to touch it. A decision is five physics ticks of 0.02 s. Each tick of moving adds 3 m/s (sidesteps 0.75
of this) against a drag of 4/s, and each tick of turning turns by 4 degrees. Agent and block weigh 10 kg; contacts turn
neither of them. The block touches the floor at two points; at each, the friction coefficient is the mean of Unity's
default, 0.6, and the environment's parameter. With a parameter of 0, friction is 0.6 of the block's weight in all.

An episode begins with agent and block 1 m above the floor, at places within half the room's sides that are clear of
each other, of the goal and of the agent's last place. The agent keeps its heading. If an episode ends within a
decision, the remaining ticks run in the new episode without an action.

Unity turns the room by a multiple of 90 degrees at the start of an episode. Here the room does not turn: everything in
it is symmetric, and no observation shows the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.pushblock import rules
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD, GREEN, Drawing, on_plane, solids

OBS = rules.FRAMES * rules.FRAME
OFFSET_SENSOR = f"StackingSensor_size{rules.FRAMES}_OffsetRayPerceptionSensor"
LEVEL_SENSOR = f"StackingSensor_size{rules.FRAMES}_RayPerceptionSensor"
SEEN = ("block", "goal", "wall")
ANGLES = unity_order(rules.RAYS, rules.RAY_STEP)
EYE_UP = 1.5  # height of the offset rays above the agent's middle
HEIGHT = 1.5  # of walls and goal


def coast(velocity: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    """Returns how far agents with these velocities (S, 2) glide until drag and friction have stopped them."""
    drag = 4.17  # what 0.92 of the speed a tick amounts to in continuous time, 1/s
    brake = 0.92 * ((0.6 + parameters[:, 1]) * parameters[:, 4])[:, None]  # m/s^2
    speed = velocity.norm(dim=1, keepdim=True)
    far = speed / drag - brake / drag**2 * torch.log1p(drag / brake * speed)
    return velocity / speed.clamp(min=1e-6) * far


def shove(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Goes around the block to its far side, and pushes the block ahead; pauses at times to break cycles."""
    agent = columns["agent_position"]
    block = columns["block_position"]
    half = 0.5 * columns["parameters"][:, 0]
    (x, y), clear = (agent - block).unbind(1), half + 0.7
    rest = x + coast(columns["agent_velocity"], columns["parameters"])[:, 0]
    off = torch.remainder(columns["agent_angle"] + 0.5 * torch.pi + torch.pi, 2 * torch.pi) - torch.pi
    is_behind = y > torch.where(x.abs() > clear, clear, half + 0.55)  # sidesteps lead a little ahead where it is turned
    is_beside = (x.abs() > clear) & (rest.abs() > clear)
    at_wall = block[:, 0].abs() + clear + 1.0 > rules.WALL_AT
    side = torch.where(at_wall, -block[:, 0].sign(), torch.where(rest < 0, -1.0, 1.0))
    onward = torch.where(rest.abs() < 0.9 * half + 0.35, 1, torch.where(rest > 0, 6, 5))
    around = torch.where(is_beside, 2, torch.where(side < 0, 6, 5))
    choice = torch.where(is_behind, onward, around)
    choice = torch.where(off > 0.2, 3, torch.where(off < -0.2, 4, choice))
    age = columns["age"]
    pauses = (age**2 // 7 % 5 == 0) & ~((choice == 1) & is_behind & (age < 60))
    return torch.where(pauses, 0, choice)[:, None]


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with the goal (a low shelf, so that one can see over it), the block, and the agent."""
    side = rows["parameters"][:, :1]
    tall = 2 * rules.BLOCK_REST
    size = np.stack([side, np.full_like(side, tall), side], -1)
    up = rows["block_fall"][:, None, 0]
    feet = rows["agent_fall"][:, None, 0] - rules.AGENT_REST
    shapes = (
        *figures.room(rows.areas, (rules.WALL_AT, rules.WALL_AT), wall=HEIGHT, thick=0.5),
        figures.plate(
            "goal",
            rows.areas,
            (0.0, (rules.GOAL_EDGE - rules.WALL_AT) / 2),
            (rules.WALL_AT, (rules.GOAL_EDGE + rules.WALL_AT) / 2),
            GREEN,
            top=HEIGHT,
            thick=HEIGHT,
        ),
        solids("block", "box", on_plane(rows["block_position"][:, None], up), size, GOLD),
        *figures.agent(
            rows["agent_position"][:, None],
            rows["agent_angle"][:, None],
            rules.AGENT_HALF,
            (behavior, rows.slots),
            shape="box",
            height=feet,
        ),
    )
    return Drawing(shapes, (rules.WALL_AT + 0.6, 1.6, rules.WALL_AT + 0.6), center=(0.0, 0.8, 0.0))


class PushBlock(WarpEnv):
    """PushBlock: two sensors of 7 rays (block, goal, wall, nothing, distance), three frames (105), discrete [7]."""

    behavior = "PushBlock"
    summary = "An agent pushes a block onto the goal."
    rewards = ("-0.0002 a physics tick", "+5 when the block touches the goal")
    episode = "ends when the block touches the goal, and is truncated after 5,000 physics ticks (1,000 decisions)"
    benchmark = 4.5
    default_areas = 32
    areas_per_core = 256
    most_decisions = rules.MOST_TICKS // rules.TICKS
    tick_seconds = rules.TICKS * SECONDS
    parameter_ranges: ClassVar = {
        "block_scale": (2.0, 0.5, 4.0),
        "dynamic_friction": (0.0, 0.0, 1.0),
        "static_friction": (0.0, 0.0, 1.0),
        "block_drag": (0.5, 0.0, 2000.0),
        "gravity": (24.525, 1.0, 100.0),
    }
    ray_fans: ClassVar = {
        behavior: (
            RayFan(OFFSET_SENSOR, ANGLES, rules.RAY_LENGTH, SEEN, first=OBS - rules.FRAME, height=EYE_UP),
            RayFan(LEVEL_SENSOR, ANGLES, rules.RAY_LENGTH, SEEN, first=OBS - rules.FRAME),
        )
    }
    program = rules.PROGRAM
    spec = BehaviorSpec(
        (ObsSpec(OFFSET_SENSOR, (OBS,)), ObsSpec(LEVEL_SENSOR, (OBS,))), ActionSpec(branches=(7,)), steady=True
    )
    rule = staticmethod(shove)
    picture = staticmethod(draw_room)
