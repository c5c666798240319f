"""Registry of environments by id, and the default registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.core.plugins import nearest, registry
from palaestra.unity.exception import UnityEnvironmentException
from palaestra.unity.registry.base_registry_entry import BaseRegistryEntry
from palaestra.unity.registry.binary_utils import load_manifest
from palaestra.unity.registry.local_registry_entry import LocalRegistryEntry
from palaestra.unity.registry.remote_registry_entry import RemoteRegistryEntry


class UnityEnvRegistry(Mapping):
    """Mapping from ids to entries. A manifest is read at the first lookup; a build is downloaded when its environment
    is made."""

    def __init__(self) -> None:
        self._entries: dict[str, BaseRegistryEntry] = {}
        self._unread: list[str] = []

    def register(self, new_entry: BaseRegistryEntry) -> None:
        """Adds an entry, replacing one with the same id."""
        self._read_manifests()
        self._entries[new_entry.identifier] = new_entry

    def register_from_yaml(self, path_to_yaml: str) -> None:
        """Adds the entries of a manifest, a file or an http address. Raises UnityEnvironmentException."""
        if path_to_yaml.startswith(("http://", "https://")):
            self._unread.append(path_to_yaml)
        else:
            self._add(path_to_yaml)

    def clear(self) -> None:
        """Removes all entries."""
        self._entries = {}
        self._unread = []

    def __getitem__(self, identifier: str) -> BaseRegistryEntry:
        self._read_manifests()
        if identifier not in self._entries:
            known = ", ".join(self._entries) or "none"
            raise KeyError(
                f"no environment is registered as '{identifier}'{nearest(identifier, self._entries)} (registered: "
                f"{known})"
            )
        return self._entries[identifier]

    def __len__(self) -> int:
        self._read_manifests()
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        self._read_manifests()
        yield from list(self._entries)

    def _read_manifests(self) -> None:
        while self._unread:
            self._add(self._unread[0])
            del self._unread[0]

    def _add(self, place: str) -> None:
        for each in load_manifest(place)["environments"]:
            if not isinstance(each, dict) or len(each) != 1:
                raise UnityEnvironmentException(
                    f"the manifest {place}: expected an id with its facts for each environment; got {each!r}"
                )
            (identifier, facts), *_ = each.items()
            try:
                entry = _entry(identifier, facts)
            except (TypeError, AttributeError) as error:
                raise UnityEnvironmentException(
                    f"the manifest {place}: '{identifier}' cannot be understood: {error}"
                ) from error
            self._entries[identifier] = entry


def _entry(identifier: str, facts: Mapping[str, Any]) -> BaseRegistryEntry:
    if "file_name" in facts:
        return LocalRegistryEntry(identifier, **facts)
    missing = dict.fromkeys(("expected_reward", "description", "linux_url", "darwin_url", "win_url"))
    return RemoteRegistryEntry(identifier, **{**missing, **facts})


def _built_in() -> UnityEnvRegistry:
    entries = UnityEnvRegistry()
    for name in registry("envs").names():
        entries.register(
            LocalRegistryEntry(name, f"builtin:{name}", description=f"Palaestra's own {name}; needs no Unity")
        )
    return entries


default_registry = _built_in()
"""Registry of Palaestra's built-in environments; `register_from_yaml` adds others, such as Unity's."""
