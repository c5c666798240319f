"""Reads old files: YAML, or JSON for curricula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.format_versions import FormatVersion, format_version
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import UpgradeReport


@dataclass(frozen=True, slots=True)
class OldFile:
    """Content of a file, with the line of each key."""

    file: Path
    text: str
    tree: dict[str, Any]
    lines: Mapping[Key, int]

    def place(self, *path: str | int) -> str:
        """Returns 'file:line' of a key, or of the nearest key above it."""
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        return f"{self.file}:{line}" if line else str(self.file)

    def error(self, sentence: str, *path: str | int) -> ConfigError:
        """Returns an error that names the place of a key."""
        return ConfigError(f"{self.place(*path)}: {sentence}")


def read(file: Path, report: UpgradeReport, holds: FormatVersion | None = None) -> OldFile:
    """Reads a file. For a duplicate key the last value is used, as in old versions, with a warning.

    Raises ConfigError, also for a file that clearly is of another kind than `holds`.
    """
    repeats: list[tuple[str, int]] = []
    document = yaml_file.read(file, repeats)
    for key, line in repeats:
        report.warn(f"{file}:{line}", f"the key '{key}' is given twice: this value is used")
    if not isinstance(document.tree, dict):
        raise ConfigError("is empty" if document.tree is None else "expected a map of keys", file)
    if holds and format_version(document.tree) not in (holds, "current"):
        raise ConfigError(f"has no {holds}", file)
    return OldFile(file, document.text, document.tree, document.lines)
