"""The rules of Match3: lines of three or more are cleared, the pieces above drop, and new pieces fill the board from
the top.

A cell is row * COLUMNS + column, row 0 at the bottom, on boards of every size: cells beyond a smaller board are empty.
A move exchanges a cell with the one to its right (moves 0 to 62, row by row) or, after those, with the one above it; it
is allowed if it makes a line. Unity numbers its cells and moves the same way.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, world_struct

ROWS = wp.constant(9)  # of the largest board
COLUMNS = wp.constant(8)
FEWEST = wp.constant(6)  # rows and columns of the smallest board
CELLS = wp.constant(72)
KINDS = wp.constant(6)  # colors of pieces
WORTHS = wp.constant(3)  # plain, and two special types
RIGHT_MOVES = wp.constant(63)
MOVES = wp.constant(127)
OUTSIDE = wp.constant(-1)
NONE = wp.constant(-2)


@world_struct
class World(EndColumns, EpisodeColumns):
    """Columns of Match3, one row per area."""

    planes: wp.bool  # True: observations have one board per type, as images; False: the types cell by cell
    largest: wp.bool  # True: every board is of the largest size
    rows: wp.array(dtype=wp.int32)  # of this episode's board
    columns: wp.array(dtype=wp.int32)
    kind: wp.array2d(dtype=wp.int32)  # the color in each cell; OUTSIDE beyond the board
    worth: wp.array2d(dtype=wp.int32)  # 0: plain, 1 and 2: special; it scores one more than that
    marked: wp.array2d(dtype=wp.bool)  # in a line, about to be cleared
    action: wp.array2d(dtype=wp.int64)
    obs_cells: wp.array2d(dtype=wp.float32)
    obs_special: wp.array2d(dtype=wp.float32)
    mask: wp.array2d(dtype=wp.bool)


@wp.func
def near_cell(move: int):
    """Returns the left or lower one of the two cells that a move exchanges."""
    if move < RIGHT_MOVES:
        return move // (COLUMNS - 1) * COLUMNS + move % (COLUMNS - 1)
    return move - RIGHT_MOVES


@wp.func
def far_cell(move: int):
    """Returns the right or upper one of the two cells that a move exchanges."""
    return near_cell(move) + wp.where(move < RIGHT_MOVES, 1, COLUMNS)


@wp.func
def color_at(world: World, i: int, row: int, column: int):
    """Returns the color of a cell's piece; OUTSIDE beyond the board."""
    if row < 0 or row >= ROWS or column < 0 or column >= COLUMNS:
        return int(OUTSIDE)
    return world.kind[i, row * COLUMNS + column]


@wp.func
def common_color(a: int, b: int):
    """Returns the color that two pieces have in common, which a third may join; NONE if they differ."""
    return wp.where(a == b, a, NONE)


@wp.func
def joins(kind: int, a: int, b: int, c: int, d: int):
    """Returns whether a piece, if there is one, has one of four colors."""
    return kind >= 0 and (kind == a or kind == b or kind == c or kind == d)  # Warp does not support tuples here


@wp.func
def allow_moves_into(world: World, i: int, row: int, column: int):
    """Allows the moves that bring a piece to this cell and make a line with it; returns whether there are any.

    A piece that comes from one side makes a line with the two pieces next to the cell on another side, or with the two
    pieces on either side of the cell.
    """
    left = color_at(world, i, row, column - 1)
    right = color_at(world, i, row, column + 1)
    down = color_at(world, i, row - 1, column)
    up = color_at(world, i, row + 1, column)
    lefts = common_color(left, color_at(world, i, row, column - 2))
    rights = common_color(right, color_at(world, i, row, column + 2))
    downs = common_color(down, color_at(world, i, row - 2, column))
    ups = common_color(up, color_at(world, i, row + 2, column))
    across = common_color(left, right)
    along = common_color(down, up)
    here = color_at(world, i, row, column)  # exchanging two of a color is no move
    to_right = row * (COLUMNS - 1) + column
    to_up = RIGHT_MOVES + row * COLUMNS + column
    before = left != here and joins(left, rights, downs, ups, along)
    after = right != here and joins(right, lefts, downs, ups, along)
    below = down != here and joins(down, ups, lefts, rights, across)
    above = up != here and joins(up, downs, lefts, rights, across)
    if before:
        world.mask[i, to_right - 1] = True
    if after:
        world.mask[i, to_right] = True
    if below:
        world.mask[i, to_up - COLUMNS] = True
    if above:
        world.mask[i, to_up] = True
    return before or after or below or above


