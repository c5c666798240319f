"""Converts the values of one behavior's old section into its current block of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaestra.core.plugins import nearest
from palaestra.core.settings import Settings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport, plain
from palaestra.runtime.upgrade.sections import Section

RATIO = "play_against_latest_model_ratio"
RENAMED = {"play_against_current_self_ratio": RATIO, "play_against_current_best_ratio": RATIO}
"""Current names of self_play's keys, by their names in old files."""


@dataclass(frozen=True, slots=True)
class Block:
    """Old section and new block of one behavior. Paths are relative to the block."""

    section: Section
    new: NewTree
    at: Key  # of the block in the new file
    report: UpgradeReport

    def put(self, path: Key, value: Any, place: str, remark: str = "") -> None:
        """Writes a value."""
        self.new.put((*self.at, *path), value, place, remark)

    def move(self, key: str, settings: type[Settings], *above: str) -> None:
        """Moves a value of the section, if it is given, to the map at `above`."""
        if key in self.section:
            place = self.section.place(key)
            value = self.section.take(key)
            self.put((*above, key), plain(value, settings, key), place)
            if above:
                self.report.became(key, ".".join(above))

    def move_map(self, key: str, settings: type[Settings], name: str) -> None:
        """Moves a map of the section, if it is given, key by key. Unknown keys are left out with a warning."""
        if key not in self.section:
            return
        value = self.section.take(key)
        if not isinstance(value, Mapping) or not value:
            self.put((name,), value, self.section.place(key))
        if name != key:
            self.report.became(key, name)
        for inner, item in value.items() if isinstance(value, Mapping) else ():
            place = self.section.place(key, inner)
            now = RENAMED.get(inner, inner)
            if now not in settings.model_fields:
                self.unknown(inner, settings.model_fields, place)
                continue
            self.put((name, now), plain(item, settings, now), place, f"was {inner}" if now != inner else "")
            self.ask_for(item, place)
            if now != inner:
                self.report.became(f"{key}.{inner}", f"{name}.{now}")

    def unknown(self, key: str, known: Any, place: str) -> None:
        """Warns about a key that is left out."""
        self.report.warn(place, f"unknown key '{key}'{nearest(key, known)}: left out")

    def ask_for(self, value: Any, place: str) -> None:
        """Warns about a placeholder that the user must replace."""
        if isinstance(value, str) and "<" in value:
            self.report.warn(place, f"fill in: '{value}' is a placeholder")
