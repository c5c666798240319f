"""A grid sensor: cells around an agent that turn with it, with a channel per tag, 1 in every cell that a thing overlaps.

Row 0 of the grid lies furthest ahead, column 0 furthest to the left; the agent stands in the middle, where
four cells meet. As in Unity, a cell is marked if its square and the thing's outline overlap at all; `mark_point`
marks the cell of a thing without extent. Angles are in radians, counterclockwise from the x axis.

Things are rasterized one by one, over the rows that they reach into, and the marked cells are
recorded, so that the next tick clears only those. A kernel writes

    grid = grid_around(world.obs_grid, world.written, row, position, angle, CELL)
    clear_grid(grid)
    mark_circle(grid, GREEN, food, RADIUS)
    mark_box(grid, WALL, center, half, 0.0)
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})

TAG, LINE = wp.constant(20), wp.constant(10)
"""Bit offsets of the tag and the row in a record; a grid has at most 1,024 rows and columns."""
LOW = wp.constant(1023)


@wp.struct
class Grid:
    """Cells of one agent's grid, and the agent's position."""

    marks: wp.array3d(dtype=wp.float32)  # (tags, height, width)
    written: wp.array(dtype=wp.int32)  # (1 + most,): how many cells are marked, and which; beyond `most` all are cleared
    eye: wp.vec2
    fineness: wp.float32  # cells a unit of length
    ahead: wp.vec2  # the unit vector of its heading, times that


@wp.func
def grid_around(
    marks: wp.array4d(dtype=wp.float32), written: wp.array2d(dtype=wp.int32), row: int, eye: wp.vec2, angle: float, cell: float
):
    """Returns the grid of the agent in this row, whose cells have edges of `cell`."""
    grid = Grid()
    grid.marks = marks[row]
    grid.written = written[row]
    grid.eye = eye
    grid.fineness = 1.0 / cell
    grid.ahead = wp.vec2(wp.cos(angle), wp.sin(angle)) / cell
    return grid


@wp.func
def to_cells(grid: Grid, point: wp.vec2):
    """Returns a point in cells: columns from the left edge, rows from the far one."""
    to = point - grid.eye
    right = grid.ahead[1] * to[0] - grid.ahead[0] * to[1]
    return wp.vec2(0.5 * float(grid.marks.shape[2]) + right, 0.5 * float(grid.marks.shape[1]) - wp.dot(grid.ahead, to))


@wp.func
def clear_grid(grid: Grid):
    """Clears all cells marked since the last call."""
    count = grid.written[0]
    grid.written[0] = 0
    if count < grid.written.shape[0]:
        for k in range(1, count + 1):
            record = grid.written[k]
            grid.marks[record >> TAG, (record >> LINE) & LOW, record & LOW] = 0.0
        return
    for tag in range(grid.marks.shape[0]):
        for y in range(grid.marks.shape[1]):
            for x in range(grid.marks.shape[2]):
                grid.marks[tag, y, x] = 0.0


@wp.func
def mark_span(grid: Grid, tag: int, y: int, left: float, right: float):
    """Marks the cells of one row between two places along it; the row must be within the grid."""
    first = wp.max(int(wp.floor(left)), 0)
    last = wp.min(int(wp.floor(right)), grid.marks.shape[2] - 1)
    count = grid.written[0]
    for x in range(first, last + 1):
        grid.marks[tag, y, x] = 1.0
        count += 1
        if count < grid.written.shape[0]:
            grid.written[count] = (tag << TAG) | (y << LINE) | x
    grid.written[0] = count


@wp.func
def mark_point(grid: Grid, tag: int, point: wp.vec2):
    """Marks the cell of a point, if it is within the grid."""
    at = to_cells(grid, point)
    y = int(wp.floor(at[1]))
    if y >= 0 and y < grid.marks.shape[1]:
        mark_span(grid, tag, y, at[0], at[0])


@wp.func
def mark_circle(grid: Grid, tag: int, center: wp.vec2, radius: float):
    """Marks the cells that a circle overlaps."""
    at = to_cells(grid, center)
    reach = radius * grid.fineness
    if at[0] + reach < 0.0 or at[0] - reach > float(grid.marks.shape[2]):
        return
    if at[1] + reach < 0.0 or at[1] - reach > float(grid.marks.shape[1]):
        return
    first = wp.max(int(wp.floor(at[1] - reach)), 0)
    last = wp.min(int(wp.floor(at[1] + reach)), grid.marks.shape[1] - 1)
    for y in range(first, last + 1):
        off = wp.max(wp.max(float(y) - at[1], at[1] - float(y + 1)), 0.0)
        chord = reach * reach - off * off
        if chord > 0.0:
            half = wp.sqrt(chord)
            mark_span(grid, tag, y, at[0] - half, at[0] + half)


@wp.func
def widen_span(span: wp.vec2, a: wp.vec2, b: wp.vec2, top: float):
    """Returns a span along a row, widened by the part of an edge from a to b that lies within the row."""
    first = wp.max(wp.min(a[1], b[1]), top)
    last = wp.min(wp.max(a[1], b[1]), top + 1.0)
    if first > last:
        return span
    one = a[0]
    two = b[0]
    rise = b[1] - a[1]
    if wp.abs(rise) > 1.0e-6:
        slope = (b[0] - a[0]) / rise
        one = a[0] + (first - a[1]) * slope
        two = a[0] + (last - a[1]) * slope
    return wp.vec2(wp.min(span[0], wp.min(one, two)), wp.max(span[1], wp.max(one, two)))


@wp.func
def mark_box(grid: Grid, tag: int, center: wp.vec2, half: wp.vec2, angle: float):
    """Marks the cells that a box with these half sides, turned by the angle, overlaps."""
    along = wp.vec2(wp.cos(angle), wp.sin(angle))
    out = half[0] * along
    up = half[1] * wp.vec2(-along[1], along[0])
    a = to_cells(grid, center - out - up)
    b = to_cells(grid, center + out - up)
    c = to_cells(grid, center + out + up)
    d = to_cells(grid, center - out + up)
    low = wp.min(wp.min(a, b), wp.min(c, d))
    high = wp.max(wp.max(a, b), wp.max(c, d))
    if high[0] < 0.0 or low[0] > float(grid.marks.shape[2]):
        return
    first = wp.max(int(wp.floor(low[1])), 0)
    last = wp.min(int(wp.floor(high[1])), grid.marks.shape[1] - 1)
    for y in range(first, last + 1):
        top = float(y)
        span = wp.vec2(1.0e9, -1.0e9)
        span = widen_span(span, a, b, top)
        span = widen_span(span, b, c, top)
        span = widen_span(span, c, d, top)
        span = widen_span(span, d, a, top)
        mark_span(grid, tag, y, span[0], span[1])
