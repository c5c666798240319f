"""Packages that register ids with Gymnasium, or that its environments need."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

from palaestra.core.errors import EnvError, exception_summary

REGISTERING = (
    (r"ALE/|.+(NoFrameskip|Deterministic)-v[04]$", "ale_py", "'palaestra[atari]'"),
    (r"MiniGrid-|BabyAI-", "minigrid", "minigrid"),
    (r"MiniWorld-", "miniworld", "miniworld"),
    (r"(Fetch|HandReach|HandManipulate|AntMaze|PointMaze|FrankaKitchen|AdroitHand)", "gymnasium_robotics", "gymnasium-robotics"),
    (r"(highway|merge|roundabout|parking|intersection|racetrack)(-\w+)*-v\d", "highway_env", "highway-env"),
    (r"(dm_control|bsuite|OpenSpiel|GymV2[16])", "shimmy", "shimmy"),
    (r"flappy_bird|FlappyBird-", "flappy_bird_gymnasium", "flappy-bird-gymnasium"),
)
"""Ids by their beginning, the module that registers them when it is imported, and what pip installs."""

NEEDED = {
    "Box2D": "'palaestra[box2d]'",
    "mujoco": "'palaestra[mujoco]'",
    "ale_py": "'palaestra[atari]'",
    "pygame": "'palaestra[classic]'",
    "jax": "'gymnasium[jax]'",
    "mujoco_py": "'palaestra[mujoco]'",
    "cv2": "opencv-python",
}
"""Modules that Gymnasium's own environments need, and what pip installs."""


def registering_package(id: str) -> tuple[str, str] | None:
    """Returns the module that registers an id, and what pip installs for it; None if unknown."""
    return next(((module, package) for pattern, module, package in REGISTERING if re.match(pattern, id)), None)


def import_registering_package(id: str) -> bool:
    """Imports the module that registers an id, if it is known and installed. Returns whether it did. Raises EnvError if that fails."""
    found = registering_package(id)
    if found is None or find_spec(found[0]) is None:
        return False
    try:
        import_module(found[0])
    except Exception as error:  # a package may raise anything
        raise EnvError(
            f"gymnasium:{id}: the module '{found[0]}', which registers it, cannot be imported: {exception_summary(error)}"
        ) from error
    return True
