"""WallJump: its columns, what its sensors observe, where an episode begins, which wall the episode has, and how it
ends."""

from __future__ import annotations

import math

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import checked_choice, direction_of, next_parameter, save_final_obs
from palaestra.envs.builtin.physics.rigid_bodies import box_body, box_box, fixed_box
from palaestra.envs.builtin.sensors.rays import MISS, clear_frames, heading, shift_frames, wrapped, write_ray
from palaestra.envs.builtin.sensors.sphere_casts import (
    FLUSH,
    cast_upright_box,
    cast_upright_solid_box,
    gap_to_box,
    reach_beside,
    touches_box,
)
from palaestra.envs.builtin.walljump import motion
from palaestra.envs.builtin.walljump.motion import BLOCK_HALF, BLOCK_TOP, WALL_HALF, WALL_Y, Order, Scene

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

FRAMES = 6
RAYS = wp.constant(7)  # rays of each sensor
RAY_STEP = wp.constant(math.pi / 6)
STEP_COS = wp.constant(math.cos(math.pi / 6))
STEP_SIN = wp.constant(math.sin(math.pi / 6))
SIGHT = wp.constant(20.0)  # meters in the plane
RAY_RADIUS = wp.constant(0.5)
EYE_UP = wp.constant(2.5)  # height of the offset rays above the agent's middle, and their rise over their length
RISING_SIGHT = wp.constant(math.hypot(20.0, 2.5))  # length of a ray that rises
RISING_RADIUS = wp.constant(0.5 * math.hypot(20.0, 2.5) / 20.0)  # Unity scales it with the length
ALONG = wp.constant(20.0 / math.hypot(20.0, 2.5))
UPWARD = wp.constant(2.5 / math.hypot(20.0, 2.5))
GOAL_PLACE = wp.constant(wp.vec2(6.37, 2.93))
GOAL_HALF = wp.constant(wp.vec2(2.0, 2.0))
GOAL_BOTTOM = wp.constant(0.49)
GOAL_TOP = wp.constant(5.49)
TAGS = wp.constant(3)
WALL, GOAL, BLOCK = (wp.constant(tag) for tag in range(3))
FRAME = wp.constant(35)  # numbers of a frame of a ray sensor
SELF = wp.constant(4)  # numbers of a frame of the vector
SPAN = wp.constant(20.0)  # meters by which the position is divided
MIDDLE_Y = wp.constant(-4.0)  # of the ground, where the observed position begins


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of WallJump, one row per area."""

    lead: wp.array(dtype=wp.int32)  # physics ticks of this episode before its first decision
    agent: wp.array(dtype=wp.vec2)
    agent_speed: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # heading of the agent, counterclockwise from the wall's direction
    spin: wp.array(dtype=wp.float32)  # rad/s
    height: wp.array(dtype=wp.float32)  # of the agent's middle
    climb: wp.array(dtype=wp.float32)
    jump: wp.array(dtype=wp.int32)
    jump_from: wp.array(dtype=wp.float32)
    grounded: wp.array(dtype=wp.bool)
    block: wp.array(dtype=wp.vec2)
    block_speed: wp.array(dtype=wp.vec2)
    wall: wp.array(dtype=wp.float32)  # height of the wall's top
    gravity: wp.array(dtype=wp.float32)
    plays: wp.array(dtype=wp.int32)
    played: wp.array(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)
    obs_offset: wp.array2d(dtype=wp.float32)
    obs_level: wp.array2d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)


@wp.struct
class Box:
    """A box with its sides along the axes, as level or rising rays may meet it."""

    to: wp.vec2  # from its center to the eye
    half: wp.vec2
    reach: wp.float32  # radius that counts in the plane; 0: not met
    seen: wp.bool


@wp.func
def is_behind(to: wp.vec2, half: wp.vec2, reach: float, ahead: wp.vec2):
    """Returns whether no ray can meet a box because all of it is behind the agent; `to` leads from the box's center."""
    return wp.dot(to, ahead) > wp.abs(ahead[0]) * half[0] + wp.abs(ahead[1]) * half[1] + reach


