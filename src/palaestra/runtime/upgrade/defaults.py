"""`default` as default_settings, and blocks that only say where they differ from it.

A section took over whole keys of `default`; a block of today takes over maps key by key. So what a block must say, to come to the
same, has to be worked out.
"""

from __future__ import annotations

from typing import Any

from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport
from palaestra.trainers.settings import TRAINERS

PLAIN_SIGNALS = {"extrinsic": {"strength": 1.0, "gamma": 0.99}}
"""What there is where nothing is said."""

MAY_BE_NULL = {
    ("network_settings", "memory"),
    ("self_play",),
    ("behavioral_cloning",),
    *(("hyperparameters", key) for key in ("teacher", "teacher_behavior", "demo_path")),
}


class _CannotSay(Exception):
    """A key of default_settings that a block has no way to be without."""


def let_inherit(new: NewTree, report: UpgradeReport) -> None:
    """Takes out of all blocks what default_settings says. It stays away, with a warning, where a block cannot lie over it."""
    default, blocks = new.tree.get("default_settings"), new.tree.get("behaviors", {})
    if default is None or not blocks:
        return
    for prepared in (dict, _without_plain_signals):
        below = prepared(default)
        try:
            shorter = {name: _over(prepared(block), _known_to(block, below)) for name, block in blocks.items()}
        except _CannotSay:
            continue
        new.tree["default_settings"], new.tree["behaviors"] = below, shorter
        return
    del new.tree["default_settings"]
    report.warn(new.place(("default_settings",)), "every behavior says all of `default` itself; those not listed here have to be added")


def _without_plain_signals(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "reward_signals" or value != PLAIN_SIGNALS}


def _known_to(block: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """A block takes over those hyperparameters that its own trainer knows."""
    trainer = block["trainer_type"]
    if trainer == default["trainer_type"] or "hyperparameters" not in default:
        return default
    known = TRAINERS[trainer].model_fields if trainer in TRAINERS else {}
    return {**default, "hyperparameters": {key: value for key, value in default["hyperparameters"].items() if key in known}}


def _over(full: dict[str, Any], below: dict[str, Any], at: Key = ()) -> dict[str, Any]:
    """What must lie over `below` to come to `full`."""
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
            raise _CannotSay
        found[key] = None
    return found
