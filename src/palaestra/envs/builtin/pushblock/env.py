"""PushBlock: push a block onto the goal, a strip along one wall.

The documentation leaves the sizes open. Ours are near Unity's: a room of 25 x 25 m with a strip of 3 m, an
agent of 1 x 1 m that gains 2 m/s a physics tick against a drag of 10 (8 m/s at most) and turns by 4 degrees; agent
and block start anywhere within half the room's sides. The episode ends as soon as the block touches the strip.
The two sensors look from -90 to 90 degrees in steps of 30; the first meets the block, the second looks over it.
Rays are as thick as a ball of 0.4 m where they meet the block, so that it seldom falls between two of them.
Masses are equal; `dynamic_friction` and `static_friction` are those of the block on the floor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import warp as wp

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing import figures as figures
from palaestra.envs.builtin.physics.rigid_bodies import (
    Body,
    add_speed,
    advance,
    apply_drag,
    apply_ground_friction,
    box_body,
    box_box,
    is_still,
    keep_box_within,
    resolve_contact,
)
from palaestra.envs.builtin.sensors.rays import heading, ray_angle, ray_box, ray_room, write_ray
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import GOLD, GREEN, Drawing, on_plane, solids, upright

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

wp.set_module_options({"enable_backward": False})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(1000)  # Unity's 5,000 physics ticks
ROOM = wp.constant(12.5)
GOAL_EDGE = wp.constant(9.5)  # the goal lies above it
AGENT_HALF = wp.constant(0.5)
SPEED = wp.constant(2.0)  # m/s that a tick of moving adds
SIDEWAYS = wp.constant(0.75)  # fraction of SPEED for sidesteps
AGENT_DRAG = wp.constant(10.0)
TURN = wp.constant(0.06981317)  # rad a tick: 200 degrees a second
MASS = wp.constant(10.0)  # mass of the agent and of the block
FRICTION = wp.constant(0.4)  # between agent, block and walls
SPIN_DRAG = wp.constant(2.0)
RAYS = wp.constant(7)  # rays of each sensor
RAY_STEP = wp.constant(0.5235988)  # 30 degrees
RAY_LENGTH = wp.constant(25.0)
RAY_RADIUS = wp.constant(0.4)  # less than the agent's, so that rays see the block that it pushes
TAGS = wp.constant(3)
WALL, GOAL, BLOCK = wp.constant(0), wp.constant(1), wp.constant(2)
OBS = int(RAYS) * 2 * (int(TAGS) + 2)


@wp.struct
class World:
    """Columns of PushBlock, one row per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    agent_position: wp.array(dtype=wp.vec2)  # from the room's middle
    agent_velocity: wp.array(dtype=wp.vec2)
    agent_angle: wp.array(dtype=wp.float32)  # from the x axis; the goal lies toward y
    block_position: wp.array(dtype=wp.vec2)
    block_velocity: wp.array(dtype=wp.vec2)
    block_angle: wp.array(dtype=wp.float32)
    block_spin: wp.array(dtype=wp.float32)
    parameters: wp.array2d(dtype=wp.float32)  # parameters of this episode
    pending: wp.array3d(dtype=wp.float32)  # block_scale, dynamic_friction, static_friction, block_drag
    episodes: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3, 4: turn right, left, 5, 6: to the left, right
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def block_body(world: World, i: int):
    """Returns the block of area `i` as a rigid body, in its current state."""
    side = 0.5 * world.parameters[i, 0]
    return box_body(world.block_position[i], world.block_velocity[i], world.block_angle[i], world.block_spin[i], wp.vec2(side, side), MASS)


@wp.func
def agent_body(world: World, i: int):
    """Returns the agent as it is now; contacts do not turn it."""
    agent = box_body(world.agent_position[i], world.agent_velocity[i], world.agent_angle[i], 0.0, wp.vec2(AGENT_HALF, AGENT_HALF), MASS)
    agent.inverse_inertia = 0.0
    return agent


