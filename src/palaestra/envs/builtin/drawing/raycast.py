"""Pictures of drawings: a small ray caster in Warp that needs neither a GPU nor a display.

A pixel is two rays or, if their colors differ, four. Each ray looks for the nearest solid, and then for a solid between
the hit and the light. Both searches only look at the solids in one cell: the picture, and the plane across the light's
direction, are divided into cells, each with a list of the solids that may be seen in it. Hits are computed in the
solid's frame, in which its edges have length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import warp as wp
from numpy.typing import NDArray

from palaestra.envs.builtin.base.world_columns import quiet_warp
from palaestra.envs.builtin.drawing.figures import turned_by
from palaestra.envs.solids import SHAPES, Drawing

wp.set_module_options({"enable_backward": False, "max_unroll": 3})

SMALL_WIDTH, LARGE_WIDTH = 320, 480  # pixels; a game that is much wider than it is deep, or large, takes the large one
WIDE, LARGE = 1.25, 20.0
FLATTEST = 0.3  # least height of a picture as a share of its width
SIGHT = float(np.tan(np.deg2rad(17.5)))  # half the camera's view, as a share of the distance
MARGIN = 1.03
SLACK = 0.05  # cells
SMALLEST = 1e-6  # meters; what is smaller is hidden
FAR = wp.constant(1.0e9)
NEAR = wp.constant(1.0e-4)
BOX, SPHERE, CYLINDER, CONE = (wp.constant(SHAPES.index(shape)) for shape in SHAPES)
LIGHT = wp.constant(wp.vec3(0.27524, 0.88077, 0.38534))  # from the right and the front, of length 1
# across the light
ASIDE = wp.constant(wp.vec3(0.813736, 0.0, -0.581234))
ALONG = wp.constant(wp.vec3(0.511934, -0.473544, 0.716715))
CELLS_ACROSS = wp.constant(32)
AMBIENT = wp.constant(0.56)
SKY = wp.constant(0.06)  # how much brighter than that an upper side is without the light, and darker a lower one
DIFFUSE = wp.constant(0.43)
ALIKE = wp.constant(4.0)
SHINE = wp.constant(70.0)
# how far above a surface its ray to the light begins, as a share of the distance from the eye / 10
BIAS = wp.constant(2.0e-3)
# what is around an area, as on the page
ABOVE = wp.constant(wp.vec3(207.0, 224.0, 242.0))
HORIZON = wp.constant(wp.vec3(241.0, 243.0, 245.0))
GROUND = wp.constant(wp.vec3(224.0, 227.0, 231.0))
SHADOW = wp.constant(0.72)
# from how many times the eye's height on the ground grows pale, and how fast
HAZE_FROM, HAZE = wp.constant(1.6), wp.constant(0.35)
FOOT = wp.constant(0.72)


@wp.struct
class Bodies:
    """The solids of one area, transparent solids last."""

    opaque: wp.int32  # number of solids that one cannot see through
    shape: wp.array(dtype=wp.int32)
    place: wp.array(dtype=wp.vec3)
    size: wp.array(dtype=wp.vec3)
    turn: wp.array(dtype=wp.quat)
    color: wp.array(dtype=wp.vec3)
    opacity: wp.array(dtype=wp.float32)
    seen_first: wp.array(dtype=wp.int32)  # where each cell's solids begin in `seen`, and last, its length
    seen: wp.array(dtype=wp.int32)  # solids of each cell of the picture
    lit_first: wp.array(dtype=wp.int32)  # the same of the plane that the light shines on
    lit: wp.array(dtype=wp.int32)
    lit_corner: wp.vec2  # where the plane's cells begin, along ASIDE and ALONG
    lit_side: wp.vec2  # how large they are


@wp.func
def hit_box(o: wp.vec3, d: wp.vec3):
    """Returns the normal at which a ray enters the box, and as the fourth number the distance."""
    enters = float(-FAR)
    leaves = float(FAR)
    axis = int(0)
    for k in range(3):
        step = wp.where(wp.abs(d[k]) < 1.0e-9, 1.0e-9, d[k])
        one = (-0.5 - o[k]) / step
        other = (0.5 - o[k]) / step
        if wp.min(one, other) > enters:
            enters = wp.min(one, other)
            axis = k
        leaves = wp.min(leaves, wp.max(one, other))
    if enters > leaves or enters < NEAR:
        return wp.vec4(0.0, 0.0, 0.0, FAR)
    normal = wp.vec4(0.0, 0.0, 0.0, enters)
    normal[axis] = wp.where(d[axis] > 0.0, -1.0, 1.0)
    return normal


@wp.func
def hit_sphere(o: wp.vec3, d: wp.vec3):
    """Returns the normal at which a ray enters the sphere, and as the fourth number the distance."""
    a = wp.dot(d, d)
    b = wp.dot(o, d)
    root = b * b - a * (wp.dot(o, o) - 0.25)
    if root <= 0.0:
        return wp.vec4(0.0, 0.0, 0.0, FAR)
    t = (-b - wp.sqrt(root)) / a
    if t < NEAR:
        return wp.vec4(0.0, 0.0, 0.0, FAR)
    at = o + t * d
    return wp.vec4(at[0], at[1], at[2], t)


@wp.func
def hit_round(o: wp.vec3, d: wp.vec3, taper: float):
    """Returns the same for a cylinder (taper 0) or a cone (0.5), whose radius shrinks by `taper` per unit of height."""
    best = wp.vec4(0.0, 0.0, 0.0, FAR)
    wide = wp.where(taper > 0.0, taper * (0.5 - o[1]), 0.5)
    slope = -taper * d[1]
    a = d[0] * d[0] + d[2] * d[2] - slope * slope
    b = o[0] * d[0] + o[2] * d[2] - wide * slope
    root = b * b - a * (o[0] * o[0] + o[2] * o[2] - wide * wide)
    if root > 0.0 and wp.abs(a) > 1.0e-9:
        for k in range(2):
            t = (-b + float(2 * k - 1) * wp.sqrt(root)) / a
            at = o + t * d
            if t > NEAR and t < best[3] and wp.abs(at[1]) <= 0.5:
                best = wp.vec4(at[0], taper * (wide + slope * t), at[2], t)
    if wp.abs(d[1]) > 1.0e-9:
        for k in range(2):
            t = (float(k) - 0.5 - o[1]) / d[1]
            at = o + t * d
            if t > NEAR and t < best[3] and at[0] * at[0] + at[2] * at[2] <= 0.25 and (k == 0 or taper == 0.0):
                best = wp.vec4(0.0, float(2 * k - 1), 0.0, t)
    return best


@wp.func
def hit(bodies: Bodies, k: int, eye: wp.vec3, way: wp.vec3):
    """Returns the normal at which a ray meets a solid, in the solid's frame, and the distance; FAR if it misses."""
    turn = bodies.turn[k]
    size = bodies.size[k]
    o = wp.cw_div(wp.quat_rotate_inv(turn, eye - bodies.place[k]), size)
    d = wp.cw_div(wp.quat_rotate_inv(turn, way), size)
    shape = bodies.shape[k]
    if shape == BOX:
        return hit_box(o, d)
    if shape == SPHERE:
        return hit_sphere(o, d)
    return hit_round(o, d, wp.where(shape == CONE, 0.5, 0.0))


