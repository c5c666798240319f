"""StrikersVsGoalie: two Strikers try to score, and one Goalie, of another behavior, keeps the ball out, as in Unity's
example.

Field, ball and rules are those of SoccerTwos, with a block in the mouth of the left goal. Strikers run 1.3 times as
fast; the Goalie sidesteps as fast as it runs, and kicks the ball with every first touch. An episode ends with a goal,
or is truncated after 5,000 ticks.

A goal pays the group of the Strikers as in SoccerTwos. Besides, each tick costs a Striker 1/5000 and earns the Goalie
as much, so that an episode without a goal ends with rewards that say who won.

A Striker has the rays of SoccerTwos with five tags: ball, goal, wall, Striker and Goalie. The Goalie has three frames
of 41 rays all around, 9 degrees apart in Unity's order (the last two meet behind it), with four tags: ball, goal, wall
and Striker.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import heading, next_turn, turned, write_ray
from palaestra.envs.builtin.sensors.stacking import clear_frames, shift_frames
from palaestra.envs.builtin.soccer.field import BALL, RIGHT_GOAL, WALL
from palaestra.envs.builtin.soccer.field_drawing import draw_field
from palaestra.envs.builtin.soccer.heuristic import chase
from palaestra.envs.builtin.soccer.observations import (
    AHEAD,
    AHEAD_SENSOR,
    AHEAD_TURN,
    BEHIND,
    BEHIND_SENSOR,
    BEHIND_TURN,
    FRAMES,
    LENGTH,
    cast_ray,
    fan,
    field_fans,
    width_of,
)
from palaestra.envs.builtin.soccer.rules import (
    AREA_COLUMNS,
    MOST_TICKS,
    PARAMETER_RANGES,
    TICKS,
    TIME_OUT,
    check_actions,
    kick_off,
    line_up,
    simulate,
    ticks_played,
    wait,
)
from palaestra.envs.ray_fans import unity_order
from palaestra.envs.solids import BLUE, VIOLET, Drawing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(3)
STRIKERS = wp.constant(2)  # the first players of an area
START = wp.constant(wp.vec2(8.19, 1.2))  # places where Strikers start, about the middle line, to the left
GOALIE_START = wp.constant(9.0)  # and the Goalie, to the right
BALL_TAG, GOAL_TAG, WALL_TAG, STRIKER_TAG, GOALIE_TAG, NO_TAG = (wp.constant(tag) for tag in range(6))
STRIKER_SEEN = ("ball", "goal", "wall", "Striker", "Goalie")
GOALIE_SEEN = STRIKER_SEEN[:4]
STRIKER_TAGS = wp.constant(len(STRIKER_SEEN))
GOALIE_TAGS = wp.constant(len(GOALIE_SEEN))
GOALIE_RAYS = wp.constant(41)
GOALIE_STEP = wp.constant(0.15707963267948966)  # 9 degrees
GOALIE_TURN = wp.constant(wp.vec2(math.cos(GOALIE_STEP), math.sin(GOALIE_STEP)))
GOALIE_SENSOR = f"StackingSensor_size{int(FRAMES)}_PurpleGoalieRayPerceptionSensor"
AHEAD_OBS, BEHIND_OBS = (width_of(int(rays), len(STRIKER_SEEN)) for rays in (AHEAD, BEHIND))
GOALIE_OBS = width_of(int(GOALIE_RAYS), len(GOALIE_SEEN))


@wp.struct
class World:
    """Columns of StrikersVsGoalie: one row per area (from `rng` to `episodes`), Striker, Goalie, or player."""

    strikers: wp.int32  # STRIKERS
    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    lead: wp.array(dtype=wp.int32)  # ticks of this episode before its first decision
    ball: wp.array(dtype=wp.vec2)
    ball_velocity: wp.array(dtype=wp.vec2)
    ball_spin: wp.array(dtype=wp.float32)  # rad/s counterclockwise seen from above
    kick: wp.array(dtype=wp.vec2)  # m/s that kicks add to the ball on the next tick
    ball_touch: wp.array(dtype=wp.float32)
    pending: wp.array3d(dtype=wp.float32)  # in the order of `parameter_ranges`
    episodes: wp.array(dtype=wp.int32)
    striker_obs_ahead: wp.array2d(dtype=wp.float32)
    striker_obs_behind: wp.array2d(dtype=wp.float32)
    striker_final_obs_ahead: wp.array2d(dtype=wp.float32)
    striker_final_obs_behind: wp.array2d(dtype=wp.float32)
    goalie_obs: wp.array2d(dtype=wp.float32)
    goalie_final_obs: wp.array2d(dtype=wp.float32)
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    touches: wp.array(dtype=wp.int32)  # whether it touches the ball; 2: since this tick
    touched: wp.array(dtype=wp.vec2)  # where it touched the ball first
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
    if what == WALL:
        return WALL_TAG
    if what < 0:  # the left net, behind the block
        return NO_TAG
    return wp.where(what < STRIKERS, STRIKER_TAG, GOALIE_TAG)


@wp.func
def observe_ray(
    world: World, i: int, k: int, way: wp.vec2, tags: int, obs: wp.array2d(dtype=wp.float32), row: int, at: int
):
    """Writes a ray of an area's k-th player from column `at` on."""
    far, what = cast_ray(world, i, PLAYERS, i * PLAYERS + k, way)
    write_ray(obs, row, at, tags, wp.where(far > LENGTH, -1, tag_of(what)), far / LENGTH)


