"""Plug-ins that a test installs for its own length."""

from palaestra.core.plugins import all_entry_points, registry


def forget_plugins() -> None:
    """Reads entry points anew when they are next needed."""
    all_entry_points.cache_clear()
    registry.cache_clear()