@wp.func
def is_lit(bodies: Bodies, at: wp.vec3):
    """Returns whether no solid stands between a place and the light."""
    column = wp.clamp(int((wp.dot(at, ASIDE) - bodies.lit_corner[0]) / bodies.lit_side[0]), 0, CELLS_ACROSS - 1)
    row = wp.clamp(int((wp.dot(at, ALONG) - bodies.lit_corner[1]) / bodies.lit_side[1]), 0, CELLS_ACROSS - 1)
    cell = row * CELLS_ACROSS + column
    for entry in range(bodies.lit_first[cell], bodies.lit_first[cell + 1]):
        found = hit(bodies, bodies.lit[entry], at, LIGHT)
        if found[3] < FAR:
            return False
    return True


@wp.func
def shade(bodies: Bodies, k: int, eye: wp.vec3, way: wp.vec3):
    """Returns the color of a solid where a ray meets it."""
    found = hit(bodies, k, eye, way)
    inner = wp.cw_div(wp.vec3(found[0], found[1], found[2]), bodies.size[k])
    normal = wp.normalize(wp.quat_rotate(bodies.turn[k], inner))
    light = AMBIENT + SKY * normal[1]
    shine = float(0.0)
    toward = wp.dot(normal, LIGHT)
    if toward > 0.0:
        at = eye + found[3] * way + normal * (BIAS * 0.1 * found[3])
        if is_lit(bodies, at):
            light += DIFFUSE * toward
            if bodies.shape[k] == SPHERE:
                back = 2.0 * toward * normal - LIGHT
                shine = SHINE * wp.pow(wp.max(-wp.dot(back, way), 0.0), 30.0)
    # toward its feet a solid sees less of the sky
    foot = wp.quat_rotate_inv(bodies.turn[k], eye + found[3] * way - bodies.place[k])[1] / bodies.size[k][1]
    share = wp.clamp((foot + 0.5) / 0.75, 0.0, 1.0)
    light *= FOOT + (1.0 - FOOT) * share * share * (3.0 - 2.0 * share)
    return light * bodies.color[k] + wp.vec3(shine, shine, shine)


