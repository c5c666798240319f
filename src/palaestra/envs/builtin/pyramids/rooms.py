"""The columns of Pyramids, its nine rooms, and how its pyramids of cubes are stacked.

Lengths are in meters. The plane's axes are Unity's x and z; heights are above the floor.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, world_struct

SECONDS = wp.constant(0.02)
GRAVITY = wp.constant(9.81)

EDGE = wp.constant(3)  # rooms along a side
ROOMS = wp.constant(9)
APART = wp.constant(30.0)  # between the middles of rooms
ASTRAY = wp.constant(11.904762)  # largest distance of a thing from the middle of its room, each way
DROP = wp.constant(2.0)  # height at which things appear, from which they fall

EAST = wp.constant(49.5)  # inner faces of the walls around the floor
NORTH = wp.constant(49.1)
SOUTH = wp.constant(-49.6)
OUTER_HALF = wp.constant(50.5)  # half the length of these walls
OUTER_TOP = wp.constant(5.0)
INNER_TOP = wp.constant(4.52)
LINE = wp.constant(16.5)  # the walls between rooms stand on four lines at about this distance from the middle
THICK = wp.constant(0.5)  # half a wall's thickness
PIECES = wp.constant(4)  # walls on a line, with doors between them

PILES = wp.constant(7)  # six pyramids of stone, and the one of brick
BRICKS = wp.constant(6)  # number of the brick pyramid
CUBES = wp.constant(26)  # cubes of a pile; the last one is the golden block, of the brick pyramid alone
GOLD = wp.constant(25)
HALF_GOLD = wp.constant(1.0)
# states of a pile
ABSENT = wp.constant(0)
STANDING = wp.constant(1)
LOOSE = wp.constant(2)
RESTING = wp.constant(3)
STONE_MASS = wp.constant(50.0)
BRICK_MASS = wp.constant(2.0)
MIDDLE = wp.constant(wp.vec2(0.43, 0.78))  # of a standing pile, from its place
SETTLED = wp.constant(50)  # ticks after which nothing of a standing pile falls any more
REACH = wp.constant(3.27)  # of a standing pile about its middle

SWITCH_HALF = wp.constant(2.0)

Offsets = wp.types.vector(length=26, dtype=wp.float32)
_RING_X = [-1.34, -0.2134, 1.0866, 2.2] * 2 + [-1.34, 2.2] * 2
_RING_Y = [-1.06] * 4 + [2.62] * 4 + [0.101] * 2 + [1.451] * 2
_SECOND_Y = [-0.473] * 3 + [2.121] * 3 + [0.771] * 2
STONE_X = wp.constant(Offsets(*_RING_X, *([-0.82, 0.37, 1.67] * 2), -0.82, 1.67, *([-0.27, 0.92] * 2), 0.34, 0.0))
BRICK_X = wp.constant(
    Offsets(*_RING_X, *([-0.8034, 0.3866, 1.6866] * 2), -0.8034, 1.6866, *([-0.1434, 1.0466] * 2), 0.52, 0.45)
)
CUBE_Y = wp.constant(Offsets(*_RING_Y, *_SECOND_Y, 0.131, 0.131, 1.375, 1.375, 0.8, 0.8))


@world_struct
class World(EndColumns, EpisodeColumns):
    """Columns of Pyramids, one row per area."""

    place: wp.array(dtype=wp.vec2)  # position of the agent's middle
    height: wp.array(dtype=wp.float32)
    angle: wp.array(dtype=wp.float32)
    velocity: wp.array(dtype=wp.vec3)
    switch_place: wp.array(dtype=wp.vec2)
    switch_angle: wp.array(dtype=wp.float32)
    switch_spin: wp.array(dtype=wp.float32)  # rad/s
    pressed: wp.array(dtype=wp.int32)  # 1: the switch is on
    pressed_age: wp.array(dtype=wp.int32)  # ticks since then
    pile: wp.array2d(dtype=wp.int32)  # state of each pile
    pile_place: wp.array2d(dtype=wp.vec2)  # where the brick pyramid will be, while it is absent
    pile_middle: wp.array2d(dtype=wp.vec2)  # of a circle around the pile
    pile_reach: wp.array2d(dtype=wp.float32)
    untouched: wp.array2d(dtype=wp.int32)  # ticks since the agent touched it
    cube: wp.array2d(dtype=wp.vec3)  # middle of each cube of a loose or resting pile: x, y, height
    cube_velocity: wp.array2d(dtype=wp.vec3)
    still: wp.array2d(dtype=wp.int32)  # ticks for which a cube has hardly moved
    carried: wp.array2d(dtype=wp.vec4)  # where a cube is carried: least x and y, greatest x and y
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: forward, 2: back, 3: turn right, 4: turn left
    obs_low: wp.array2d(dtype=wp.float32)
    obs_middle: wp.array2d(dtype=wp.float32)
    obs_high: wp.array2d(dtype=wp.float32)
    obs_vector: wp.array2d(dtype=wp.float32)
    obs_truth: wp.array2d(dtype=wp.float32)


@wp.func
def room_center(room: int):
    """Returns the middle of a room; rooms are numbered from the lower left, row by row."""
    return APART * wp.vec2(float(room % EDGE - 1), float(room // EDGE - 1))


@wp.func
def fallen(ticks: int):
    """Returns the distance that a thing without drag falls in this number of ticks."""
    n = float(ticks)
    return 0.5 * GRAVITY * SECONDS * SECONDS * n * (n + 1.0)


@wp.func
def wall_middle(axis: int, side: float, piece: int):
    """Returns the middle of a wall on the line across an axis, on its negative or positive side (-1 or 1)."""
    across = float(0.0)
    along = float(0.0)
    if piece == 0 or piece == 3:  # at the outer walls
        along = -42.25 if piece == 0 else 42.25
        same = side * along > 0.0
        if axis == 0:
            across = side * (16.442 if same else 16.558)
        else:
            across = side * (16.558 if same else 16.442)
    else:  # half of a cross
        along = -16.558 if piece == 1 else 16.558
        across = side * 16.558
        if axis == 0 and side > 0.0:
            across = 16.538
        if axis == 1 and piece == 2:
            along = 16.538
    if axis == 0:
        return wp.vec2(across, along)
    return wp.vec2(along, across)


@wp.func
def wall_half(axis: int, piece: int):
    """Returns the half sides of a wall."""
    length = float(7.2525)
    if piece == 1 or piece == 2:
        length = 7.5 if axis == 0 else 7.575
    if axis == 0:
        return wp.vec2(THICK, length)
    return wp.vec2(length, THICK)


@wp.func
def wall_between(piece: int, low: float, high: float):
    """Returns whether a wall may extend into this range along its line."""
    if piece == 0:
        return low < -34.99
    if piece == 1:
        return low < -9.05 and high > -24.12
    if piece == 2:
        return low < 24.12 and high > 8.96
    return high > 34.99


@wp.func
def layer_count(pile: int):
    """Returns the number of boxes that a standing pile consists of."""
    return wp.where(pile == BRICKS, 5, 4)


@wp.func
def layer_middle(pile: int, layer: int, ticks: int):
    """Returns the middle of a layer of a standing pile, relative to the pile, `ticks` after it appeared."""
    middle = wp.vec2(0.43, 0.78)
    spawn = float(0.1508)
    rest = float(layer) + 0.5
    brick = pile == BRICKS
    if layer == 1:
        middle = wp.vec2(wp.where(brick, 0.4416, 0.425), 0.824)
        spawn = wp.where(brick, 1.6008, 1.25)
    if layer == 2:
        middle = wp.vec2(wp.where(brick, 0.4516, 0.325), 0.753)
        spawn = wp.where(brick, 3.1108, 2.38)
    if layer == 3:
        middle = wp.vec2(wp.where(brick, 0.52, 0.34), 0.8)
        spawn = wp.where(brick, 4.29, 3.52)
    if layer == 4:
        middle = wp.vec2(0.45, 0.8)
        spawn = 6.0
        rest = 5.0
    return wp.vec3(middle[0], middle[1], wp.max(rest, DROP + spawn - fallen(ticks)))


@wp.func
def layer_half(layer: int):
    """Returns the half sides of a layer."""
    if layer == 0:
        return wp.vec3(2.27, 2.34, 0.5)
    if layer == 1:
        return wp.vec3(1.745, 1.797, 0.5)
    if layer == 2:
        return wp.vec3(1.095, 1.122, 0.5)
    if layer == 3:
        return wp.vec3(0.5, 0.5, 0.5)
    return wp.vec3(HALF_GOLD, HALF_GOLD, HALF_GOLD)


@wp.func
def layer_of(cube: int):
    """Returns the layer in which a cube starts."""
    return wp.where(cube < 12, 0, wp.where(cube < 20, 1, wp.where(cube < 24, 2, wp.where(cube < 25, 3, 4))))


@wp.func
def cube_count(pile: int):
    """Returns the number of cubes of a pile."""
    return wp.where(pile == BRICKS, CUBES, CUBES - 1)


@wp.func
def cube_half(cube: int):
    """Returns half a cube's side."""
    return wp.where(cube == GOLD, HALF_GOLD, 0.5)


@wp.func
def ticks_of(world: World, i: int, pile: int):
    """Returns the ticks since a pile appeared."""
    return wp.where(pile == BRICKS, world.pressed_age[i], world.age[i])
