"""Registry entries of builds that are downloaded when first made."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.registry.base_registry_entry import BaseRegistryEntry
from palaestra.unity.registry.binary_utils import get_local_binary_path


class RemoteRegistryEntry(BaseRegistryEntry):
    """Registry entry with a zip file for each operating system."""

    def __init__(
        self,
        identifier: str,
        expected_reward: float | None,
        description: str | None,
        linux_url: str | None,
        darwin_url: str | None,
        win_url: str | None,
        additional_args: Sequence[str] | None = None,
        tmp_dir: str | None = None,
    ) -> None:
        """Takes `additional_args` that follow those of `make`, and `tmp_dir` for builds (None: the system's)."""
        super().__init__(identifier, expected_reward, description)
        self._urls = {"linux": linux_url, "darwin": darwin_url, "win32": win_url}
        self._args = list(additional_args or ())
        self._tmp_dir = tmp_dir

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """Downloads the build if necessary and starts it. Raises FileNotFoundError if this system has no build."""
        url = self._urls.get("linux" if sys.platform.startswith("linux") else sys.platform)
        if url is None:
            offered = ", ".join(system for system, url in self._urls.items() if url) or "none"
            raise FileNotFoundError(
                f"'{self.identifier}' has no build for {sys.platform} (it has builds for: {offered})"
            )
        args = [*(kwargs.pop("additional_args", None) or ()), *self._args]
        path = get_local_binary_path(self.identifier, url, self._tmp_dir)
        return UnityEnvironment(**{**kwargs, "file_name": path}, additional_args=args)
