"""Makes registered environments with PettingZoo's API."""

from __future__ import annotations

from typing import Any

from palaestra.unity.envs.unity_aec_env import UnityAECEnv
from palaestra.unity.exception import UnityWorkerInUseException
from palaestra.unity.registry import default_registry

FIRST_PORT = 6000
ATTEMPTS = 1000


class PettingZooEnvFactory:
    """Factory of the environments of one id in the default registry."""

    def __init__(self, env_id: str) -> None:
        self.env_id = env_id

    def env(self, seed: int | None = None, **kwargs: Any) -> UnityAECEnv:
        """Makes an environment with `kwargs` of UnityEnvironment. Without a `base_port` the environment takes the first
        free port."""
        given = {**({} if seed is None else {"seed": seed}), **kwargs}
        entry = default_registry[self.env_id]
        if "base_port" in given:
            return UnityAECEnv(entry.make(**given), seed)
        for port in range(FIRST_PORT, FIRST_PORT + ATTEMPTS - 1):
            try:
                return UnityAECEnv(entry.make(base_port=port, **given), seed)
            except UnityWorkerInUseException:
                continue
        return UnityAECEnv(entry.make(base_port=FIRST_PORT + ATTEMPTS - 1, **given), seed)
