"""Collects the new file: its tree, the source of each value, and comments."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, get_args

from palaestra.core.display import escaped, shortened
from palaestra.core.settings import Settings
from palaestra.runtime.settings.yaml_file import Key


@dataclass(slots=True)
class NewTree:
    """Tree of the new file, to which keys are added in the order of the file."""

    tree: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)  # 'file:line' in the old files
    remarks: dict[Key, str] = field(default_factory=dict)

    def put(self, path: Key, value: Any, place: str, remark: str = "") -> None:
        """Writes a value, and makes the maps that enclose it."""
        at: Any = self.tree
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = value
        self.places[path] = place
        if remark:
            self.remarks[path] = remark

    def cite(self, path: Key, place: str) -> None:
        """Adds a comment with the source of a key: file name and line, without the folder, which may change."""
        self.places[path] = place
        self.remarks[path] = PurePath(place).name

    def at(self, path: Key) -> dict[str, Any]:
        """Returns the map at a path; empty if there is no map."""
        at: Any = self.tree
        for key in path:
            at = at.get(key, {})
        return at

    def place(self, path: Key) -> str:
        """Returns the source of a value, or of the nearest key above it; empty if it is unknown."""
        return next((self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places), "")


def plain(value: Any, settings: type[Settings], key: str) -> Any:
    """Turns a float such as `5.0e4` into a whole number, 50000, if the setting is a whole number."""
    field = settings.model_fields.get(key)
    if field is None or not isinstance(value, float) or not value.is_integer():
        return value
    return int(value) if int in (get_args(field.annotation) or (field.annotation,)) else value


INDENT = "  "
WIDTH = 110


@dataclass(slots=True)
class UpgradeReport:
    """Report of an upgrade: conversions and warnings, each listed once for all behaviors."""

    heading: str = ""  # kind of the file
    moves: dict[str, list[str]] = field(default_factory=dict)  # by new place: the old keys
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def became(self, old: str, new: str) -> None:
        """Records that a key, or a group of keys, has moved."""
        olds = self.moves.setdefault(new, [])
        if old not in olds:
            olds.append(old)

    def note(self, sentence: str) -> None:
        """Adds a remark about the file as a whole."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def warn(self, place: str, sentence: str) -> None:
        """Adds a warning about a place, 'file:line'."""
        line = f"{place}: {sentence}"
        if line not in self.warnings:
            self.warnings.append(line)

    def text(self) -> str:
        """Returns the report as text, with the warnings at the end, where a reader notices them."""
        lines = [self.heading, *(f"{INDENT}{_listed(olds)} -> {new}" for new, olds in self.moves.items())]
        lines += [f"note: {note}" for note in self.notes] + [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(map(escaped, lines))


def _listed(words: list[str]) -> str:
    shown = 1
    while shown < len(words) and len(", ".join(words[: shown + 1])) <= WIDTH:
        shown += 1
    more = len(words) - shown
    return ", ".join([shortened(words[0], WIDTH), *words[1:shown]]) + (f" and {more} more" if more else "")
