"""Finds code of the user's: modules, and what a setting names as `package.module:Name` or by an entry point."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from palaestra.core.errors import EnvError, PalaestraError, PluginError, raised
from palaestra.core.registry import Registry, nearest


def find_own(kind: str, title: str, name: str) -> Any:
    """What `package.module:Name`, or else an entry point of the group `palaestra.<kind>`, refers to. Raises PluginError."""
    place, colon, attribute = name.partition(":")
    if not colon:
        return registry(kind).get(name)
    module = import_own(place, title, PluginError)
    found = getattr(module, attribute, None)
    if found is None:
        raise PluginError(f"{title}: module '{place}' ({module.__file__}) has no '{attribute}'{nearest(attribute, vars(module))}")
    return found


@cache
def registry(kind: str) -> Registry:
    """One a group: reading entry points takes a tenth of a second."""
    return Registry(kind)


def import_own(module: str, name: str, error_class: type[PalaestraError] = EnvError) -> Any:
    """A module of the user's, from the current folder or installed. Raises `error_class` with a message that `name` begins."""
    see_current_folder()
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise error_class(f"{name}: there is no module '{module}', neither in {Path.cwd()} nor installed") from error
        raise error_class(f"{name}: module '{module}' cannot be imported: {raised(error)}") from error
    except Exception as error:  # whatever a user's module does when it is imported
        raise error_class(f"{name}: module '{module}' cannot be imported: {raised(error)}") from error


def see_current_folder() -> None:
    """A command's own folder stands first on the path of imports, not the user's."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