@wp.func
def observe(world: World, i: int):
    """Writes each player's current frame, after moving older frames back."""
    for k in range(STRIKERS):
        row = i * STRIKERS + k
        ahead = heading(world.angle[i * PLAYERS + k])
        at = shift_frames(world.striker_obs_ahead, row, AHEAD * (STRIKER_TAGS + 2))
        turn = wp.vec2(1.0, 0.0)
        for ray in range(AHEAD):
            to = at + ray * (STRIKER_TAGS + 2)
            observe_ray(world, i, k, turned(ahead, turn), STRIKER_TAGS, world.striker_obs_ahead, row, to)
            turn = next_turn(turn, ray, AHEAD_TURN)
        at = shift_frames(world.striker_obs_behind, row, BEHIND * (STRIKER_TAGS + 2))
        turn = wp.vec2(1.0, 0.0)
        for ray in range(BEHIND):
            to = at + ray * (STRIKER_TAGS + 2)
            observe_ray(world, i, k, turned(-ahead, turn), STRIKER_TAGS, world.striker_obs_behind, row, to)
            turn = next_turn(turn, ray, BEHIND_TURN)
    at = shift_frames(world.goalie_obs, i, GOALIE_RAYS * (GOALIE_TAGS + 2))
    ahead = heading(world.angle[i * PLAYERS + STRIKERS])
    turn = wp.vec2(1.0, 0.0)
    for ray in range(GOALIE_RAYS):
        observe_ray(
            world, i, STRIKERS, turned(ahead, turn), GOALIE_TAGS, world.goalie_obs, i, at + ray * (GOALIE_TAGS + 2)
        )
        turn = next_turn(turn, ray, GOALIE_TURN)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: Strikers left, the Goalie right. Its first frame is still to be observed."""
    kick_off(world, i)
    for k in range(STRIKERS):
        line_up(world, i, i * PLAYERS + k, wp.vec2(-START[0], START[1] * float(1 - 2 * k)), 0.0)
        clear_frames(world.striker_obs_ahead, i * STRIKERS + k)
        clear_frames(world.striker_obs_behind, i * STRIKERS + k)
    line_up(world, i, i * PLAYERS + STRIKERS, wp.vec2(GOALIE_START, 0.0), wp.pi)
    clear_frames(world.goalie_obs, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i)


@wp.func
def save_final_observations(world: World, i: int):
    """Saves the final observations of an episode."""
    for k in range(STRIKERS):
        save_final_obs(world.striker_obs_ahead, world.striker_final_obs_ahead, i * STRIKERS + k)
        save_final_obs(world.striker_obs_behind, world.striker_final_obs_behind, i * STRIKERS + k)
    save_final_obs(world.goalie_obs, world.goalie_final_obs, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    check_actions(world, i, PLAYERS, report)
    for k in range(PLAYERS):
        world.reward[i * PLAYERS + k] = 0.0
    end, passed = simulate(world, i, PLAYERS)
    played = float(ticks_played(world, i, passed - TICKS)) / float(MOST_TICKS)  # this decision is in `age` by now
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        time = float(passed) / float(MOST_TICKS)
        world.reward[slot] += wp.where(k < STRIKERS, -time, time)
        world.group_reward[slot] = wp.where(end == 1, wp.where(k < STRIKERS, 1.0 - played, -1.0), 0.0)
        world.terminated[slot] = end == 1
        world.truncated[slot] = end == TIME_OUT
    if end != 0:
        report[0] = 1
        observe(world, i)
        save_final_observations(world, i)
        start(world, i)
        wait(world, i, PLAYERS, end, passed)
    observe(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)


class StrikersVsGoalie(WarpEnv):
    """Striker: vectors 231 and 63 (rays ahead and behind, three frames), Goalie: vector 738 (rays all around, three
    frames).

    Actions: discrete [3, 3, 3]: ahead/back, right/left, turn left/right.
    """

    behavior = "StrikersVsGoalie"
    roles = ("Striker", "Striker", "Goalie")
    agents = int(PLAYERS)
    teams = (0, 0, 1)
    summary = "Two Strikers try to score before time is up; a Goalie, of another behavior, keeps the ball out."
    rewards = (
        "Strikers, as a team: 1 - the share of 5,000 physics ticks that had passed, for a goal",
        "Goalie: -1 for a goal",
        "each physics tick: -1/5000 for a Striker, 1/5000 for the Goalie",
        "to a player who touches the ball: 0.2 * ball_touch, which is 0 unless it is set",
    )
    episode = "ends with a goal, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = None
    default_areas = 16
    areas_per_core = 128
    most_decisions = int(MOST_TICKS) // int(TICKS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = PARAMETER_RANGES
    ray_fans: ClassVar = {
        "Striker": field_fans(STRIKER_SEEN),
        "Goalie": (fan(GOALIE_SENSOR, GOALIE_SEEN, unity_order(int(GOALIE_RAYS), float(GOALIE_STEP))),),
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        sensors = {
            "Striker": (ObsSpec(AHEAD_SENSOR, (AHEAD_OBS,)), ObsSpec(BEHIND_SENSOR, (BEHIND_OBS,))),
            "Goalie": (ObsSpec(GOALIE_SENSOR, (GOALIE_OBS,)),),
        }
        specs = {role: BehaviorSpec(obs, ActionSpec(branches=(3, 3, 3)), steady=True) for role, obs in sensors.items()}
        widths = {"striker_{}_ahead": AHEAD_OBS, "striker_{}_behind": BEHIND_OBS, "goalie_{}": GOALIE_OBS}
        sizes = {column.format(name): width for column, width in widths.items() for name in ("obs", "final_obs")}
        super().__init__(PROGRAM, specs, areas, device, strikers=int(STRIKERS), action=3, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `chase`'s actions; None for another behavior."""
        if behavior not in self.behaviors:
            return None
        actions = chase(self._columns, self.teams)
        rows = self._tables.rows(behavior)
        return Action(actions.continuous[rows], actions.discrete[rows])

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_field(rows, (("Striker", (0, 1), BLUE), ("Goalie", (2,), VIOLET)), (1,))
