"""The rules of FoodCollector: how agents move, eat, fire and are frozen.

The documentation leaves sizes and speeds open. Ours are those of Unity's example where they are known: 25 green and
25 red balls, a push of 2 m/s a physics tick, a brake above 5 m/s, turns of up to 300 degrees a second, half the push
while an agent fires, 4 seconds frozen. A drag of 4/s leaves a top speed of 14 m/s. Our own choices are: agents are discs of
radius 1 (times agent_scale), balls have a radius of 0.5 and do not move; a beam is infinitely thin and stops
at the first agent within 25 (times laser_length). The floor is 60 x 60 rather than 80 x 80, and firing does not brake:
an agent that moves at random then meets food four times as often, and learning begins that much sooner.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.env import Program
from palaestra.envs.builtin.base.world_columns import next_parameter, save_final_obs
from palaestra.envs.builtin.foodcollector.observations import AGENT_RADIUS, AGENTS, FOOD_RADIUS, GREENS, HALF, World, observe
from palaestra.envs.builtin.physics.rigid_bodies import (
    add_speed,
    advance,
    apply_drag,
    circle_body,
    circle_circle,
    keep_circle_within,
    resolve_contact,
)
from palaestra.envs.builtin.sensors.camera import is_bare, paint_row
from palaestra.envs.builtin.sensors.rays import heading, ray_circle

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

TICKS = wp.constant(5)  # physics ticks per decision
MOST_DECISIONS = wp.constant(1000)
PUSH = wp.constant(2.0)  # m/s a physics tick
DRAG = wp.constant(4.0)
EASY = wp.constant(5.0)  # m/s, above which the agent is braked
TURN = wp.constant(6.0 * 0.017453292519943295)  # a physics tick
BEAM = wp.constant(25.0)
FROZEN_TICKS = wp.constant(200)
SKY, SAND = wp.vec3(0.05, 0.05, 0.15), wp.vec3(0.35, 0.3, 0.2)


@wp.func
def random_place(state: wp.uint32, margin: float):
    """Returns a random place on the floor, this far from its walls."""
    x = wp.randf(state, margin - HALF, HALF - margin)
    y = wp.randf(state, margin - HALF, HALF - margin)
    return state, wp.vec2(x, y)


@wp.func
def reset_scouts(world: World, i: int):
    """Makes every agent of an area search for food around it again."""
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.scout[slot] = wp.vec3(0.0, 0.0, 0.0)


@wp.func
def start(world: World, i: int):
    """Starts an episode with food and agents at random places."""
    for k in range(2):
        world.parameters[i, k] = next_parameter(world, i, k)
    state = world.rng[i]
    for k in range(world.food.shape[1]):
        state, place = random_place(state, 1.0)
        world.food[i, k] = place
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        state, place = random_place(state, AGENT_RADIUS * world.parameters[i, 1])
        world.position[slot] = place
        world.velocity[slot] = wp.vec2(0.0, 0.0)
        world.angle[slot] = wp.randf(state, -wp.pi, wp.pi)
        world.frozen[slot] = 0
        world.firing[slot] = False
    reset_scouts(world, i)
    world.rng[i] = state
    world.age[i] = 0
    world.episodes[i] += 1


@wp.func
def move_agent(world: World, slot: int, radius: float):
    """Moves an agent by one physics tick of its action."""
    body = circle_body(world.position[slot], world.velocity[slot], radius, 1.0)
    frozen = world.frozen[slot] > 0
    if frozen:
        world.frozen[slot] -= 1
    world.firing[slot] = world.action_discrete[slot, 0] == wp.int64(1) and not frozen
    if not frozen:
        fast = wp.length_sq(body.velocity) > EASY * EASY
        ahead = heading(world.angle[slot])
        forward = wp.clamp(world.action_continuous[slot, 0], -1.0, 1.0)
        right = wp.clamp(world.action_continuous[slot, 1], -1.0, 1.0)
        way = forward * ahead + right * wp.vec2(ahead[1], -ahead[0])
        if world.firing[slot]:
            way *= 0.5
        if fast:
            body.velocity *= 0.95
        body = add_speed(body, way, PUSH)
        angle = world.angle[slot] + TURN * wp.clamp(world.action_continuous[slot, 2], -1.0, 1.0)
        world.angle[slot] = angle - 2.0 * wp.pi * wp.round(angle / (2.0 * wp.pi))
    body = advance(apply_drag(body, DRAG, 0.0))
    world.position[slot] = body.position
    world.velocity[slot] = body.velocity


@wp.func
def collide(world: World, slot: int, last: int, radius: float):
    """Separates an agent from the agents after it, then from the walls."""
    body = circle_body(world.position[slot], world.velocity[slot], radius, 1.0)
    for other in range(slot + 1, last):
        mate = circle_body(world.position[other], world.velocity[other], radius, 1.0)
        contact = circle_circle(body, mate)
        if contact.count > 0:
            body, mate = resolve_contact(body, mate, contact, 0.0)
            world.position[other] = mate.position
            world.velocity[other] = mate.velocity
    body = keep_circle_within(body, wp.vec2(HALF, HALF))
    world.position[slot] = body.position
    world.velocity[slot] = body.velocity


@wp.func
def eat(world: World, i: int, slot: int, radius: float):
    """Takes the balls that an agent touches; each reappears elsewhere. Searches again only after the agent could have reached one."""
    position = world.position[slot]
    scout = world.scout[slot]
    if wp.length(position - wp.vec2(scout[0], scout[1])) < scout[2]:
        return
    reach = radius + FOOD_RADIUS
    nearest = float(1.0e9)  # Warp takes a literal for a constant
    for k in range(world.food.shape[1]):
        distance = wp.length_sq(world.food[i, k] - position)
        nearest = wp.min(nearest, distance)
        if distance < reach * reach:
            world.reward[slot] += wp.where(k < GREENS, 1.0, -1.0)
            state, place = random_place(world.rng[i], 1.0)
            world.rng[i] = state
            world.food[i, k] = place
    world.scout[slot] = wp.vec3(position[0], position[1], wp.sqrt(nearest) - reach - 0.01)
    if nearest < reach * reach:  # new food may lie beside any agent
        reset_scouts(world, i)


@wp.func
def fire(world: World, slot: int, first: int, last: int, beam: wp.vec2):
    """Freezes the nearest agent ahead; `beam` is its length and the agents' radius."""
    nearest = beam[0]
    hit = slot
    for other in range(first, last):
        if other != slot:
            distance = ray_circle(world.position[slot], heading(world.angle[slot]), world.position[other], beam[1])
            if distance < nearest:
                nearest = distance
                hit = other
    if hit != slot:
        world.frozen[hit] = FROZEN_TICKS


