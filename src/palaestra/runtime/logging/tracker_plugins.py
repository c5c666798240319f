"""The trackers of a run: those under `trackers`, and ML-Agents' `mlagents.stats_writer` plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, cast

from palaestra.core.errors import PalaestraError, PluginError, exception_summary
from palaestra.core.plugins import find_plugin, nearest, registry
from palaestra.runtime.logging.stats_writers import find_stats_writers
from palaestra.runtime.logging.tracker import TrackedRun, Tracker
from palaestra.runtime.settings import RunSettings

MEMBERS = ("write", "text", "close")


def find_trackers(settings: RunSettings) -> dict[str, Callable[..., Tracker]]:
    """Returns the class of each tracker that the settings name.

    Raises PluginError for a tracker that does not exist, cannot be imported, or does not take the given options.
    """
    return {name: _find(name, options) for name, options in settings.trackers.items()}


def make_trackers(
    found: Mapping[str, Callable[..., Tracker]], run: TrackedRun, warn: Callable[[str], object]
) -> dict[str, Tracker]:
    """Makes each tracker for a run, including trackers of ML-Agents' plug-ins. Raises PluginError.

    A plug-in of ML-Agents that fails is reported with `warn` and left out, since no setting asks for it.
    """
    made = {name: _make(name, factory, run) for name, factory in found.items()}
    return {**made, **find_stats_writers(run, warn)}


def _find(name: str, options: Mapping[str, Any]) -> Callable[..., Tracker]:
    title = f"tracker '{name}'"
    if ":" not in name and name not in registry("trackers"):
        raise PluginError(
            f"no tracker is named '{name}'{nearest(name, registry('trackers').names())} (there are: "
            f"{', '.join(registry('trackers').names())}); to send metrics elsewhere, name your own class as "
            "module:Class (the guide 'TensorBoard and other trackers' shows how to write it)"
        )
    found = find_plugin("trackers", title, name)
    if not callable(found):
        raise PluginError(f"{title} is {found!r}; expected a class that can be called with (run, **options)")
    try:
        takes = signature(found)
    except ValueError:  # classes written in C have no signature
        return cast(Callable[..., Tracker], found)
    known = [*takes.parameters.values()][1:]
    names = [one.name for one in known if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if not any(one.kind is one.VAR_KEYWORD for one in known):
        for option in options:
            if option not in names:
                has = f"its options: {', '.join(names)}" if names else "it has none"
                raise PluginError(f"{title} has no option '{option}'{nearest(option, names)} ({has})")
    try:
        takes.bind(None, **options)
    except TypeError as error:
        raise PluginError(
            f"{title} cannot be made from the options in the settings: {error} (its options: {', '.join(names)})"
        ) from error
    return cast(Callable[..., Tracker], found)


def _make(name: str, factory: Callable[..., Tracker], run: TrackedRun) -> Tracker:
    try:
        tracker = factory(run, **run.settings.trackers[name])
    except PalaestraError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        raise PluginError(
            f"tracker '{name}' could not be made: {exception_summary(error)}; correct its options under `trackers`, "
            "or leave it out there"
        ) from error
    if missing := [member for member in MEMBERS if not callable(getattr(tracker, member, None))]:
        raise PluginError(
            f"tracker '{name}' lacks {', '.join(missing)} (a tracker has the methods {', '.join(MEMBERS)})"
        )
    return tracker
