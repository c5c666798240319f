"""Registry entries of builds on this machine and of environments without a build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.registry.base_registry_entry import BaseRegistryEntry


class LocalRegistryEntry(BaseRegistryEntry):
    """Registry entry of any `file_name` that UnityEnvironment takes."""

    def __init__(
        self,
        identifier: str,
        file_name: str,
        expected_reward: float | None = None,
        description: str | None = None,
        additional_args: Sequence[str] | None = None,
    ) -> None:
        """Takes `additional_args` for the build, which follow those given to `make`."""
        super().__init__(identifier, expected_reward, description)
        self._file_name = file_name
        self._args = list(additional_args or ())

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """Makes an environment; a `file_name` in `kwargs` is ignored."""
        args = [*(kwargs.pop("additional_args", None) or ()), *self._args]
        return UnityEnvironment(**{**kwargs, "file_name": self._file_name}, additional_args=args)
