"""The walls that rays of the soccer games meet, compared with circles that creep along the boxes of Unity's scene until
they touch one.
"""

import math

import numpy as np
import pytest
import warp as wp
from numpy.typing import NDArray

from palaestra.envs.builtin.soccer.field import LEFT_GOAL, RIGHT_GOAL, WALL, cast_field

RADIUS = 0.5
LENGTH = 20.0
RAYS = 400
BLOCK = (-15.51, 0.0, 0.5, 7.9147 / 2, 0.0)
BOXES = [
    *((0.0, side * 7.73835, 15.5, 0.23035, 0.0) for side in (1, -1)),
    *((x * 14.46, y * 6.41, 2.4, 0.23035, -x * y * math.pi / 3) for x in (1, -1) for y in (1, -1)),
    *((16.47, side * 4.2, 1.0, 0.05, 0.0) for side in (1, -1)),
    (17.406, 0.0, 0.05, 4.15, 0.0),
    *((-16.5, side * 4.2, 1.0, 0.05, 0.0) for side in (1, -1)),
    (-17.436, 0.0, 0.0637, 4.15, 0.0),
]
"""Middle, half sides and angle of each box, as the scene has them, seen from above."""
HITS = [int(WALL)] * 6 + [int(RIGHT_GOAL)] * 3 + [int(LEFT_GOAL)] * 3 + [int(WALL)]


@wp.kernel
def cast(
    eye: wp.array(dtype=wp.vec2),
    way: wp.array(dtype=wp.vec2),
    closed: bool,
    far: wp.array(dtype=float),
    what: wp.array(dtype=int),
):
    """Casts a ray of each eye."""
    i = wp.tid()
    distance, hit = cast_field(eye[i], way[i], 0.5, closed)
    far[i] = distance
    what[i] = hit


def gaps(points: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the distance (N, B) of circles about points (N, 2) from boxes (B, 5)."""
    to = points[:, None] - boxes[:, :2]
    cosine = np.cos(boxes[:, 4])
    sine = np.sin(boxes[:, 4])
    inside = np.stack([cosine * to[..., 0] + sine * to[..., 1], cosine * to[..., 1] - sine * to[..., 0]], -1)
    return np.linalg.norm(np.maximum(np.abs(inside) - boxes[:, 2:4], 0.0), axis=-1) - RADIUS


def crept(
    eye: NDArray[np.float64], way: NDArray[np.float64], boxes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns how far each circle gets, and the box that it then touches; those that it touches at its start let it
    pass.
    """
    far = np.zeros(len(eye))
    met = np.full(len(eye), -1)
    passed = gaps(eye, boxes) < 1e-4
    for _ in range(2000):
        gap = np.where(passed, np.inf, gaps(eye + far[:, None] * way, boxes))
        nearest = gap.argmin(1)
        on = (gap.min(1) > 1e-6) & (far < LENGTH)
        met = np.where(gap.min(1) <= 1e-6, nearest, met)
        if not on.any():
            break
        far = np.where(on, far + gap.min(1), far)
    return far, met


def places(where: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns random places (N, 2) of players."""
    mirrored = rng.choice([-1.0, 1.0], (RAYS, 2))
    x = rng.uniform(-13, 13, RAYS)
    y = rng.uniform(-3, 3, RAYS)
    if where == "in the field":
        return np.stack([np.clip(x, -11, 11), 2 * y], 1)
    if where == "in a goal":
        return np.stack([rng.uniform(14.4, 16.8, RAYS), 1.2 * y], 1) * mirrored
    if where == "at a side wall":
        return np.stack([np.abs(x) - 1, np.full(RAYS, 7.508 - RADIUS)], 1) * mirrored
    if where == "at a slanting wall":
        along = np.array([0.5, -math.sqrt(0.75)])
        out = np.array([math.sqrt(0.75), 0.5])
        return (
            np.array([14.46, 6.41]) - (0.23035 + RADIUS) * out + rng.uniform(-1.2, 2.0, (RAYS, 1)) * along
        ) * mirrored
    if where == "at a net":
        return np.stack([rng.uniform(15.6, 16.7, RAYS), np.full(RAYS, 4.15 - RADIUS)], 1) * mirrored
    return np.stack([np.full(RAYS, -15.01 + RADIUS), y], 1)


WHERE = ("in the field", "in a goal", "at a side wall", "at a slanting wall", "at a net")


@pytest.mark.parametrize(
    ("where", "closed"), [(where, closed) for where in WHERE for closed in (False, True)] + [("at the block", True)]
)
def test_rays_see_what_circles_meet_that_creep_along_the_boxes_of_the_scene(where: str, closed: bool):
    rng = np.random.default_rng(3)
    eye = places(where, rng)
    if closed and where in ("in a goal", "at a net"):
        eye[:, 0] = np.abs(eye[:, 0])  # nobody gets behind the block
    turn = rng.uniform(-math.pi, math.pi, len(eye))
    way = np.stack([np.cos(turn), np.sin(turn)], 1)
    far, met = crept(eye, way, np.array([*BOXES, BLOCK] if closed else BOXES))

    found = wp.zeros(len(eye), dtype=float, device="cpu")
    what = wp.zeros(len(eye), dtype=int, device="cpu")
    starts, ways = (wp.array(each.astype(np.float32), dtype=wp.vec2, device="cpu") for each in (eye, way))
    wp.launch(cast, len(eye), inputs=[starts, ways, closed, found, what], device="cpu")

    # the field's ends are two millimeters longer
    assert np.minimum(found.numpy(), LENGTH) == pytest.approx(np.minimum(far, LENGTH), abs=0.02)
    hit = (far < LENGTH - 0.02) & (met >= 0)
    assert hit.sum() > RAYS / 3
    assert what.numpy()[hit].tolist() == [HITS[box] for box in met[hit]]
