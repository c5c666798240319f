"""What the agent observes: the tiles, its own velocity, and its place and heading in two frames.

A tile's number n sets column n, so column 0 stays empty, and the offset in column 20 takes the place of number 20's mark, as in Unity.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.stacking import shift_frames
from palaestra.envs.builtin.sorter.rules import NUMBERS, World, tile_position

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

ROW = wp.constant(23)  # numbers of a tile: its number, its offset from the agent, whether it was touched
BODY = wp.constant(10)  # numbers about the agent's body: place and rotation of its only part, then its velocity
FRAME = wp.constant(4)  # place and heading
SCALE = wp.constant(20.0)  # meters that an observation shows as 1


@wp.func
def observe_tiles(world: World, i: int):
    """Writes the rows of the tiles."""
    position = world.position[i]
    touched = world.touched[i]
    for tile in range(world.tiles[i]):
        away = (tile_position(world.place[i, tile]) - position) / SCALE
        world.obs_tiles[i, tile, world.number[i, tile]] = 1.0
        world.obs_tiles[i, tile, NUMBERS] = away[0]
        world.obs_tiles[i, tile, NUMBERS + 1] = away[1]
        world.obs_tiles[i, tile, NUMBERS + 2] = wp.where(tile < touched, 1.0, 0.0)


@wp.func
def observe(world: World, i: int):
    """Writes the current observation, after moving the older frame back by one."""
    observe_tiles(world, i)
    position = world.position[i]
    velocity = world.velocity[i]
    east = wp.sin(world.heading[i])
    north = wp.cos(world.heading[i])
    world.obs_body[i, 6] = 1.0  # w of a rotation by nothing
    world.obs_body[i, 7] = velocity[0] * north - velocity[1] * east
    world.obs_body[i, 8] = world.rise[i]
    world.obs_body[i, 9] = velocity[0] * east + velocity[1] * north
    newest = shift_frames(world.obs_vector, i, FRAME)
    world.obs_vector[i, newest] = position[0] / SCALE
    world.obs_vector[i, newest + 1] = position[1] / SCALE
    world.obs_vector[i, newest + 2] = east
    world.obs_vector[i, newest + 3] = north
