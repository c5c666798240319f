"""Upgrades old settings files to one current file."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError
from palaestra.core.settings import IGNORED_KEY, SKIP_USER_CODE, UNKNOWN_KEY
from palaestra.runtime.settings import RunSettings, yaml_file
from palaestra.runtime.settings.format_versions import AGES, FormatVersion, format_version, is_flat
from palaestra.runtime.settings.setting_errors import problem
from palaestra.runtime.settings.sourced_settings import SourcedSettings, dotted
from palaestra.runtime.settings.yaml_file import Document, Key
from palaestra.runtime.upgrade.block import Block
from palaestra.runtime.upgrade.blocks import convert
from palaestra.runtime.upgrade.curricula import convert_curricula, in_map, read_curricula
from palaestra.runtime.upgrade.defaults import let_inherit
from palaestra.runtime.upgrade.nested import CURRICULUM, SAMPLERS, convert_block, convert_parameters, copy_rest
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport
from palaestra.runtime.upgrade.old_file import OldFile, read
from palaestra.runtime.upgrade.old_samplers import PARAMETERS, convert_samplers
from palaestra.runtime.upgrade.sections import DEFAULT, sections

STEPS = (
    "max_steps and summary_freq count the decisions of all agents. Before 0.14 they counted steps of the environment: "
    "multiply both by the number of agents if the file is that old"
)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """Result of an upgrade."""

    text: str  # of the new file
    report: UpgradeReport
    changed: bool  # False: the file is current, and `text` is its own


def upgrade(config: Path, curriculum: Path | None = None, sampler: Path | None = None) -> Upgraded:
    """Converts a trainer file, its curriculum (a file or a folder) and its samplers into one file.

    Raises ConfigError, which names lines of the old files.
    """
    report = UpgradeReport()
    new = NewTree()
    old = read(config, report)
    kind = format_version(old.tree)
    if kind in ("samplers", "curricula"):
        flag = {"samplers": "--sampler", "curricula": "--curriculum"}[kind]
        raise ConfigError(
            f"contains {kind}; give the trainer file that they belong to, and this file with {flag}", config
        )
    _behaviors(old, kind, new, report)
    _parameters(old, curriculum, sampler, new, report)
    copy_rest(old, new)
    if not (new.tree.get("behaviors") or new.tree.get("default_settings")):
        raise ConfigError("has no behavior", config)
    check(new, report)
    if not report.moves and not report.warnings:
        return Upgraded(old.text, report, changed=False)
    _set_heading(config, kind, new, report)
    sources = ", ".join(path.name for path in (config, curriculum, sampler) if path)
    return Upgraded(to_text(new, f"Written by palaestra upgrade from {sources}"), report, changed=True)


def _behaviors(old: OldFile, kind: FormatVersion, new: NewTree, report: UpgradeReport) -> None:
    if kind == "flat":
        for name, section in sections(old, report).items():
            at = ("default_settings",) if name == DEFAULT else ("behaviors", name)
            if "behaviors" in old.tree and not is_flat(old.tree["behaviors"][name]):
                convert_block(old, ("behaviors", name), new, report)
            else:
                convert(Block(section, new, at, report))
            new.cite(at, section.place())
        let_inherit(new, report)
        if "behaviors" not in old.tree:
            report.note(STEPS)
        return
    if isinstance(old.tree.get("default_settings"), dict):
        convert_block(old, ("default_settings",), new, report)
    blocks = old.tree.get("behaviors")
    for name in blocks if isinstance(blocks, dict) else ():
        convert_block(old, ("behaviors", name), new, report)


def _parameters(
    old: OldFile, curriculum: Path | None, sampler: Path | None, new: NewTree, report: UpgradeReport
) -> None:
    """Converts environment parameters; the first definition counts: samplers first, separate files first."""
    if PARAMETERS in old.tree:
        convert_parameters(old, new, report)
    if sampler:
        convert_samplers(read(sampler, report, "samplers"), (), new, report)
    if old.tree.get(SAMPLERS):
        convert_samplers(old, (SAMPLERS,), new, report)
    if curriculum:
        convert_curricula(read_curricula(curriculum, new, report), new, report)
    if old.tree.get(CURRICULUM):
        convert_curricula(in_map(old, (CURRICULUM,)), new, report)
    for key in (SAMPLERS, CURRICULUM):
        if key in old.tree and not old.tree[key]:
            report.became(key, "left out: it is empty")


def _set_heading(config: Path, kind: FormatVersion, new: NewTree, report: UpgradeReport) -> None:
    what = f"ML-Agents {AGES[kind]}" if kind in AGES else "nearly current"
    count = len(new.at(("behaviors",)))
    behaviors = f"{count} behavior{'' if count == 1 else 's'}"
    default = " and default_settings" if "default_settings" in new.tree else ""
    report.heading = f"{config}: {what}; {behaviors}{default}"


WIDTH = 10_000
"""Characters in a line: so many that text is not folded, and a comment can follow."""

ORDER = ("default_settings", "behaviors", "environment_parameters")


def to_text(new: NewTree, heading: str) -> str:
    """Returns the file as YAML with comments; `yaml_file.parse` of this text gives the same tree."""
    tree = {key: new.tree[key] for key in (*ORDER, *new.tree) if key in new.tree}
    text = yaml_file.dump(tree, WIDTH)
    lines = text.splitlines()
    plain = yaml_file.parse(text)
    for path, line in plain.lines.items():
        if remark := new.remarks.get(path):
            lines[line - 1] += f"  # {escaped(remark)}"  # a name of a file may have line breaks
    heading = f"# {escaped(heading)}"
    with suppress(ConfigError):  # a text over several lines has no place for a comment
        commented = "\n".join([heading, *lines, ""])
        if yaml_file.parse(commented).tree == plain.tree:
            return commented
    return f"{heading}\n{text}"


def check(new: NewTree, report: UpgradeReport) -> None:
    """Removes unknown keys from the new file, with a warning. Raises ConfigError for invalid values."""
    while True:
        sourced = SourcedSettings(Document(tree=deepcopy(new.tree)), None)
        sourced.inherit(own_code=False)
        try:
            RunSettings.model_validate(sourced.tree, context={SKIP_USER_CODE: True})
            return
        except ValidationError as error:
            errors = error.errors()
        unknown = [problem(error) for error in errors if error["type"] in (UNKNOWN_KEY, IGNORED_KEY)]
        removed = [(path, sentence) for path, sentence in unknown if _remove(new.tree, path)]
        for path, sentence in removed:
            report.warn(new.place(path), f"{dotted(path)}: {sentence}: left out")
        if not removed:
            found = {
                (new.place(path), path[-1], sentence): path
                for path, sentence in reversed([problem(error) for error in errors])
            }
            lines = [f"{place}: {dotted(path)}: {sentence}" for (place, _, sentence), path in reversed(found.items())]
            raise ConfigError(
                lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} settings cannot be used:", *lines])
            )


def _remove(tree: Any, path: Key) -> bool:
    """Removes a key. Returns False if a block only inherits it from default_settings, where it is reported too."""
    at = tree
    for key in path[:-1]:
        if not (key in at if isinstance(at, dict) else isinstance(at, list)):
            return False
        at = at[key]
    return isinstance(at, dict) and at.pop(path[-1], at) is not at
