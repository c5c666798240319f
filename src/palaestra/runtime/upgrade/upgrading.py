"""From old files to one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings.generations import Generation, generation, is_flat
from palaestra.runtime.upgrade.block import Block
from palaestra.runtime.upgrade.blocks import convert
from palaestra.runtime.upgrade.checking import check
from palaestra.runtime.upgrade.curricula import convert_curricula, in_map, read_curricula
from palaestra.runtime.upgrade.defaults import let_inherit
from palaestra.runtime.upgrade.nested import CURRICULUM, SAMPLERS, convert_block, convert_parameters, copy_rest
from palaestra.runtime.upgrade.new_tree import NewTree
from palaestra.runtime.upgrade.old_file import OldFile, read
from palaestra.runtime.upgrade.report import Report
from palaestra.runtime.upgrade.samplers import PARAMETERS, convert_samplers
from palaestra.runtime.upgrade.sections import DEFAULT, sections
from palaestra.runtime.upgrade.writing import to_text

STEPS = (
    "max_steps and summary_freq count the decisions of all agents. Before 0.14 they counted steps of the environment: "
    "multiply both by the number of agents if the file is that old"
)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What came of it."""

    text: str  # of the new file
    report: Report
    changed: bool  # False: the file is current, and `text` is its own


def upgrade(config: Path, curriculum: Path | None = None, sampler: Path | None = None) -> Upgraded:
    """One current file of a trainer file, its curriculum (a file, or a folder of them) and its samplers.

    Raises ConfigError with the old files' lines.
    """
    report, new = Report(), NewTree()
    old = read(config, report)
    kind = generation(old.tree)
    if kind in ("samplers", "curricula"):
        flag = {"samplers": "--sampler", "curricula": "--curriculum"}[kind]
        raise ConfigError(f"holds {kind}; name the trainer file they belong to, and this one with {flag}", config)
    _behaviors(old, kind, new, report)
    _parameters(old, curriculum, sampler, new, report)
    copy_rest(old, new)
    if not (new.tree.get("behaviors") or new.tree.get("default_settings")):
        raise ConfigError("holds no behavior", config)
    check(new, report)
    if not report.moves and not report.warnings:
        return Upgraded(old.text, report, changed=False)
    _introduce(config, kind, new, report)
    sources = ", ".join(path.name for path in (config, curriculum, sampler) if path)
    return Upgraded(to_text(new, f"Written by palaestra upgrade from {sources}"), report, changed=True)


def _behaviors(old: OldFile, kind: Generation, new: NewTree, report: Report) -> None:
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


def _parameters(old: OldFile, curriculum: Path | None, sampler: Path | None, new: NewTree, report: Report) -> None:
    """What comes first stays: samplers went over curricula, and files of their own go over parts of the trainer file."""
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


def _introduce(config: Path, kind: Generation, new: NewTree, report: Report) -> None:
    what = {"flat": "flat sections, before release 3", "nested": "before release 6"}.get(kind, "nearly current")
    count = len(new.at(("behaviors",)))
    behaviors = f"{count} behavior{'' if count == 1 else 's'}"
    default = " and default_settings" if "default_settings" in new.tree else ""
    report.heading = f"{config}: {what}; {behaviors}{default}"
