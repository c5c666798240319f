"""SoccerTwos: two against two, a ball, and a goal at either end.

The documentation leaves the scene open. Ours is a field of 14 x 9 with its corners cut off, similar to Unity's; the goals are 5
wide. Players are circles of radius 0.5 that run up to 6 m/s, sidestep half as fast and turn by 150 degrees/s, all at once. The ball's
radius is a tenth of `ball_scale`; it bounces off walls and is slowed by friction with the ground, which grows with `gravity`. A player
who touches it pushes it, and one who runs ahead also kicks it. A goal is scored when the ball touches the line. Each team starts in its
own half, a player in each lane, facing the other goal more or less. An episode is truncated after 600 decisions (3,000 physics ticks).

The 336 numbers: three frames, oldest first, each of 11 rays ahead, 12 degrees apart, and 3 behind, 45 degrees apart, in Unity's order;
each ray has a one-hot of ball, own goal, other goal, wall, mate, opponent and nothing, then the distance as a share of 20. One
team observes what the other would with the field turned around, so one policy plays both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import write_ray
from palaestra.envs.builtin.soccer.field import AREA_COLUMNS, PARAMETER_RANGES, TICKS, check_actions, kick_off, line_up, simulate
from palaestra.envs.builtin.soccer.heuristic import chase, draw_field
from palaestra.envs.builtin.soccer.observations import (
    AHEAD,
    BALL,
    BEHIND,
    FIELD_ANGLES,
    FRAMES,
    LEFT_GOAL,
    LENGTH,
    WALL,
    cast_ray,
    clear_frames,
    ray_offset,
    shift_frames,
)
from palaestra.envs.ray_fans import RayFan
from palaestra.envs.solids import BLUE, VIOLET, Drawing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from palaestra.core.timestep import Action

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(4)
MATES = wp.constant(2)  # players of a team
MOST_DECISIONS = wp.constant(600)
TAGS = wp.constant(6)
BALL_TAG, OWN_TAG, OTHER_TAG, WALL_TAG, MATE_TAG, OPPONENT_TAG = (wp.constant(tag) for tag in range(6))
RAYS = wp.constant(int(AHEAD) + int(BEHIND))
FRAME_SIZE = wp.constant(int(RAYS) * (int(TAGS) + 2))
OBS = int(FRAMES) * int(FRAME_SIZE)


@wp.struct
class World:
    """Columns of SoccerTwos, one row per player or, for the first six, per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    ball_radius: wp.array(dtype=wp.float32)
    gravity: wp.array(dtype=wp.float32)
    pending: wp.array3d(dtype=wp.float32)  # in the order of `parameter_ranges`
    episodes: wp.array(dtype=wp.int32)
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    action: wp.array2d(dtype=wp.int64)  # ahead or back, to the right or left, turn left or right; 0: neither
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def tag_of(what: int, team: int):
    """Returns the tag that a ray reports to a player of this team."""
    if what == BALL:
        return BALL_TAG
    if what == WALL:
        return WALL_TAG
    if what < WALL:  # team 0's own goal is the left one
        return wp.where((what == LEFT_GOAL) == (team == 0), OWN_TAG, OTHER_TAG)
    return wp.where(what // MATES == team, MATE_TAG, OPPONENT_TAG)


@wp.func
def observe(world: World, i: int):
    """Writes each player's current observation, after moving older frames back."""
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        at = shift_frames(world.obs, slot, FRAME_SIZE)
        for ray in range(RAYS):
            far, what = cast_ray(world, i, PLAYERS, slot, ray_offset(ray))
            write_ray(world.obs, slot, at + ray * (TAGS + 2), TAGS, tag_of(what, k // MATES), far / LENGTH)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: each team in its half."""
    kick_off(world, i)
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        lane = 5.0 * float(k % MATES) - 2.5
        if k < MATES:
            line_up(world, i, slot, -4.8, -1.5, lane, 0.0)
        else:
            line_up(world, i, slot, 1.5, 4.8, -lane, wp.pi)
        clear_frames(world.obs, slot)
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    check_actions(world, i, PLAYERS, report)
    end, passed = simulate(world, i, PLAYERS, -1)
    played = float(world.age[i] * TICKS + passed) / float(MOST_DECISIONS * TICKS)
    age = world.age[i] + 1
    world.age[i] = age
    observe(world, i)
    done = end != 0 or age >= MOST_DECISIONS
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        scored = (end == 1) == (k < MATES)
        world.group_reward[slot] = wp.where(end == 0, 0.0, wp.where(scored, 1.0 - played, -1.0))
        world.terminated[slot] = end != 0
        world.truncated[slot] = done and end == 0
        if done:
            save_final_obs(world.obs, world.final_obs, slot)
    if done:
        report[0] = 1
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)


class SoccerTwos(WarpEnv):
    """SoccerTwos: vector 336 (14 rays, three frames), discrete [3, 3, 3]: ahead/back, right/left, turn left/right."""

    behavior = "SoccerTwos"
    agents = int(PLAYERS)
    teams = (0, 0, 1, 1)
    summary = "Two teams of two play soccer on a small field, each toward the other's goal."
    rewards = (
        "to the team that scores: 1 - the share of 3,000 physics ticks that had passed",
        "to the team that the goal is scored against: -1",
    )
    episode = "ends with a goal, and is truncated after 600 decisions (3,000 physics ticks)"
    benchmark = None
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = PARAMETER_RANGES
    ray_fans: ClassVar = {
        behavior: (
            RayFan(
                "rays",
                FIELD_ANGLES,
                float(LENGTH),
                ("ball", "own goal", "their goal", "wall", "mate", "opponent"),
                first=(int(FRAMES) - 1) * int(FRAME_SIZE),
            ),
        )
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (OBS,)),), ActionSpec(branches=(3, 3, 3)), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=3)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `chase`'s actions; None for another behavior."""
        return chase(self._columns, self.teams) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_field(rows, ((self.behavior, (0, 1), BLUE), (self.behavior, (2, 3), VIOLET)), (-1, 1))
