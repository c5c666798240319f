"""A grid sensor like Unity's: square cells that turn with an agent, one channel per tag; in each cell, the channel of
the thing that it shows is 1.

Columns of the grid run ahead and rows to the left: column 0 lies furthest back, row 0 furthest to the right. A cell
whose square overlaps several things shows the thing nearest to the grid's middle. The distance is that of the point
nearest to the cell's middle in the thing's bounding box, whose sides are along the axes of the world; of two equally
near things the first stays. Angles are in radians, counterclockwise from the x axis.

Things are numbered from 0 and drawn into the grid one by one, over the rows into which they extend; the marked cells
are recorded, so that the next tick clears only these cells. A world has the columns `owner` (slots, rows * columns) and
`written` (slots, 1 + most) of int32, and `bounds` (slots, things) of vec4. A kernel writes

    grid = grid_around(world.obs_grid, world.owner, world.written, world.bounds, slot)
    grid = aim_grid(grid, middle, angle, CELL)
    clear_grid(grid)
    mark_box(grid, 0, WALL, center, half, 0.0)
    mark_circle(grid, 1, FOOD, food, radius_at_this_height, RADIUS)

A body whose surface counts, but not its inside, is marked edge by edge with `mark_edge`.
"""

from __future__ import annotations

import warp as wp

TAG = wp.constant(20)
LINE = wp.constant(10)
"""Bit offsets of the tag and the row in a record; a grid has at most 1,024 things and rows, and 64 columns."""
LOW = wp.constant(1023)


@wp.struct
class Grid:
    """Cells of one agent's grid, and the grid's place."""

    marks: wp.array3d(dtype=wp.float32)  # (tags, rows, columns)
    owner: wp.array(dtype=wp.int32)  # (rows * columns,): tag and number of the thing that a cell shows, plus 1; 0: none
    # (1 + most,): how many cells are marked, and which; beyond `most` all are cleared
    written: wp.array(dtype=wp.int32)
    bounds: wp.array(dtype=wp.vec4)  # (things,): each thing's bounding box, lowest and highest corner
    middle: wp.vec2
    fineness: wp.float32  # cells a unit of length
    ahead: wp.vec2  # the unit vector of its heading, times that
    half: wp.vec2  # half its numbers of columns and rows


@wp.func
def grid_around(
    marks: wp.array4d(dtype=wp.float32),
    owner: wp.array2d(dtype=wp.int32),
    written: wp.array2d(dtype=wp.int32),
    bounds: wp.array2d(dtype=wp.vec4),
    row: int,
    area: int,
):
    """Returns the grid of the agent in this row; `aim_grid` sets its place."""
    grid = Grid()
    grid.marks = marks[row]
    grid.owner = owner[area]
    grid.written = written[row]
    grid.bounds = bounds[area]
    grid.half = 0.5 * wp.vec2(float(marks.shape[3]), float(marks.shape[2]))
    return grid


@wp.func
def aim_grid(grid: Grid, middle: wp.vec2, angle: float, cell: float):
    """Returns the grid around `middle`, turned by an agent's angle, whose cells have edges of `cell`."""
    grid.middle = middle
    grid.fineness = 1.0 / cell
    grid.ahead = wp.vec2(wp.cos(angle), wp.sin(angle)) / cell
    return grid


@wp.func
def turn_to_cells(grid: Grid, way: wp.vec2):
    """Returns a vector in cells: along columns (ahead), and along rows (to the left)."""
    return wp.vec2(grid.ahead[0] * way[0] + grid.ahead[1] * way[1], grid.ahead[0] * way[1] - grid.ahead[1] * way[0])


@wp.func
def to_cells(grid: Grid, point: wp.vec2):
    """Returns a point in cells: columns from the back edge, rows from the right edge."""
    return grid.half + turn_to_cells(grid, point - grid.middle)


@wp.func_native("""
    int* record = (int*)written.data;
    const int count = record[0], most = written.shape[0];
    record[0] = 0;
    if (count < most) {
        for (int k = 1; k <= count; ++k) {
            const int tag = record[k] >> 20, y = (record[k] >> 10) & 1023, x = record[k] & 1023;
            ((float*)((char*)marks.data + tag * marks.strides[0] + y * marks.strides[1]))[x] = 0.0f;
        }
        return;
    }
    float* mark = (float*)marks.data;
    for (int k = 0; k < marks.shape[0] * marks.shape[1] * marks.shape[2]; ++k) mark[k] = 0.0f;
""")  # native, as `mark_free` is
def clear_marks(marks: wp.array3d(dtype=wp.float32), written: wp.array(dtype=wp.int32)):
    """Clears all marks recorded since the last call, or all cells if there were too many marks."""


