"""3DBall, 3DBallHard and Visual3DBall: keep a ball on a block by tilting it, as in Unity's examples.

The block is a cube with edges of 5 m; a ball of diameter `scale` drops from 4 m above its center, up to 1.5 m from the
middle each way. In each of a decision's five physics ticks, the block turns by up to 2 degrees about its own z, then
its own x. The ball has fallen once it is 2 m below the block's center, or 3 m aside. The ball's mass cancels out of all
motion, since nothing else moves the ball.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.ball.motion import HALF_EDGE, SECONDS
from palaestra.envs.builtin.ball.picture import FRAMES, SIDE
from palaestra.envs.builtin.ball.rules import MOST_TICKS, PROGRAM, TICKS, VISUAL
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows
from palaestra.envs.builtin.drawing.figures import turned_by
from palaestra.envs.solids import BLUE, GOLD, INK, Drawing, solids

VECTOR = ObsSpec("VectorSensor_size8", (8,))
POSITION = ObsSpec("StackingSensor_size9_ObservableAttribute:Ball3DHardAgent.PositionDelta", (27,))
ROTATION = ObsSpec("StackingSensor_size9_ObservableAttribute:Ball3DHardAgent.Rotation", (18,))
IMAGE = ObsSpec("StackingSensor_size4_CameraSensor", (3 * FRAMES, SIDE, SIDE))
OBS = {"obs": VECTOR, "obs_position": POSITION, "obs_rotation": ROTATION, "obs_image": IMAGE}


def all_but(*seen: str) -> dict[str, tuple[int, ...]]:
    """Returns shapes of width 0 for the columns of all observations but these."""
    unseen = {name: (0, *obs.shape[1:]) for name, obs in OBS.items() if name not in seen}
    return unseen | {f"final_{name}": shape for name, shape in unseen.items()}


def balance(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Tilts the block against the ball's position and velocity, less if it is tilted; never drops the ball."""
    tilt = columns["tilt"]
    position = columns["position"]
    velocity = columns["velocity"]
    about_z = position[:, 0] + 2 * velocity[:, 0] - 10 * tilt[:, 2]
    about_x = -position[:, 2] - 2 * velocity[:, 2] - 10 * tilt[:, 0]
    return torch.stack([about_z, about_x], 1).clamp(-1, 1)


EYES = np.array([[-0.75, 0.6, 2.5], [0.75, 0.6, 2.5]], np.float32)


def draw_ball(rows: Rows, behavior: str) -> Drawing:
    """Draws the block, whose eyes look at the viewer, and the ball on it. Unity's z points away from the viewer."""
    turn = rows["tilt"] * np.float32([-1, -1, 1, 1])
    place = rows["position"] * np.float32([1, 1, -1])
    edge = 2 * HALF_EDGE
    agents = (behavior, rows.slots)
    middle = np.zeros((rows.areas, 1, 3), np.float32)
    eyes = turn[:, None] * np.ones((1, 2, 1), np.float32)
    shapes = (
        solids("block", "box", middle, edge, BLUE, rotation=turn[:, None], agents=agents),
        solids(
            "eyes", "sphere", turned_by(eyes, EYES), (0.55, 0.9, 0.2), INK, rotation=eyes, agents=(behavior, rows.slots)
        ),
        solids("ball", "sphere", place[:, None], rows["parameters"][:, :1, None], GOLD),
    )
    return Drawing(shapes, (3.5, 4.0, 3.5), elevation=30.0)


class Ball(WarpEnv):
    """3DBall: vector 8 (block's rotation z and x, ball's position and velocity), two continuous actions."""

    behavior = "3DBall"
    summary = "A block tilts itself to keep a ball on top."
    rewards = ("+0.1 a decision while the ball stays", "-1 when it falls")
    episode = "ends when the ball falls, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 100.0
    default_areas = 12
    most_decisions = MOST_TICKS // TICKS
    age_per_decision = TICKS
    tick_seconds = TICKS * SECONDS
    parameter_ranges: ClassVar = {"scale": (1.0, 0.2, 10.0), "gravity": (9.81, 4.0, 105.0), "mass": (1.0, 0.1, 20.0)}
    program = PROGRAM
    spec = BehaviorSpec((VECTOR,), ActionSpec(continuous=2), steady=True)
    sizes = all_but("obs")
    rule = staticmethod(balance)
    picture = staticmethod(draw_ball)


class BallHard(WarpEnv, like=Ball):
    """3DBallHard: the ball's position (27) and the block's rotation (18), nine frames of each; not the velocity."""

    behavior = "3DBallHard"
    summary = "3DBall without the ball's velocity: it must be inferred from the last nine frames."
    spec = BehaviorSpec((POSITION, ROTATION), ActionSpec(continuous=2), steady=True)
    sizes = all_but("obs_position", "obs_rotation")


class VisualBall(WarpEnv, like=Ball):
    """Visual3DBall: four camera pictures of 84 x 84 pixels in color (12 channels), the oldest first."""

    behavior = "Visual3DBall"
    summary = "3DBall, seen by a camera: motion must be inferred from the last four pictures."
    default_areas = 8
    program = VISUAL
    spec = BehaviorSpec((IMAGE,), ActionSpec(continuous=2), steady=True)
    sizes = all_but("obs_image")
