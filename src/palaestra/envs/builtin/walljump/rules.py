"""The rules of WallJump: where an episode begins, which wall it has, and how it ends."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import next_parameter, save_final_obs
from palaestra.envs.builtin.physics.contacts import box_box
from palaestra.envs.builtin.physics.rigid_bodies import box_body
from palaestra.envs.builtin.sensors.rays import heading
from palaestra.envs.builtin.sensors.stacking import clear_frames
from palaestra.envs.builtin.walljump import motion
from palaestra.envs.builtin.walljump.motion import Order, Scene
from palaestra.envs.builtin.walljump.observations import GOAL_BOTTOM, GOAL_HALF, GOAL_PLACE, GOAL_TOP, World, observe

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(2000)  # of an episode
TICK_COST = wp.constant(0.0005)
# numbers of the behaviors
SMALL = wp.constant(0)
BIG = wp.constant(1)
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
    world.angle[i] = scene.agent.angle - 2.0 * wp.pi * wp.round(scene.agent.angle / (2.0 * wp.pi))
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
    """Returns whether the agent is in the goal, whatever is beneath."""
    if scene.height + motion.AGENT_HALF < GOAL_BOTTOM or scene.height - motion.AGENT_HALF > GOAL_TOP:
        return False
    to = scene.agent.position - GOAL_PLACE
    if wp.abs(to[0]) > GOAL_HALF[0] + 1.0 or wp.abs(to[1]) > GOAL_HALF[1] + 1.0:
        return False
    goal = box_body(GOAL_PLACE, wp.vec2(0.0, 0.0), 0.0, 0.0, GOAL_HALF, 0.0)
    return box_box(goal, scene.agent).count > 0


@wp.func
def end(world: World, i: int, scene: Scene, outcome: int):
    """Ends the episode, with its last observation, and starts the next one; returns its scene."""
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
def direction_of(choice: wp.int64):
    """Returns +1, -1 or 0 for the choices 1, 2 and 0."""
    return wp.where(choice == wp.int64(1), 1.0, wp.where(choice == wp.int64(2), -1.0, 0.0))


@wp.func
def read_order(world: World, i: int):
    """Returns the agent's action."""
    order = Order()
    order.ahead = direction_of(world.action[i, 0])
    order.turn = direction_of(world.action[i, 1])
    order.aside = -direction_of(world.action[i, 2])
    order.jump = world.action[i, 3] == wp.int64(1)
    return order


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks left after an episode's end pass in the next, without an action."""
    i = wp.tid()
    for branch in range(4):
        if world.action[i, branch] < wp.int64(0) or world.action[i, branch] > wp.int64(wp.where(branch == 3, 1, 2)):
            report[1] = i + 1
            world.action[i, branch] = wp.int64(0)
    world.played[i] = world.plays[i]
    world.terminated[i] = False
    world.truncated[i] = False
    order = read_order(world, i)
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