@wp.func
def clear_grid(grid: Grid):
    """Clears all cells marked since the last call."""
    clear_marks(grid.marks, grid.written)


@wp.func
def close_grid(grid: Grid):
    """Clears the numbers of the things that cover the marked cells, so that the next grid can be drawn."""
    count = grid.written[0]
    columns = grid.marks.shape[2]
    if count < grid.written.shape[0]:
        for k in range(1, count + 1):
            record = grid.written[k]
            grid.owner[((record >> LINE) & LOW) * columns + (record & LOW)] = 0
        return
    for k in range(grid.owner.shape[0]):
        grid.owner[k] = 0


@wp.func
def distance_from_middle(grid: Grid, thing: int, y: int, x: int):
    """Returns the squared distance from the grid's middle to the point of a bounding box nearest a cell's middle."""
    at = (wp.vec2(float(x) + 0.5, float(y) + 0.5) - grid.half) / (grid.fineness * grid.fineness)
    cell = grid.middle + wp.vec2(
        grid.ahead[0] * at[0] - grid.ahead[1] * at[1], grid.ahead[1] * at[0] + grid.ahead[0] * at[1]
    )
    box = grid.bounds[thing]
    nearest = wp.vec2(wp.clamp(cell[0], box[0], box[2]), wp.clamp(cell[1], box[1], box[3]))
    return wp.length_sq(nearest - grid.middle)


@wp.func_native("""
    float* mark = (float*)((char*)marks.data + tag * marks.strides[0] + y * marks.strides[1]);
    int* shows = (int*)owner.data + y * marks.shape[2];
    int* record = (int*)written.data;
    const int most = written.shape[0];
    int count = record[0];
    long long taken = 0;
    for (int x = first; x <= last; ++x) {
        if (shows[x] == 0) {
            shows[x] = (tag << 10) + thing + 1;
            mark[x] = 1.0f;
            if (++count < most) record[count] = (tag << 20) | (y << 10) | x;
        } else if (((shows[x] - 1) & 1023) != thing) {
            taken |= 1LL << x;
        }
    }
    record[0] = count;
    return taken;
""")  # in C++ the loop has no array views to make: in Warp it took a third of the cooperative push block's tick
def mark_free(
    marks: wp.array3d(dtype=wp.float32),
    owner: wp.array(dtype=wp.int32),
    written: wp.array(dtype=wp.int32),
    thing: int,
    tag: int,
    y: int,
    first: int,
    last: int,
) -> wp.int64:
    """Marks the free cells of row y, from the first to the last; returns a bit for each that shows another thing."""


@wp.func
def mark_span(grid: Grid, thing: int, tag: int, y: int, left: float, right: float):
    """Marks the cells of one row between two places along it; the row must be within the grid."""
    columns = grid.marks.shape[2]
    first = wp.max(int(wp.floor(left)), 0)
    last = wp.min(int(wp.floor(right)), columns - 1)
    if first > last:
        return
    taken = mark_free(grid.marks, grid.owner, grid.written, thing, tag, y, first, last)
    while taken != wp.int64(0):
        if (taken >> wp.int64(first)) & wp.int64(1) == wp.int64(1):
            before = grid.owner[y * columns + first] - 1
            if distance_from_middle(grid, thing, y, first) < distance_from_middle(grid, before & LOW, y, first):
                grid.marks[before >> LINE, y, first] = 0.0
                grid.owner[y * columns + first] = (tag << LINE) + thing + 1
                grid.marks[tag, y, first] = 1.0
                count = grid.written[0] + 1
                grid.written[0] = count
                if count < grid.written.shape[0]:
                    grid.written[count] = (tag << TAG) | (y << LINE) | first
            taken = taken ^ (wp.int64(1) << wp.int64(first))
        first += 1


@wp.func
def mark_circle(grid: Grid, thing: int, tag: int, center: wp.vec2, radius: float, extent: float):
    """Marks the cells that a circle overlaps, such as a ball's section; `extent`: half the ball's bounding box."""
    at = to_cells(grid, center)
    reach = radius * grid.fineness
    if at[0] + reach < 0.0 or at[0] - reach > float(grid.marks.shape[2]):
        return
    if at[1] + reach < 0.0 or at[1] - reach > float(grid.marks.shape[1]):
        return
    grid.bounds[thing] = wp.vec4(center[0] - extent, center[1] - extent, center[0] + extent, center[1] + extent)
    first = wp.max(int(wp.floor(at[1] - reach)), 0)
    last = wp.min(int(wp.floor(at[1] + reach)), grid.marks.shape[1] - 1)
    for y in range(first, last + 1):
        off = wp.max(wp.max(float(y) - at[1], at[1] - float(y + 1)), 0.0)
        chord = reach * reach - off * off
        if chord > 0.0:
            half = wp.sqrt(chord)
            mark_span(grid, thing, tag, y, at[0] - half, at[0] + half)


