"""Rules that all creatures share: actions, the block to which they walk, the frame of their observations, episodes."""

from __future__ import annotations

from typing import Any

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import next_parameter, save_final_obs
from palaestra.envs.builtin.creatures.simd_solver import TOGETHER, fill_lanes, solve_rounds
from palaestra.envs.builtin.creatures.solver import LAST_ROUNDS, MOST_SPIN, ROUNDS, TICK, prepare_joint
from palaestra.envs.builtin.creatures.touches import TOUCH, find_inner_contact, find_outer_contacts, shape_middle
from palaestra.envs.builtin.creatures.world import World


@wp.func
def turned(rotation: wp.quat, spin: wp.vec3):
    """Returns a rotation one tick later. The sign of the quaternion does not jump."""
    angle = wp.length(spin) * TICK
    if angle < 1.0e-9:
        return rotation
    return wp.normalize(wp.quat_from_axis_angle(wp.normalize(spin), angle) * rotation)


@wp.func
def simulate_tick(world: World, first: int, areas: int):
    """Moves the creatures of some areas by a tick."""
    for i in range(first, first + areas):
        prepare_tick(world, i)
    softness = 1.0 / (TICK * (world.anatomy.damper + TICK * world.anatomy.spring))
    slots = fill_lanes(world, first, areas)
    solve_rounds(world, first, areas, slots, ROUNDS, 1.0, softness)
    for i in range(first, first + areas):
        for part in range(world.anatomy.parts):
            world.position[i, part] = world.position[i, part] + world.velocity[i, part] * TICK
            world.rotation[i, part] = turned(world.rotation[i, part], world.spin[i, part])
    solve_rounds(world, first, areas, slots, LAST_ROUNDS, 0.0, softness)


@wp.func
def prepare_tick(world: World, i: int):
    """Adds gravity and drag, and writes the rows of joints and contacts."""
    world.scratch.contacts[i] = 0
    for part in range(world.anatomy.parts):
        axes = wp.quat_to_matrix(world.rotation[i, part])
        world.scratch.inertia[i, part] = axes * world.anatomy.inverse_inertia[part] * wp.transpose(axes)
    for part in range(world.anatomy.parts):
        find_outer_contacts(world, i, part)
    for k in range(world.anatomy.pairs):
        find_inner_contact(world, i, k)
    pull = wp.vec3(0.0, world.pull[i], 0.0)
    for part in range(world.anatomy.parts):
        world.velocity[i, part] = (world.velocity[i, part] - pull) * (1.0 - world.anatomy.drag * TICK)
        spin = world.spin[i, part] * (1.0 - world.anatomy.angular_drag * TICK)
        world.spin[i, part] = spin * wp.min(1.0, MOST_SPIN / wp.max(wp.length(spin), 1.0e-6))
    for k in range(world.anatomy.joints):
        prepare_joint(world, i, k)


PLAIN_LOOPS = {"max_unroll": 1}
"""Options of both kernels: with unrolled loops, Warp's default, CUDA's compiler takes over ten minutes."""

PARAMETER_RANGES = {"gravity": (14.715, 1.0, 100.0)}
TICKS = wp.constant(5)  # per decision
MOST_TICKS = wp.constant(5000)  # of an episode
MOST_DECISIONS = MOST_TICKS // TICKS
DECISION_SECONDS = TICKS * TICK
HALF_TURN = wp.constant(3.14159265358979)


@wp.func
def frame_turn(world: World, i: int):
    """Returns the rotation of the frame of observations. Its sign is the sign of Unity's LookRotation."""
    half = 0.5 * world.frame_yaw[i]
    return wp.quat(0.0, wp.sin(half), 0.0, wp.cos(half))


@wp.func
def update_frame(world: World, i: int):
    """Moves the frame of observations to the creature, and turns it toward the block, as seen from its old position."""
    away = world.block[i] - world.frame_place[i]
    yaw = wp.atan2(away[0], away[2])
    if yaw < -HALF_TURN * 2.0 / 3.0:  # from here on a matrix turns into a quaternion of the other sign
        yaw += 2.0 * HALF_TURN
    world.frame_yaw[i] = yaw
    world.frame_place[i] = origin(world, i, 0)


