"""The rules of FoodCollector: how agents move, eat, fire and are frozen.

All sizes and speeds are those of Unity's scene. Agents are boxes of 1 m (times agent_scale) and 10 kg; contacts do not
turn them. Moving adds up to 2 m/s a physics tick ahead and as much to the side, against a drag of 0.5/s, the friction
of the floor, and a brake that takes 5 % of the speed per tick above 5 m/s. Turning is by 6 degrees a tick, whatever the
action's size; an action of 0 does not turn. Firing halves the push and takes a quarter of the velocity away in each
tick. The first thing that the beam hits decides, within 25 m ahead, in a beam as wide as a ball of 2 m: an agent is
frozen for 4 s; food or a wall in front of an agent protects it. An agent that eats a ball passes momentum on to it; the
ball reappears elsewhere and rolls on.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import Program
from palaestra.envs.builtin.base.world_columns import next_parameter, save_final_image, save_final_obs, save_final_rows
from palaestra.envs.builtin.foodcollector.floor import (
    AGENT_HALF,
    AGENTS,
    FOOD_RADIUS,
    GREENS,
    HALF,
    IS_BLUE,
    IS_GRAY,
    IS_GREEN,
    IS_RED,
    World,
    color,
    middle_height,
    move_food,
    observe,
    raise_food,
    random_place,
    scatter_food,
)
from palaestra.envs.builtin.foodcollector.true_state import tell_truth
from palaestra.envs.builtin.physics.contact_solver import add_patch, box_shape, fall, near_body, side_contact, solve
from palaestra.envs.builtin.physics.pressing import MARGIN
from palaestra.envs.builtin.physics.rigid_bodies import GRAVITY, SECONDS, box_box
from palaestra.envs.builtin.sensors.camera import image_of, is_bare, paint_row
from palaestra.envs.builtin.sensors.rays import heading, ray_circle, rotate, wrapped
from palaestra.envs.builtin.sensors.sphere_casts import cast_box, reach_beside

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_TICKS = wp.constant(5000)
AGENT_MASS = wp.constant(10.0)
FOOD_MASS = wp.constant(5.0)
PUSH = wp.constant(2.0)  # m/s a physics tick
DRAG = wp.constant(0.5)
FRICTION = wp.constant(0.6)
EASY = wp.constant(5.0)  # m/s, above which the agent is braked
TURN = wp.constant(6.0 * 0.017453292519943295)  # a physics tick
LEAST_AXIS = wp.constant(1.0e-5)  # its square
DROP = wp.constant(2.0)  # height of the middle at which agents start; the floor is at 0.5
BEAM = wp.constant(25.0)
BEAM_RADIUS = wp.constant(2.0)
FROZEN_TICKS = wp.constant(201)  # 4 s: it thaws in the first tick that is later
FED_TICKS = wp.constant(26)  # 0.5 s
BAND = wp.constant(14)  # rows of pixels that a thread paints
SKY = color(0.467, 0.565, 0.608)
FLOOR = color(0.116, 0.116, 0.116)


@wp.func
def start(world: World, i: int, lead: int):
    """Starts an episode, `lead` physics ticks before its first decision; food stays where it is."""
    for k in range(2):
        world.parameters[i, k] = next_parameter(world, i, k)
    half = AGENT_HALF * world.parameters[i, 1]
    state = world.rng[i]
    for agent in range(AGENTS):
        state, place = random_place(state)
        world.body_position[i, agent] = place
        world.body_velocity[i, agent] = wp.vec2(0.0, 0.0)
        world.body_angle[i, agent] = float(wp.randi(state, -180, 180)) * TURN / 6.0
        world.body_height[i, agent] = wp.max(DROP - 0.5 - half, 0.0)
        world.body_rise[i, agent] = 0.0
        world.body_shape[i, agent] = box_shape(wp.vec2(half, half), AGENT_MASS, False)
        world.frozen[i * AGENTS + agent] = 0
        world.fed[i * AGENTS + agent] = 0
        world.look[i * AGENTS + agent] = IS_BLUE
        world.firing[i * AGENTS + agent] = False
    world.rng[i] = state
    world.age[i] = 0
    world.lead[i] = lead
    world.episodes[i] += 1


@wp.func
def pass_time(world: World, slot: int):
    """Brings an agent one physics tick closer to its thaw, and to the end of the color change after eating."""
    if world.frozen[slot] == 1 or world.fed[slot] == 1:  # also where it is still frozen, as in Unity
        world.look[slot] = IS_BLUE
    world.frozen[slot] = wp.max(world.frozen[slot] - 1, 0)
    world.fed[slot] = wp.max(world.fed[slot] - 1, 0)


@wp.func
def turn_of(number: float):
    """Returns how far an agent turns in a physics tick.

    Unity's script gives the number as the length of the axis of a rotation by 6 degrees. For the engine only the
    direction of an axis counts, and an axis of almost no length turns nothing at all.
    """
    return wp.where(number * number > LEAST_AXIS, wp.sign(number) * TURN, 0.0)


@wp.func
def move_agent(world: World, i: int, agent: int):
    """Applies an agent's action of a physics tick: turns, brakes, pushes and fires.

    The agent thaws just before, so another agent that has already fired in this tick cannot freeze it again in the same
    tick.
    """
    slot = i * AGENTS + agent
    pass_time(world, slot)
    velocity = world.body_velocity[i, agent]
    rise = world.body_rise[i, agent]
    push = wp.vec2(0.0, 0.0)
    fires = world.action_discrete[slot, 0] == wp.int64(1) and world.frozen[slot] == 0
    world.firing[slot] = fires
    if world.frozen[slot] == 0:
        ahead = heading(world.body_angle[i, agent])
        forward = wp.clamp(world.action_continuous[slot, 0], -1.0, 1.0)
        right = wp.clamp(world.action_continuous[slot, 1], -1.0, 1.0)
        push = PUSH * (forward * ahead + right * wp.vec2(ahead[1], -ahead[0]))
        if fires:
            push *= 0.5
            velocity *= 0.75
            rise *= 0.75
        world.body_angle[i, agent] = wrapped(world.body_angle[i, agent] + turn_of(world.action_continuous[slot, 2]))
    if wp.length_sq(velocity) + rise * rise > EASY * EASY:
        velocity *= 0.95
        rise *= 0.95
    world.body_velocity[i, agent] = velocity + push
    world.body_rise[i, agent] = rise
    if fires:
        fire(world, i, agent)


@wp.func
def fire(world: World, i: int, agent: int):
    """Freezes the agent ahead, if the beam hits it first. Things that overlap the start of the beam are not hit."""
    eye = world.body_position[i, agent]
    way = heading(world.body_angle[i, agent])
    height = middle_height(world, i, agent)
    half = AGENT_HALF * world.parameters[i, 1]
    nearest = float(BEAM)
    hit = int(-1)
    for other in range(AGENTS):
        if other != agent:
            gap = wp.max(wp.abs(middle_height(world, i, other) - height) - half, 0.0)
            radius = reach_beside(BEAM_RADIUS, gap)
            distance = cast_box(
                eye, way, world.body_position[i, other], wp.vec2(half, half), world.body_angle[i, other], radius
            )
            if distance < nearest:
                nearest = distance
                hit = other
    if hit < 0 or world.frozen[i * AGENTS + hit] > 0:
        return
    # else the beam starts in the wall, all of which it then passes
    if HALF - wp.max(wp.abs(eye[0]), wp.abs(eye[1])) > BEAM_RADIUS:
        end = eye + nearest * way
        if wp.max(wp.abs(end[0]), wp.abs(end[1])) > HALF - BEAM_RADIUS:
            return
    for k in range(world.food.shape[1]):
        reach = reach_beside(BEAM_RADIUS + FOOD_RADIUS, wp.abs(FOOD_RADIUS + world.food_height[i, k] - height))
        if ray_circle(eye, way, world.food[i, k], reach) < nearest:
            return
    world.frozen[i * AGENTS + hit] = FROZEN_TICKS + wp.where(hit > agent, 1, 0)  # those yet to move lose a tick at once
    world.look[i * AGENTS + hit] = IS_GRAY


@wp.func
def find_contacts(world: World, i: int):
    """Finds the contacts of agents with each other and with the walls."""
    world.patches[i] = 0
    half = AGENT_HALF * world.parameters[i, 1]
    reach = 2.8285 * half + 0.03
    for b in range(AGENTS):
        place = world.body_position[i, b]
        body = near_body(world, i, b)
        for a in range(b):
            is_near = wp.length_sq(world.body_position[i, a] - place) < reach * reach
            if is_near and wp.abs(world.body_height[i, a] - world.body_height[i, b]) < 2.0 * half:
                add_patch(world, i, a, b, box_box(near_body(world, i, a), body), FRICTION)
        for axis in range(2):
            if wp.abs(place[axis]) > HALF - 0.5 * reach:
                add_patch(world, i, AGENTS, b, side_contact(body, wp.vec2(HALF, HALF), axis), FRICTION)


@wp.func
def eat(world: World, i: int, agent: int):
    """Takes the balls that an agent touches, which get a push and a share of its momentum; returns their rewards."""
    half = AGENT_HALF * world.parameters[i, 1]
    place = world.body_position[i, agent]
    angle = world.body_angle[i, agent]
    bottom = world.body_height[i, agent]
    reach = 1.4143 * half + FOOD_RADIUS + MARGIN
    worth = float(0.0)
    for k in range(world.food.shape[1]):
        to = world.food[i, k] - place
        if wp.length_sq(to) < reach * reach:
            height = FOOD_RADIUS + world.food_height[i, k]
            above = wp.max(wp.max(height - bottom - 2.0 * half, bottom - height), 0.0)
            local = rotate(to, -angle)
            nearest = wp.vec2(wp.clamp(local[0], -half, half), wp.clamp(local[1], -half, half))
            away = wp.length(local - nearest)
            if away * away + above * above < (FOOD_RADIUS + MARGIN) * (FOOD_RADIUS + MARGIN):
                worth += wp.where(k < GREENS, 1.0, -1.0)
                world.look[i * AGENTS + agent] = wp.where(k < GREENS, IS_GREEN, IS_RED)
                world.fed[i * AGENTS + agent] = FED_TICKS
                n = wp.normalize(to)
                if away > 1.0e-6:
                    n = rotate((local - nearest) / away, angle)
                approach = wp.max(wp.dot(world.body_velocity[i, agent] - world.food_velocity[i, k], n), 0.0)
                share = approach / (AGENT_MASS + FOOD_MASS)
                world.body_velocity[i, agent] -= FOOD_MASS * share * n
                world.food_velocity[i, k] += AGENT_MASS * share * n
                raise_food(world, i, k)
    return worth


@wp.func
def simulate(world: World, i: int, counts: bool):
    """Runs a physics tick, after the agents' actions; eaten food gives rewards if `counts`."""
    for agent in range(AGENTS):
        world.body_velocity[i, agent] = world.body_velocity[i, agent] * (1.0 - DRAG * SECONDS)
        fall(world, i, agent, GRAVITY * SECONDS, DRAG)
        worth = eat(world, i, agent)
        world.reward[i * AGENTS + agent] += wp.where(counts, worth, 0.0)
    find_contacts(world, i)
    solve(world, i, AGENTS, FRICTION)
    move_food(world, i)


