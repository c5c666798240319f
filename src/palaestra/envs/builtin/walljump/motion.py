"""How the agent of WallJump runs, jumps and pushes: `rigid_bodies` in the plane, and its height separately.

Lengths are in meters. x runs along the wall and y across it, toward the goal, from the middle of Unity's area; heights
are Unity's, so the floor is at 0.45. Boxes stand upright, and only the agent turns. If it meets a wall or a block, it
is held by the side or by the top, depending on which it has entered less. A side against which it presses also slows
its rise and fall by friction.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.pressing import FRICTION_ROUNDS, MARGIN, MOST_SPIN, fall, grown, press, rub_sole
from palaestra.envs.builtin.physics.rigid_bodies import (
    SECONDS,
    Body,
    Contact,
    advance,
    apply_drag,
    apply_impulse,
    box_body,
    box_box,
    fixed_box,
    inverse_mass_along,
    relative_velocity,
)
from palaestra.envs.builtin.sensors.rays import heading

HALF_WIDTH = wp.constant(10.5)  # of the floor, which has no rim
NEAR_END = wp.constant(-14.5)
FAR_END = wp.constant(6.5)
FLOOR = wp.constant(0.45)  # height of its top
WALL_Y = wp.constant(-1.98)  # middle of the wall
WALL_HALF = wp.constant(wp.vec2(10.0, 0.75))
BLOCK_HALF = wp.constant(1.5)
# it floats
BLOCK_BOTTOM = wp.constant(0.5)
BLOCK_TOP = wp.constant(2.5)
AGENT_HALF = wp.constant(0.5)
AGENT_MASS = wp.constant(25.0)
BLOCK_MASS = wp.constant(10.0)
AGENT_DRAG = wp.constant(2.0)
BLOCK_DRAG = wp.constant(1.0)
SPIN_DRAG = wp.constant(0.05)
GRIP = wp.constant(1.2)  # friction: PhysX holds a flat contact at two points, each with the full coefficient of 0.6
ROUNDS = wp.constant(6)  # of contacts where agent, block and wall press on one another
# PhysX's rounds do not know of locks: what rubs along a side tips both boxes, which what they press undoes before the
# next round.
# These are inverse masses at the side, upward, over those in the middle: 1 + mass times squared lever over the moment
# of inertia.
AGENT_YIELDS = wp.constant(1.0 + 0.5**2 * 12.0 / 2.0)
BLOCK_YIELDS = wp.constant(1.0 + 1.5**2 * 12.0 / 13.0)
SPEED = wp.constant(3.0)  # m/s that a tick of running adds
SIDEWAYS = wp.constant(0.6)
IN_AIR = wp.constant(0.5)  # share of the speed that an agent in the air adds
TURN = wp.constant(0.10471976)  # rad a tick: 300 degrees a second
JUMP_TICKS = wp.constant(11)  # ticks for which a jump pulls: 0.2 s less eleven times 0.02 s in single precision
JUMP_HEIGHT = wp.constant(2.75)
JUMP_PULL = wp.constant(15.54)  # 1/s, toward that height
JUMP_FORCE = wp.constant(10.0)  # largest change of the velocity by a tick of a jump, in m/s
FALLING = wp.constant(111.0)  # m/s^2 on top of gravity
FEET = wp.constant(0.475)  # half the width of the box that looks for ground beneath the agent


@wp.struct
class Scene:
    """The agent, its block and its wall."""

    agent: Body
    ahead: wp.vec2  # its heading, since sines are slow
    block: Body
    height: wp.float32  # of the agent's middle
    climb: wp.float32  # m/s upward
    jump: wp.int32  # ticks left of a jump
    jump_from: wp.float32
    wall: wp.float32  # height of the wall's top
    gravity: wp.float32


@wp.struct
class Rub:
    """Friction of a side: the impulses of a tick so far."""

    pushed: wp.float32  # that the bodies press with
    across: wp.float32  # on the other body along the side, counterclockwise from the normal
    upward: wp.float32  # on the agent


@wp.struct
class Order:
    """The moves that an agent's choices ask for."""

    ahead: wp.float32  # 1, 0 or -1
    aside: wp.float32  # 1: right, -1: left
    turn: wp.float32  # 1: counterclockwise
    jump: wp.bool


@wp.func
def block_body(place: wp.vec2, velocity: wp.vec2):
    """Returns the block as a body; nothing turns it."""
    body = box_body(place, velocity, 0.0, 0.0, wp.vec2(BLOCK_HALF, BLOCK_HALF), BLOCK_MASS)
    body.inverse_inertia = 0.0
    return body