@wp.func
def update_mask(world: World, i: int):
    """Writes which moves are allowed on a settled board; returns False if no move is."""
    for move in range(MOVES):
        world.mask[i, move] = False
    found = bool(False)  # Warp takes a literal for a constant
    for row in range(world.rows[i]):
        for column in range(world.columns[i]):
            if allow_moves_into(world, i, row, column):
                found = True
    return found


@wp.func
def exchange(world: World, i: int, move: int):
    """Exchanges the two pieces of a move."""
    a = near_cell(move)
    b = far_cell(move)
    kind = world.kind[i, a]
    worth = world.worth[i, a]
    world.kind[i, a] = world.kind[i, b]
    world.worth[i, a] = world.worth[i, b]
    world.kind[i, b] = kind
    world.worth[i, b] = worth


@wp.func
def mark_line(world: World, i: int, cell: int, step: int):
    """Marks three cells from `cell` on if they hold one color; returns whether they hold one color."""
    kind = world.kind[i, cell]
    if world.kind[i, cell + step] != kind or world.kind[i, cell + 2 * step] != kind:
        return False
    for k in range(3):
        world.marked[i, cell + k * step] = True
    return True


@wp.func
def mark(world: World, i: int):
    """Marks every piece in a line; returns False if there is none."""
    found = bool(False)
    for cell in range(CELLS):
        world.marked[i, cell] = False
    for row in range(world.rows[i]):
        for column in range(world.columns[i]):
            cell = row * COLUMNS + column
            if column < world.columns[i] - 2 and mark_line(world, i, cell, 1):
                found = True
            if row < world.rows[i] - 2 and mark_line(world, i, cell, COLUMNS):
                found = True
    return found


@wp.func
def put_new(world: World, i: int, cell: int):
    """Puts a piece of a random color; of ten pieces one scores three points and two score two points."""
    state = world.rng[i]
    world.kind[i, cell] = wp.randi(state, 0, KINDS)
    draw = wp.randi(state, 0, 10)
    world.worth[i, cell] = wp.where(draw == 0, 2, wp.where(draw < 3, 1, 0))
    world.rng[i] = state


@wp.func
def clear(world: World, i: int):
    """Removes marked pieces, column by column, and fills the board up again; returns the score."""
    points = int(0)
    top = world.rows[i] * COLUMNS
    for column in range(world.columns[i]):
        to = column
        at = column
        while at < top:
            if world.marked[i, at]:
                points += 1 + world.worth[i, at]
            else:
                world.kind[i, to] = world.kind[i, at]
                world.worth[i, to] = world.worth[i, at]
                to += COLUMNS
            at += COLUMNS
        while to < top:
            put_new(world, i, to)
            to += COLUMNS
    return points


@wp.func
def settle(world: World, i: int):
    """Clears lines until no line is left, including lines that form by falling; returns the score."""
    points = int(0)
    while mark(world, i):
        points += clear(world, i)
    return points


@wp.func
def deal(world: World, i: int):
    """Deals a new board of the episode's size, with no line and at least one allowed move."""
    stuck = bool(True)
    while stuck:
        for cell in range(CELLS):
            world.kind[i, cell] = OUTSIDE
            world.worth[i, cell] = 0
        for row in range(world.rows[i]):
            for column in range(world.columns[i]):
                put_new(world, i, row * COLUMNS + column)
        settle(world, i)
        stuck = not update_mask(world, i)


@wp.func
def flag_index(world: World, cell: int, which: int, types: int):
    """Returns the index of the observation's flag for a type in a cell."""
    if world.planes:
        return which * CELLS + cell
    return cell * types + which


@wp.func
def observe(world: World, i: int):
    """Writes the current observation of the board; cells beyond it are 0."""
    for k in range(world.obs_cells.shape[1]):
        world.obs_cells[i, k] = 0.0
    for k in range(world.obs_special.shape[1]):
        world.obs_special[i, k] = 0.0
    for cell in range(CELLS):
        if world.kind[i, cell] >= 0:
            world.obs_cells[i, flag_index(world, cell, world.kind[i, cell], KINDS)] = 1.0
            world.obs_special[i, flag_index(world, cell, world.worth[i, cell], WORTHS)] = 1.0
