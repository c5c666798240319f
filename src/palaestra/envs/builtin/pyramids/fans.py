"""Walls that the rays of a fan of Pyramids meet, for all rays at once in C++, where the compiler makes vectors of them.

Most rays that meet a wall meet its flat side, which is computed here. What a ray may meet elsewhere is left to `observations`.
"""

from __future__ import annotations

from typing import Any, cast

import warp as wp

from palaestra.envs.builtin.pyramids.rooms import (
    EAST,
    INNER_TOP,
    LINE,
    NORTH,
    OUTER_HALF,
    OUTER_TOP,
    PIECES,
    SOUTH,
    THICK,
    wall_half,
    wall_middle,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

LANES = 8  # the rays of a fan, and one more
LEAST = 1.0e-6  # a ray's smallest component, instead of 0
Numbers = wp.types.vector(length=LANES, dtype=wp.int32)
Lengths = wp.types.vector(length=LANES, dtype=wp.float32)


Walls = wp.types.vector(length=2 * LANES, dtype=wp.float32)
"""For each ray of a fan, the horizontal distance to the nearest flat side of a wall, no more than the fan's reach.

Then, as numbers, the bits of the walls that it may meet elsewhere: 8 for each axis, 4 for each side.
"""


@wp.struct
class Near:
    """Piles and the switch that rays may meet: their numbers, where they are from the agent, and how far they reach with a ray's radius."""

    count: wp.int32
    thing: Numbers
    x: Lengths
    y: Lengths
    far: Lengths


def _table() -> str:
    """Returns middle across, middle along, and half the length, of each wall in the order of the bits of `Walls.open`."""
    rows = []
    find_middle, find_half = cast(Any, wall_middle).func, cast(Any, wall_half).func
    for axis in range(2):
        for side in (-1.0, 1.0):
            for piece in range(int(PIECES)):
                middle, half = find_middle(axis, side, piece), find_half(axis, piece)
                rows.append(f"{{{middle[axis]!r}f, {middle[1 - axis]!r}f, {half[1 - axis]!r}f}}")
    return ", ".join(rows)


_LANES = f"""
#if defined(__CUDA_ARCH__)
    constexpr int WIDTH = 1;
    typedef float Lanes;
    typedef int Bits;
#else
    constexpr int WIDTH = {LANES};
    typedef float Lanes __attribute__((ext_vector_type({LANES})));
    typedef int Bits __attribute__((ext_vector_type({LANES})));
#endif
    const auto size_of = [](Lanes a) {{ return a < Lanes(0.0f) ? -a : a; }};
    const auto is = [](auto test) {{ return test ? Bits(1) : Bits(0); }};
#if defined(__CUDA_ARCH__)
    const auto load = [](const float* from) {{ return from[0]; }};
    const auto store = [](float* to, float a) {{ to[0] = a; }};
    const auto root = [](float a) {{ return sqrtf(a); }};
    const auto some = [](int a) {{ return a; }};
#else
    typedef Lanes Stored __attribute__((aligned(4)));
    const auto load = [](const float* from) {{ return Lanes(*(const Stored*)from); }};
    const auto store = [](float* to, Lanes a) {{ *(Stored*)to = a; }};
    const auto root = [](Lanes a) {{ return __builtin_elementwise_sqrt(a); }};
    const auto some = [](Bits a) {{ return __builtin_reduce_or(a); }};
#endif
"""  # a vector of all rays on a CPU, a number on a GPU, where a loop goes over the rays


@wp.func_native(
    _LANES
    + f"""
    const float walls[16][3] = {{{_table()}}};
    const float thick = {float(THICK)!r}f;
    const float height = above;
    wp::vec_t<2 * {LANES}, float> seen;
    for (int ray = 0; ray < {LANES}; ray += WIDTH) {{
        Lanes way[2] = {{load(&way_x[ray]), load(&way_y[ray])}};
        Lanes inverse[2];
        for (int axis = 0; axis < 2; ++axis) {{
            way[axis] = size_of(way[axis]) < Lanes({LEAST}f) ? Lanes({LEAST}f) : way[axis];
            inverse[axis] = Lanes(1.0f) / way[axis];
        }}
        Lanes nearest = Lanes(reach);
        Bits left = Bits(0);
        for (int line = 0; line < 4; ++line) {{
            const int axis = line / 2;
            const float begin = axis == 0 ? start[0] : start[1];
            const float beside = axis == 0 ? start[1] : start[0];
            const float place = (line % 2 == 0 ? -1.0f : 1.0f) * {float(LINE)!r}f;
            const Lanes across = axis == 0 ? inverse[0] : inverse[1];
            const Lanes drift = axis == 0 ? way[1] : way[0];
            const Lanes steep = size_of(across);
            const Lanes middle = (place - begin) * across;
            const Lanes extent = (thick + 0.06f + radius) * steep;
            const Lanes along = beside + drift * middle;
            const Lanes room = size_of(drift) * extent + radius;
            const Lanes aside = size_of(along);
            const Bits behind = is(middle + extent <= Lanes(0.0f)) | is(middle - extent >= nearest);
            const Bits door = is(aside + room < Lanes(9.05f)) | (is(aside - room > Lanes(24.12f)) & is(aside + room < Lanes(34.99f)));
            const Bits met = (behind | door) ^ Bits(1);
            if (some(met) == 0) continue;
            const Lanes low = along - room;
            const Lanes high = along + room;
            const Lanes skew = size_of(drift) * steep * thick;
            for (int piece = 0; piece < 4; ++piece) {{
                const float from = piece == 0 ? -1e9f : piece == 1 ? -24.12f : piece == 2 ? 8.96f : 34.99f;  // as `wall_between` has it
                const float to = piece == 0 ? -34.99f : piece == 1 ? -9.05f : piece == 2 ? 24.12f : 1e9f;
                const Bits may = met & is(low < Lanes(to)) & is(high > Lanes(from));
                if (some(may) == 0) continue;
                const float* wall = walls[4 * line + piece];
                const Lanes crossing = (wall[0] - begin) * across;
                const Lanes distance = crossing - (thick + radius) * steep;
                const Lanes off = beside + drift * crossing - wall[1];
                const Lanes shift = drift * (distance - crossing);
                const Bits low_enough = is(height + slope * distance <= Lanes({float(INNER_TOP)!r}f));
                const Bits flat = is(distance > Lanes(0.0f)) & is(size_of(off + shift) <= Lanes(wall[2])) & low_enough;
                const Bits near = is(size_of(off) - wall[2] - skew <= radius * steep);
                left |= (may & (flat ^ Bits(1)) & near) * (1 << (4 * line + piece));
                nearest = (may & flat & is(distance < nearest)) != Bits(0) ? distance : nearest;
            }}
        }}
        for (int axis = 0; axis < 2; ++axis) {{
            const float begin = axis == 0 ? start[0] : start[1];
            const Lanes sign = inverse[axis] < Lanes(0.0f) ? Lanes(-1.0f) : Lanes(1.0f);
            const Lanes last = inverse[axis] > Lanes(0.0f) ? Lanes({float(NORTH)!r}f) : Lanes({-float(SOUTH)!r}f);
            const Lanes face = axis == 0 ? Lanes({float(EAST)!r}f) : last;
            const Lanes steep = size_of(inverse[axis]);
            const Lanes gap = face - sign * begin;
            const Lanes distance = (gap - radius) * steep;
            const Lanes over = height + slope * distance - {float(OUTER_TOP)!r}f;
            // a ball whose middle is above the wall meets its edge where gap - d * pace and start_over + d * slope are radius away
            const Lanes pace = size_of(way[axis]);
            const float start_over = height - {float(OUTER_TOP)!r}f;
            const Lanes square = pace * pace + slope * slope;
            const Lanes middle = gap * pace - start_over * slope;
            const Lanes rest = middle * middle - square * (gap * gap + start_over * start_over - radius * radius);
            const Lanes edge = (middle - root(rest > Lanes(0.0f) ? rest : Lanes(0.0f))) / square;
            const Lanes met = over <= Lanes(0.0f) ? distance : edge;
            const Lanes along = axis == 0 ? start[1] + way[1] * met : start[0] + way[0] * met;
            const Bits on_wall = is(size_of(along) < Lanes({float(OUTER_HALF)!r}f + radius));
            const Bits open = is(distance > Lanes(0.0f)) & (is(over <= Lanes(0.0f)) | is(rest > Lanes(0.0f)));
            const Bits sees = open & on_wall & is(met < nearest);
            nearest = sees != Bits(0) ? met : nearest;
        }}
        store(&seen[ray], nearest);
        for (int n = 0; n < WIDTH; ++n) seen[{LANES} + ray + n] = (float)((const int*)&left)[n];
    }}
    return seen;
"""
)
def meet_walls(way_x: Lengths, way_y: Lengths, start: wp.vec2, above: float, slope: float, radius: float, reach: float) -> Walls:
    """Returns what the rays of a fan meet of the walls. They start at `start`, `above` the floor."""


@wp.func_native(
    _LANES
    + f"""
    wp::vec_t<{LANES}, int> ahead;
    for (int ray = 0; ray < {LANES}; ray += WIDTH) {{
        const Lanes to_x = load(&way_x[ray]);
        const Lanes to_y = load(&way_y[ray]);
        const Lanes wall = load(&walls[ray]);
        const Lanes nearest = wall >= Lanes(reach) ? Lanes(length) : wall;
        Bits found = Bits(0);
        for (int k = 0; k < near.count; ++k) {{
            const Lanes along = near.x[k] * to_x + near.y[k] * to_y;
            const Lanes aside = size_of(near.x[k] * to_y - near.y[k] * to_x);
            const Bits passes = is(aside > Lanes(near.far[k])) | is(-along > Lanes(near.far[k])) | is(along - nearest > Lanes(near.far[k]));
            found |= (passes ^ Bits(1)) * (1 << k);
        }}
        for (int n = 0; n < WIDTH; ++n) ahead[ray + n] = ((const int*)&found)[n];
    }}
    return ahead;
"""
)
def things_ahead(way_x: Lengths, way_y: Lengths, walls: Walls, reach: float, length: float, near: Near) -> Numbers:
    """Returns for each ray the bits of the near things that it may meet before a wall, as `passes` tells.

    Beyond `reach` a ray passes over all walls; it is `length` long.
    """
