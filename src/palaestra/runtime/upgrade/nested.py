"""Converts files that have the key `behaviors`; since then, few keys have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaestra.runtime.settings import BehaviorSettings, RunSettings
from palaestra.runtime.settings.format_versions import is_sampler
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.block import RENAMED
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport, plain
from palaestra.runtime.upgrade.old_file import OldFile
from palaestra.runtime.upgrade.old_samplers import PARAMETERS, convert_sampler

CURRICULUM, SAMPLERS = "curriculum", "parameter_randomization"
"""Sections that became environment parameters."""

REMOVED = ("framework", "output_path")


def convert_block(old: OldFile, at: Key, new: NewTree, report: UpgradeReport) -> None:
    """Converts the settings of one behavior from the old file into the new one, and notes in `report` what changed."""
    block: Any = old.tree
    for key in at:
        block = block[key]
    _copy(old, at, block, new)
    written = new.at(at)
    if not isinstance(written, dict):
        return
    for key in REMOVED:
        if written.pop(key, None) is not None:
            report.became(key, "left out: it has no effect")
    _rename(written.get("self_play"), RENAMED, "self_play", report)
    _rename(written, {"pretraining": "behavioral_cloning"}, "", report)
    signals = written.get("reward_signals")
    for name, signal in signals.items() if isinstance(signals, dict) else ():
        if isinstance(signal, dict) and signal.get("encoding_size") is not None:
            size = signal.pop("encoding_size")
            report.became("encoding_size", "reward_signals.*.network_settings.hidden_units")
            if signal.get("network_settings") is None:  # newer, and takes precedence
                signal["network_settings"] = {"hidden_units": size}
                new.remarks[(*at, "reward_signals", name, "network_settings", "hidden_units")] = "was encoding_size"


def convert_parameters(old: OldFile, new: NewTree, report: UpgradeReport) -> None:
    """Converts environment_parameters: old samplers, and lessons whose names are keys."""
    parameters = old.tree.get(PARAMETERS)
    if not isinstance(parameters, Mapping):
        new.put((PARAMETERS,), parameters, old.place(PARAMETERS))
        return
    for name, value in parameters.items():
        if is_sampler(value):
            convert_sampler(old, (PARAMETERS, name), (PARAMETERS, name), new, report)
        else:
            _copy(old, (PARAMETERS, name), value, new)
    for name, value in new.at((PARAMETERS,)).items():
        if isinstance(value, dict) and isinstance(value.get("curriculum"), list):
            value["curriculum"] = [_named(lesson, name, report) for lesson in value["curriculum"]]


def copy_rest(old: OldFile, new: NewTree) -> None:
    """Copies all other sections unchanged; if behaviors are on the top level, all known sections."""
    keys = old.tree.keys() if "behaviors" in old.tree or "default_settings" in old.tree else RunSettings.model_fields
    for key in old.tree:
        if key in keys and key not in (*new.tree, CURRICULUM, SAMPLERS):
            _copy(old, (key,), old.tree[key], new)


def _copy(old: OldFile, at: Key, value: Any, new: NewTree) -> None:
    nested = isinstance(value, Mapping)
    new.put(at, {} if nested else plain(value, BehaviorSettings, str(at[-1])), old.place(*at))
    for key, item in value.items() if nested else ():
        _copy(old, (*at, key), item, new)


def _rename(values: Any, names: Mapping[str, str], above: str, report: UpgradeReport) -> None:
    if not isinstance(values, dict) or not names.keys() & values.keys():
        return
    renamed = {names.get(key, key): value for key, value in values.items()}
    for key in names.keys() & values.keys():
        report.became(key, f"{above}.{names[key]}".lstrip("."))
    values.clear()
    values.update(renamed)


def _named(lesson: Any, parameter: str, report: UpgradeReport) -> Any:
    """Converts lessons written as `Lesson0: {...}`, which ML-Agents' converter produced although nothing reads it."""
    if not isinstance(lesson, dict) or len(lesson) != 1 or "name" in lesson:
        return lesson
    ((name, content),) = lesson.items()
    if not isinstance(content, dict) or "value" not in content:
        return lesson
    report.became(f"lesson names of {parameter}", "name")
    return {"name": name, **content}