@wp.func
def simulate(world: World, i: int):
    """Runs the physics of one decision."""
    first = i * AGENTS
    last = first + AGENTS
    radius = AGENT_RADIUS * world.parameters[i, 1]
    for slot in range(first, last):
        world.reward[slot] = 0.0
    for _ in range(TICKS):
        for slot in range(first, last):
            move_agent(world, slot, radius)
        for slot in range(first, last):
            collide(world, slot, last, radius)
            eat(world, i, slot, radius)
        for slot in range(first, last):
            if world.firing[slot]:
                fire(world, slot, first, last, wp.vec2(BEAM * world.parameters[i, 0], radius))


@wp.func
def store_final_obs(world: World, slot: int):
    """Saves an agent's final observation."""
    save_final_obs(world.obs_vector, world.final_obs_vector, slot)
    if world.is_visual == 1:
        for x in range(world.strips.shape[1]):
            for k in range(world.strips.shape[2]):
                world.final_strips[slot, x, k] = world.strips[slot, x, k]
        return
    for tag in range(world.obs_image.shape[1]):
        for y in range(world.obs_image.shape[2]):
            for x in range(world.obs_image.shape[3]):
                world.final_obs_image[slot, tag, y, x] = world.obs_image[slot, tag, y, x]


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    i = wp.tid()
    start(world, i)
    observe(world, i)


@wp.func
def check_action(world: World, slot: int):
    """Returns whether an agent's action is valid; an invalid one is replaced by doing nothing."""
    numbers = wp.vec3(world.action_continuous[slot, 0], world.action_continuous[slot, 1], world.action_continuous[slot, 2])
    choice = world.action_discrete[slot, 0]
    if wp.isfinite(numbers) and choice >= wp.int64(0) and choice <= wp.int64(1):
        return True
    for k in range(3):
        world.action_continuous[slot, k] = 0.0
    world.action_discrete[slot, 0] = wp.int64(0)
    return False


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        if not check_action(world, slot):
            report[1] = slot + 1
    simulate(world, i)
    age = world.age[i] + 1
    done = age >= MOST_DECISIONS
    world.age[i] = age
    for slot in range(i * AGENTS, (i + 1) * AGENTS):
        world.truncated[slot] = done
    observe(world, i)
    if done:
        report[0] = 1
        for slot in range(i * AGENTS, (i + 1) * AGENTS):
            store_final_obs(world, slot)
        start(world, i)
        observe(world, i)


@wp.kernel
def draw(world: World):
    """Paints one row of an agent's image per thread, and of its final image if an episode has ended."""
    slot, y = wp.tid()
    bare = is_bare(world.strips, world.obs_image, slot, y)
    if not (bare and world.bare[slot, y]):
        paint_row(world.strips, world.obs_image, slot, y, SKY, SAND)
    world.bare[slot, y] = bare
    if world.truncated[slot]:
        paint_row(world.final_strips, world.final_obs_image, slot, y, SKY, SAND)


BY_AREA = ("rng", "age", "food", "parameters")
GRID = Program(World, begin, tick, area_columns=BY_AREA)
VISUAL = Program(World, begin, tick, draw, area_columns=BY_AREA)
