"""Registers our environments with Gymnasium.

`import palaestra` has this called as soon as Gymnasium is imported too. Nothing heavy may be imported here: names are
read, environments are not.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from gymnasium.envs.registration import register, registry

GAME = "Game"
"""Id of any other environment, which the argument `env` names."""
SINGLE = "palaestra.interop.single_env:make_single"
VECTOR = "palaestra.interop.vector_env:make_vector"


def register_envs() -> None:
    """Registers `palaestra/<Name>-v0` for every built-in environment, and `palaestra/Game-v0`, unless they are."""
    if f"palaestra/{GAME}-v0" in registry:
        return
    for name in built_in_names():
        register(
            f"palaestra/{name}-v0",
            SINGLE,
            kwargs={"env": name},
            vector_entry_point=VECTOR,
            order_enforce=False,
            disable_env_checker=True,
        )
    register(f"palaestra/{GAME}-v0", SINGLE, order_enforce=False, disable_env_checker=True)


def built_in_names() -> list[str]:
    """Returns the names of this package's own entry points in `palaestra.envs`; reading one package's takes a
    millisecond.
    """
    try:
        points = distribution("palaestra").entry_points
    except PackageNotFoundError:
        return []
    return sorted({point.name for point in points if point.group == "palaestra.envs"})
