"""Finds keys of a settings file that are indented too little or too far, and says where they belong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.trainers.behavior_settings import BehaviorSettings

_OF_RUN, _OF_BEHAVIOR = RunSettings.model_fields, BehaviorSettings.model_fields
_BELONGS = "is a setting of a behavior: indent it below the behavior's name"


def misplaced(tree: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Yields the path and the message of each key that stands one level too high or too low around `behaviors`."""
    blocks = tree.get("behaviors")
    names = [name for name in blocks if name not in _OF_BEHAVIOR and name not in _OF_RUN] if isinstance(blocks, Mapping) else []
    name = names[0] if len(names) == 1 else "*"
    for key, value in tree.items():
        if key in _OF_RUN:
            continue
        if key in _OF_BEHAVIOR:
            there = "behaviors" in tree or "default_settings" in tree
            sentence = f"did you mean 'behaviors.{name}.{key}'?" if there else "begin the file with `behaviors:` and the behavior's name"
            yield (key,), f"{_BELONGS}; {sentence}"
        elif _is_behavior(value):
            yield (key,), "looks like a behavior: indent it, with all that belongs to it, below `behaviors:`"
    for key in blocks if isinstance(blocks, Mapping) else ():
        if key in _OF_RUN:
            yield ("behaviors", key), "is no behavior but a section of its own: indent it as far as `behaviors:`"
        elif key in _OF_BEHAVIOR:
            yield (
                ("behaviors", key),
                f"is a setting of a behavior: indent it below the behavior's name; did you mean 'behaviors.{name}.{key}'?",
            )


def _is_behavior(value: Any) -> bool:
    return isinstance(value, Mapping) and any(key in _OF_BEHAVIOR for key in value)
