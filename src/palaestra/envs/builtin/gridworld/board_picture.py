"""GridWorld's picture as Unity's camera takes it: from above, without smoothing, with lights that are approximated.

Places on the board are in cells: u from its left edge, v from its upper edge.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.shading import IN_SHADOW, PLAIN, SPECULAR, dull_from_above, from_above

GREEN = wp.constant(1)  # what lies in a cell
RED = wp.constant(2)
AGENT = wp.constant(3)

DARK = (0.116, 0.116, 0.116)  # the floor's; its lines are too thin for these pixels


def pixel(color: tuple[float, ...]) -> list[float]:
    """Returns a color as a pixel shows it, in steps of 1/255 as in a PNG file."""
    return [round(part * 255) / 255 for part in color]


FLOOR = pixel(dull_from_above(DARK, 1.0))
SHADED_FLOOR = wp.constant(wp.vec3(*pixel(dull_from_above(DARK, IN_SHADOW))))
WALL = pixel(from_above((0.392, 0.392, 0.392), SPECULAR))  # beside the floor
PLUS_COLOR = wp.constant(wp.vec3(*pixel(from_above((0.404, 0.737, 0.42), PLAIN))))
EX_COLOR = wp.constant(wp.vec3(*pixel(from_above((0.745, 0.227, 0.153), PLAIN))))
AGENT_COLOR = wp.constant(wp.vec3(*pixel(from_above((0.129, 0.588, 0.953), SPECULAR))))
HALF_BAR = wp.constant(0.1)  # cells
LEAN = wp.constant(0.8425)  # cells that a shadow falls left of a point one cell above the floor, and up
SHADOW = wp.constant(0.64)  # cells that a shadow reaches beyond its figure
HIGH = wp.constant(0.75)  # cells from the floor, where a figure begins, to its upper side
SLICES = wp.constant(6)  # of a figure that cast its shadow; with fewer the bars of an ex leave gaps


@wp.func
def is_figure(thing: int, u: float, v: float):
    """Returns whether a point, in cells from the middle, belongs to a plus, an ex or a frame of bars of 1 x 0.2."""
    au = wp.abs(u)
    av = wp.abs(v)
    if thing == GREEN:
        return wp.min(au, av) <= HALF_BAR and wp.max(au, av) <= 0.5
    if thing == RED:  # the plus, turned by 45 degrees
        across = wp.abs(u - v) * 0.70710678
        along = wp.abs(u + v) * 0.70710678
        return wp.min(across, along) <= HALF_BAR and wp.max(across, along) <= 0.5
    return wp.max(au, av) <= 0.5 and wp.max(au, av) >= 0.5 - 2.0 * HALF_BAR


@wp.func
def color_of(thing: int):
    """Returns the color of a figure."""
    if thing == GREEN:
        return PLUS_COLOR
    if thing == RED:
        return EX_COLOR
    return AGENT_COLOR


@wp.func
def casts(thing: int, u: float, v: float):
    """Returns whether a point of a figure casts a shadow (the left bar of the agent's frame casts none)."""
    return is_figure(thing, u, v) and (thing != AGENT or u >= 0.5 - 2.0 * HALF_BAR or wp.abs(v) >= 0.5 - 2.0 * HALF_BAR)


@wp.func
def is_shaded(thing: int, u: float, v: float):
    """Returns whether a point of the floor, in cells from the middle of a figure, lies in its shadow."""
    for k in range(SLICES):
        far = LEAN * HIGH * float(k) / float(SLICES - 1)
        if casts(thing, u + far, v + far):
            return True
    return False


@wp.func
def set_pixel(image: wp.array4d(dtype=wp.float32), i: int, y: int, x: int, color: wp.vec3):
    """Writes the three channels of the pixel in row y and column x of an area's picture."""
    image[i, 0, y, x] = color[0]
    image[i, 1, y, x] = color[1]
    image[i, 2, y, x] = color[2]


@wp.func_native(
    f"""
    char* row = (char*)image.data + i * image.strides[0] + y * image.strides[2];
    float* red = (float*)row;
    float* green = (float*)(row + image.strides[1]);
    float* blue = (float*)(row + 2 * image.strides[1]);
    for (int x = begins; x < ends; ++x) {{
        const float u = ((float)x + 0.5f - left) * cells_wide;
        const bool is_wall = (u < 0.0f) | (u >= edge);
        red[x] = is_wall ? {WALL[0]!r}f : {FLOOR[0]!r}f;
        green[x] = is_wall ? {WALL[1]!r}f : {FLOOR[1]!r}f;
        blue[x] = is_wall ? {WALL[2]!r}f : {FLOOR[2]!r}f;
    }}
"""
)  # in C++ the compiler paints several pixels at once
def paint_floor(
    image: wp.array4d(dtype=wp.float32),
    i: int,
    y: int,
    begins: int,
    ends: int,
    left: float,
    cells_wide: float,
    edge: float,
):
    """Paints the floor and the walls beside it in a row of pixels, from column `begins` up to `ends`."""


@wp.func
def paint(
    image: wp.array4d(dtype=wp.float32),
    i: int,
    y: int,
    cells: wp.array2d(dtype=wp.int32),
    edge: int,
    west: float,
    east: float,
):
    """Paints a row of pixels between two places (in cells from the left edge): floor, shadows, then figures."""
    size = float(image.shape[2]) / float(edge)
    left = 0.5 * float(image.shape[3] - image.shape[2])
    v = (float(y) + 0.5) / size  # cells down from the upper edge
    row = wp.min(int(v), edge - 1)
    begins = wp.max(int(wp.ceil(left + west * size - 0.5)), 0)
    ends = wp.min(int(wp.ceil(left + east * size - 0.5)), image.shape[3])
    cells_wide = 1.0 / size
    paint_floor(image, i, y, begins, ends, left, cells_wide, float(edge))
    for k in range(3):  # shadows of this row's figures and of those below, then this row's figures
        line = row + k % 2
        if line < edge:
            for column in range(wp.max(int(west), 0), wp.min(int(wp.ceil(east)) + 1, edge)):
                thing = cells[i, line * edge + column]
                down = v - float(line) - 0.5
                if thing != 0 and (k != 1 or down > -0.5 - SHADOW):
                    middle = float(column) + 0.5
                    first = wp.max(
                        int(wp.ceil(left + (float(column) - wp.where(k < 2, SHADOW, 0.0)) * size - 0.5)), begins
                    )
                    last = wp.min(int(wp.ceil(left + float(column + 1) * size - 0.5)), ends)
                    for x in range(first, last):
                        u = (float(x) + 0.5 - left) * cells_wide
                        if k == 2 and is_figure(thing, u - middle, down):
                            set_pixel(image, i, y, x, color_of(thing))
                        if k < 2 and u >= 0.0 and is_shaded(thing, u - middle, down):
                            set_pixel(image, i, y, x, SHADED_FLOOR)
