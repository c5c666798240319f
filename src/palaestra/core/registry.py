"""Names in the YAML and on the command line are entry points: ours are found just as anyone else's."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from palaestra.core.errors import PluginError


class Registry:
    """The entry points of one group. Nothing is imported until its name is asked for."""

    def __init__(self, kind: str) -> None:
        """`kind` is the group's last part: 'envs' reads `palaestra.envs`."""
        self.kind = kind
        self._points: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=f"palaestra.{kind}")}

    def __contains__(self, name: str) -> bool:
        return name in self._points

    def names(self) -> list[str]:
        """All of the group, in the order of the alphabet."""
        return sorted(self._points)

    def place(self, name: str) -> str:
        """`package.module:Name` of an entry point, which several names may share. Raises KeyError for an unknown name."""
        return self._points[name].value

    def get(self, name: str) -> Any:
        """What the entry point refers to. Raises PluginError when there is none, or when importing it fails."""
        if name not in self._points:
            hint = nearest(name, self._points)
            raise PluginError(f"no {self.kind.removesuffix('s')} is named '{name}'{hint} (there are: {', '.join(self.names())})")
        point = self._points[name]
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise PluginError(f"{self.kind.removesuffix('s')} '{name}' ({point.value}) cannot be loaded: {error}") from error


def nearest(name: str, known: Any) -> str:
    """'; did you mean X?', or nothing where no known name is near."""
    near = get_close_matches(name, list(known), n=1) or get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
