"""What can be set but not had yet. A feature that arrives takes its line out of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from palaestra.core.settings import Settings
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key

NOT_YET: list[tuple[str, Callable[[Any], bool], str]] = [
    ("BEHAVIOR.threaded", bool, "learning while collecting is not available yet"),
]
"""Path, whether a value there asks for the feature, and the sentence. BEHAVIOR: default_settings and every listed behavior."""


def not_available(settings: RunSettings) -> list[tuple[Key, str]]:
    """Path and sentence of all that is asked for and cannot be had."""
    return [
        (at, sentence.format(value=value))
        for pattern, asks, sentence in NOT_YET
        for keys in _patterns(pattern)
        for at, value in _values(settings, keys)
        if asks(value)
    ]


def _patterns(pattern: str) -> list[list[str]]:
    if pattern.startswith("BEHAVIOR."):
        rest = pattern.split(".")[1:]
        return [["default_settings", *rest], ["behaviors", "*", *rest]]
    return [pattern.split(".")]


def _values(node: Any, keys: list[str], at: Key = ()) -> Iterator[tuple[Key, Any]]:
    """All values at a path in which `*` is any key; none where the way ends early."""
    if not keys:
        yield at, node
        return
    children = dict(node) if isinstance(node, Settings | Mapping) else {}
    for key in children if keys[0] == "*" else [keys[0]]:
        if key in children:
            yield from _values(children[key], keys[1:], (*at, key))