@wp.func
def origin(world: World, i: int, part: int):
    """Returns a part's own position, which is not its center of mass."""
    return world.position[i, part] - wp.quat_rotate(world.rotation[i, part], world.anatomy.center[part])


@wp.func
def forward(rotation: wp.quat):
    """Returns the direction of a rotation's z axis."""
    return wp.quat_rotate(rotation, wp.vec3(0.0, 0.0, 1.0))


@wp.func
def mean_velocity(world: World, i: int):
    """Returns the mean of the velocities of all parts."""
    total = wp.vec3(0.0, 0.0, 0.0)
    for part in range(world.anatomy.parts):
        total += world.velocity[i, part]
    return total / float(world.anatomy.parts)


@wp.func
def speed_reward(velocity: wp.vec3, goal: wp.vec3, speed: float):
    """Returns 1 at the goal velocity, falling to 0 if the velocity differs from it by `speed`."""
    share = wp.clamp(wp.length(velocity - goal), 0.0, speed) / speed
    return (1.0 - share * share) * (1.0 - share * share)


@wp.func
def shortest_turn(a: wp.vec3, b: wp.vec3):
    """Returns the rotation by the shortest way from one unit vector to another."""
    w = 1.0 + wp.dot(a, b)
    if w < 1.0e-6:  # half a turn
        return wp.quat(0.0, 1.0, 0.0, 0.0)
    axis = wp.cross(a, b)
    return wp.normalize(wp.quat(axis[0], axis[1], axis[2], w))


@wp.func
def touches_ground(world: World, i: int, part: int):
    """Returns whether a part touches the ground."""
    return world.touches[i, part] == 1


@wp.func
def write_vector(obs: wp.array2d(dtype=float), i: int, at: int, v: wp.vec3):
    """Writes three numbers of an observation; returns the column after them."""
    for k in range(3):
        obs[i, at + k] = v[k]
    return at + 3


@wp.func
def write_rotation(obs: wp.array2d(dtype=float), i: int, at: int, q: wp.quat):
    """Writes the four numbers of a rotation; returns the column after them."""
    for k in range(4):
        obs[i, at + k] = q[k]
    return at + 4


@wp.func
def local_rotation(world: World, i: int, part: int):
    """Returns a part's rotation relative to its parent."""
    return wp.quat_inverse(world.rotation[i, world.anatomy.parent[part]]) * world.rotation[i, part]


@wp.func
def place_block(world: World, i: int):
    """Lets the block fall from a new place: a point within a ball around its start, at the height of the start."""
    anatomy = world.anatomy
    state = world.rng[i]
    distance = anatomy.block_range * wp.pow(wp.randf(state), 1.0 / 3.0)
    height = wp.randf(state, -1.0, 1.0)
    angle = wp.randf(state, 0.0, 2.0 * HALF_TURN)
    world.rng[i] = state
    flat = distance * wp.sqrt(1.0 - height * height)
    world.block[i] = anatomy.block_start + wp.vec3(flat * wp.cos(angle), 0.0, flat * wp.sin(angle))


@wp.func
def distance_to_block(world: World, i: int, point: wp.vec3):
    """Returns the distance of a point from the block's surface; 0 inside the block."""
    away = point - world.block[i]
    beyond = wp.vec3(
        wp.max(wp.abs(away[0]) - world.anatomy.block_half, 0.0),
        wp.max(wp.abs(away[1]) - world.anatomy.block_half, 0.0),
        wp.max(wp.abs(away[2]) - world.anatomy.block_half, 0.0),
    )
    return wp.length(beyond)


