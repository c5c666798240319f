"""Builds that are on this machine already, and environments that need none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.registry.base_registry_entry import BaseRegistryEntry


class LocalRegistryEntry(BaseRegistryEntry):
    """Whatever UnityEnvironment takes as its `file_name`."""

    def __init__(
        self,
        identifier: str,
        file_name: str,
        expected_reward: float | None = None,
        description: str | None = None,
        additional_args: Sequence[str] | None = None,
    ) -> None:
        """`additional_args`: for the build, after those that `make` is given."""
        super().__init__(identifier, expected_reward, description)
        self._file_name, self._args = file_name, list(additional_args or ())

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """A new environment; a `file_name` among `kwargs` is passed over."""
        args = [*(kwargs.pop("additional_args", None) or ()), *self._args]
        return UnityEnvironment(**{**kwargs, "file_name": self._file_name}, additional_args=args)
