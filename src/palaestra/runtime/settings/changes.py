"""What is set otherwise than it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.runtime.settings.tree import RunSettings

PACE = {"max_steps", "summary_freq", "checkpoint_interval", "keep_checkpoints"}
"""Settings of a behavior that may change from one part of a run to the next."""


def changes(before: RunSettings, now: RunSettings) -> list[str]:
    """Settings of behaviors that a checkpoint may depend on and that differ, each with both values."""
    old, new = (dict(_leaves(settings.model_dump(mode="json")["behaviors"])) for settings in (before, now))
    paths = [path for path in dict.fromkeys((*new, *old)) if path[-1] not in PACE and old.get(path) != new.get(path)]
    return [f"behaviors.{'.'.join(path)} is {_shown(new, path)}, was {_shown(old, path)}" for path in paths]


def _shown(leaves: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> str:
    return json.dumps(leaves[path]) if path in leaves else "not there"


def _leaves(tree: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*at, str(key)))
    else:
        yield at, tree