@wp.func
def wall_body():
    """Returns the wall as a body that never moves, for contacts seen from above."""
    return fixed_box(wp.vec2(0.0, WALL_Y), WALL_HALF, 0.0)


@wp.func
def is_within(place: wp.vec2, center: wp.vec2, half: wp.vec2):
    """Returns whether a place is over a box."""
    return wp.abs(place[0] - center[0]) < half[0] and wp.abs(place[1] - center[1]) < half[1]


@wp.func
def is_below(top: float, height: float):
    """Returns whether a top is within reach of the ray that looks for ground a little below the feet."""
    return top < height - 0.05 and top > height - 1.05


@wp.func
def is_grounded(scene: Scene):
    """Returns whether there is ground less than 0.55 m straight below the feet, so that the agent may jump."""
    if is_below(FLOOR, scene.height):
        return True
    place = scene.agent.position
    if is_below(scene.wall, scene.height) and is_within(place, wp.vec2(0.0, WALL_Y), WALL_HALF):
        return True
    return is_below(BLOCK_TOP, scene.height) and is_within(place, scene.block.position, scene.block.half)


@wp.func
def is_near(a: Body, b: Body):
    """Returns whether the agent and a box with its sides along the axes may touch."""
    away = wp.abs(b.position - a.position) - b.half
    reach = 1.5 * AGENT_HALF
    return away[0] < reach and away[1] < reach


@wp.func
def stands(scene: Scene):
    """Returns whether the agent's feet touch anything; then it runs at full strength and does not fall faster."""
    low = scene.height - 0.55
    if low < FLOOR:
        return True
    feet = scene.agent
    feet.half = wp.vec2(FEET, FEET)
    wall = wall_body()
    if low < scene.wall and is_near(feet, wall) and box_box(feet, wall).count > 0:
        return True
    return low < BLOCK_TOP and is_near(feet, scene.block) and box_box(feet, scene.block).count > 0


@wp.func
def toward(velocity: wp.vec3, wish: wp.vec3, most: float):
    """Returns a velocity moved toward another velocity by at most `most`."""
    change = wish - velocity
    size = wp.length(change)
    if size <= most:
        return wish
    return velocity + (most / size) * change


@wp.func
def steer(scene: Scene, order: Order):
    """Returns the scene after an action, the push (m/s) that the tick's physics adds, and the downward pull (m/s²)."""
    agent = scene.agent
    on_ground = stands(scene)
    strength = wp.where(on_ground, 1.0, IN_AIR)
    way = wp.vec2(0.0, 0.0)
    if order.aside != 0.0 or order.ahead != 0.0:
        way = (strength * order.ahead) * scene.ahead
        if order.aside != 0.0:  # replaces running
            way = (strength * SIDEWAYS * order.aside) * wp.vec2(scene.ahead[1], -scene.ahead[0])
    if order.jump and scene.jump <= 0 and is_grounded(scene):
        scene.jump = JUMP_TICKS
        scene.jump_from = scene.height
    if order.turn != 0.0:
        agent.angle += TURN * order.turn
        scene.ahead = heading(agent.angle)
    gravity = scene.gravity
    if scene.jump > 0:
        wish = JUMP_PULL * wp.vec3(way[0], way[1], scene.jump_from + JUMP_HEIGHT - scene.height)
        velocity = toward(wp.vec3(agent.velocity[0], agent.velocity[1], scene.climb), wish, JUMP_FORCE)
        agent.velocity = wp.vec2(velocity[0], velocity[1])
        scene.climb = velocity[2]
        scene.jump -= 1
    elif not on_ground:
        gravity += FALLING
    scene.agent = agent
    return scene, SPEED * way, gravity


@wp.func
def rub_side(a: Body, climb: float, b: Body, lift: float, contact: Contact, rub: Rub):
    """Returns both bodies, their upward speeds and the friction so far, after one round of friction at a side."""
    most = GRIP * rub.pushed
    point = 0.5 * (contact.first + contact.second)
    along = wp.vec2(-contact.normal[1], contact.normal[0])
    across = rub.across - wp.dot(relative_velocity(a, b, point), along) / inverse_mass_along(a, b, point, point, along)
    soft = AGENT_YIELDS * a.inverse_mass + BLOCK_YIELDS * b.inverse_mass
    upward = rub.upward - (climb - lift) / soft
    share = wp.min(most / wp.max(wp.sqrt(across * across + upward * upward), 1.0e-9), 1.0)
    a, b = apply_impulse(a, b, point, (share * across - rub.across) * along)
    climb += a.inverse_mass * (share * upward - rub.upward)
    lift -= b.inverse_mass * (share * upward - rub.upward)
    rub.across = share * across
    rub.upward = share * upward
    return a, climb, b, lift, rub