@wp.func
def level_box(eye: wp.vec2, ahead: wp.vec2, center: wp.vec2, half: wp.vec2, gap: float):
    """Returns a box for level rays that pass `gap` meters above or below it; a negative gap: they cross it."""
    box = Box()
    box.to = eye - center
    box.half = half
    box.reach = reach_beside(RAY_RADIUS, wp.max(gap, 0.0))
    box.seen = (
        box.reach > 0.0 and not is_behind(box.to, half, box.reach, ahead) and not touches_box(box.to, half, box.reach)
    )
    return box


@wp.func
def cast_level(box: Box, way: wp.vec2):
    """Returns the distance to a box along a unit direction, or MISS."""
    if not box.seen:
        return MISS
    return cast_upright_box(box.to, way, box.half, box.reach)


@wp.struct
class Solid:
    """A box with its sides along the axes, as rising rays may meet it."""

    to: wp.vec3  # from its center to the eye
    half: wp.vec3
    seen: wp.bool


@wp.func
def rising_box(eye: wp.vec3, ahead: wp.vec2, center: wp.vec2, half: wp.vec2, bottom: float, top: float):
    """Returns a box as rising rays meet it: it is seen if the rays begin below its top and beside it, and it is not
    behind the agent."""
    box = Solid()
    box.to = eye - wp.vec3(center[0], center[1], 0.5 * (bottom + top))
    box.half = wp.vec3(half[0], half[1], 0.5 * (top - bottom))
    box.seen = False
    if (
        eye[2] - RISING_RADIUS <= top
        and top > bottom
        and not is_behind(wp.vec2(box.to[0], box.to[1]), half, RISING_RADIUS, ahead)
    ):
        box.seen = gap_to_box(box.to, box.half) > RISING_RADIUS + FLUSH
    return box


@wp.func
def cast_rising(box: Solid, way: wp.vec3):
    """Returns the distance to a box along a unit direction that rises, or MISS."""
    if not box.seen:
        return MISS
    return cast_upright_solid_box(box.to, way, box.half, RISING_RADIUS)


@wp.func
def observe_level(world: World, i: int, ahead: wp.vec2, at: int):
    """Writes the level rays from column `at` on."""
    eye = world.agent[i]
    height = world.height[i]
    wall = level_box(eye, ahead, wp.vec2(0.0, WALL_Y), WALL_HALF, height - world.wall[i])
    goal = level_box(eye, ahead, GOAL_PLACE, GOAL_HALF, wp.max(height - GOAL_TOP, GOAL_BOTTOM - height))
    block = level_box(eye, ahead, world.block[i], wp.vec2(BLOCK_HALF, BLOCK_HALF), height - BLOCK_TOP)
    right = ahead
    left = right
    for k in range(RAYS):
        way = wp.where(k % 2 == 1, right, left)
        nearest = cast_level(wall, way)
        tag = int(WALL)
        distance = cast_level(goal, way)
        if distance < nearest:
            nearest = distance
            tag = GOAL
        distance = cast_level(block, way)
        if distance < nearest:
            nearest = distance
            tag = BLOCK
        tag = wp.where(nearest <= SIGHT, tag, -1)
        write_ray(world.obs_level, i, at + k * (TAGS + 2), TAGS, tag, nearest / SIGHT)
        if k % 2 == 0:
            right = wp.vec2(STEP_COS * right[0] + STEP_SIN * right[1], STEP_COS * right[1] - STEP_SIN * right[0])
            left = wp.vec2(STEP_COS * left[0] - STEP_SIN * left[1], STEP_COS * left[1] + STEP_SIN * left[0])


