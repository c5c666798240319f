"""What the rays of a fan of Pyramids may meet, for all of them at once in C++, where the compiler makes vectors of them.

Most rays that meet a wall meet its flat side, which is computed here. What a ray may meet elsewhere is left to `observations`.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.pyramids.rooms import EAST, INNER_TOP, LINE, NORTH, OUTER_TOP, PIECES, SOUTH, THICK, wall_half, wall_middle

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LANES = 8  # the rays of a fan, and one more
LEAST = 1.0e-6  # a ray's smallest component, instead of 0
Numbers = wp.types.vector(length=LANES, dtype=wp.int32)
Lengths = wp.types.vector(length=LANES, dtype=wp.float32)


Walls = wp.types.vector(length=2 * LANES, dtype=wp.float32)
"""Of each ray of a fan: horizontal distance to the nearest flat side of a wall, no more than the fan's reach; then, as numbers, the bits of
the walls that it may meet elsewhere: 8 for each axis, 4 for each side."""


def _table() -> str:
    """Returns middle across, middle along, and half the length, of each wall in the order of the bits of `Walls.open`."""
    rows = []
    for axis in range(2):
        for side in (-1.0, 1.0):
            for piece in range(int(PIECES)):
                middle, half = wall_middle.func(axis, side, piece), wall_half.func(axis, piece)
                rows.append(f"{{{middle[axis]!r}f, {middle[1 - axis]!r}f, {half[1 - axis]!r}f}}")
    return ", ".join(rows)


@wp.func_native(f"""
    const float walls[16][3] = {{{_table()}}};
    constexpr int LANES = {LANES};
    const float thick = {float(THICK)!r}f;
    float inverse[2][LANES];
    float way[2][LANES];
    float nearest[LANES];
    int left[LANES];
    for (int n = 0; n < LANES; ++n) {{
        way[0][n] = fabsf(way_x[n]) < {LEAST}f ? {LEAST}f : way_x[n];
        way[1][n] = fabsf(way_y[n]) < {LEAST}f ? {LEAST}f : way_y[n];
        inverse[0][n] = 1.0f / way[0][n];
        inverse[1][n] = 1.0f / way[1][n];
        nearest[n] = reach;
        left[n] = 0;
    }}
    for (int line = 0; line < 4; ++line) {{
        const int axis = line / 2;
        const float begin = axis == 0 ? start[0] : start[1];
        const float beside = axis == 0 ? start[1] : start[0];
        const float place = (line % 2 == 0 ? -1.0f : 1.0f) * {float(LINE)!r}f;
        const float* across = inverse[axis];
        const float* drift = way[1 - axis];
        float low[LANES];
        float high[LANES];
        int met[LANES];
        int any = 0;
        float lowest = 1e9f;
        float highest = -1e9f;
        for (int n = 0; n < LANES; ++n) {{
            const float steep = fabsf(across[n]);
            const float middle = (place - begin) * across[n];
            const float extent = (thick + 0.06f + radius) * steep;
            const float along = beside + drift[n] * middle;
            const float room = fabsf(drift[n]) * extent + radius;
            const float aside = fabsf(along);
            const int behind = (middle + extent <= 0.0f) | (middle - extent >= nearest[n]);
            const int door = (aside + room < 9.05f) | ((aside - room > 24.12f) & (aside + room < 34.99f));
            met[n] = (behind | door) == 0;
            low[n] = along - room;
            high[n] = along + room;
            any |= met[n];
            lowest = met[n] && low[n] < lowest ? low[n] : lowest;
            highest = met[n] && high[n] > highest ? high[n] : highest;
        }}
        if (!any) continue;
        for (int piece = 0; piece < 4; ++piece) {{
            const float from = piece == 0 ? -1e9f : piece == 1 ? -24.12f : piece == 2 ? 8.96f : 34.99f;  // as `wall_between` has it
            const float to = piece == 0 ? -34.99f : piece == 1 ? -9.05f : piece == 2 ? 24.12f : 1e9f;
            if (!(lowest < to && highest > from)) continue;
            const float* wall = walls[4 * line + piece];
            for (int n = 0; n < LANES; ++n) {{
                const float steep = fabsf(across[n]);
                const float crossing = (wall[0] - begin) * across[n];
                const float distance = crossing - (thick + radius) * steep;
                const float off = beside + drift[n] * crossing - wall[1];
                const float skew = fabsf(drift[n]) * steep * thick;
                const float shift = drift[n] * (distance - crossing);
                const int may = met[n] & (low[n] < to) & (high[n] > from);
                const int flat = (distance > 0.0f) & (fabsf(off + shift) <= wall[2]) & (height + slope * distance <= {float(INNER_TOP)!r}f);
                const int near = fabsf(off) - wall[2] - skew <= radius * steep;
                left[n] |= (may & (flat ^ 1) & near) << (4 * line + piece);
                nearest[n] = (may & flat) && distance < nearest[n] ? distance : nearest[n];
            }}
        }}
    }}
    for (int axis = 0; axis < 2; ++axis) {{
        const float begin = axis == 0 ? start[0] : start[1];
        for (int n = 0; n < LANES; ++n) {{
            const float sign = inverse[axis][n] < 0.0f ? -1.0f : 1.0f;
            const float face = axis == 0 ? {float(EAST)!r}f : inverse[axis][n] > 0.0f ? {float(NORTH)!r}f : {-float(SOUTH)!r}f;
            const float steep = fabsf(inverse[axis][n]);
            const float distance = (face - sign * begin - radius) * steep;
            const float above = height + slope * distance - {float(OUTER_TOP)!r}f;
            const float inside = radius * radius - above * above;
            const float over = distance + (radius - sqrtf(inside > 0.0f ? inside : 0.0f)) * steep;
            const float met = above <= 0.0f ? distance : over;
            const int sees = (distance > 0.0f) & (above < radius);  // what it touches already is not seen
            nearest[n] = sees && met < nearest[n] ? met : nearest[n];
        }}
    }}
    wp::vec_t<2 * LANES, float> seen;
    for (int n = 0; n < LANES; ++n) {{
        seen[n] = nearest[n];
        seen[LANES + n] = (float)left[n];
    }}
    return seen;
""")
def meet_walls(way_x: Lengths, way_y: Lengths, start: wp.vec2, height: float, slope: float, radius: float, reach: float) -> Walls:
    """Returns what the rays of a fan meet of the walls."""


@wp.func_native("""
    wp::vec_t<8, int> ahead;
    float nearest[8];
    for (int n = 0; n < 8; ++n) {
        ahead[n] = 0;
        nearest[n] = walls[n] >= reach ? length : walls[n];
    }
    for (int k = 0; k < count; ++k) {
        for (int n = 0; n < 8; ++n) {
            const float along = x[k] * way_x[n] + y[k] * way_y[n];
            const float aside = fabsf(x[k] * way_y[n] - y[k] * way_x[n]);
            const int passes = (aside > far[k]) | (-along > far[k]) | (along - nearest[n] > far[k]);
            ahead[n] |= (passes ^ 1) << k;
        }
    }
    return ahead;
""")
def things_ahead(
    way_x: Lengths, way_y: Lengths, walls: Walls, reach: float, length: float, count: int, x: Lengths, y: Lengths, far: Lengths
) -> Numbers:
    """Returns for each ray the bits of the things about (`x`, `y`), from its start, that it may meet before a wall, as `passes` tells.

    Beyond `reach` a ray passes over all walls; it is `length` long.
    """
