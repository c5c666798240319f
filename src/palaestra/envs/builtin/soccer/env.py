"""SoccerTwos: two against two, a ball, and a goal at either end, as in Unity's example.

The field is 31 x 15 m with slanting corners (see `field`), and players are fast: they gain 2 m/s a tick (see `motion`).
Players start in their own half, within 5 m along the field of their place, and look toward the other goal; the ball
lies within 2.5 m of the middle. A goal is scored when the ball touches the floor of a goal or its net. An episode is
truncated after 5,000 ticks.

An observation is three frames, oldest first, of 11 rays ahead, 12 degrees apart; another observation has 3 rays behind,
45 degrees apart. Each ray has a one-hot of ball, own goal, other goal, wall, mate and opponent, a flag for nothing, and
the distance as a share of 20 m. One team observes the field turned around, so that one policy plays both teams. The
sensors have the names of Unity's blue team.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import SECONDS
from palaestra.envs.builtin.sensors.rays import clear_frames, heading
from palaestra.envs.builtin.sensors.truth import set_truth, tell, tell_one
from palaestra.envs.builtin.soccer import rules
from palaestra.envs.builtin.soccer.field_drawing import draw_field
from palaestra.envs.builtin.soccer.heuristic import chase
from palaestra.envs.solids import BLUE, VIOLET

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(4)
MATES = wp.constant(2)  # players of a team
START = wp.constant(wp.vec2(8.19, 1.2))  # places where the players of the right team start, about the middle line
SEEN = ("ball", "own goal", "their goal", "wall", "mate", "opponent")
LEFT_TEAM_TAGS = wp.constant(rules.Tags(6, 2, 1, 3, 0, 4, 4, 5, 5))
RIGHT_TEAM_TAGS = wp.constant(rules.Tags(6, 1, 2, 3, 0, 5, 5, 4, 4))
AHEAD_OBS, BEHIND_OBS = (rules.width_of(int(rays), len(SEEN)) for rays in (rules.AHEAD, rules.BEHIND))


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns, rules.FieldColumns):
    """Columns of SoccerTwos; observations have a row per player."""

    obs_ahead: wp.array2d(dtype=wp.float32)
    obs_behind: wp.array2d(dtype=wp.float32)
    obs_truth: wp.array2d(dtype=wp.float32)


PLAYER = (
    ("{}: its place toward the opponents' goal and to the left of that way, / 15 m", 2),
    ("heading, in the same directions", 2),
    ("velocity, in the same directions, / 30 m/s", 2),
)
TRUTH = (
    *(
        (words.format(who), size)
        for who in ("the player", "its mate", "an opponent", "the other")
        for words, size in PLAYER
    ),
    ("the ball's place, in the same directions, / 15 m", 2),
    ("the ball's velocity, / 30 m/s", 2),
    ("the ball's spin to the left, / 7 rad/s", 1),
    ("time left, as a share of the longest episode", 1),
)
METERS, METERS_A_SECOND, MOST_SPIN = (wp.constant(unit) for unit in (15.0, 30.0, 7.0))


@wp.func
def tell_truth(world: World, i: int, k: int, ticks: int):
    """Writes the state that the area's k-th player may not see, as if its team played toward the right."""
    row = i * PLAYERS + k
    side = wp.where(k < MATES, 1.0, -1.0)
    at = int(0)
    for nth in range(PLAYERS):  # its team, then the other, each from the player's place in its team on
        team = (k // MATES + nth // MATES) % 2
        slot = i * PLAYERS + team * MATES + (k + nth) % MATES
        at = tell(world.obs_truth, row, at, side * world.position[slot], METERS)
        at = tell(world.obs_truth, row, at, side * heading(world.angle[slot]), 1.0)
        at = tell(world.obs_truth, row, at, side * world.velocity[slot], METERS_A_SECOND)
    at = tell(world.obs_truth, row, at, side * world.ball[i], METERS)
    at = tell(world.obs_truth, row, at, side * world.ball_velocity[i], METERS_A_SECOND)
    at = tell_one(world.obs_truth, row, at, world.ball_spin[i] / MOST_SPIN)
    tell_one(world.obs_truth, row, at, 1.0 - float(ticks) / float(rules.MOST_TICKS))


@wp.func
def observe(world: World, i: int, ticks: int):
    """Writes each player's current frame, `ticks` after the episode began, after moving older frames back."""
    for slot in range(i * PLAYERS, (i + 1) * PLAYERS):
        ahead = heading(world.angle[slot])
        seen = wp.where(slot - i * PLAYERS < MATES, LEFT_TEAM_TAGS, RIGHT_TEAM_TAGS)
        rules.observe_fan(world, PLAYERS, slot, ahead, rules.AHEAD_TURN, seen, world.obs_ahead, slot)
        rules.observe_fan(world, PLAYERS, slot, -ahead, rules.BEHIND_TURN, seen, world.obs_behind, slot)
    if world.obs_truth.shape[1] > 0:
        for k in range(PLAYERS):
            tell_truth(world, i, k, ticks)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: each team in its half. The first frame is not observed yet."""
    rules.kick_off(world, i)
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        side = wp.where(k < MATES, -1.0, 1.0)
        place = side * wp.vec2(START[0], START[1] * float(2 * (k % MATES) - 1))
        rules.line_up(world, i, slot, place, wp.where(k < MATES, 0.0, wp.pi))
        clear_frames(world.obs_ahead, slot)
        clear_frames(world.obs_behind, slot)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i, 0)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    rules.check_actions(world, i, PLAYERS, report)
    for k in range(PLAYERS):
        world.reward[i * PLAYERS + k] = 0.0
    end, passed = rules.simulate(world, i, PLAYERS)
    is_goal = end == 1 or end == -1
    # this decision is in `age` by now
    ticks = rules.ticks_played(world, i, passed - rules.TICKS)
    played = float(ticks) / float(rules.MOST_TICKS)
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        scored = (end == 1) == (k < MATES)
        world.group_reward[slot] = wp.where(is_goal, wp.where(scored, 1.0 - played, -1.0), 0.0)
        world.terminated[slot] = is_goal
        world.truncated[slot] = end == rules.TIME_OUT
    if end != 0:
        report[0] = 1
        observe(world, i, ticks)
        for k in range(PLAYERS):
            save_final_obs(world.obs_ahead, world.final_obs_ahead, i * PLAYERS + k)
            save_final_obs(world.obs_behind, world.final_obs_behind, i * PLAYERS + k)
            save_final_obs(world.obs_truth, world.final_obs_truth, i * PLAYERS + k)
        start(world, i)
        rules.wait(world, i, PLAYERS, end, passed)
    observe(world, i, rules.ticks_played(world, i, 0))


class SoccerTwos(WarpEnv):
    """SoccerTwos: vectors 264 and 72 (rays ahead and behind, three frames), discrete [3, 3, 3]: run, sidestep, turn."""

    behavior = "SoccerTwos"
    agents = PLAYERS
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
    most_decisions = rules.MOST_TICKS // rules.TICKS
    tick_seconds = rules.TICKS * SECONDS
    parameter_ranges: ClassVar = rules.PARAMETER_RANGES
    ray_fans: ClassVar = {behavior: rules.field_fans(SEEN)}
    program = Program(World, begin, tick, area_columns=rules.AREA_COLUMNS)
    spec = BehaviorSpec(
        (ObsSpec(rules.AHEAD_SENSOR, (AHEAD_OBS,)), ObsSpec(rules.BEHIND_SENSOR, (BEHIND_OBS,))),
        ActionSpec(branches=(3, 3, 3)),
        steady=True,
    )
    sizes: Mapping[str, Any] = {"strikers": 0}
    truth = TRUTH
    rule = staticmethod(partial(chase, teams=teams))
    picture = staticmethod(
        partial(draw_field, sides=((behavior, (0, 1), BLUE), (behavior, (2, 3), VIOLET)), goals=(-1, 1))
    )

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu", *, state: bool = False) -> None:
        """`state`: agents also observe `truth`, the true state of their area."""
        set_truth(self, state)
        super().__init__(areas, device)