@wp.func
def observe_offset(world: World, i: int, ahead: wp.vec2, at: int):
    """Writes the rising rays from column `at` on; they begin above the block."""
    eye = wp.vec3(world.agent[i][0], world.agent[i][1], world.height[i] + EYE_UP)
    wall = rising_box(eye, ahead, wp.vec2(0.0, WALL_Y), WALL_HALF, -world.wall[i], world.wall[i])
    goal = rising_box(eye, ahead, GOAL_PLACE, GOAL_HALF, GOAL_BOTTOM, GOAL_TOP)
    right = ALONG * ahead
    left = right
    for k in range(RAYS):
        flat = wp.where(k % 2 == 1, right, left)
        way = wp.vec3(flat[0], flat[1], UPWARD)
        nearest = cast_rising(wall, way)
        tag = int(WALL)
        distance = cast_rising(goal, way)
        if distance < nearest:
            nearest = distance
            tag = GOAL
        tag = wp.where(nearest <= RISING_SIGHT, tag, -1)
        write_ray(world.obs_offset, i, at + k * (TAGS + 2), TAGS, tag, nearest / RISING_SIGHT)
        if k % 2 == 0:
            right = wp.vec2(STEP_COS * right[0] + STEP_SIN * right[1], STEP_COS * right[1] - STEP_SIN * right[0])
            left = wp.vec2(STEP_COS * left[0] - STEP_SIN * left[1], STEP_COS * left[1] + STEP_SIN * left[0])


@wp.func
def observe(world: World, i: int):
    """Adds a frame to each observation."""
    ahead = heading(world.angle[i])
    observe_offset(world, i, ahead, shift_frames(world.obs_offset, i, FRAME))
    observe_level(world, i, ahead, shift_frames(world.obs_level, i, FRAME))
    at = shift_frames(world.obs_vector, i, SELF)
    place = world.agent[i]
    world.obs_vector[i, at] = place[0] / SPAN
    world.obs_vector[i, at + 1] = world.height[i] / SPAN
    world.obs_vector[i, at + 2] = (place[1] - MIDDLE_Y) / SPAN
    world.obs_vector[i, at + 3] = wp.where(world.grounded[i], 1.0, 0.0)


TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(2000)  # of an episode
TICK_COST = wp.constant(0.0005)
SMALL, BIG = (wp.constant(number) for number in range(2))  # behaviors
# the agent's start: anywhere along the line
START_X = wp.constant(9.0)
START_Y = wp.constant(-12.0)
START_HEIGHT = wp.constant(1.0)
# the block's: half sides, and middle
BLOCK_X = wp.constant(8.1)
BLOCK_Y = wp.constant(-6.27)
BLOCK_DEEP = wp.constant(3.5)


@wp.func
def start(world: World, i: int):
    """Starts an episode: the agent, which keeps its heading and spin, behind the block, and one wall of five."""
    state = world.rng[i]
    world.block[i] = wp.vec2(wp.randf(state, -BLOCK_X, BLOCK_X), BLOCK_Y + wp.randf(state, -BLOCK_DEEP, BLOCK_DEEP))
    world.agent[i] = wp.vec2(wp.randf(state, -START_X, START_X), START_Y)
    kind = wp.randi(state, 0, 5)
    world.rng[i] = state
    world.plays[i] = wp.where(kind < 2, SMALL, BIG)
    world.wall[i] = 0.5 * next_parameter(world, i, wp.min(kind, 2))  # half of its height is below 0
    world.gravity[i] = next_parameter(world, i, 3)
    world.agent_speed[i] = wp.vec2(0.0, 0.0)
    world.block_speed[i] = wp.vec2(0.0, 0.0)
    world.height[i] = START_HEIGHT
    world.climb[i] = 0.0
    world.grounded[i] = True
    world.age[i] = 0
    world.lead[i] = 0
    world.episodes[i] += 1
    clear_frames(world.obs_offset, i)
    clear_frames(world.obs_level, i)
    clear_frames(world.obs_vector, i)


@wp.func
def load_scene(world: World, i: int):
    """Returns the scene of an area."""
    scene = Scene()
    scene.agent = box_body(
        world.agent[i],
        world.agent_speed[i],
        world.angle[i],
        world.spin[i],
        wp.vec2(motion.AGENT_HALF, motion.AGENT_HALF),
        motion.AGENT_MASS,
    )
    scene.ahead = heading(world.angle[i])
    scene.block = motion.block_body(world.block[i], world.block_speed[i])
    scene.height = world.height[i]
    scene.climb = world.climb[i]
    scene.jump = world.jump[i]
    scene.jump_from = world.jump_from[i]
    scene.wall = world.wall[i]
    scene.gravity = world.gravity[i]
    return scene