@wp.func
def observe(world: World, i: int):
    """Writes the rays of both sensors."""
    eye = world.agent_position[i]
    block = world.block_position[i]
    angle = world.block_angle[i]
    reach = 0.5 * world.parameters[i, 0] + RAY_RADIUS
    half = wp.vec2(reach, reach)
    rays = int(RAYS)
    width = int(TAGS) + 2
    for k in range(rays):
        direction = heading(world.agent_angle[i] + ray_angle(k, RAY_STEP))
        far = ray_room(eye, direction, wp.vec2(ROOM, ROOM))
        tag = int(WALL)
        if eye[1] < GOAL_EDGE and eye[1] + far * direction[1] > GOAL_EDGE:
            far = (GOAL_EDGE - eye[1]) / direction[1]
            tag = int(GOAL)
        if far > RAY_LENGTH:
            tag = -1
        write_ray(world.obs, i, (rays + k) * width, int(TAGS), tag, far / RAY_LENGTH)
        near = ray_box(eye, direction, block, half, angle)
        if near < wp.min(far, RAY_LENGTH):
            far = near
            tag = int(BLOCK)
        write_ray(world.obs, i, k * width, int(TAGS), tag, far / RAY_LENGTH)


@wp.func
def start(world: World, i: int):
    """Starts an episode: agent and block apart, each within half the room's sides, at random angles."""
    for k in range(4):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    reach = 0.5 * ROOM
    apart = 0.75 * world.parameters[i, 0] + 1.0  # more than the sum of half diagonals
    block = wp.vec2(wp.randf(state, -reach, reach), wp.randf(state, -reach, reach))
    agent = block
    while wp.length(agent - block) < apart:
        agent = wp.vec2(wp.randf(state, -reach, reach), wp.randf(state, -reach, reach))
    world.agent_angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.block_angle[i] = wp.randf(state, -wp.pi, wp.pi)
    world.rng[i] = state
    world.agent_position[i] = agent
    world.agent_velocity[i] = wp.vec2(0.0, 0.0)
    world.block_position[i] = block
    world.block_velocity[i] = wp.vec2(0.0, 0.0)
    world.block_spin[i] = 0.0
    world.age[i] = 0
    world.episodes[i] += 1
    observe(world, i)


@wp.func
def move_direction(angle: float, action: int):
    """Returns the direction that an action moves in, scaled by its share of the speed."""
    ahead = heading(angle)
    if action == 1:
        return ahead
    if action == 2:
        return -ahead
    if action == 5:
        return SIDEWAYS * wp.vec2(-ahead[1], ahead[0])
    if action == 6:
        return SIDEWAYS * wp.vec2(ahead[1], -ahead[0])
    return wp.vec2(0.0, 0.0)


@wp.func
def is_in_goal(block: Body):
    """Returns whether a part of the block lies on the goal."""
    reach = block.half[0] * (wp.abs(wp.cos(block.angle)) + wp.abs(wp.sin(block.angle)))
    return block.position[1] + reach > GOAL_EDGE


@wp.func
def simulate(world: World, i: int, action: int):
    """Runs the physics of one decision; returns True if the block is in the goal, which ends the decision early."""
    agent = agent_body(world, i)
    block = block_body(world, i)
    room = wp.vec2(ROOM, ROOM)
    turn = wp.where(action == 4, TURN, 0.0) - wp.where(action == 3, TURN, 0.0)
    left = int(TICKS)
    scored = bool(False)  # Warp takes a literal for a constant
    while left > 0 and not scored:
        rested = is_still(block)
        agent.angle += turn
        agent = apply_drag(add_speed(agent, move_direction(agent.angle, action), SPEED), AGENT_DRAG, 0.0)
        block = apply_drag(block, world.parameters[i, 3], SPIN_DRAG)
        agent, block = resolve_contact(agent, block, box_box(agent, block), FRICTION)
        block = apply_ground_friction(block, rested, world.parameters[i, 2], world.parameters[i, 1])
        agent = keep_box_within(advance(agent), room, 0.0)
        block = keep_box_within(advance(block), room, FRICTION)
        scored = is_in_goal(block)
        left -= 1
    world.agent_position[i] = agent.position
    world.agent_velocity[i] = agent.velocity
    world.agent_angle[i] = agent.angle - 2.0 * wp.pi * wp.round(agent.angle / (2.0 * wp.pi))
    world.block_position[i] = block.position
    world.block_velocity[i] = block.velocity
    world.block_angle[i] = block.angle - 2.0 * wp.pi * wp.round(block.angle / (2.0 * wp.pi))
    world.block_spin[i] = block.spin
    return scored


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = int(world.action[i, 0])
    if world.action[i, 0] < wp.int64(0) or world.action[i, 0] > wp.int64(6):
        report[1] = i + 1
        action = 0
    scored = simulate(world, i, action)
    age = world.age[i] + 1
    world.age[i] = age
    world.reward[i] = wp.where(scored, 5.0, 0.0) - 0.0025
    world.terminated[i] = scored
    world.truncated[i] = age >= MOST_DECISIONS and not scored
    observe(world, i)
    if scored or age >= MOST_DECISIONS:
        report[0] = 1
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)


