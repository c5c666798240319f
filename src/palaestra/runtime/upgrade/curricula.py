"""Converts curricula: thresholds of a behavior, with values for each parameter, become lessons of each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport
from palaestra.runtime.upgrade.old_file import OldFile, read
from palaestra.runtime.upgrade.old_samplers import PARAMETERS

CRITERION = {"measure": None, "min_lesson_length": 1, "signal_smoothing": False}
"""Keys that all lessons of a curriculum had in common, and their defaults."""


@dataclass(frozen=True, slots=True)
class OldCurriculum:
    """Curriculum of one behavior in an old file."""

    behavior: str
    old: OldFile
    at: Key  # within the file

    @property
    def values(self) -> Any:
        """Map of thresholds, parameters and other keys."""
        value: Any = self.old.tree
        for key in self.at:
            value = value[key]
        return value


def read_curricula(path: Path, new: NewTree, report: UpgradeReport) -> list[OldCurriculum]:
    """Reads curricula from a folder (one file per behavior), or from a file of all behaviors or of one behavior. Raises
    ConfigError."""
    if not path.is_dir():
        return _of_file(read(path, report, "curricula"), new, report)
    files = sorted(file for file in path.iterdir() if file.suffix in (".json", ".yaml", ".yml"))
    if not files:
        raise ConfigError("has no curricula: expected .json or .yaml files, each with the name of its behavior", path)
    olds = [read(file, report, "curricula") for file in files]
    return [
        found
        for old in olds
        for found in ([OldCurriculum(old.file.stem, old, ())] if _is_one(old.tree) else in_map(old, ()))
    ]


def in_map(old: OldFile, at: Key) -> list[OldCurriculum]:
    """Returns the curricula of a map by behavior."""
    curricula: Any = old.tree
    for key in at:
        curricula = curricula[key]
    if not isinstance(curricula, Mapping):
        raise old.error(f"expected a map of behaviors, got {curricula!r}", *at)
    return [OldCurriculum(name, old, (*at, name)) for name in curricula]


def convert_curricula(curricula: list[OldCurriculum], new: NewTree, report: UpgradeReport) -> None:
    """Writes curricula as environment parameters. A parameter that exists already is kept, with a warning."""
    alone = [one.behavior for one in curricula if one.behavior not in new.at(("behaviors",))]
    if alone and "default_settings" in new.tree:
        report.note(
            f"{', '.join(alone)}: named by a curriculum, but not in the trainer file: added as a behavior with "
            "default_settings; if the game has another name for it, change `behavior` of the lessons"
        )
    for curriculum in curricula:
        values = curriculum.values
        old = curriculum.old
        if not isinstance(values, Mapping):
            raise old.error(f"expected a map with thresholds and parameters, got {values!r}", *curriculum.at)
        for key in values.keys() - {*CRITERION, "thresholds", "parameters"}:
            hint = nearest(key, [*CRITERION, "thresholds"])
            report.warn(old.place(*curriculum.at, key), f"unknown key '{key}'{hint}: left out")
        for name in _checked(curriculum, "parameters", Mapping):
            place = old.place(*curriculum.at, "parameters", name)
            if name in new.at((PARAMETERS,)):
                report.warn(place, f"'{name}' is left out: it is already defined at {new.place((PARAMETERS, name))}")
            else:
                new.put((PARAMETERS, name, "curriculum"), _lessons(curriculum, name, new), place)
                new.cite((PARAMETERS, name), place)
                report.became(f"{name} (curriculum)", PARAMETERS)
        _add_settings(curriculum, new, report)


def _of_file(old: OldFile, new: NewTree, report: UpgradeReport) -> list[OldCurriculum]:
    """Reads a file of one behavior, whose name may be the file's name."""
    if not _is_one(old.tree):
        return in_map(old, ())
    stem = old.file.stem
    listed = list(new.at(("behaviors",)))
    if stem in listed or not listed or stem.endswith(("Brain", "Learning")):
        return [OldCurriculum(stem, old, ())]
    if len(listed) > 1:
        report.warn(
            old.place(),
            f"names no behavior: its lessons depend on '{listed[0]}'; change `behavior` if they should depend on "
            "another",
        )
    return [OldCurriculum(listed[0], old, ())]


def _is_one(tree: Mapping[str, Any]) -> bool:
    return "thresholds" in tree or "parameters" in tree


def _lessons(curriculum: OldCurriculum, parameter: str, new: NewTree) -> list[dict[str, Any]]:
    old = curriculum.old
    at = (*curriculum.at, "parameters", parameter)
    thresholds = _checked(curriculum, "thresholds", list)
    values = curriculum.values["parameters"][parameter]
    if not isinstance(values, list) or len(values) != len(thresholds) + 1:
        got = f"{len(values)}" if isinstance(values, list) else repr(values)
        raise old.error(f"expected a list of {len(thresholds) + 1} values, one more than thresholds, got {got}", *at)
    lessons: list[dict[str, Any]] = []
    for i, value in enumerate(values):
        lesson: dict[str, Any] = {"name": f"Lesson{i}"}
        path = (PARAMETERS, parameter, "curriculum", i)
        new.places[(*path, "value")] = old.place(*at, i)
        if i < len(thresholds):
            shared = {key: curriculum.values.get(key, default) for key, default in CRITERION.items()}
            lesson["completion_criteria"] = {"behavior": curriculum.behavior, **shared, "threshold": thresholds[i]}
            new.places[(*path, "completion_criteria", "threshold")] = old.place(*curriculum.at, "thresholds", i)
            new.places |= {(*path, "completion_criteria", key): old.place(*curriculum.at, key) for key in shared}
        lessons.append({**lesson, "value": value})
    return lessons


def _checked(curriculum: OldCurriculum, key: str, kind: type) -> Any:
    value = curriculum.values.get(key)
    if not isinstance(value, kind):
        what = "a list of numbers" if kind is list else "a map of parameters, each with its values"
        raise curriculum.old.error(
            f"`{key}`: expected {what}, got {'nothing' if value is None else repr(value)}", *curriculum.at, key
        )
    return value


def _add_settings(curriculum: OldCurriculum, new: NewTree, report: UpgradeReport) -> None:
    """Adds empty settings for the measured behavior, if it has none."""
    name = curriculum.behavior
    place = curriculum.old.place(*curriculum.at)
    listed = new.at(("behaviors",))
    if name in listed:
        return
    if "default_settings" not in new.tree:
        hint = nearest(name, listed)
        report.warn(
            place,
            f"'{name}' has no settings{hint}: it gets the built-in ones; add settings, or change `behavior` of the "
            "lessons",
        )
    new.put(("behaviors", name), {}, place)
    new.cite(("behaviors", name), place)
