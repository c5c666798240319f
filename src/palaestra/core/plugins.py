"""Finds code of the user's: modules, and what a setting names as `package.module:Name` or by an entry point."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from palaestra.core.errors import EnvError, PalaestraError, PluginError, exception_summary


def find_plugin(kind: str, title: str, name: str) -> Any:
    """What `package.module:Name`, or else an entry point of the group `palaestra.<kind>`, refers to. Raises PluginError."""
    place, colon, attribute = name.partition(":")
    if not colon:
        return registry(kind).get(name)
    module = import_user_module(place, title, PluginError)
    found = getattr(module, attribute, None)
    if found is None:
        raise PluginError(f"{title}: module '{place}' ({module.__file__}) has no '{attribute}'{nearest(attribute, vars(module))}")
    return found


@cache
def registry(kind: str) -> Registry:
    """One a group: reading entry points takes a tenth of a second."""
    return Registry(kind)


def import_user_module(module: str, name: str, error_class: type[PalaestraError] = EnvError) -> Any:
    """A module of the user's, from the current folder or installed. Raises `error_class` with a message that `name` begins."""
    add_current_folder_to_path()
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise error_class(f"{name}: there is no module '{module}', neither in {Path.cwd()} nor installed") from error
        raise error_class(f"{name}: module '{module}' cannot be imported: {exception_summary(error)}") from error
    except Exception as error:  # whatever a user's module does when it is imported
        raise error_class(f"{name}: module '{module}' cannot be imported: {exception_summary(error)}") from error


def add_current_folder_to_path() -> None:
    """A command's own folder stands first on the path of imports, not the user's."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


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
