"""Turns `default` into default_settings, and removes from each block the values that it inherits.

An old section inherited whole keys of `default`; a current block inherits maps key by key. This module finds the values
that a block needs for the same result.
"""

from __future__ import annotations

from typing import Any

from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport
from palaestra.trainers.settings import TRAINERS

PLAIN_SIGNALS = {"extrinsic": {"strength": 1.0, "gamma": 0.99}}
"""Reward signals of a block without `reward_signals`."""

MAY_BE_NULL = {
    ("network_settings", "memory"),
    ("self_play",),
    ("behavioral_cloning",),
    *(("hyperparameters", key) for key in ("teacher", "teacher_behavior", "demo_path")),
}


class _CannotOverride(Exception):
    """Raised for a key of default_settings that a block cannot remove."""


def let_inherit(new: NewTree, report: UpgradeReport) -> None:
    """Removes values of default_settings from all blocks, or default_settings if a block cannot override it."""
    default = new.tree.get("default_settings")
    blocks = new.tree.get("behaviors", {})
    if default is None or not blocks:
        return
    for prepared in (dict, _without_plain_signals):
        below = prepared(default)
        try:
            shorter = {name: _over(prepared(block), _known_to(block, below)) for name, block in blocks.items()}
        except _CannotOverride:
            continue
        new.tree["default_settings"] = below
        new.tree["behaviors"] = shorter
        return
    del new.tree["default_settings"]
    report.warn(
        new.place(("default_settings",)),
        "every behavior has all values of `default` itself; add the behaviors that are not listed here",
    )


def _without_plain_signals(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "reward_signals" or value != PLAIN_SIGNALS}


def _known_to(block: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of `default` that a block inherits: hyperparameters only if its trainer knows them."""
    trainer = block["trainer_type"]
    if trainer == default["trainer_type"] or "hyperparameters" not in default:
        return default
    known = TRAINERS[trainer].model_fields if trainer in TRAINERS else {}
    hyperparameters = {key: value for key, value in default["hyperparameters"].items() if key in known}
    return {**default, "hyperparameters": hyperparameters}


def _over(full: dict[str, Any], below: dict[str, Any], at: Key = ()) -> dict[str, Any]:
    """Returns the values that, merged into `below`, result in `full`."""
    found: dict[str, Any] = {}
    for key, value in full.items():
        if key not in below or type(below[key]) is not type(value):
            found[key] = value
        elif isinstance(value, dict):
            rest = _over(value, below[key], (*at, key))
            if rest:
                found[key] = rest
        elif value != below[key]:
            found[key] = value
    for key in below.keys() - full.keys():
        if (*at, key) not in MAY_BE_NULL:
            raise _CannotOverride
        found[key] = None
    return found
