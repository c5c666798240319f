"""StrikersVsGoalie: two Strikers try to score before time is up, and one Goalie, of another behavior, keeps the ball out.

Field, players and ball are those of SoccerTwos, with a goal at the right end only. The Goalie starts in front of it, the Strikers
in the other half. The Strikers win with a goal. The Goalie wins when 300 decisions (1,500 physics ticks) have passed without one; that
terminates the episode rather than truncating it, since the game is decided.

All rewards are group rewards. The last decision of a goal has +1 and -1 in place of the 0.001 that time costs Strikers and earns the
Goalie.

A Striker's 294 numbers are three frames of the 14 rays of SoccerTwos with five tags: ball, goal, wall, mate and Goalie. The Goalie's
738 are three frames of 41 rays all around, 9 degrees apart in Unity's order (the last two meet behind it), with four tags: ball, goal,
wall and Striker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import ray_angle, write_ray
from palaestra.envs.builtin.soccer.field import AREA_COLUMNS, PARAMETER_RANGES, TICKS, check_actions, kick_off, line_up, simulate
from palaestra.envs.builtin.soccer.heuristic import chase, draw_field
from palaestra.envs.builtin.soccer.observations import (
    AHEAD,
    BALL,
    BEHIND,
    FIELD_ANGLES,
    FRAMES,
    LENGTH,
    RIGHT_GOAL,
    cast_ray,
    clear_frames,
    ray_offset,
    shift_frames,
)
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import BLUE, VIOLET, Drawing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(3)
STRIKERS = wp.constant(2)  # the first players of an area
MOST_DECISIONS = wp.constant(300)
TIME = wp.constant(0.001)  # what a decision costs a Striker and earns the Goalie
BALL_TAG, GOAL_TAG, WALL_TAG, STRIKER_TAG, GOALIE_TAG = (wp.constant(tag) for tag in range(5))
STRIKER_RAYS = wp.constant(int(AHEAD) + int(BEHIND))
STRIKER_TAGS = wp.constant(5)
GOALIE_RAYS = wp.constant(41)
GOALIE_STEP = wp.constant(0.15707963267948966)  # 9 degrees
GOALIE_TAGS = wp.constant(4)
STRIKER_FRAME_SIZE = wp.constant(int(STRIKER_RAYS) * (int(STRIKER_TAGS) + 2))
GOALIE_FRAME_SIZE = wp.constant(int(GOALIE_RAYS) * (int(GOALIE_TAGS) + 2))
STRIKER_OBS, GOALIE_OBS = int(FRAMES) * int(STRIKER_FRAME_SIZE), int(FRAMES) * int(GOALIE_FRAME_SIZE)


@wp.struct
class World:
    """Columns of StrikersVsGoalie: one row per area (the first six), Striker, Goalie, or player."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    ball_radius: wp.array(dtype=wp.float32)
    gravity: wp.array(dtype=wp.float32)
    pending: wp.array3d(dtype=wp.float32)  # in the order of `parameter_ranges`
    episodes: wp.array(dtype=wp.int32)
    striker_obs: wp.array2d(dtype=wp.float32)
    striker_final_obs: wp.array2d(dtype=wp.float32)
    goalie_obs: wp.array2d(dtype=wp.float32)
    goalie_final_obs: wp.array2d(dtype=wp.float32)
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    action: wp.array2d(dtype=wp.int64)  # ahead or back, to the right or left, turn left or right; 0: neither
    reward: wp.array(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def tag_of(what: int):
    """Returns the tag that a ray reports."""
    if what == BALL:
        return BALL_TAG
    if what == RIGHT_GOAL:
        return GOAL_TAG
    if what < 0:  # the left end is a wall all along
        return WALL_TAG
    return wp.where(what < STRIKERS, STRIKER_TAG, GOALIE_TAG)


@wp.func
def observe(world: World, i: int):
    """Writes each player's current observation, after moving older frames back."""
    for k in range(STRIKERS):
        row = i * STRIKERS + k
        at = shift_frames(world.striker_obs, row, STRIKER_FRAME_SIZE)
        for ray in range(STRIKER_RAYS):
            far, what = cast_ray(world, i, PLAYERS, i * PLAYERS + k, ray_offset(ray))
            write_ray(world.striker_obs, row, at + ray * (STRIKER_TAGS + 2), STRIKER_TAGS, tag_of(what), far / LENGTH)
    at = shift_frames(world.goalie_obs, i, GOALIE_FRAME_SIZE)
    for ray in range(GOALIE_RAYS):
        far, what = cast_ray(world, i, PLAYERS, i * PLAYERS + STRIKERS, ray_angle(ray, GOALIE_STEP))
        write_ray(world.goalie_obs, i, at + ray * (GOALIE_TAGS + 2), GOALIE_TAGS, tag_of(what), far / LENGTH)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: the Strikers in the left half, the Goalie in front of the goal."""
    kick_off(world, i)
    for k in range(STRIKERS):
        line_up(world, i, i * PLAYERS + k, -4.8, -1.5, 5.0 * float(k) - 2.5, 0.0)
        clear_frames(world.striker_obs, i * STRIKERS + k)
    line_up(world, i, i * PLAYERS + STRIKERS, 4.5, 6.0, 0.0, wp.pi)
    clear_frames(world.goalie_obs, i)
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.func
def save_final_observations(world: World, i: int):
    """Saves the final observations of an episode."""
    for k in range(STRIKERS):
        save_final_obs(world.striker_obs, world.striker_final_obs, i * STRIKERS + k)
    save_final_obs(world.goalie_obs, world.goalie_final_obs, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    check_actions(world, i, PLAYERS, report)
    end, _ = simulate(world, i, PLAYERS, 1)
    age = world.age[i] + 1
    world.age[i] = age
    observe(world, i)
    done = end != 0 or age >= MOST_DECISIONS
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        for_goalie = wp.where(end != 0, -1.0, TIME)
        world.group_reward[slot] = wp.where(k < STRIKERS, -for_goalie, for_goalie)
        world.terminated[slot] = done
    if done:
        report[0] = 1
        save_final_observations(world, i)
        start(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)


class StrikersVsGoalie(WarpEnv):
    """Striker: vector 294, Goalie: vector 738 (rays, three frames), discrete [3, 3, 3]: ahead/back, right/left, turn left/right."""

    behavior = "StrikersVsGoalie"
    roles = ("Striker", "Striker", "Goalie")
    agents = int(PLAYERS)
    teams = (0, 0, 1)
    summary = "Two Strikers try to score before time is up; a Goalie, of another behavior, keeps the ball out."
    rewards = ("Strikers, as a team: +1 for a goal, -0.001 any other decision", "Goalie: -1 for a goal, +0.001 any other decision")
    episode = "ends with a goal or, won by the Goalie, after 300 decisions (1,500 physics ticks)"
    benchmark = None
    default_areas = 16
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = PARAMETER_RANGES
    ray_fans: ClassVar = {
        "Striker": (
            RayFan(
                "rays",
                FIELD_ANGLES,
                float(LENGTH),
                ("ball", "goal", "wall", "Striker", "Goalie"),
                first=(int(FRAMES) - 1) * int(STRIKER_FRAME_SIZE),
            ),
        ),
        "Goalie": (
            RayFan(
                "rays",
                unity_order(int(GOALIE_RAYS), float(GOALIE_STEP)),
                float(LENGTH),
                ("ball", "goal", "wall", "Striker"),
                first=(int(FRAMES) - 1) * int(GOALIE_FRAME_SIZE),
            ),
        ),
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        widths, action = {"Striker": STRIKER_OBS, "Goalie": GOALIE_OBS}, ActionSpec(branches=(3, 3, 3))
        specs = {role: BehaviorSpec((ObsSpec("rays", (width,)),), action, steady=True) for role, width in widths.items()}
        strikers = {"striker_obs": STRIKER_OBS, "striker_final_obs": STRIKER_OBS}
        super().__init__(PROGRAM, specs, areas, device, action=3, goalie_obs=GOALIE_OBS, goalie_final_obs=GOALIE_OBS, **strikers)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `chase`'s actions; None for another behavior."""
        if behavior not in self.behaviors:
            return None
        actions = chase(self._columns, self.teams)
        rows = self._tables.rows(behavior)
        return Action(actions.continuous[rows], actions.discrete[rows])

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_field(rows, (("Striker", (0, 1), BLUE), ("Goalie", (2,), VIOLET)), (1,))