PROGRAM = Program(World, begin, tick)


def shove(columns: Mapping[str, torch.Tensor]) -> Action:
    """Faces the goal, goes around the block to its far side, and pushes it ahead; corrects sideways when it slips off."""
    agent, block, half = columns["agent_position"], columns["block_position"], 0.5 * columns["parameters"][:, 0]
    (x, y), reach = (agent - block).unbind(1), 1.2 * half + float(AGENT_HALF)
    rest = x + columns["agent_velocity"][:, 0] / float(AGENT_DRAG)  # where the agent would come to
    off = torch.remainder(columns["agent_angle"] - 0.5 * torch.pi + torch.pi, 2 * torch.pi) - torch.pi
    is_below, is_beside = y < -half - 0.4, x.abs() > reach
    side = torch.where(block[:, 0].abs() + reach > float(ROOM) - 1, -block[:, 0].sign(), torch.where(x < 0, -1.0, 1.0))
    aside = torch.where(side < 0, 5, 6)
    onward = torch.where(rest.abs() < 0.2 * half + 0.35, 1, torch.where(rest > 0, 5, 6))
    around = torch.where(is_beside | (y < -half), 2, aside)
    choice = torch.where(is_below, onward, around)
    choice = torch.where(off > 0.2, 3, torch.where(off < -0.2, 4, choice))
    return Action(torch.zeros(len(choice), 0, device=choice.device), choice[:, None])


def draw_room(rows: Rows, behavior: str) -> Drawing:
    """Draws the room with the goal along its far wall, the block, and the agent."""
    room, edge, side = float(ROOM), float(GOAL_EDGE), rows["parameters"][:, :1]
    tall = 0.8 * side
    size, turn = np.stack([side, tall, side], -1), upright(rows["block_angle"][:, None])
    shapes = (
        *figures.room(rows.areas, (room, room)),
        figures.plate("goal", rows.areas, (0.0, (room + edge) / 2), (room, (room - edge) / 2), GREEN),
        solids("block", "box", on_plane(rows["block_position"][:, None], tall / 2), size, GOLD, rotation=turn),
        *figures.agent(
            rows["agent_position"][:, None], rows["agent_angle"][:, None], float(AGENT_HALF), (behavior, rows.slots), shape="box"
        ),
    )
    return Drawing(shapes, (room + 0.4, 1.2, room + 0.4), center=(0.0, 0.6, 0.0))


class PushBlock(WarpEnv):
    """PushBlock: 14 rays of 5 numbers (wall, goal, block, nothing, distance), discrete [7]."""

    behavior = "PushBlock"
    summary = "An agent pushes a block onto the goal."
    rewards = ("-0.0025 a decision", "+5 when the block reaches the goal")
    episode = "ends when the block reaches the goal, and is truncated after 1,000 decisions (5,000 physics ticks)"
    benchmark = 4.5
    default_areas = 32
    most_decisions = int(MOST_DECISIONS)
    tick_seconds = 0.1
    parameter_ranges: ClassVar = {
        "block_scale": (2.0, 0.5, 4.0),
        "dynamic_friction": (0.0, 0.0, 1.0),
        "static_friction": (0.0, 0.0, 1.0),
        "block_drag": (0.5, 0.0, 2000.0),
    }
    ray_fans: ClassVar = {
        behavior: (
            RayFan("rays", unity_order(int(RAYS), float(RAY_STEP)), float(RAY_LENGTH), ("wall", "goal", "block")),
            RayFan(
                "rays", unity_order(int(RAYS), float(RAY_STEP)), float(RAY_LENGTH), ("wall", "goal", "block"), first=OBS // 2, height=0.4
            ),
        )
    }

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        spec = BehaviorSpec((ObsSpec("rays", (OBS,)),), ActionSpec(branches=(7,)), steady=True)
        super().__init__(PROGRAM, spec, areas, device, obs=OBS, final_obs=OBS, action=1, parameters=4)

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns `shove`'s actions; None for another behavior."""
        return shove(self._columns) if behavior == self.behavior else None

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_room(rows, self.behavior)
