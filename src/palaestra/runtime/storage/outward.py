"""Settings by which a run connects to other machines, or lets other machines connect to it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from palaestra.hub.hub_names import is_hub_name
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.settings.yaml_file import Key

LOCAL_TRACKERS = ("console", "tensorboard", "jsonl")
"""Trackers that only write to the run's folder and the console. Other trackers send settings and models to a
service."""
SOURCES = ("demo_path", "clips", "teacher", "init_path", "initialize_from", "opponents", "run", "minari")
"""Settings that name a run, a model or a file, which may be on the Hub or on another machine."""

Reach = tuple[Key, str]
"""Path of a setting, and the setting's value."""


def listens(settings: RunSettings) -> list[Reach]:
    """Returns the address under which other machines can reach a game's port; empty if only this machine can."""
    bind = settings.env_settings.bind
    return [] if bind is None or _is_loopback(bind) else [(("env_settings", "bind"), bind)]


def calls(settings: RunSettings) -> list[Reach]:
    """Returns clusters, services and other machines to which training connects."""
    place = settings.env_settings
    found: list[Reach] = [
        (("env_settings", key), value) for key in ("ray_address", "ray_working_dir") if (value := getattr(place, key))
    ]
    for name, options in settings.trackers.items():
        if name not in LOCAL_TRACKERS and ":" not in name:
            chosen = ", ".join(f"{key}={value}" for key, value in options.items())
            found.append((("trackers", name), chosen or "its usual service"))
    tree = {key: getattr(settings, key) for key in ("checkpoint_settings", "default_settings", "behaviors")}
    return [*found, *_sources(tree, ())]


def _sources(tree: Any, above: Key) -> Iterator[Reach]:
    parts = tree if isinstance(tree, Mapping) else None
    if parts is None:
        parts = {key: getattr(tree, key) for key in getattr(type(tree), "model_fields", ())}
    for key, value in parts.items():
        if key in SOURCES:
            given = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else []
            yield from (((*above, key), one) for one in given if isinstance(one, str) and _is_elsewhere(one))
        else:
            yield from _sources(value, (*above, key))


def _is_elsewhere(source: str) -> bool:
    return any(
        is_hub_name(one) or one.startswith(("\\\\", "//"))
        for one in (part.strip().removeprefix("model:").removeprefix("minari:") for part in source.split(","))
    )


def _is_loopback(address: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    return address == "localhost"
