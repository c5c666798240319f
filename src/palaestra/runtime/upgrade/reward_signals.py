"""Converts reward signals: before 0.9 they were a discount and keys of curiosity, later a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaestra.rewards.settings import REWARDS, CuriositySettings
from palaestra.runtime.upgrade.block import Block
from palaestra.runtime.upgrade.new_tree import plain

OF_UPDATES = ("samples_per_update", "num_epoch")
"""Keys about updates that each reward signal once had."""


def convert_signals(block: Block, trainer: str) -> None:
    """Converts the section's reward signals, if it has any."""
    section = block.section
    if "reward_signals" not in section:
        _of_loose_keys(block)
        return
    for key in ("gamma", "use_curiosity"):
        place = section.place(key)
        value = section.take(key)
        if value:
            block.report.warn(place, f"'{key}' is left out: reward_signals is given too, and replaces it")
    signals = section.take("reward_signals")
    if not isinstance(signals, Mapping):
        block.put(("reward_signals",), signals, section.place("reward_signals"))
    for name, signal in signals.items() if isinstance(signals, Mapping) else ():
        place = section.place("reward_signals", name)
        if name in OF_SIGNALS:
            if trainer != "sac":
                block.report.warn(place, f"'{name}' is left out: {trainer} does not use it")
        elif name not in REWARDS:
            block.unknown(name, REWARDS, place)
        elif not isinstance(signal, Mapping) or not signal:
            block.put(("reward_signals", name), {} if signal is None else signal, place)
        else:
            _signal(block, name, signal)


def _signal(block: Block, name: str, signal: Mapping[str, Any]) -> None:
    at = ("reward_signals", name)
    known = REWARDS[name].model_fields
    block.put(at, {}, block.section.place(*at))
    for key, value in signal.items():
        place = block.section.place(*at, key)
        if key == "encoding_size" and key in known:
            _encoder(block, name, value, place, key)
        elif key in OF_UPDATES:
            block.report.warn(place, f"'{key}' is left out: reward signals are updated together with the policy")
        elif key not in known:
            block.unknown(key, known, place)
        else:
            block.put((*at, key), plain(value, REWARDS[name], key), place)
            block.ask_for(value, place)


def _of_loose_keys(block: Block) -> None:
    """Converts `gamma` and `use_curiosity` outside `reward_signals`; extrinsic and curiosity share the one `gamma`."""
    section = block.section
    place = section.place("gamma")
    gamma = section.take("gamma")
    if gamma is not None:
        block.put(("reward_signals", "extrinsic", "strength"), 1.0, place)
        block.put(("reward_signals", "extrinsic", "gamma"), gamma, place)
        block.report.became("gamma", "reward_signals.extrinsic.gamma")
    asked = section.place("use_curiosity")
    if not section.take("use_curiosity"):
        return
    if gamma is None:
        block.put(("reward_signals", "extrinsic"), {}, asked)
    block.put(("reward_signals", "curiosity"), {}, asked)
    block.report.became("use_curiosity", "reward_signals.curiosity")
    if gamma is not None:
        block.put(("reward_signals", "curiosity", "gamma"), gamma, place)
    for old, key in (("curiosity_strength", "strength"), ("curiosity_enc_size", "encoding_size")):
        if old in section:
            where = section.place(old)
            value = section.take(old)
            if key == "encoding_size":
                _encoder(block, "curiosity", value, where, old)
            else:
                block.put(("reward_signals", "curiosity", key), plain(value, CuriositySettings, key), where)
                block.report.became(old, f"reward_signals.curiosity.{key}")


def _encoder(block: Block, signal: str, size: Any, place: str, old: str) -> None:
    path = ("reward_signals", signal, "network_settings", "hidden_units")
    block.put(path, plain(size, REWARDS["curiosity"], "encoding_size"), place, f"was {old}")
    block.report.became(old, "reward_signals.*.network_settings.hidden_units")


UPDATES = ("num_update", "num_updates", "updates_per_train")
OF_SIGNALS = ("reward_signal_num_update", "reward_signal_steps_per_update")
"""Keys that were once inside `reward_signals`."""


def convert_updates(block: Block) -> None:
    """Converts the numbers of updates to steps_per_update, also for the reward signals."""
    direct = "steps_per_update" in block.new.at(block.at).get("hyperparameters", {})
    key = next((key for key in UPDATES if key in block.section), UPDATES[0])
    place = block.section.place("train_interval" if "train_interval" in block.section else key)
    every = _number(block, "train_interval")
    updates = _number(block, key)
    if direct and (every or updates):
        block.report.warn(place, "'train_interval' and 'num_update' are left out: steps_per_update is given")
    elif every or updates:
        per_update = (every or 1) / (updates or 1)
        remark = f"train_interval {every or 1} / {key} {updates or 1}"
        _put(block, "steps_per_update", per_update, place, remark)
        block.report.became(f"train_interval / {key}", "hyperparameters.steps_per_update")
    signals = block.section.peek("reward_signals")
    for key in OF_SIGNALS:
        if isinstance(signals, Mapping) and isinstance(signals.get(key), int | float) and signals[key] > 0:
            per_update = direct or key.endswith("per_update")
            value = signals[key] if per_update else (every or 1) / signals[key]
            remark = f"was {key}" if per_update else f"train_interval {every or 1} / {key} {signals[key]}"
            _put(block, "reward_signal_steps_per_update", value, block.section.place("reward_signals", key), remark)
            block.report.became(f"reward_signals.{key}", "hyperparameters.reward_signal_steps_per_update")


def _put(block: Block, key: str, value: float, place: str, remark: str) -> None:
    block.put(("hyperparameters", key), float(value), place, remark)


def _number(block: Block, key: str) -> float | None:
    place = block.section.place(key)
    value = block.section.take(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
        block.report.warn(place, f"'{key}' is {value!r}, not a number greater than 0: left out")
        return None
    return value
