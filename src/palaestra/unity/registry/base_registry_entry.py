"""What every entry of a registry has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from palaestra.unity.base_env import BaseEnv


class BaseRegistryEntry(ABC):
    """An environment by its id. Subclass it to register one of another kind."""

    def __init__(self, identifier: str, expected_reward: float | None, description: str | None) -> None:
        """`expected_reward`: an episode's return once it is solved."""
        self._identifier, self._expected_reward, self._description = identifier, expected_reward, description

    @property
    def identifier(self) -> str:
        """What it is looked up by."""
        return self._identifier

    @property
    def expected_reward(self) -> float | None:
        """An episode's return once it is solved; None: unknown."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """For people."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """A new environment; `kwargs` are UnityEnvironment's."""