@wp.func
def touches_block(world: World, i: int, part: int):
    """Returns whether a part touches the block. A capsule is tested at five points along it."""
    anatomy = world.anatomy
    if anatomy.snout_radius[part] > 0.0:
        snout = world.position[i, part] + wp.quat_rotate(world.rotation[i, part], anatomy.snout[part])
        if distance_to_block(world, i, snout) < anatomy.snout_radius[part] + TOUCH:
            return True
    if anatomy.hunts[part] == 0:
        return False
    middle = shape_middle(world, i, part)
    near = distance_to_block(world, i, middle)
    if near > wp.length(anatomy.shape[part]) + anatomy.radius[part] + TOUCH:
        return False
    reach = wp.quat_rotate(world.rotation[i, part], anatomy.shape[part])
    for k in range(5):
        point = middle + (0.5 * float(k) - 1.0) * reach
        if distance_to_block(world, i, point) < anatomy.radius[part] + TOUCH:
            return True
    return False


@wp.func
def move_block(world: World, i: int):
    """Lets the block fall for a tick, and moves it elsewhere if the creature touches it."""
    rest = world.anatomy.floor + world.anatomy.block_half
    fall = world.block_fall[i] + world.pull[i]
    block = world.block[i]
    block[1] = block[1] - fall * TICK
    if block[1] <= rest:
        block[1] = rest
        fall = 0.0
    world.block[i] = block
    world.block_fall[i] = fall
    for part in range(world.anatomy.parts):
        if touches_block(world, i, part):
            place_block(world, i)
            return


@wp.func
def set_drives(world: World, i: int):
    """Sets targets and strengths of all joints from the action."""
    for k in range(world.anatomy.joints):
        low = world.anatomy.joint[k].low
        high = world.anatomy.joint[k].high
        target = 0.5 * (low + high)
        for axis in range(3):
            number = world.anatomy.action[k, axis]
            if number >= 0:
                target[axis] = low[axis] + 0.5 * (wp.clamp(world.action[i, number], -1.0, 1.0) + 1.0) * (
                    high[axis] - low[axis]
                )
        world.target[i, k] = target
        number = world.anatomy.action[k, 3]
        if number >= 0:
            world.strength[i, k] = 0.5 * (wp.clamp(world.action[i, number], -1.0, 1.0) + 1.0)


@wp.func
def take_action(world: World, i: int):
    """Begins a decision; returns whether the action has a number that is not finite (such numbers count as 0)."""
    wrong = bool(False)
    for k in range(world.action.shape[1]):
        if not wp.isfinite(world.action[i, k]):
            wrong = bool(True)
            world.action[i, k] = 0.0
    set_drives(world, i)
    world.reward[i] = 0.0
    world.terminated[i] = False
    world.truncated[i] = False
    return wrong


@wp.func
def has_ended(world: World, i: int):
    """Returns whether an episode has ended in this decision; the rest of the decision belongs to the next episode."""
    return world.terminated[i] or world.truncated[i]


@wp.func
def start(world: World, i: int):
    """Starts an episode: the start pose in a random direction. The block and the drives' targets stay."""
    state = world.rng[i]
    half = wp.randf(state, 0.0, HALF_TURN)
    world.goal_speed[i] = wp.randf(state, world.anatomy.least_speed, world.anatomy.most_speed)
    world.rng[i] = state
    world.pull[i] = next_parameter(world, i, 0) * TICK
    world.episodes[i] += 1
    turn = wp.quat(0.0, wp.sin(half), 0.0, wp.cos(half))
    root = wp.transform_get_translation(world.anatomy.start[0]) - world.anatomy.center[0]
    for part in range(world.anatomy.parts):
        pose = world.anatomy.start[part]
        world.position[i, part] = root + wp.quat_rotate(turn, wp.transform_get_translation(pose) - root)
        world.rotation[i, part] = turn * wp.transform_get_rotation(pose)
        world.velocity[i, part] = wp.vec3(0.0, 0.0, 0.0)
        world.spin[i, part] = wp.vec3(0.0, 0.0, 0.0)
        world.held[i, part] = 0
        world.touches[i, part] = 0
    update_frame(world, i)