@wp.func
def surroundings(bodies: Bodies, eye: wp.vec3, way: wp.vec3, floor: float):
    """Returns the color of the ground or of the sky where a ray meets no solid; far away they are the same."""
    if way[1] > -1.0e-3:
        return wp.lerp(HORIZON, ABOVE, wp.min(2.0 * wp.max(way[1], 0.0), 1.0))
    t = (floor - eye[1]) / way[1]
    at = eye + t * way
    near = eye[1] - floor
    color = GROUND
    if not is_lit(bodies, at):
        color = GROUND * SHADOW
    return wp.lerp(HORIZON, color, wp.exp(-wp.max(t / near - HAZE_FROM, 0.0) * HAZE))


@wp.func
def ray_way(right: wp.vec3, up: wp.vec3, corner: wp.vec3, x: float, y: float):
    """Returns the direction of the ray through a place of the picture."""
    return wp.normalize(corner + x * right - y * up)


@wp.kernel
def cast(
    bodies: Bodies,
    eye: wp.vec3,
    right: wp.vec3,
    up: wp.vec3,
    corner: wp.vec3,
    floor: float,
    picture: wp.array3d(dtype=wp.uint8),
):
    """Paints a pixel. `corner`: the picture's upper left corner; `right` and `up`: one pixel along each side; `floor`:
    the ground's height."""
    row, column = wp.tid()
    cell = row * CELLS_ACROSS // picture.shape[0] * CELLS_ACROSS + column * CELLS_ACROSS // picture.shape[1]
    color = wp.vec3(0.0, 0.0, 0.0)
    first = wp.vec3(0.0, 0.0, 0.0)
    part = int(0)
    while part < 4:
        x = float(column) + 0.25 + 0.5 * float((part + 1) // 2 % 2)  # upper left, lower right, then the other two
        y = float(row) + 0.25 + 0.5 * float(part % 2)
        way = ray_way(right, up, corner, x, y)
        nearest = float(FAR)
        which = int(-1)
        entry = bodies.seen_first[cell]
        last = bodies.seen_first[cell + 1]
        while entry < last and bodies.seen[entry] < bodies.opaque:
            found = hit(bodies, bodies.seen[entry], eye, way)
            if found[3] < nearest:
                nearest = found[3]
                which = bodies.seen[entry]
            entry += 1
        seen = surroundings(bodies, eye, way, floor)
        if which >= 0:
            seen = shade(bodies, which, eye, way)
        while entry < last:  # those that one can see through
            k = bodies.seen[entry]
            if hit(bodies, k, eye, way)[3] < nearest:
                seen = wp.lerp(seen, shade(bodies, k, eye, way), bodies.opacity[k])
            entry += 1
        color += seen
        part += 1
        if part == 1:
            first = seen
        if part == 2 and wp.length_sq(seen - first) < ALIKE * ALIKE:
            color *= 2.0
            part = 4
    for channel in range(3):
        picture[row, column, channel] = wp.uint8(wp.clamp(0.25 * color[channel] + 0.5, 0.0, 255.0))


@dataclass(frozen=True, slots=True)
class Camera:
    """Camera that sees the whole extent of an area from the front, and the size of its picture."""

    eye: NDArray[np.float32]
    right: NDArray[np.float32]  # the directions to the picture's right and top, as long as a pixel is wide
    up: NDArray[np.float32]
    corner: NDArray[np.float32]  # from the eye to the picture's upper left corner
    width: int
    height: int

    def cells_of(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the positions (n, m, 2) of these points (n, m, 3) on the picture, in cells from the upper left."""
        pixel = np.linalg.norm(self.right)
        axes = np.stack([self.right, -self.up], 1) / pixel**2
        ahead = np.cross(self.up, self.right) / pixel**2
        offset = points - self.eye
        return (offset / (offset @ ahead)[..., None] - self.corner) @ axes / (self.width, self.height) * CELLS_ACROSS


def camera_of(drawing: Drawing, width: int | None = None) -> Camera:
    """Returns the camera for a drawing, so near that an area's extent just fits."""
    if width is None:
        is_large = drawing.half[0] > WIDE * drawing.half[2] or max(drawing.half) >= LARGE
        width = LARGE_WIDTH if is_large else SMALL_WIDTH
    angle = np.deg2rad(drawing.elevation)
    back = np.array([0.0, np.sin(angle), np.cos(angle)])
    right = np.array([1.0, 0.0, 0.0])
    up = np.array([0.0, np.cos(angle), -np.sin(angle)])
    center = np.array(drawing.center)
    corners = np.array(list(product((-1, 1), repeat=3))) * drawing.half - center
    near = corners @ back
    distance = MARGIN * float((near + np.maximum(np.abs(corners @ right), np.abs(corners @ up)) / SIGHT).max())
    seen = np.stack([corners @ right, corners @ up], 1) / (distance - near)[:, None]
    (left, bottom), (rightmost, top) = seen.min(0), seen.max(0)
    border = (MARGIN - 1) / 2 * (rightmost - left)
    across = rightmost - left + 2 * border
    upward = top - bottom + 2 * border
    if (missing := FLATTEST * across - upward) > 0:
        bottom = bottom - missing / 2
        top = top + missing / 2
        upward = upward + missing
    if across < upward:  # no side is longer than the width
        width = round(width * across / upward)
    pixel = across / width
    height = round(upward / pixel)
    corner = -back + (left - border) * right + (top + border) * up
    parts = (center + distance * back, pixel * right, pixel * up, corner)
    eye, right, up, corner = (part.astype(np.float32) for part in parts)
    return Camera(eye, right, up, corner, width, height)


def picture_of(drawing: Drawing, width: int | None = None) -> NDArray[np.uint8]:
    """Returns a picture (H, W, 3) of the first area of a drawing, as a camera at its elevation sees it; on the CPU."""
    camera = camera_of(drawing, width)
    picture = np.empty((camera.height, camera.width, 3), np.uint8)
    with quiet_warp():  # the first launch compiles the kernel, unless Warp finds it in its cache
        bodies = _bodies(drawing, camera)
        inputs = [
            bodies,
            *(wp.vec3(*vector.tolist()) for vector in (camera.eye, camera.right, camera.up, camera.corner)),
        ]
        painted = wp.array(picture, dtype=wp.uint8, device="cpu", copy=False)
        wp.launch(cast, dim=(camera.height, camera.width), inputs=[*inputs, _floor(drawing), painted], device="cpu")
    return picture


def _floor(drawing: Drawing) -> float:
    """Returns the height of the ground, just below the first area's solids."""
    feet = [(one.position - one.size / 2)[0, :, 1] for one in drawing.solids]
    lowest = min((float(column.min()) for column in feet if column.size), default=0.0)
    return max(lowest, -drawing.half[1]) - max(drawing.half) / 400


def _bodies(drawing: Drawing, camera: Camera) -> Bodies:
    """Returns the visible solids of the first area."""
    groups = sorted(drawing.solids, key=lambda group: group.opacity < 1)
    counts = [group.position.shape[1] for group in groups]
    place, size, turn, color = (
        np.concatenate([getattr(group, name)[0] for group in groups]).astype(np.float32)
        for name in ("position", "size", "rotation", "color")
    )
    opacity = np.repeat(np.array([group.opacity for group in groups], np.float32), counts)
    shape = np.repeat(np.array([SHAPES.index(group.shape) for group in groups], np.int32), counts)
    shown = (size > SMALLEST).all(1) & (opacity > 0)
    place, size, turn, color, opacity, shape = (column[shown] for column in (place, size, turn, color, opacity, shape))
    corners = np.array(list(product((-0.5, 0.5), repeat=3)), np.float32) * size[:, None]
    corners = place[:, None] + turned_by(turn[:, None], corners)
    bodies = Bodies()
    bodies.opaque = int((opacity >= 1).sum())
    columns = {"shape": shape, "place": place, "size": size, "turn": turn, "color": color, "opacity": opacity}
    columns["seen_first"], columns["seen"] = _lists(camera.cells_of(corners))
    across = corners @ np.array([tuple(ASIDE), tuple(ALONG)], np.float32).T
    low = across.min((0, 1), initial=0.0) - SMALLEST
    high = across.max((0, 1), initial=0.0) + SMALLEST
    side = (high - low) / CELLS_ACROSS
    bodies.lit_corner = wp.vec2(*low.tolist())
    bodies.lit_side = wp.vec2(*side.tolist())
    columns["lit_first"], columns["lit"] = _lists((across - low)[opacity >= 1] / side)
    for name, column in columns.items():
        setattr(bodies, name, wp.array(column, dtype=Bodies.vars[name].type.dtype, device="cpu"))
    return bodies


def _lists(corners: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns where each cell's list of solids begins, and the lists; `corners` (n, 8, 2) are in cells."""
    least = np.arange(CELLS_ACROSS)
    most = np.arange(CELLS_ACROSS) + 1
    inside = (corners.min(1)[..., None] < most + SLACK) & (corners.max(1)[..., None] > least - SLACK)  # (n, 2, cells)
    cell, which = (inside[:, 1, :, None] & inside[:, 0, None]).reshape(len(corners), CELLS_ACROSS**2).T.nonzero()
    return np.searchsorted(cell, np.arange(CELLS_ACROSS**2 + 1)).astype(np.int32), which.astype(np.int32)