@wp.func
def mark_box(grid: Grid, thing: int, tag: int, center: wp.vec2, half: wp.vec2, angle: float):
    """Marks the cells that a box with these half sides, turned by the angle, overlaps."""
    at = to_cells(grid, center)
    reach = (half[0] + half[1]) * grid.fineness  # no less than its half diagonal
    if (
        at[0] + reach < 0.0
        or at[0] - reach > 2.0 * grid.half[0]
        or at[1] + reach < 0.0
        or at[1] - reach > 2.0 * grid.half[1]
    ):
        return
    along = wp.vec2(1.0, 0.0)
    if angle != 0.0:
        along = wp.vec2(wp.cos(angle), wp.sin(angle))
    out = turn_to_cells(grid, half[0] * along)
    up = turn_to_cells(grid, half[1] * wp.vec2(-along[1], along[0]))
    wide = wp.abs(out[0]) + wp.abs(up[0])
    tall = wp.abs(out[1]) + wp.abs(up[1])
    first = wp.max(int(wp.floor(at[1] - tall)), 0)
    last = wp.min(int(wp.floor(at[1] + tall)), grid.marks.shape[1] - 1)
    if at[0] + wide < 0.0 or at[0] - wide > 2.0 * grid.half[0] or first > last:
        return
    extent = half[0] * wp.abs(along[0]) + half[1] * wp.abs(along[1])
    depth = half[0] * wp.abs(along[1]) + half[1] * wp.abs(along[0])
    grid.bounds[thing] = wp.vec4(center[0] - extent, center[1] - depth, center[0] + extent, center[1] + depth)
    # from the corner furthest to the left along columns, one side leads to higher rows and one to lower ones
    out *= wp.sign(out[0])
    up *= wp.sign(up[0])
    corner = -out[1] - up[1]
    rising = wp.where(out[1] > up[1], out, up)
    falling = wp.where(out[1] > up[1], up, out)
    gain = rising[0] / wp.max(rising[1], 1.0e-6)
    loss = falling[0] / wp.min(falling[1], -1.0e-6)
    for y in range(first, last + 1):
        low = wp.max(float(y) - at[1], -tall)
        high = wp.min(float(y + 1) - at[1], tall)
        left = wp.clamp(corner, low, high) - corner
        right = -wp.clamp(-corner, low, high) - corner  # the box is its own mirror image about its center
        begins = at[0] - wide + wp.max(gain * left, loss * left)
        ends = at[0] + wide - wp.max(gain * right, loss * right)
        mark_span(grid, thing, tag, y, begins, ends)


@wp.func
def mark_edge(grid: Grid, thing: int, tag: int, start: wp.vec2, end: wp.vec2, bounds: wp.vec4):
    """Marks the cells that a thin face from start to end crosses; `bounds` is the bounding box of its thing."""
    a = to_cells(grid, start)
    b = to_cells(grid, end)
    if wp.max(a[0], b[0]) < 0.0 or wp.min(a[0], b[0]) > 2.0 * grid.half[0]:
        return
    grid.bounds[thing] = bounds
    low = wp.min(a[1], b[1])
    high = wp.max(a[1], b[1])
    rise = b[1] - a[1]
    slope = float(0.0)  # columns a row
    if wp.abs(rise) > 1.0e-6:
        slope = (b[0] - a[0]) / rise
    # rows in which it is beside the grid are left out, with a row to spare
    bottom = wp.max(low, 0.0)
    top = wp.min(high, 2.0 * grid.half[1])
    if wp.abs(slope) > 1.0e-3:
        at_first = a[1] - a[0] / slope
        at_last = at_first + 2.0 * grid.half[0] / slope
        bottom = wp.max(bottom, wp.min(at_first, at_last) - 1.0)
        top = wp.min(top, wp.max(at_first, at_last) + 1.0)
    last = wp.min(int(wp.floor(top)), grid.marks.shape[1] - 1)
    for y in range(int(wp.floor(bottom)), last + 1):
        one = a[0]
        two = b[0]
        if slope != 0.0:
            one = a[0] + (wp.max(low, float(y)) - a[1]) * slope
            two = a[0] + (wp.min(high, float(y + 1)) - a[1]) * slope
        mark_span(grid, thing, tag, y, wp.min(one, two), wp.max(one, two))