@wp.func
def show(world: World, i: int, ticks: int):
    """Writes the observations of each agent of an area, this number of physics ticks after the episode began."""
    observe(world, i)
    if world.obs_truth.shape[1] > 0:
        for agent in range(AGENTS):
            tell_truth(world, i, agent, 1.0 - float(ticks) / float(MOST_TICKS))


@wp.func
def store_final_obs(world: World, slot: int):
    """Saves an agent's final observation."""
    save_final_obs(world.obs_truth, world.final_obs_truth, slot)
    if world.is_visual == 1:
        save_final_obs(world.obs_vector, world.final_obs_vector, slot)
        save_final_rows(world.strips[slot], world.final_strips[slot])
        save_final_rows(world.balls[slot], world.final_balls[slot])
        return
    save_final_image(world.obs_image, world.final_obs_image, slot)


@wp.kernel
def begin(world: World):
    """Scatters the food and starts a new episode in every area."""
    i = wp.tid()
    scatter_food(world, i)
    start(world, i, 0)
    show(world, i, 0)


@wp.func
def check_action(world: World, slot: int):
    """Returns whether an agent's action is valid; an invalid action is replaced by doing nothing."""
    numbers = wp.vec3(
        world.action_continuous[slot, 0], world.action_continuous[slot, 1], world.action_continuous[slot, 2]
    )
    choice = world.action_discrete[slot, 0]
    if wp.isfinite(numbers) and choice >= wp.int64(0) and choice <= wp.int64(1):
        return True
    for k in range(3):
        world.action_continuous[slot, k] = 0.0
    world.action_discrete[slot, 0] = wp.int64(0)
    return False