@wp.func
def press_side(a: Body, b: Body, contact: Contact, rub: Rub):
    """Returns both bodies after the agent's contact with a side, without friction, and the impulses of the contact."""
    before = a.velocity
    a, b = press(a, b, contact, 0.0)
    rub.pushed += wp.dot(before - a.velocity, contact.normal) / a.inverse_mass
    return a, b, rub


@wp.func
def side_contact(agent: Body, box: Body, height: float, top: float):
    """Returns the grown agent's contact with a box's side (count 0 if none), and whether its top holds the agent."""
    contact = Contact()
    if height - AGENT_HALF >= top + MARGIN or not is_near(agent, box):
        return contact, False
    contact = box_box(grown(agent), grown(box))
    if contact.count > 0 and top + MARGIN - (height - AGENT_HALF) < contact.depth:
        contact.count = 0
        return contact, True
    return contact, False


@wp.func
def move(scene: Scene, gravity: float):
    """Returns the scene after the physics of one tick, in which the agent accelerates downward by `gravity`."""
    agent = apply_drag(scene.agent, AGENT_DRAG, SPIN_DRAG)
    block = apply_drag(scene.block, BLOCK_DRAG, 0.0)
    wall = wall_body()
    by_wall, on_wall = side_contact(agent, wall, scene.height, scene.wall)
    by_block, on_block = side_contact(agent, block, scene.height, BLOCK_TOP)
    rest = wp.where(on_wall, wp.max(scene.wall, FLOOR), float(FLOOR))
    rest = wp.where(on_block, wp.max(rest, BLOCK_TOP), rest) + AGENT_HALF
    state, held = fall(wp.vec2(scene.height, scene.climb), rest, gravity * SECONDS, AGENT_DRAG)
    climb = state[1]
    if held > 0.0:
        if on_block:
            agent, block = rub_sole(agent, block, scene.ahead, AGENT_HALF, GRIP * held * AGENT_MASS)
        else:
            agent, wall = rub_sole(agent, wall, scene.ahead, AGENT_HALF, GRIP * held * AGENT_MASS)
    between = Contact()
    if scene.wall > BLOCK_BOTTOM and wp.abs(block.position[1] - WALL_Y) < BLOCK_HALF + WALL_HALF[1] + MARGIN:
        between = box_box(grown(block), grown(wall))
        if scene.wall + MARGIN - BLOCK_BOTTOM < between.depth:
            between.count = 0  # it would be lifted, but it cannot
    rounds = int(0)
    if between.count + by_block.count > 0:
        rounds = wp.where(between.count > 0 and by_block.count > 0, ROUNDS, 1)
    rub = Rub()
    lift = float(0.0)  # m/s of the block upward: its height is fixed, but PhysX's rounds do not know that
    for k in range(rounds):
        agent, block, rub = press_side(agent, block, by_block, rub)
        if rub.pushed > 0.0 and k >= rounds - FRICTION_ROUNDS:
            agent, climb, block, lift, rub = rub_side(agent, climb, block, lift, by_block, rub)
        block, wall = press(block, wall, between, GRIP)
        by_block.depth = wp.min(by_block.depth, MARGIN)
        between.depth = wp.min(between.depth, MARGIN)
    if by_wall.count > 0:
        rub = Rub()
        agent, wall, rub = press_side(agent, wall, by_wall, rub)
        if rub.pushed > 0.0:
            for _ in range(FRICTION_ROUNDS):
                agent, climb, wall, _still, rub = rub_side(agent, climb, wall, 0.0, by_wall, rub)
    if agent.spin != 0.0:
        agent.spin = wp.clamp(agent.spin, -MOST_SPIN, MOST_SPIN)
        scene.ahead = heading(agent.angle + agent.spin * SECONDS)
    scene.agent = advance(agent)
    scene.block = advance(block)
    scene.height = state[0] + (climb - state[1]) * SECONDS
    scene.climb = climb
    return scene


@wp.func
def has_floor(place: wp.vec2):
    """Returns whether the floor is below a place."""
    return wp.abs(place[0]) < HALF_WIDTH and place[1] > NEAR_END and place[1] < FAR_END


@wp.func
def is_lost(scene: Scene):
    """Returns whether the agent or its block has no floor below."""
    if not has_floor(scene.block.position):
        return True
    place = scene.agent.position
    on_block = scene.height > BLOCK_TOP and is_within(place, scene.block.position, scene.block.half)
    return not (has_floor(place) or on_block)
