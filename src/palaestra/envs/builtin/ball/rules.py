"""Columns and kernels of the environments with a ball: how episodes begin, their ticks, and observations."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.ball.motion import DEGREE, Sphere, has_fallen, step_ball, tilt_block
from palaestra.envs.builtin.ball.picture import paint_scene
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import next_parameter, save_final_obs
from palaestra.envs.builtin.sensors.rays import clear_frames, shift_frames

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(5000)
START_RANGE = wp.constant(1.5)  # meters from the middle, along x and z
START_HEIGHT = wp.constant(4.0)  # meters, of the ball's center above the block's
START_TILT = wp.constant(10.0)  # degrees
COLORS = wp.constant(3)  # channels of a picture


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of games with a ball, a row per area. Observations that a variant of the game lacks have width 0."""

    tilt: wp.array(dtype=wp.quat)
    position: wp.array(dtype=wp.vec3)  # position of the ball, from the block's center
    velocity: wp.array(dtype=wp.vec3)
    spin: wp.array(dtype=wp.vec3)  # rad/s; a new episode does not stop it
    parameters: wp.array2d(dtype=wp.float32)  # scale, gravity, mass of this episode
    is_new: wp.array(dtype=wp.bool)  # whether the episode began in the last decision
    final_tilt: wp.array(dtype=wp.quat)  # the block's, where the last episode ended
    final_position: wp.array(dtype=wp.vec3)
    final_radius: wp.array(dtype=wp.float32)
    action: wp.array2d(dtype=wp.float32)
    obs: wp.array2d(dtype=wp.float32)  # 8: the block's rotation z and x, the ball's position and velocity
    obs_position: wp.array2d(dtype=wp.float32)  # frames of 3, the oldest first
    obs_rotation: wp.array2d(dtype=wp.float32)  # frames of 2
    obs_image: wp.array4d(dtype=wp.float32)  # frames of 3 channels


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, after moving older frames back by one; `draw` paints pictures."""
    tilt = world.tilt[i]
    position = world.position[i]
    velocity = world.velocity[i]
    if world.obs.shape[1] > 0:
        world.obs[i, 0] = tilt[2]
        world.obs[i, 1] = tilt[0]
        for k in range(3):
            world.obs[i, 2 + k] = position[k]
            world.obs[i, 5 + k] = velocity[k]
    if world.obs_position.shape[1] > 0:
        at = shift_frames(world.obs_position, i, 3)
        for k in range(3):
            world.obs_position[i, at + k] = position[k]
        at = shift_frames(world.obs_rotation, i, 2)
        world.obs_rotation[i, at] = tilt[2]
        world.obs_rotation[i, at + 1] = tilt[0]


@wp.func
def start(world: World, i: int):
    """Starts an episode: a block tilted by up to 10 degrees about x, then z, and the ball above it; no old frames."""
    for k in range(3):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    about_x = wp.randf(state, -START_TILT, START_TILT) * DEGREE
    about_z = wp.randf(state, -START_TILT, START_TILT) * DEGREE
    x = wp.randf(state, -START_RANGE, START_RANGE)
    z = wp.randf(state, -START_RANGE, START_RANGE)
    world.rng[i] = state
    world.tilt[i] = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), about_x) * wp.quat_from_axis_angle(
        wp.vec3(0.0, 0.0, 1.0), about_z
    )
    world.position[i] = wp.vec3(x, START_HEIGHT, z)
    world.velocity[i] = wp.vec3(0.0, 0.0, 0.0)
    world.age[i] = 0
    world.is_new[i] = True
    world.episodes[i] += 1
    clear_frames(world.obs_position, i)
    clear_frames(world.obs_rotation, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    world.spin[i] = wp.vec3(0.0, 0.0, 0.0)
    start(world, i)
    observe(world, i)


@wp.func
def finish(world: World, i: int):
    """Ends the episode: saves its final observation, and starts the next."""
    observe(world, i)
    save_final_obs(world.obs, world.final_obs, i)
    save_final_obs(world.obs_position, world.final_obs_position, i)
    save_final_obs(world.obs_rotation, world.final_obs_rotation, i)
    world.final_tilt[i] = world.tilt[i]
    world.final_position[i] = world.position[i]
    world.final_radius[i] = 0.5 * world.parameters[i, 0]
    start(world, i)


@wp.func
def simulate(world: World, i: int, action: wp.vec2):
    """Runs a decision's physics ticks; ticks left after an episode's end run in the next episode, with no action."""
    about_z = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 2.0 * DEGREE * action[0])
    about_x = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 2.0 * DEGREE * action[1])
    radius = 0.5 * world.parameters[i, 0]
    gravity = world.parameters[i, 1]
    tilt = world.tilt[i]
    ball = Sphere()
    ball.position = world.position[i]
    ball.velocity = world.velocity[i]
    ball.spin = world.spin[i]
    age = world.age[i]
    over = bool(False)  # Warp takes a literal for a constant
    for _ in range(TICKS):
        tilt = tilt_block(tilt, about_z, about_x)
        fallen = has_fallen(ball.position)
        age += 1
        if (fallen or age >= MOST_TICKS) and not over:
            over = True
            world.reward[i] = wp.where(fallen, -1.0, 0.1)
            world.terminated[i] = fallen
            world.truncated[i] = not fallen
            world.tilt[i] = wp.normalize(tilt)
            world.position[i] = ball.position
            world.velocity[i] = ball.velocity
            finish(world, i)
            about_z = wp.quat_identity()
            about_x = wp.quat_identity()
            radius = 0.5 * world.parameters[i, 0]
            gravity = world.parameters[i, 1]
            tilt = world.tilt[i]
            ball.position = world.position[i]
            ball.velocity = world.velocity[i]
            age = 0
        ball = step_ball(ball, tilt, radius, gravity)
    world.tilt[i] = wp.normalize(tilt)
    world.position[i] = ball.position
    world.velocity[i] = ball.velocity
    world.spin[i] = ball.spin
    world.age[i] = age
    return over


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = wp.vec2(world.action[i, 0], world.action[i, 1])
    if not wp.isfinite(action):
        report[1] = i + 1
        action = wp.vec2(0.0, 0.0)
    world.is_new[i] = False
    world.reward[i] = 0.1  # the last tick's: it replaces those of the ticks before
    world.terminated[i] = False
    world.truncated[i] = False
    if simulate(world, i, wp.vec2(wp.clamp(action[0], -1.0, 1.0), wp.clamp(action[1], -1.0, 1.0))):
        report[0] = 1
    observe(world, i)


@wp.func
def push_picture(image: wp.array4d(dtype=wp.float32), i: int, y: int, tilt: wp.quat, position: wp.vec3, radius: float):
    """Moves row y of the older pictures back by one, and paints row y of the newest picture."""
    newest = image.shape[1] - COLORS
    for channel in range(newest):
        for x in range(image.shape[3]):
            image[i, channel, y, x] = image[i, channel + COLORS, y, x]
    paint_scene(image, i, newest, y, tilt, position, radius)


@wp.kernel
def draw(world: World):
    """Paints one row of an agent's pictures per thread, and of its final pictures if an episode has ended."""
    i, y = wp.tid()
    if world.terminated[i] or world.truncated[i]:
        push_picture(world.obs_image, i, y, world.final_tilt[i], world.final_position[i], world.final_radius[i])
        for channel in range(world.obs_image.shape[1]):
            for x in range(world.obs_image.shape[3]):
                world.final_obs_image[i, channel, y, x] = world.obs_image[i, channel, y, x]
    if world.is_new[i]:
        for channel in range(world.obs_image.shape[1]):
            for x in range(world.obs_image.shape[3]):
                world.obs_image[i, channel, y, x] = 0.0
    push_picture(world.obs_image, i, y, world.tilt[i], world.position[i], 0.5 * world.parameters[i, 0])


PROGRAM = Program(World, begin, tick)
VISUAL = Program(World, begin, tick, draw)