@wp.func
def cut(world: World, i: int, lead: int):
    """Truncates the episode at its current state and starts the next one."""
    show(world, i, MOST_TICKS)
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        store_final_obs(world, slot)
    start(world, i, lead)


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision. Ticks that remain after an episode's end run in the next episode, without
    actions."""
    i = wp.tid()
    first = i * AGENTS
    for slot in range(first, first + AGENTS):
        if not check_action(world, slot):
            report[1] = slot + 1
        world.reward[slot] = 0.0
    ended = bool(False)  # Warp takes a literal for a constant
    for k in range(TICKS):
        if not ended:
            for agent in range(AGENTS):
                move_agent(world, i, agent)
            if world.lead[i] + TICKS * world.age[i] + k + 1 >= MOST_TICKS:
                ended = True
                cut(world, i, TICKS - 1 - k)
        simulate(world, i, not ended)
    if ended:
        report[0] = 1
    else:
        world.age[i] += 1
    for slot in range(first, first + AGENTS):
        world.truncated[slot] = ended
    show(world, i, world.lead[i] + TICKS * world.age[i])


@wp.kernel
def draw(world: World):
    """Paints some rows of an agent's image per thread, and of its final image if an episode has ended."""
    slot, band = wp.tid()
    height = world.obs_image.shape[2]
    width = world.obs_image.shape[3]
    for y in range(band * BAND, wp.min((band + 1) * BAND, height)):
        if world.plain[slot, y] < width or not is_bare(world.strips, world.obs_image, slot, y):
            view = image_of(world.strips, world.balls, world.obs_image, slot)
            world.plain[slot, y] = paint_row(view, y, world.plain[slot, y], SKY, FLOOR)
        if world.truncated[slot]:
            last = image_of(world.final_strips, world.final_balls, world.final_obs_image, slot)
            paint_row(last, y, 0, SKY, FLOOR)


BY_AREA = ("lead", "parameters", "owner", "bounds")
BY_AREA += tuple(name for name in World.vars if name.startswith(("food", "body_", "patch")))
GRID = Program(World, begin, tick, area_columns=BY_AREA)
VISUAL = Program(World, begin, tick, draw, draw_rows=BAND, image_columns=("plain",), area_columns=BY_AREA)
