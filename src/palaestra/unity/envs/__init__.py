"""Wrappers with the APIs of Gym and PettingZoo. `palaestra.unity.envs.<Id>.env()` makes a registered environment for
PettingZoo.

A leading 3 is spelled out in ids: `palaestra.unity.envs.ThreeDBall`. Imports download nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.unity.envs.pettingzoo_env_factory import PettingZooEnvFactory


def __getattr__(name: str) -> PettingZooEnvFactory:
    from palaestra.unity.registry import default_registry

    ids = {f"Three{id[1:]}" if id.startswith("3") else id: id for id in default_registry}
    if name not in ids:
        raise AttributeError(f"module 'palaestra.unity.envs' has no attribute '{name}' (registered: {', '.join(ids)})")
    from palaestra.unity.envs.pettingzoo_env_factory import PettingZooEnvFactory

    return PettingZooEnvFactory(ids[name])
