"""The columns of DungeonEscape, and what its agents see of them."""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.rays import heading, ray_angle, ray_circle, ray_room, write_ray

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

AGENTS = wp.constant(3)
ROOM = wp.constant(6.0)  # half its side
DOOR_HALF = wp.constant(2.0)  # of its width
PORTAL_HALF = wp.constant(1.5)
AGENT_RADIUS = wp.constant(0.5)
DRAGON_RADIUS = wp.constant(1.0)
KEY_RADIUS = wp.constant(0.5)
RAYS = wp.constant(15)
RAY_STEP = wp.constant(0.41887902047863906)  # 24 degrees: all around
RAY_LENGTH = wp.constant(25.0)  # more than the room's diagonal
RAY_RADIUS = wp.constant(0.4)  # less than the agent's, or what it touches would be out of sight
TAGS = wp.constant(6)
WALL, AGENT, DOOR, KEY, DRAGON, PORTAL = (wp.constant(tag) for tag in range(6))
OBS = int(RAYS) * (int(TAGS) + 2) + 1


@wp.struct
class World:
    """The columns of DungeonEscape, one row an agent or, of the first eight, an area; places are from the room's middle."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # decisions of this episode
    dragon: wp.array(dtype=wp.vec2)
    dragon_lives: wp.array(dtype=wp.bool)
    portal: wp.array(dtype=wp.vec2)  # its middle, on the wall to the right or left
    door: wp.array(dtype=wp.float32)  # x of its middle, on the wall toward y
    key: wp.array(dtype=wp.vec2)
    key_lies: wp.array(dtype=wp.bool)  # on the floor, for anyone to take
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)
    angle: wp.array(dtype=wp.float32)  # from the x axis
    holds_key: wp.array(dtype=wp.bool)
    acting: wp.array(dtype=wp.bool)  # it lives
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3, 4: turn right, left, 5, 6: to the left, right
    obs: wp.array2d(dtype=wp.float32)
    final_obs: wp.array2d(dtype=wp.float32)
    reward: wp.array(dtype=wp.float32)
    group_reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


@wp.func
def wall_tag(world: World, i: int, place: wp.vec2):
    """What the room's side is at this place on it."""
    if place[1] > ROOM - 1.0e-3 and wp.abs(place[0] - world.door[i]) < DOOR_HALF:
        return DOOR
    gap = place - world.portal[i]
    if wp.abs(gap[0]) < 1.0e-3 and wp.abs(gap[1]) < PORTAL_HALF:
        return PORTAL
    return WALL


@wp.func
def nearer(far: float, tag: int, distance: float, other: int):
    """The distance and tag of the nearer one."""
    if distance < far:
        return distance, other
    return far, tag


@wp.func
def see(world: World, i: int, slot: int):
    """Writes an agent's rays, and whether it holds the key."""
    eye = world.position[slot]
    for k in range(RAYS):
        way = heading(world.angle[slot] + ray_angle(k, RAY_STEP))
        far = ray_room(eye, way, wp.vec2(ROOM, ROOM))
        tag = wall_tag(world, i, eye + far * way)
        for mate in range(i * AGENTS, (i + 1) * AGENTS):
            if mate != slot and world.acting[mate]:
                far, tag = nearer(far, tag, ray_circle(eye, way, world.position[mate], AGENT_RADIUS + RAY_RADIUS), AGENT)
        if world.dragon_lives[i]:
            far, tag = nearer(far, tag, ray_circle(eye, way, world.dragon[i], DRAGON_RADIUS + RAY_RADIUS), DRAGON)
        if world.key_lies[i]:
            far, tag = nearer(far, tag, ray_circle(eye, way, world.key[i], KEY_RADIUS + RAY_RADIUS), KEY)
        write_ray(world.obs, slot, k * (TAGS + 2), TAGS, tag, far / RAY_LENGTH)
    world.obs[slot, OBS - 1] = wp.where(world.holds_key[slot], 1.0, 0.0)


@wp.func
def see_nothing(world: World, slot: int):
    """Wipes the view of an agent that is dead."""
    for k in range(OBS):
        world.obs[slot, k] = 0.0
