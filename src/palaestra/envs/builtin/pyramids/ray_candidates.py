"""Finds walls, piles and cubes that rays of Pyramids may meet, many at once in C++, because the compiler makes vectors
of them.

Most rays that meet a wall meet its flat side, whose distance is computed here. Ends of walls, piles and cubes are only
preselected; `observations` casts rays at them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import warp as wp

from palaestra.envs.builtin.pyramids.rooms import (
    BRICKS,
    CUBES,
    EAST,
    GOLD,
    HALF_GOLD,
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

LANES = 8  # the rays of a fan, and one more
SIDE_RAYS = wp.constant(3)
WIDTHS = (70.0, 65.0, 75.0)  # degrees of the three fans from straight ahead to their outermost rays
LEAST = 1.0e-6  # a ray's smallest component, instead of 0
Numbers = wp.types.vector(length=LANES, dtype=wp.int32)
Lengths = wp.types.vector(length=LANES, dtype=wp.float32)


Ways = wp.types.vector(length=2 * LANES, dtype=wp.float32)
"""Horizontal directions of a fan's rays: x of each, then y of each."""
Walls = wp.types.vector(length=2 * LANES, dtype=wp.float32)
"""For each ray of a fan, the horizontal distance to the nearest flat side of a wall, no more than the fan's reach.
After these, as numbers, the bits of the walls that the ray may meet elsewhere: 8 for each axis, 4 for each side."""


@wp.struct
class Near:
    """Piles and the switch that rays may meet: their numbers, places from the agent, and reach with a ray's radius."""

    count: wp.int32
    thing: Numbers
    x: Lengths
    y: Lengths
    far: Lengths


def _table() -> str:
    """Returns middle across, middle along, and half the length, of each wall in the order of the bits of `Walls`."""
    rows = []
    find_middle = cast(Any, wall_middle).func
    find_half = cast(Any, wall_half).func
    for axis in range(2):
        for side in (-1.0, 1.0):
            for piece in range(PIECES):
                middle = find_middle(axis, side, piece)
                half = find_half(axis, piece)
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


def _turns() -> str:
    """Returns the cosines, then the sines, of each fan's rays, the rightmost first."""
    angles = [[math.radians(width) * (ray / SIDE_RAYS - 1.0) for ray in range(LANES)] for width in WIDTHS]
    rows = [", ".join(f"{turn(angle)!r}f" for turn in (math.cos, math.sin) for angle in fan) for fan in angles]
    return ", ".join(f"{{{row}}}" for row in rows)


@wp.func_native(
    _LANES
    + f"""
    static constexpr float turns[{len(WIDTHS)}][{2 * LANES}] = {{{_turns()}}};
    wp::vec_t<{2 * LANES}, float> ways;
    for (int ray = 0; ray < {LANES}; ray += WIDTH) {{
        const Lanes c = load(&turns[fan][ray]);
        const Lanes s = load(&turns[fan][{LANES} + ray]);
        store(&ways[ray], c * ahead[0] - s * ahead[1]);
        store(&ways[{LANES} + ray], s * ahead[0] + c * ahead[1]);
    }}
    return ways;
"""
)
def fan_ways(ahead: wp.vec2, fan: int) -> Ways:
    """Returns the directions of a fan's rays, from the rightmost on."""


@wp.func_native(
    _LANES
    + f"""
    const float walls[16][3] = {{{_table()}}};
    const float thick = {float(THICK)!r}f;
    const float height = above;
    wp::vec_t<2 * {LANES}, float> seen;
    for (int ray = 0; ray < {LANES}; ray += WIDTH) {{
        Lanes way[2] = {{load(&ways[ray]), load(&ways[{LANES} + ray])}};
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
            const Bits door = is(aside + room < Lanes(9.05f))
                | (is(aside - room > Lanes(24.12f)) & is(aside + room < Lanes(34.99f)));
            const Bits met = (behind | door) ^ Bits(1);
            if (some(met) == 0) continue;
            const Lanes low = along - room;
            const Lanes high = along + room;
            const Lanes skew = size_of(drift) * steep * thick;
            for (int piece = 0; piece < 4; ++piece) {{
                // as `wall_between` has it
                const float from = piece == 0 ? -1e9f : piece == 1 ? -24.12f : piece == 2 ? 8.96f : 34.99f;
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
            const Bits on_side = is(over <= Lanes(0.0f));
            Lanes met = distance;
            Bits meets = on_side;
            if (some(on_side ^ Bits(1)) != 0) {{
                // a ball whose middle is above the wall meets its edge where gap - d * pace and start_over + d * slope
                // are radius away
                const Lanes pace = size_of(way[axis]);
                const float start_over = height - {float(OUTER_TOP)!r}f;
                const Lanes square = pace * pace + slope * slope;
                const Lanes middle = gap * pace - start_over * slope;
                const Lanes rest = middle * middle - square * (gap * gap + start_over * start_over - radius * radius);
                const Lanes edge = (middle - root(rest > Lanes(0.0f) ? rest : Lanes(0.0f))) / square;
                met = on_side != Bits(0) ? distance : edge;
                meets |= is(rest > Lanes(0.0f));
            }}
            const Lanes along = axis == 0 ? start[1] + way[1] * met : start[0] + way[0] * met;
            const Bits on_wall = is(size_of(along) < Lanes({float(OUTER_HALF)!r}f + radius));
            const Bits sees = meets & is(distance > Lanes(0.0f)) & on_wall & is(met < nearest);
            nearest = sees != Bits(0) ? met : nearest;
        }}
        store(&seen[ray], nearest);
        for (int n = 0; n < WIDTH; ++n) seen[{LANES} + ray + n] = (float)((const int*)&left)[n];
    }}
    return seen;
"""
)
def meet_walls(ways: Ways, start: wp.vec2, above: float, slope: float, radius: float, reach: float) -> Walls:
    """Returns the walls that the rays of a fan may meet. The rays start at `start`, `above` the floor."""