@wp.func
def store_scene(world: World, i: int, scene: Scene):
    """Writes the scene back."""
    world.agent[i] = scene.agent.position
    world.agent_speed[i] = scene.agent.velocity
    world.angle[i] = wrapped(scene.agent.angle)
    world.spin[i] = scene.agent.spin
    world.block[i] = scene.block.position
    world.block_speed[i] = scene.block.velocity
    world.height[i] = scene.height
    world.climb[i] = scene.climb
    world.jump[i] = scene.jump
    world.jump_from[i] = scene.jump_from
    world.grounded[i] = motion.is_grounded(scene)


@wp.func
def is_in_goal(scene: Scene):
    """Returns whether the agent is in the goal, at any height."""
    if scene.height + motion.AGENT_HALF < GOAL_BOTTOM or scene.height - motion.AGENT_HALF > GOAL_TOP:
        return False
    to = scene.agent.position - GOAL_PLACE
    if wp.abs(to[0]) > GOAL_HALF[0] + 1.0 or wp.abs(to[1]) > GOAL_HALF[1] + 1.0:
        return False
    goal = fixed_box(GOAL_PLACE, GOAL_HALF, 0.0)
    return box_box(goal, scene.agent).count > 0


@wp.func
def end(world: World, i: int, scene: Scene, outcome: int):
    """Ends the episode, with its last observation, and starts the next episode; returns the next episode's scene."""
    store_scene(world, i, scene)
    world.terminated[i] = outcome != 0
    world.truncated[i] = outcome == 0
    observe(world, i)
    save_final_obs(world.obs_offset, world.final_obs_offset, i)
    save_final_obs(world.obs_level, world.final_obs_level, i)
    save_final_obs(world.obs_vector, world.final_obs_vector, i)
    start(world, i)
    return load_scene(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area, each agent with its back to the wall."""
    i = wp.tid()
    world.angle[i] = -0.5 * wp.pi
    world.spin[i] = 0.0
    world.jump[i] = 0
    start(world, i)
    world.played[i] = world.plays[i]
    observe(world, i)


@wp.func
def read_order(world: World, i: int, report: wp.array(dtype=wp.int32)):
    """Returns the agent's action."""
    order = Order()
    order.ahead = direction_of(checked_choice(world, i, 0, 3, report))
    order.turn = direction_of(checked_choice(world, i, 1, 3, report))
    order.aside = -direction_of(checked_choice(world, i, 2, 3, report))
    order.jump = checked_choice(world, i, 3, 2, report) == 1
    return order


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after an episode's end run in the next, without an action."""
    i = wp.tid()
    world.played[i] = world.plays[i]
    world.terminated[i] = False
    world.truncated[i] = False
    order = read_order(world, i, report)
    scene = load_scene(world, i)
    ended = bool(False)  # Warp takes a literal for a constant
    passed = int(0)
    outcome = int(0)
    reward = float(0.0)
    left = MOST_TICKS - world.lead[i] - TICKS * world.age[i]
    for k in range(TICKS + 1):
        if not ended and outcome != 0:  # it has reached the goal in the last tick
            ended = True
            passed = TICKS - k
            order = Order()
            scene = end(world, i, scene, outcome)
        if k < TICKS:
            scene, push, gravity = motion.steer(scene, order)
            if not ended:
                reward -= TICK_COST
                if motion.is_lost(scene):
                    outcome = -1
                if outcome != 0 or k + 1 >= left:  # after the tick's action, whose push acts in the next episode
                    ended = True
                    passed = TICKS - k - 1
                    order = Order()
                    scene = end(world, i, scene, outcome)
            scene.agent.velocity += push
            was_in_goal = is_in_goal(scene)  # PhysX looks for contacts before it moves anything
            scene = motion.move(scene, gravity)
            if not ended and was_in_goal and motion.is_grounded(scene):
                outcome = 1
    if outcome != 0:
        reward = float(outcome)  # replaces what the decision has earned
    store_scene(world, i, scene)
    world.reward[i] = reward
    if ended:
        report[0] = 1
        world.lead[i] = passed
    else:
        world.age[i] += 1
    observe(world, i)


PROGRAM = Program(World, begin, tick)
