"""Values of the flag `--track`: one more tracker, with its options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from palaestra.core.errors import ConfigError

FORM = "NAME or NAME:OPTION=VALUE,..., such as wandb or wandb:project=walkers,mode=offline"


def trackers_of(tracks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the options of each tracker that the flags name. Raises ConfigError."""
    return dict(map(_one, tracks))


def _one(text: str) -> tuple[str, dict[str, Any]]:
    from palaestra.runtime.settings import yaml_file

    parts = text.split(":")
    names = 2 if len(parts) > 1 and "=" not in parts[1] else 1  # module:Class has a colon of its own
    name = ":".join(parts[:names])
    given = ":".join(parts[names:])
    options: dict[str, Any] = {}
    for option in re.split(r",(?![^\[{]*[\]}])", given) if given else []:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--track {text}: expected {FORM}")
        try:
            options[key.strip()] = yaml_file.parse(value).tree
        except ConfigError as error:
            raise ConfigError(f"--track {text}: the value {error}") from None
    if not all(name.split(":")):
        raise ConfigError(f"--track {text}: expected {FORM}")
    return name, options
