"""StrikersVsGoalie: two Strikers try to score, and one Goalie, of another behavior, keeps the ball out, as in Unity's
example.

Field, ball and rules are those of SoccerTwos, with a block in the mouth of the left goal. Strikers run 1.3 times as
fast; the Goalie sidesteps as fast as it runs, and kicks the ball with every first touch. An episode ends with a goal,
or is truncated after 5,000 ticks.

A goal pays the group of the Strikers as in SoccerTwos. Each tick also costs a Striker 1/5000 and earns the Goalie the
same, so that rewards show the winner of an episode without a goal.

A Striker has the rays of SoccerTwos with five tags: ball, goal, wall, Striker and Goalie. The Goalie has three frames
of 41 rays all around, 9 degrees apart in Unity's order (the last two meet behind it), with four tags: ball, goal, wall
and Striker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import save_final_obs
from palaestra.envs.builtin.sensors.rays import clear_frames, heading
from palaestra.envs.builtin.soccer import rules
from palaestra.envs.builtin.soccer.env import SoccerTwos
from palaestra.envs.builtin.soccer.field_drawing import draw_field
from palaestra.envs.builtin.soccer.heuristic import chase
from palaestra.envs.ray_fans import unity_order
from palaestra.envs.solids import BLUE, VIOLET

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

PLAYERS = wp.constant(3)
STRIKERS = wp.constant(2)  # the first players of an area
START = wp.constant(wp.vec2(8.19, 1.2))  # places where Strikers start, about the middle line, to the left
GOALIE_START = wp.constant(9.0)  # and the Goalie, to the right
# the net behind the block has no tag, which is a tag beyond the last
STRIKER_TAGS = wp.constant(rules.Tags(5, 1, 5, 2, 0, 3, 3, 4, 4))
GOALIE_TAGS = wp.constant(rules.Tags(4, 1, 5, 2, 0, 3, 3, 4, 4))
STRIKER_SEEN = ("ball", "goal", "wall", "Striker", "Goalie")
GOALIE_SEEN = STRIKER_SEEN[:4]
GOALIE_RAYS = wp.constant(41)
GOALIE_STEP = wp.constant(0.15707963267948966)  # 9 degrees
GOALIE_TURN = wp.constant(wp.vec2(math.cos(GOALIE_STEP), math.sin(GOALIE_STEP)))
GOALIE_SENSOR = f"StackingSensor_size{rules.FRAMES}_PurpleGoalieRayPerceptionSensor"
AHEAD_OBS, BEHIND_OBS = (rules.width_of(int(rays), len(STRIKER_SEEN)) for rays in (rules.AHEAD, rules.BEHIND))
ACTION = ActionSpec(branches=(3, 3, 3))
GOALIE_OBS = rules.width_of(GOALIE_RAYS, len(GOALIE_SEEN))


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns, rules.FieldColumns):
    """Columns of StrikersVsGoalie; observations have a row per Striker or Goalie."""

    striker_obs_ahead: wp.array2d(dtype=wp.float32)
    striker_obs_behind: wp.array2d(dtype=wp.float32)
    goalie_obs: wp.array2d(dtype=wp.float32)


@wp.func
def observe(world: World, i: int):
    """Writes each player's current frame, after moving older frames back."""
    for k in range(STRIKERS):
        slot = i * PLAYERS + k
        row = i * STRIKERS + k
        ahead = heading(world.angle[slot])
        rules.observe_fan(world, PLAYERS, slot, ahead, rules.AHEAD_TURN, STRIKER_TAGS, world.striker_obs_ahead, row)
        rules.observe_fan(world, PLAYERS, slot, -ahead, rules.BEHIND_TURN, STRIKER_TAGS, world.striker_obs_behind, row)
    slot = i * PLAYERS + STRIKERS
    ahead = heading(world.angle[slot])
    rules.observe_fan(world, PLAYERS, slot, ahead, GOALIE_TURN, GOALIE_TAGS, world.goalie_obs, i)


@wp.func
def start(world: World, i: int):
    """Starts an episode with a kick-off: Strikers left, the Goalie right. The first frame is not observed yet."""
    rules.kick_off(world, i)
    for k in range(STRIKERS):
        rules.line_up(world, i, i * PLAYERS + k, wp.vec2(-START[0], START[1] * float(1 - 2 * k)), 0.0)
        clear_frames(world.striker_obs_ahead, i * STRIKERS + k)
        clear_frames(world.striker_obs_behind, i * STRIKERS + k)
    rules.line_up(world, i, i * PLAYERS + STRIKERS, wp.vec2(GOALIE_START, 0.0), wp.pi)
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
    rules.check_actions(world, i, PLAYERS, report)
    for k in range(PLAYERS):
        world.reward[i * PLAYERS + k] = 0.0
    end, passed = rules.simulate(world, i, PLAYERS)
    # this decision is in `age` by now
    played = float(rules.ticks_played(world, i, passed - rules.TICKS)) / float(rules.MOST_TICKS)
    for k in range(PLAYERS):
        slot = i * PLAYERS + k
        time = float(passed) / float(rules.MOST_TICKS)
        world.reward[slot] += wp.where(k < STRIKERS, -time, time)
        world.group_reward[slot] = wp.where(end == 1, wp.where(k < STRIKERS, 1.0 - played, -1.0), 0.0)
        world.terminated[slot] = end == 1
        world.truncated[slot] = end == rules.TIME_OUT
    if end != 0:
        report[0] = 1
        observe(world, i)
        save_final_observations(world, i)
        start(world, i)
        rules.wait(world, i, PLAYERS, end, passed)
    observe(world, i)


SPECS = {
    "Striker": BehaviorSpec(
        (ObsSpec(rules.AHEAD_SENSOR, (AHEAD_OBS,)), ObsSpec(rules.BEHIND_SENSOR, (BEHIND_OBS,))), ACTION, steady=True
    ),
    "Goalie": BehaviorSpec((ObsSpec(GOALIE_SENSOR, (GOALIE_OBS,)),), ACTION, steady=True),
}


class StrikersVsGoalie(WarpEnv, like=SoccerTwos):
    """Striker: vectors 231 and 63 (rays ahead and behind, three frames), Goalie: vector 738 (rays all around, three
    frames).

    Actions: discrete [3, 3, 3]: ahead/back, right/left, turn left/right.
    """

    behavior = "StrikersVsGoalie"
    roles = ("Striker", "Striker", "Goalie")
    truth = ()
    agents = PLAYERS
    teams = (0, 0, 1)
    summary = "Two Strikers try to score before time is up; a Goalie, of another behavior, keeps the ball out."
    rewards = (
        "Strikers, as a team: 1 - the share of 5,000 physics ticks that had passed, for a goal",
        "Goalie: -1 for a goal",
        "each physics tick: -1/5000 for a Striker, 1/5000 for the Goalie",
        "to a player who touches the ball: 0.2 * ball_touch, which is 0 unless it is set",
    )
    ray_fans: ClassVar = {
        "Striker": rules.field_fans(STRIKER_SEEN),
        "Goalie": (rules.fan(GOALIE_SENSOR, GOALIE_SEEN, unity_order(GOALIE_RAYS, GOALIE_STEP)),),
    }
    program = Program(World, begin, tick, area_columns=rules.AREA_COLUMNS)
    spec = SPECS
    sizes: Mapping[str, Any] = {"strikers": STRIKERS}
    rule = staticmethod(partial(chase, teams=teams))
    picture = staticmethod(partial(draw_field, sides=(("Striker", (0, 1), BLUE), ("Goalie", (2,), VIOLET)), goals=(1,)))
