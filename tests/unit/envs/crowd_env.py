"""A Warp environment of several agents an area and two behaviors, small enough to be followed by hand."""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportInvalidTypeForm=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false

from typing import ClassVar

import numpy as np
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter
from palaestra.envs.solids import BLUE, Drawing, solids

wp.set_module_options({"enable_backward": False})

AGENTS = wp.constant(3)


@wp.struct
class World:
    """Each area counts its decisions; each agent sees the count and its own number."""

    age: wp.array(dtype=wp.int32)
    pending: wp.array3d(dtype=wp.float32)  # length of an episode
    episodes: wp.array(dtype=wp.int32)
    length: wp.array(dtype=wp.float32)
    plays: wp.array(dtype=wp.int32)
    played: wp.array(dtype=wp.int32)
    action_continuous: wp.array2d(dtype=wp.float32)
    action_discrete: wp.array2d(dtype=wp.int64)
    obs: wp.array2d(dtype=wp.float32)
    obs_things: wp.array3d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    final_obs_things: wp.array3d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def show(world: World, area: int, slot: int):
    """What an agent sees."""
    world.obs[slot, 0] = float(world.age[area])
    world.obs[slot, 1] = float(slot % AGENTS)
    world.obs_things[slot, 0, 0] = float(world.age[area])


@wp.kernel
def begin(world: World):
    """All agents but each area's last play the first behavior."""
    area = wp.tid()
    world.age[area] = 0
    world.length[area] = next_parameter(world, area, 0)
    world.episodes[area] += 1
    for j in range(AGENTS):
        slot = area * AGENTS + j
        world.plays[slot] = wp.where(j == AGENTS - 1, 1, 0)
        world.played[slot] = world.plays[slot]
        show(world, area, slot)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """An agent earns its actions' sum; as an episode ends, the last agent is cut, the others end, and all change
    sides.
    """
    area = wp.tid()
    world.age[area] += 1
    ended = float(world.age[area]) >= world.length[area]
    for j in range(AGENTS):
        slot = area * AGENTS + j
        if not wp.isfinite(world.action_continuous[slot, 0]):
            report[1] = slot + 1
        world.reward[slot] = world.action_continuous[slot, 0] + float(world.action_discrete[slot, 0])
        world.played[slot] = world.plays[slot]
        world.terminated[slot] = ended and j < AGENTS - 1
        world.truncated[slot] = ended and j == AGENTS - 1
        show(world, area, slot)
        if ended:
            for k in range(2):
                world.final_obs[slot, k] = world.obs[slot, k]
            world.final_obs_things[slot, 0, 0] = world.obs_things[slot, 0, 0]
            world.plays[slot] = 1 - world.plays[slot]
    if ended:
        report[0] = 1
        world.age[area] = 0
        world.length[area] = next_parameter(world, area, 0)
        world.episodes[area] += 1
        for j in range(AGENTS):
            show(world, area, area * AGENTS + j)


def draw_crowd(rows: Rows, _behavior: str) -> Drawing:
    """Draws each agent where its last action and its area's count are."""
    place = np.zeros((rows.areas, int(AGENTS), 3))
    place[..., 0] = rows["action_continuous"][..., 0]
    place[..., 1] = rows["age"][:, None]
    return Drawing((solids("agent", "box", place, 0.1, BLUE, agents=("", rows.slots)),), (1.0, 9.0, 1.0))


class Crowd(WarpEnv):
    """Three agents an area, of the behaviors Many and Few by turns; a vector (count, number), two things, hybrid
    actions.
    """

    behavior = "Crowd"
    behavior_names = ("Many", "Few")
    agents = int(AGENTS)
    summary = "A crowd that changes sides."
    rewards = ()
    episode = "ends after `length` decisions"
    benchmark = 0.0
    default_areas = 2
    parameter_ranges: ClassVar = {"length": (2.0, 1.0, 9.0)}

    program = Program(World, begin, tick, area_columns=("age", "length"))
    spec = BehaviorSpec((ObsSpec("vector", (2,)), ObsSpec("things", (2, 1))), ActionSpec(1, (4,)))
    picture = staticmethod(draw_crowd)
