"""Registry of environments by id: built-in ones, builds on this machine, and builds to download."""

from palaestra.unity.registry.base_registry_entry import BaseRegistryEntry
from palaestra.unity.registry.local_registry_entry import LocalRegistryEntry
from palaestra.unity.registry.remote_registry_entry import RemoteRegistryEntry
from palaestra.unity.registry.unity_env_registry import UnityEnvRegistry, default_registry

__all__ = ["BaseRegistryEntry", "LocalRegistryEntry", "RemoteRegistryEntry", "UnityEnvRegistry", "default_registry"]
