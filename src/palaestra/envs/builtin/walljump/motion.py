"""How the agent of WallJump runs, jumps and pushes: `rigid_bodies` in the plane, and its height separately.

x runs along the wall and y across it, toward the goal; lengths are in meters, the ground is at 0.
The block and the wall are solid below their top and a floor above it.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import (
    GRAVITY,
    SECONDS,
    Body,
    add_speed,
    advance,
    apply_drag,
    box_body,
    circle_body,
    circle_box,
    keep_circle_out,
    resolve_contact,
)
from palaestra.envs.builtin.sensors.rays import rotate

HALF_WIDTH = wp.constant(15.0)  # half the width of the ground, which has no rim
NEAR_END = wp.constant(-18.0)
FAR_END = wp.constant(8.0)
GOAL = wp.constant(4.0)  # the goal reaches from here to the far end
RADIUS = wp.constant(0.5)  # radius of the agent
HALF_WALL = wp.constant(0.5)  # half the wall's thickness; the wall lies along y = 0, over the full width
HALF_BLOCK = wp.constant(1.5)
BLOCK_TOP = wp.constant(2.4)  # lower than a jump; block and jump together are higher than the highest wall
AGENT_MASS = wp.constant(10.0)
BLOCK_MASS = wp.constant(5.0)
SPEED = wp.constant(2.0)  # m/s that a tick of running adds; drag limits the speed to 10.5 m/s
SIDEWAYS = wp.constant(0.6)
DRAG = wp.constant(8.0)  # 1/s
TURN = wp.constant(0.06981317007977318)  # radians a tick: 200 degrees a second
JUMP_TICKS = wp.constant(10)  # ticks for which a jump pulls upward
JUMP_HEIGHT = wp.constant(2.75)
JUMP_PULL = wp.constant(15.54)  # 1/s, toward that height
JUMP_FORCE = wp.constant(10.0)  # largest speed in m/s that a tick of a jump adds
FALLING = wp.constant(50.0)  # m/s^2 on top of gravity: agents come down fast
STEP = wp.constant(0.1)  # height that feet may be below a top and still step onto it


@wp.struct
class Scene:
    """The agent, its block and its wall."""

    agent: Body
    block: Body
    height: wp.float32  # height of the agent's feet
    climb: wp.float32  # m/s upward
    jump: wp.int32  # ticks left of a jump
    jump_from: wp.float32
    wall: wp.float32  # height of the wall's top; 0: no wall
    grounded: wp.bool


@wp.struct
class Order:
    """An agent's action for one decision."""

    ahead: wp.float32  # 1, 0 or -1
    aside: wp.float32  # 1: right, -1: left
    turn: wp.float32  # 1: counterclockwise
    jump: wp.bool


@wp.func
def agent_body(place: wp.vec2, speed: wp.vec2, angle: float):
    """Returns the agent, seen from above."""
    body = circle_body(place, speed, RADIUS, AGENT_MASS)
    body.angle = angle
    return body


@wp.func
def block_body(place: wp.vec2, speed: wp.vec2):
    """Returns the block, which nothing turns."""
    body = box_body(place, speed, 0.0, 0.0, wp.vec2(HALF_BLOCK, HALF_BLOCK), BLOCK_MASS)
    body.inverse_inertia = 0.0
    return body


@wp.func
def is_over(place: wp.vec2, center: wp.vec2, half: wp.vec2):
    """Returns whether a part of the agent is over a box."""
    away = wp.abs(place - center) - half
    return wp.length_sq(wp.max(away, wp.vec2(0.0, 0.0))) < (RADIUS - 0.01) * (RADIUS - 0.01)


@wp.func
def floor_below(scene: Scene):
    """Returns the height of the surface that the agent stands on, or would fall onto."""
    floor = float(0.0)  # Warp takes a literal for a constant
    place = scene.agent.position
    if scene.height >= BLOCK_TOP - STEP and is_over(place, scene.block.position, scene.block.half):
        floor = BLOCK_TOP
    if scene.height >= scene.wall - STEP and wp.abs(place[1]) < HALF_WALL + RADIUS - 0.01:
        floor = wp.max(floor, scene.wall)
    return floor


@wp.func
def step_height(scene: Scene, jump: bool):
    """Returns the scene after one tick of the agent's height: a jump is pulled toward a height above its start, and then falls."""
    floor = floor_below(scene)
    if jump and scene.grounded and scene.jump == 0:
        scene.jump = JUMP_TICKS
        scene.jump_from = scene.height
    if scene.jump > 0:
        scene.jump -= 1
        scene.climb = wp.min(scene.climb + JUMP_FORCE, JUMP_PULL * (scene.jump_from + JUMP_HEIGHT - scene.height))
    else:
        scene.climb -= (GRAVITY + FALLING) * SECONDS
    scene.height += scene.climb * SECONDS
    scene.grounded = scene.height <= floor and scene.jump == 0
    if scene.grounded:
        scene.height = floor
        scene.climb = 0.0
    return scene


@wp.func
def step_scene(scene: Scene, order: Order):
    """Returns the scene after one physics tick. In the air an agent runs at half its strength."""
    agent = scene.agent
    block = scene.block
    agent.angle += TURN * order.turn
    way = rotate(wp.vec2(order.ahead, -SIDEWAYS * order.aside), agent.angle)
    agent = apply_drag(add_speed(agent, way, wp.where(scene.grounded, SPEED, 0.5 * SPEED)), DRAG, 0.0)
    agent = advance(agent)
    is_low = scene.height < BLOCK_TOP - STEP
    if is_low:
        agent, block = resolve_contact(agent, block, circle_box(agent, block), 0.0)
    block = advance(apply_drag(block, DRAG, 0.0))
    if scene.wall > 0.0:
        if wp.abs(block.position[1]) < HALF_WALL + HALF_BLOCK:
            block.position[1] = wp.sign(block.position[1]) * (HALF_WALL + HALF_BLOCK)
            block.velocity[1] = 0.0
        if is_low:  # a block held by the wall acts like a wall
            agent = keep_circle_out(agent, block.position, block.half, 0.0)
    if scene.height < scene.wall - STEP:
        agent = keep_circle_out(agent, wp.vec2(0.0, 0.0), wp.vec2(HALF_WIDTH, HALF_WALL), 0.0)
    scene.agent = agent
    scene.block = block
    return step_height(scene, order.jump)


@wp.func
def is_off_ground(place: wp.vec2):
    """Returns whether there is no ground below."""
    return wp.abs(place[0]) > HALF_WIDTH or place[1] < NEAR_END or place[1] > FAR_END


@wp.func
def simulate(scene: Scene, order: Order, ticks: int):
    """Returns the scene after a decision, and its outcome: 1 in the goal, -1 if the agent or its block is off the ground, else 0."""
    outcome = int(0)
    while ticks > 0 and outcome == 0:
        scene = step_scene(scene, order)
        if is_off_ground(scene.agent.position) or is_off_ground(scene.block.position):
            outcome = -1
        elif scene.grounded and scene.agent.position[1] > GOAL:
            outcome = 1
        ticks -= 1
    return scene, outcome