@wp.func_native(
    _LANES
    + f"""
    wp::vec_t<{LANES}, int> ahead;
    for (int ray = 0; ray < {LANES}; ray += WIDTH) {{
        const Lanes to_x = load(&ways[ray]);
        const Lanes to_y = load(&ways[{LANES} + ray]);
        const Lanes wall = load(&walls[ray]);
        const Lanes nearest = wall >= Lanes(reach) ? Lanes(length) : wall;
        Bits found = Bits(0);
        for (int k = 0; k < near.count; ++k) {{
            const Lanes along = near.x[k] * to_x + near.y[k] * to_y;
            const Lanes aside = size_of(near.x[k] * to_y - near.y[k] * to_x);
            const Bits passes = is(aside > Lanes(near.far[k])) | is(-along > Lanes(near.far[k]))
                | is(along - nearest > Lanes(near.far[k]));
            found |= (passes ^ Bits(1)) * (1 << k);
        }}
        for (int n = 0; n < WIDTH; ++n) ahead[ray + n] = ((const int*)&found)[n];
    }}
    return ahead;
"""
)
def things_ahead(ways: Ways, walls: Walls, reach: float, length: float, near: Near) -> Numbers:
    """Returns for each ray the bits of the near things that the ray may meet before a wall, as `passes` computes.

    Beyond `reach` a ray passes over all walls; it is `length` long.
    """


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return __ffs(bits) - 1;
#else
    return __builtin_ctz(bits);
#endif
""")
def lowest(bits: int) -> int:
    """Returns the number of the lowest bit that is set; at least one must be set."""


@wp.func_native(
    f"""
    static constexpr float walls[16][3] = {{{_table()}}};
    const float* wall = walls[number];
    return number < 8 ? wp::vec_t<4, float>(wall[0], wall[1], {float(THICK)!r}f, wall[2])
                      : wp::vec_t<4, float>(wall[1], wall[0], wall[2], {float(THICK)!r}f);
"""
)
def wall_box(number: int) -> wp.vec4:
    """Returns the middle of the wall with this bit number, and its half sides."""


@wp.func_native(
    _LANES
    + f"""
    const float* cubes = (const float*)((const char*)cube.data + i * cube.strides[0]) + {3 * int(CUBES)} * pile;
    const int count = pile == {int(BRICKS)} ? {int(CUBES)} : {int(CUBES) - 1};
    int found = 0;
    for (int k = 0; k < count; k += WIDTH) {{
        Lanes x, y, z, half;
        for (int n = 0; n < WIDTH; ++n) {{
            const int at = k + n < count ? k + n : count - 1;
            ((float*)&x)[n] = cubes[3 * at] - start[0];
            ((float*)&y)[n] = cubes[3 * at + 1] - start[1];
            ((float*)&z)[n] = cubes[3 * at + 2] - start[2];
            ((float*)&half)[n] = at == {int(GOLD)} ? {float(HALF_GOLD)!r}f : 0.5f;
        }}
        const Lanes far = half * 1.4143f + radius;
        const Lanes along = x * way[0] + y * way[1];
        const Lanes aside = size_of(x * way[1] - y * way[0]);
        const Lanes above = size_of(z - along * slope) - far * slope;
        const Bits passes = is(aside > far) | is(-along > far) | is(along - nearest > far) | is(above >= half + radius);
        const Bits met = passes ^ Bits(1);
        if (some(met) == 0) continue;
        for (int n = 0; n < WIDTH; ++n) found |= k + n < count ? ((const int*)&met)[n] << (k + n) : 0;
    }}
    return found;
"""
)
def cubes_ahead(
    cube: wp.array2d(dtype=wp.vec3),
    i: int,
    pile: int,
    start: wp.vec3,
    way: wp.vec2,
    slope: float,
    radius: float,
    nearest: float,
) -> int:
    """Returns the bits of a pile's single cubes that a ray may meet before `nearest`."""
