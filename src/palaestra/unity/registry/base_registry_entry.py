"""Base class of registry entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from palaestra.unity.base_env import BaseEnv


class BaseRegistryEntry(ABC):
    """Registry entry of an environment. Subclass it to register another kind."""

    def __init__(self, identifier: str, expected_reward: float | None, description: str | None) -> None:
        """Takes the id, the episode return at which it counts as solved, and a description."""
        self._identifier = identifier
        self._expected_reward = expected_reward
        self._description = description

    @property
    def identifier(self) -> str:
        """Id of the entry."""
        return self._identifier

    @property
    def expected_reward(self) -> float | None:
        """Episode return at which the environment counts as solved; None: unknown."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """Description of the environment."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """Makes an environment with `kwargs` of UnityEnvironment."""