@wp.func
def has_fallen(world: World, i: int):
    """Returns whether a part that must not touch the ground touches it."""
    for part in range(world.anatomy.parts):
        if world.anatomy.falls[part] == 1 and touches_ground(world, i, part):
            return True
    return False


def make_program(observe: Any, earn: Any, decide: Any) -> Program:
    """Returns the program of a creature.

    `observe` (world, i) writes the creature's observations; `earn` (world, i) returns the reward of a tick; `decide`
    (world, i) returns whether the creature gives up at an observation.
    """
    return Program(World, make_begin(observe), make_tick(observe, earn, decide), together=TOGETHER)


@wp.func
def never(world: World, i: int):
    """Returns False, because the creature never gives up."""
    return False


def make_begin(observe: Any) -> Any:
    """Returns the kernel that starts every area."""

    @wp.kernel(module="unique", module_options=PLAIN_LOOPS, enable_backward=False)
    def begin(world: World):
        """Starts an episode in every area."""
        i = wp.tid()
        world.frame_place[i] = world.anatomy.block_start
        for k in range(world.anatomy.joints):
            world.target[i, k] = wp.vec3(0.0, 0.0, 0.0)
            world.strength[i, k] = 0.0
        world.block_fall[i] = 0.0
        world.age[i] = 0
        world.early[i] = 0
        place_block(world, i)
        start(world, i)
        observe(world, i)

    return begin


def make_end(observe: Any) -> Any:
    """Returns the function that ends an episode and starts the next."""

    @wp.func
    def end(world: World, i: int, ticks_left: int):
        """Ends an episode, whose last observation is the current one, and starts the next episode."""
        observe(world, i)
        save_final_obs(world.obs_parts, world.final_obs_parts, i)
        save_final_obs(world.obs, world.final_obs, i)
        start(world, i)
        world.age[i] = 0
        world.early[i] = ticks_left

    return end


def make_tick(observe: Any, earn: Any, decide: Any) -> Any:  # noqa: C901 - a kernel and what it calls
    """Returns the kernel of a decision. Observations are in the frame at the start of the last tick, as in Unity."""

    end = make_end(observe)

    @wp.func
    def before_physics(world: World, i: int, n: int):
        """Runs the steps before the physics in the n-th tick of a decision."""
        if not has_ended(world, i) and world.early[i] + TICKS * world.age[i] + n + 1 >= MOST_TICKS:
            world.truncated[i] = True
            end(world, i, TICKS - 1 - n)
        update_frame(world, i)
        if not has_ended(world, i):
            world.reward[i] += earn(world, i)

    @wp.func
    def after_physics(world: World, i: int, n: int):
        """Runs the steps after the physics in the n-th tick of a decision."""
        move_block(world, i)
        if not has_ended(world, i) and has_fallen(world, i):
            world.reward[i] = -1.0
            world.terminated[i] = True
            end(world, i, TICKS - 1 - n)

    @wp.func
    def conclude(world: World, i: int):
        """Observes after the last tick; ends the episode if the creature gives up; returns whether it has ended."""
        if not has_ended(world, i):
            world.age[i] += 1
        observe(world, i)
        if not has_ended(world, i) and decide(world, i):
            world.terminated[i] = True
            end(world, i, 0)
            observe(world, i)
        return has_ended(world, i)

    @wp.kernel(module="unique", module_options=PLAIN_LOOPS, enable_backward=False)
    def tick(world: World, report: wp.array(dtype=wp.int32)):
        """Advances every area by one decision, which is five ticks. Each thread simulates `together` areas."""
        first = wp.tid() * world.scratch.together
        last = wp.min(first + world.scratch.together, world.reward.shape[0])
        for i in range(first, last):
            if take_action(world, i):
                report[1] = i + 1
        for n in range(TICKS):
            for i in range(first, last):
                before_physics(world, i, n)
            simulate_tick(world, first, last - first)
            for i in range(first, last):
                after_physics(world, i, n)
        for i in range(first, last):
            if conclude(world, i):
                report[0] = 1

    return tick
