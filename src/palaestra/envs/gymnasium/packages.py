"""Packages that register ids with Gymnasium, or that environments of Gymnasium need."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec

import gymnasium

from palaestra.core.errors import EnvError, exception_summary

REGISTERING = (
    (
        r"ALE/|.+(NoFrameskip|Deterministic)-v[04]$|(Pong|Breakout|SpaceInvaders|Seaquest|Qbert|BeamRider)-",
        "ale_py",
        "'palaestra[atari]'",
    ),
    (r"MiniGrid-|BabyAI-", "minigrid", "minigrid"),
    (r"MiniWorld-", "miniworld", "miniworld"),
    (
        r"(Fetch|HandReach|HandManipulate|AntMaze|PointMaze|FrankaKitchen|AdroitHand)",
        "gymnasium_robotics",
        "gymnasium-robotics",
    ),
    (r"(highway|merge|roundabout|parking|intersection|racetrack)(-\w+)*-v\d", "highway_env", "highway-env"),
    (r"dm_control/", "shimmy", "'shimmy[dm-control]'"),
    (r"flappy_bird|FlappyBird-", "flappy_bird_gymnasium", "flappy-bird-gymnasium"),
)
"""Begin of ids, the module whose import registers these ids, and the package to install by pip."""


def registering_package(id: str) -> tuple[str, str] | None:
    """Returns the module that registers an id, and the name of its package for pip; None if unknown."""
    return next(((module, package) for pattern, module, package in REGISTERING if re.match(pattern, id)), None)


def import_registering_package(id: str) -> bool:
    """Imports the module that registers an id, if it is known and installed; returns whether it was imported. Raises
    EnvError if the import fails."""
    found = registering_package(id)
    if found is None or find_spec(found[0]) is None:
        return False
    try:
        import_module(found[0])
    except (Exception, SystemExit) as error:  # a package may raise anything
        raise EnvError(
            f"gymnasium:{id}: the module '{found[0]}', which registers it, cannot be imported: "
            f"{exception_summary(error)}"
        ) from error
    return True


def explain_unknown(id: str) -> EnvError:
    """Returns the error for an id that is not registered."""
    title = f"Gymnasium has no environment '{id}'"
    found = registering_package(id)
    if found is not None and find_spec(found[0]) is None:
        return EnvError(
            f"gymnasium:{id} comes with the package {found[0]}, which is not installed: pip install {found[1]}"
        )
    near = ", ".join(f"'{one}'" for one in nearest_ids(id, gymnasium.registry))
    meant = f"; did you mean {near}?" if near else ""
    return EnvError(f"{title}{meant} (for one of another package, name its module: gymnasium:module:Id-v0)")


def nearest_ids(id: str, known: Iterable[str], most: int = 4) -> list[str]:
    """Returns known ids similar to this id, best first: all versions if only version or case differ, else the newest
    version."""
    names: dict[str, list[str]] = {}
    for one in known:
        names.setdefault(_name_of(one), []).append(one)
    for versions in names.values():
        versions.sort(key=_version_of, reverse=True)
    wanted = _name_of(id)
    space = wanted.rpartition("/")[0]
    # those of the namespace that was given win
    order = sorted(names, key=lambda name: (name.rpartition("/")[0] == space, -len(name)))
    last = {name.rpartition("/")[2]: name for name in order}
    same = [name for name in (wanted, last.get(wanted.rpartition("/")[2])) if name in names]
    near = [last[name] for name in get_close_matches(wanted.rpartition("/")[2], last, n=most, cutoff=0.7)]
    exact = [version for name in dict.fromkeys(same) for version in names[name]]
    return list(dict.fromkeys([*exact, *(names[name][0] for name in near if not exact)]))[:most]


def newest_version(id: str) -> str:
    """Returns the newest registered version of a registered id."""
    return max((one for one in gymnasium.registry if _name_of(one) == _name_of(id)), key=_version_of)


def _name_of(id: str) -> str:
    return re.sub(r"-v\d+$", "", id).lower()


def _version_of(id: str) -> int:
    found = re.search(r"-v(\d+)$", id)
    return int(found[1]) if found else 0
