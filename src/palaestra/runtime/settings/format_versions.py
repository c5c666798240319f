"""Detects for which version of ML-Agents' format a settings file was written, and finds keys at a wrong depth in a
current file.

`palaestra upgrade` converts older files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.trainers.behavior_settings import BehaviorSettings

_OF_RUN = RunSettings.model_fields
_OF_BEHAVIOR = BehaviorSettings.model_fields
_BELONGS = "is a setting of a behavior: indent it below the behavior's name"

FormatVersion = Literal["current", "nested", "flat", "samplers", "curricula"]
"""`nested`: behaviors, with `curriculum` or `parameter_randomization` beside them. `flat`: every key of a behavior on
one level, with `behaviors` above (release 2) or without (release 1 and before). `samplers` and `curricula` are files
that were once separate."""

_OLD = (
    "trainer batch_size buffer_size buffer_init_steps learning_rate beta epsilon lambd gamma tau num_epoch "
    "hidden_units num_layers normalize use_recurrent memory_size sequence_length vis_encode_type use_curiosity "
    "curiosity_strength init_entcoef train_interval num_update brain_to_imitate batches_per_epoch pretraining"
)

OLD_KEYS = frozenset(_OLD.split())
"""Keys of a flat section that current settings have elsewhere, or no longer have."""

AGES = {"flat": "before release 3 (mlagents 0.17)", "nested": "before release 6 (mlagents 0.19)"}
"""Versions of ML-Agents that wrote such files."""

_WORDS = {
    "nested": f"has `curriculum` or `parameter_randomization` of ML-Agents {AGES['nested']}",
    "flat": f"is a trainer file of ML-Agents {AGES['flat']}",
    "samplers": f"holds samplers of ML-Agents {AGES['flat']}, which are part of the trainer file now",
    "curricula": f"holds curricula of ML-Agents {AGES['flat']}, which are part of the trainer file now",
}


def format_version(tree: Mapping[str, Any]) -> FormatVersion:
    """Returns the version of a file's format; if none matches, `current`, whose error messages help most."""
    blocks = tree.get("behaviors")
    if isinstance(blocks, Mapping):
        if any(_sections(blocks)):
            return "flat"
        return "nested" if "curriculum" in tree or "parameter_randomization" in tree else "current"
    if "behaviors" in tree or "default_settings" in tree:
        return "current"
    maps = [value for value in tree.values() if isinstance(value, Mapping)]
    if "thresholds" in tree or (maps and all("thresholds" in value for value in maps)):
        return "curricula"
    if "resampling-interval" in tree or any(is_sampler(value) for value in maps):
        return "samplers"
    return "flat" if isinstance(tree.get("default"), Mapping) or any(_sections(tree)) else "current"


def is_sampler(value: Any) -> bool:
    """Whether a parameter is a sampler of the old form, with type and numbers side by side."""
    return isinstance(value, Mapping) and (
        "sampler-type" in value or ("sampler_type" in value and "sampler_parameters" not in value)
    )


def refuse_old(tree: Mapping[str, Any], file: Path) -> None:
    """Raises ConfigError with the command that converts the file to the current format."""
    old = format_version(tree)
    if old == "current":
        return
    before = shlex.quote(str(file))
    new = shlex.quote(str(file.with_suffix(".new.yaml")))
    flag = {"samplers": "--sampler", "curricula": "--curriculum"}.get(old)
    command = f"palaestra upgrade {before} {new}"
    if flag:
        command = f"palaestra upgrade TRAINER_FILE NEW_FILE {flag} {before}"
    raise ConfigError(f"{_WORDS[old]}; upgrade it with `{command}`", file)


def is_flat(block: Any) -> bool:
    """Whether a block has the keys of all its parts on one level."""
    return isinstance(block, Mapping) and "trainer_type" not in block and any(_keys(block))


def _sections(blocks: Mapping[str, Any]) -> Iterator[bool]:
    """Yields whether each block is a flat section; a current section that is indented too little is none."""
    yield from (is_flat(block) for name, block in blocks.items() if name not in BehaviorSettings.model_fields)


def _keys(block: Mapping[str, Any]) -> Iterator[bool]:
    if "trainer" in block:
        yield True
    elif not {"hyperparameters", "network_settings"} & set(block):
        yield from (key in OLD_KEYS and key not in BehaviorSettings.model_fields for key in block)


def misplaced(tree: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Yields the path and the message of each key that stands one level too high or too low around `behaviors`."""
    blocks = tree.get("behaviors")
    listed = blocks if isinstance(blocks, Mapping) else ()
    names = [name for name in listed if name not in _OF_BEHAVIOR and name not in _OF_RUN]
    name = names[0] if len(names) == 1 else "*"
    for key, value in tree.items():
        if key in _OF_RUN:
            continue
        if key in _OF_BEHAVIOR:
            there = "behaviors" in tree or "default_settings" in tree
            sentence = (
                f"did you mean 'behaviors.{name}.{key}'?"
                if there
                else "begin the file with `behaviors:` and the behavior's name"
            )
            yield (key,), f"{_BELONGS}; {sentence}"
        elif isinstance(value, Mapping) and any(each in _OF_BEHAVIOR for each in value):
            yield (key,), "looks like a behavior: indent it, with all that belongs to it, below `behaviors:`"
    for key in blocks if isinstance(blocks, Mapping) else ():
        if key in _OF_RUN:
            yield ("behaviors", key), "is no behavior but a section of its own: indent it as far as `behaviors:`"
        elif key in _OF_BEHAVIOR:
            yield (
                ("behaviors", key),
                "is a setting of a behavior: indent it below the behavior's name; did you mean "
                f"'behaviors.{name}.{key}'?",
            )
