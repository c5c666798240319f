"""Writes error messages about settings: place, path, expected and actual value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from palaestra.core.display import shortened
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.settings import IGNORED_KEY, UNKNOWN_KEY
from palaestra.models.settings import NetworkSettings
from palaestra.rewards.settings import REWARDS, ExtrinsicSettings
from palaestra.runtime.settings.foreign_names import counterpart
from palaestra.runtime.settings.look_alikes import odd_character
from palaestra.runtime.settings.sourced_settings import SourcedSettings, dotted
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import TRAINERS

_MOST_LINES = 40  # problems named one by one

_NETWORKS = ("network_settings",)  # keys of a reward signal that a behavior has, too

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "some text",
    "model_type": "a map of keys",
    "dict_type": "a map of keys",
    "tuple_type": "a list",
    "too_long": "a list of at most {max_length}",
    "too_short": "entries, at least {min_length}",
    "greater_than": "a number greater than {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number less than {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
}


def config_error(problems: Iterable[tuple[Key, str]], sourced: SourcedSettings, heading: str) -> ConfigError:
    """Returns one error for all problems (path and sentence each); an inherited problem is named once."""
    found = list(dict.fromkeys((sourced.source(path), _path(path, sourced), sentence) for path, sentence in problems))
    if len(found) == 1:
        source, path, sentence = found[0]
        words = f"{source.words}: " if source.words else ""
        return ConfigError(f"{words}{path}: {sentence}", source.file, source.line)
    found.sort(key=lambda problem: problem[0].line or 0)
    shown = found[:_MOST_LINES]
    lines = [
        f"  {source.where}: {path}: {sentence}" if source.where else f"  {path}: {sentence}"
        for source, path, sentence in shown
    ]
    if len(found) > len(shown):
        lines.append(f"  ... and {len(found) - len(shown):,} more")
    return ConfigError("\n".join([f"{len(found)} {heading}:", *lines]))


def problem(error: ErrorDetails, sourced: SourcedSettings | None = None) -> tuple[Key, str]:
    """Returns path and message for an error of pydantic; with `sourced`, also where an unknown key belongs."""
    sentence = _sentence(error)
    unknown = error["type"] in (UNKNOWN_KEY, IGNORED_KEY) or sentence.startswith("no such reward signal")
    wrong = error["loc"][-1] if unknown and error["loc"] else error["input"]
    if isinstance(wrong, str) and (odd := odd_character(wrong)):
        return error["loc"], f"{sentence}; it has {odd}"
    if unknown and sourced is not None:
        sentence = hint(error["loc"], sourced.tree, sentence)
    return error["loc"], sentence


def warning(path: Key, sentence: str, sourced: SourcedSettings) -> str:
    """Returns a warning as a line: place, path and sentence."""
    where = sourced.source(path).where
    return f"{where}: {_path(path, sourced)}: {sentence}" if where else f"{_path(path, sourced)}: {sentence}"


def _path(path: Key, sourced: SourcedSettings) -> str:
    source = sourced.source(path)
    return dotted(
        source.path
        if path[0] == "behaviors" and source.path[0] == "default_settings" and path[2:] == source.path[1:]
        else path
    )


def _sentence(error: ErrorDetails) -> str:
    kind = error["type"]
    value = error["input"]
    context = error.get("ctx", {})
    if kind in (UNKNOWN_KEY, IGNORED_KEY):
        return error["msg"]
    if kind == "missing":
        return "is missing, but required"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        choices = re.findall("'([^']*)'", context["expected"])
        return f"expected one of {', '.join(choices)}, got {_shown(value)}{nearest(str(value), choices)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind].format_map(context)}, got {_shown(value)}"
    return f"{error['msg']}, got {_shown(value)}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a map of keys" if value else "an empty map"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else shortened(repr(value))


def hint(path: Key, tree: Any, sentence: str) -> str:
    """Returns the message about an unknown key at `path`, with the full path of a key of the same or a similar name
    elsewhere.

    If the message already names a similar key of the same section, that name is kept.
    """
    key = str(path[-1])[:100]
    if others := _of_other_trainers(path, tree):
        return others
    places = dict(_places(path, tree))
    theirs = counterpart(key) if key not in places and not _nearly_said(key, sentence) else None
    if theirs is not None and theirs.path and (place := places.get(theirs.path.rpartition(".")[2])):
        return f"unknown key; it is '{place}' here" + (f", {theirs.remark}" if theirs.remark else "")
    near = [key] if key in places else []
    if not near and "did you mean" not in sentence:
        near = get_close_matches(key, places, n=1, cutoff=0.8)
    if not near:
        return sentence
    what = re.split(r";| \(", sentence)[0]
    if key in RunSettings.model_fields:
        return f"{what}; '{key}' is a section of its own: indent it as far as `behaviors:`"
    return f"{what}; did you mean '{places[near[0]]}'?"


def _nearly_said(key: str, sentence: str) -> bool:
    """Whether the message already names a similar key of the section."""
    said = re.search(r"did you mean '([^']+)'", sentence)
    return said is not None and bool(get_close_matches(key, [said[1]], cutoff=0.85))


def _of_other_trainers(path: Key, tree: Any) -> str:
    """Returns a hint about a hyperparameter, misspelt or foreign, that only other trainers have; else ''."""
    if len(path) < 2 or path[-2] != "hyperparameters":
        return ""
    trainer = _trainer_at(path, tree)
    key = str(path[-1])[:100]
    theirs = counterpart(key)
    meant = theirs.path.rpartition(".")[2] if theirs is not None and theirs.path.startswith("hyperparameters.") else key
    known = {name for kind in TRAINERS.values() for name in kind.model_fields}
    near = [meant] if meant in known else get_close_matches(meant, known, n=1, cutoff=0.85)
    have = [name for name, kind in TRAINERS.items() if near and near[0] in kind.model_fields]
    if not have or trainer in have or trainer not in TRAINERS:
        return ""
    named = "unknown key" if near[0] == key else f"unknown key; '{near[0]}'"
    owners = " and ".join(filter(None, (", ".join(have[:-1]), have[-1])))
    belongs = f"{': it' if near[0] == key else ''} belongs to {owners}"
    return f"{named}{belongs}, and the trainer_type is {trainer}, which has none"


def _trainer_at(path: Key, tree: Any) -> str:
    """Returns the trainer of the block that contains a path; ppo if the block names none."""
    block = tree if isinstance(tree, dict) else {}
    default = block.get("default_settings")
    for key in path[:-2]:
        block = block.get(key) if isinstance(block, dict) else None
    for each in (block, default):
        if isinstance(each, dict) and isinstance(each.get("trainer_type"), str):
            return each["trainer_type"]
    return "ppo"


def _places(path: Key, tree: Any) -> Iterator[tuple[str, str]]:
    """Yields each known key and its full path: in the same behavior (or the only one), and in the sections of a run."""
    for section, field in RunSettings.model_fields.items():
        yield section, section
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and section != "default_settings":
            yield from ((key, f"{section}.{key}") for key in kind.model_fields)
    behaviors = tree.get("behaviors") if isinstance(tree, dict) else None
    names = list(behaviors) if isinstance(behaviors, dict) else []
    if path[0] == "default_settings":
        head = "default_settings"
        block = tree.get("default_settings")
    else:
        name = path[1] if path[0] == "behaviors" and len(path) > 2 else names[0] if len(names) == 1 else "*"
        head = f"behaviors.{name}"
        block = behaviors.get(name) if isinstance(behaviors, dict) else None
    trainer = block.get("trainer_type") if isinstance(block, dict) else None
    hyperparameters = TRAINERS.get(trainer if isinstance(trainer, str) else "ppo") or TRAINERS["ppo"]
    yield from ((key, f"{head}.self_play.{key}") for key in SelfPlaySettings.model_fields)
    keys = [key for key in ExtrinsicSettings.model_fields if key not in _NETWORKS]
    yield from ((key, f"{head}.reward_signals.extrinsic.{key}") for key in keys)
    yield from ((key, f"{head}.reward_signals.{key}") for key in REWARDS)
    yield from ((key, f"{head}.network_settings.memory.{key}") for key in ("memory_size", "sequence_length"))
    yield from ((key, f"{head}.network_settings.{key}") for key in NetworkSettings.model_fields)
    yield from ((key, f"{head}.hyperparameters.{key}") for key in hyperparameters.model_fields)
    yield from ((key, f"{head}.{key}") for key in BehaviorSettings.model_fields)
