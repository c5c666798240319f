"""Describes what an environment looks like: solids in three dimensions, for the page, for recordings and for pictures.

Axes are right-handed: x points to the right, y up, z toward the viewer. A game in the plane with coordinates (x, y)
lies at (x, 0, -y). Unity's left-handed coordinates (x, y, z) become (x, y, -z), and its quaternions (x, y, z, w) become
(-x, -y, z, w).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Shape = Literal["box", "sphere", "cylinder", "cone"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

Color = tuple[int, int, int]
PAPER, FLOOR, INK, GRAY = (246, 245, 240), (212, 215, 212), (52, 58, 70), (176, 180, 178)
BLUE = (66, 122, 196)
GREEN = (62, 160, 98)
RED = (208, 80, 70)
GOLD = (238, 176, 60)
VIOLET = (138, 104, 186)


@dataclass(frozen=True, slots=True)
class Solids:
    """Solids of one shape: n in each of A areas. Arrays are broadcast to the shapes given here.

    `size` is the edge lengths of the box that encloses the solid before it is turned; a cylinder and a cone stand along
    y. A size of zero hides a solid. `rotation` is a quaternion (x, y, z, w).
    """

    name: str  # unique within a drawing, such as "ball"
    shape: Shape
    position: NDArray[np.float32]  # (A, n, 3) meters, of the middle
    size: NDArray[np.float32]  # (A, n, 3) meters
    rotation: NDArray[np.float32]  # (A, n, 4)
    color: NDArray[np.uint8]  # (A, n, 3)
    # (A, n) the slot of the agent that a solid is a part of, -1: of none; None: no solid is
    slot: NDArray[np.int64] | None = None
    behavior: str = ""  # behavior of these slots; "": any, in an environment whose agents change theirs
    fixed: bool = False  # the same in every drawing of this environment, such as a floor
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """All solids of some areas, each area around its own origin, and how to view one area."""

    solids: tuple[Solids, ...]
    half: tuple[float, float, float]  # half the extent of an area along x, y and z, in meters
    elevation: float = 55.0  # degrees by which the camera looks down
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)  # what the camera looks at

    def __post_init__(self) -> None:
        """Raises ValueError if two groups of solids have one name."""
        names = [solids.name for solids in self.solids]
        if len(set(names)) < len(names):
            raise ValueError(
                f"a drawing needs a different name for each group of solids; these names were given: {', '.join(names)}"
            )


def solids(
    name: str,
    shape: Shape,
    position: ArrayLike,
    size: ArrayLike,
    color: ArrayLike,
    *,
    rotation: ArrayLike = (0.0, 0.0, 0.0, 1.0),
    agents: tuple[str, ArrayLike] | None = None,
    fixed: bool = False,
) -> Solids:
    """Returns a group of solids. `position` is (A, n, 3) and gives A and n; the other arrays are broadcast to it.

    `agents` are the behavior and the slots (A, n) of the agents to which the solids belong. Raises ValueError if the
    arrays do not fit together.
    """
    place = np.asarray(position, np.float32)
    if shape not in SHAPES:
        raise ValueError(f"solids '{name}': shape '{shape}' is unknown; expected one of {', '.join(SHAPES)}")
    if place.ndim != 3 or place.shape[2] != 3:
        raise ValueError(f"solids '{name}': positions have shape {place.shape}, expected (areas, solids, 3)")
    rows = place.shape[:2]
    return Solids(
        name,
        shape,
        place,
        np.broadcast_to(np.asarray(size, np.float32), (*rows, 3)),
        np.broadcast_to(np.asarray(rotation, np.float32), (*rows, 4)),
        np.broadcast_to(np.asarray(color, np.uint8), (*rows, 3)),
        None if agents is None else np.broadcast_to(np.asarray(agents[1], np.int64), rows),
        "" if agents is None else agents[0],
        fixed,
    )


def upright(angle: ArrayLike) -> NDArray[np.float32]:
    """Returns the quaternions (..., 4) that turn by these angles, in radians, about y: counterclockwise from above."""
    half: NDArray[np.float32] = np.multiply(angle, 0.5, dtype=np.float32)
    zero = np.zeros_like(half)
    return np.stack([zero, np.sin(half), zero, np.cos(half)], axis=-1)


def on_plane(place: ArrayLike, height: ArrayLike = 0.0) -> NDArray[np.float32]:
    """Returns positions (..., 3) of points (..., 2) of a game in the plane, at this height above it."""
    flat = np.asarray(place, np.float32)
    return np.stack(
        [flat[..., 0], np.broadcast_to(np.asarray(height, np.float32), flat.shape[:-1]), -flat[..., 1]], axis=-1
    )
