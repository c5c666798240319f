"""SoccerTwos: two against two, a ball, and a goal at either end, as in Unity's example.

The field is 31 x 15 m with slanting corners (see `field`), and players are fast: they gain 2 m/s a tick (see `motion`).
Players start in their own half, 5 m along the field about their place, and look toward the other goal; the ball lies
within 2.5 m of the middle. A goal is scored when the ball touches the floor of a goal or its net. An episode is cut
after 5,000 ticks.

An observation is three frames, oldest first, of 11 rays ahead, 12 degrees apart, and another of 3 rays behind, 45
degrees apart; each ray has a one-hot of ball, own goal, other goal, wall, mate and opponent, a flag for nothing, and
the distance as a share of 20 m. One team observes what the other would with the field turned around, so one policy
plays both. The sensors have the names of Unity's blue team.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import heading, next_turn, turned, write_ray
from palaestra.envs.builtin.sensors.stacking import clear_frames, shift_frames
from palaestra.envs.builtin.soccer.field import BALL, LEFT_GOAL, WALL
from palaestra.envs.builtin.soccer.field_drawing import draw_field
from palaestra.envs.builtin.soccer.heuristic import chase
from palaestra.envs.builtin.soccer.observations import (
    AHEAD,
    AHEAD_SENSOR,
    AHEAD_TURN,
    BEHIND,
    BEHIND_SENSOR,
    BEHIND_TURN,
    LENGTH,
    cast_ray,
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
from palaestra.envs.solids import BLUE, VIOLET, Drawing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from palaestra.core.timestep import Action

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(4)
MATES = wp.constant(2)  # players of a team
START = wp.constant(wp.vec2(8.19, 1.2))  # places where the players of the right team start, about the middle line
SEEN = ("ball", "own goal", "their goal", "wall", "mate", "opponent")
TAGS = wp.constant(len(SEEN))
BALL_TAG, OWN_TAG, OTHER_TAG, WALL_TAG, MATE_TAG, OPPONENT_TAG = (wp.constant(tag) for tag in range(6))
AHEAD_OBS, BEHIND_OBS = (width_of(int(rays), len(SEEN)) for rays in (AHEAD, BEHIND))


@wp.struct
class World:
    """Columns of SoccerTwos, one row per player or, from `rng` to `episodes`, per area."""

    strikers: wp.int32  # 0: all players are alike
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
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    touches: wp.array(dtype=wp.int32)  # whether it touches the ball; 2: since this tick
    touched: wp.array(dtype=wp.vec2)  # where it touched the ball first
    action: wp.array2d(dtype=wp.int64)  # ahead or back, to the right or left, turn left or right; 0: neither
    obs_ahead: wp.array2d(dtype=wp.float32)
    obs_behind: wp.array2d(dtype=wp.float32)
    final_obs_ahead: wp.array2d(dtype=wp.float32)
    final_obs_behind: wp.array2d(dtype=wp.float32)
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
def observe_ray(world: World, i: int, k: int, way: wp.vec2, obs: wp.array2d(dtype=wp.float32), at: int):
    """Writes a ray of an area's k-th player from column `at` on."""
    slot = i * PLAYERS + k
    far, what = cast_ray(world, i, PLAYERS, slot, way)
    write_ray(obs, slot, at, TAGS, wp.where(far > LENGTH, -1, tag_of(what, k // MATES)), far / LENGTH)


@wp.func
def observe(world: World, i: int):
    """Writes each player's current frame, after moving older frames back."""
    for k in range(PLAYERS):
        ahead = heading(world.angle[i * PLAYERS + k])
        at = shift_frames(world.obs_ahead, i * PLAYERS + k, AHEAD * (TAGS + 2))
        turn = wp.vec2(1.0, 0.0)
        for ray in range(AHEAD):
            observe_ray(world, i, k, turned(ahead, turn), world.obs_ahead, at + ray * (TAGS + 2))
            turn = next_turn(turn, ray, AHEAD_TURN)
        at = shift_frames(world.obs_behind, i * PLAYERS + k, BEHIND * (TAGS + 2))
        turn = wp.vec2(1.0, 0.0)
        for ray in range(BEHIND):
            observe_ray(world, i, k, turned(-ahead, turn), world.obs_behind, at + ray * (TAGS + 2))
            turn = next_turn(turn, ray, BEHIND_TURN)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: each team in its half. Its first frame is still to be observed."""
    kick_off(world, i)
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        side = wp.where(k < MATES, -1.0, 1.0)
        place = side * wp.vec2(START[0], START[1] * float(2 * (k % MATES) - 1))
        line_up(world, i, slot, place, wp.where(k < MATES, 0.0, wp.pi))
        clear_frames(world.obs_ahead, slot)
        clear_frames(world.obs_behind, slot)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    check_actions(world, i, PLAYERS, report)
    for k in range(PLAYERS):
        world.reward[i * PLAYERS + k] = 0.0
    end, passed = simulate(world, i, PLAYERS)
    is_goal = end == 1 or end == -1
    played = float(ticks_played(world, i, passed - TICKS)) / float(MOST_TICKS)  # this decision is in `age` by now
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        scored = (end == 1) == (k < MATES)
        world.group_reward[slot] = wp.where(is_goal, wp.where(scored, 1.0 - played, -1.0), 0.0)
        world.terminated[slot] = is_goal
        world.truncated[slot] = end == TIME_OUT
    if end != 0:
        report[0] = 1
        observe(world, i)
        for k in range(PLAYERS):
            save_final_obs(world.obs_ahead, world.final_obs_ahead, i * PLAYERS + k)
            save_final_obs(world.obs_behind, world.final_obs_behind, i * PLAYERS + k)
        start(world, i)
        wait(world, i, PLAYERS, end, passed)
    observe(world, i)


PROGRAM = Program(World, begin, tick, area_columns=AREA_COLUMNS)


class SoccerTwos(WarpEnv):
    """SoccerTwos: vectors 264 and 72 (rays ahead and behind, three frames), discrete [3, 3, 3]: ahead/back, right/left,
    turn left/right.
    """

    behavior = "SoccerTwos"
    agents = int(PLAYERS)
    teams = (0, 0, 1, 1)
    summary = "Two teams of two play soccer, each toward the other's goal."
    rewards = (
        "to the team that scores: 1 - the share of 5,000 physics ticks that had passed",
        "to the team that the goal is scored against: -1",
        "to a player who touches the ball: 0.2 * ball_touch, which is 0 unless it is set",
    )
    episode = "ends with a goal, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = None
    default_areas = 16
    areas_per_core = 128
    most_decisions = int(MOST_TICKS) // int(TICKS)
    tick_seconds = float(TICKS) * float(SECONDS)
    parameter_ranges: ClassVar = PARAMETER_RANGES
    ray_fans: ClassVar = {behavior: field_fans(SEEN)}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        sensors = (ObsSpec(AHEAD_SENSOR, (AHEAD_OBS,)), ObsSpec(BEHIND_SENSOR, (BEHIND_OBS,)))
        spec = BehaviorSpec(sensors, ActionSpec(branches=(3, 3, 3)), steady=True)
        sizes = {
            "obs_ahead": AHEAD_OBS,
            "obs_behind": BEHIND_OBS,
            "final_obs_ahead": AHEAD_OBS,
            "final_obs_behind": BEHIND_OBS,
        }
        super().__init__(PROGRAM, spec, areas, device, strikers=0, action=3, **sizes)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `chase`'s actions; None for another behavior."""
        return chase(self._columns, self.teams) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_field(rows, ((self.behavior, (0, 1), BLUE), (self.behavior, (2, 3), VIOLET)), (-1, 1))
