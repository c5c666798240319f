"""Registers Palaestra's environments with Gymnasium when this module is imported.

>>> import gymnasium, palaestra.gymnasium
>>> env = gymnasium.make("palaestra/3DBall-v0")

This module imports no large library: it reads only the names of environments.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

from palaestra.interop.built_ins import built_in_names

GAME = "Game"
"""Id of any other environment, which the argument `env` names."""
SINGLE = "palaestra.interop.single_env:make_single"
VECTOR = "palaestra.interop.vector_env:make_vector"


def register_envs() -> None:
    """Registers `palaestra/<Name>-v0` for every built-in environment, and `palaestra/Game-v0`, unless they are
    registered already."""
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


register_envs()
