"""How often SAC learns: then so many gradient steps every so many decisions, now decisions for each gradient step."""

from __future__ import annotations

from collections.abc import Mapping

from palaestra.runtime.upgrade.block import Block

UPDATES = ("num_update", "num_updates", "updates_per_train")
OF_SIGNALS = ("reward_signal_num_update", "reward_signal_steps_per_update")
"""These stood among the signals, in `reward_signals`."""


def convert_updates(block: Block) -> None:
    """Writes steps_per_update, and that of the reward signals."""
    direct = "steps_per_update" in block.new.at(block.at).get("hyperparameters", {})
    key = next((key for key in UPDATES if key in block.section), UPDATES[0])
    place = block.section.place("train_interval" if "train_interval" in block.section else key)
    every, updates = _number(block, "train_interval"), _number(block, key)
    if direct and (every or updates):
        block.report.warn(place, "'train_interval' and 'num_update' are left out: steps_per_update is given")
    elif every or updates:
        _put(block, "steps_per_update", (every or 1) / (updates or 1), place, f"train_interval {every or 1} / {key} {updates or 1}")
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
    place, value = block.section.place(key), block.section.take(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
        block.report.warn(place, f"'{key}' is {value!r}, not a number greater than 0: left out")
        return None
    return value
