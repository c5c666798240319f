"""Converts a flat section into a current block: moves each key to the part of the block that has the key now."""

from __future__ import annotations

from palaestra.core.errors import PluginError
from palaestra.core.settings import Settings
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.runtime.settings import BehaviorSettings
from palaestra.runtime.settings.format_versions import OLD_KEYS
from palaestra.runtime.upgrade.block import Block
from palaestra.runtime.upgrade.reward_signals import convert_signals, convert_updates
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.trainers.behavior_settings import hyperparameters_class
from palaestra.trainers.settings import TRAINERS, BCSettings, BehavioralCloningSettings

NETWORK = ("normalize", "hidden_units", "num_layers", "vis_encode_type")
MEMORY = ("sequence_length", "memory_size")
WHOLE_RUN = ("max_steps", "time_horizon", "summary_freq", "checkpoint_interval", "keep_checkpoints")
WHOLE_RUN += ("even_checkpoints", "threaded")
TEACHER_KEYS = ("demo_path", "teacher", "teacher_behavior", "teacher_plays")
FOLDERS = ("model_path", "summary_path", "output_path", "trainer_path")
CURIOSITY = ("curiosity_strength", "curiosity_enc_size")
REMOVED = {
    "init_path": "networks of that version cannot be read",
    "batches_per_epoch": "buffer_size, num_epoch and batch_size determine how much is learned",
    **dict.fromkeys(FOLDERS, "a run's folder has its own layout"),
    **dict.fromkeys(CURIOSITY, "use_curiosity is not set"),
}
"""Keys that no current key replaces, and why."""


def convert(block: Block) -> None:
    """Converts all values of the section. Warns about unused settings, except settings from `default`."""
    trainer = _trainer(block)
    try:
        hyperparameters = hyperparameters_class(trainer, own_code=False)
    except PluginError:
        hyperparameters = Settings  # checking names the unknown trainer
    recurrent = str(block.section.take("use_recurrent")).lower() in ("true", "1")
    if recurrent:
        _make_batches_of_sequences(block)
    for key in hyperparameters.model_fields:
        if key not in TEACHER_KEYS:
            block.move(key, hyperparameters, "hyperparameters")
    if trainer == "sac":
        convert_updates(block)
    for key in NETWORK:
        block.move(key, NetworkSettings, "network_settings")
    _memory(block, recurrent)
    convert_signals(block, trainer)
    for key in WHOLE_RUN:
        block.move(key, BehaviorSettings)
    block.move_map("self_play", SelfPlaySettings, "self_play")
    for key in ("pretraining", "behavioral_cloning"):
        block.move_map(key, BehavioralCloningSettings, "behavioral_cloning")
    _report_unused(block, trainer)


def _trainer(block: Block) -> str:
    section = block.section
    place = section.place("trainer")
    old = section.take("trainer")
    if old is None:
        old = "online_bc" if "brain_to_imitate" in section else "ppo"
        if "init_entcoef" in section or "tau" in section:
            old = "sac"
        block.report.warn(section.place(), f"no `trainer` is given: assumed to be {old}")
    if old in CLONING:
        return convert_cloning(block, old, place)
    block.put(("trainer_type",), old, place)
    block.report.became("trainer", "trainer_type")
    return str(old)


def _make_batches_of_sequences(block: Block) -> None:
    """Raises a batch size that is smaller than a sequence to one sequence, as old versions did."""
    batch = block.section.peek("batch_size")
    length = block.section.peek("sequence_length")
    if isinstance(batch, int | float) and isinstance(length, int | float) and batch < length:
        place = block.section.place("batch_size")
        block.section.take("batch_size")
        block.put(("hyperparameters", "batch_size"), int(length), place, f"was {batch}, which meant one sequence")
        block.report.became("batch_size", "hyperparameters")
        block.report.warn(
            place, f"batch_size {batch} is less than a sequence of {length}, and meant one sequence; it is {length} now"
        )


def _memory(block: Block, recurrent: bool) -> None:
    if recurrent:
        block.put(("network_settings", "memory"), {}, block.section.place("use_recurrent"))
        block.report.became("use_recurrent", "network_settings.memory")
        for key in MEMORY:
            block.move(key, MemorySettings, "network_settings", "memory")
    for key in MEMORY:
        if block.section.take(key) is not None:
            block.report.became(key, "left out if use_recurrent is not true")


def _report_unused(block: Block, trainer: str) -> None:
    known = (
        OLD_KEYS
        | set(BehaviorSettings.model_fields)
        | {key for settings in TRAINERS.values() for key in settings.model_fields}
    )
    for key in block.section:
        place = block.section.place(key)
        if key in REMOVED:
            block.report.became(key, f"left out: {REMOVED[key]}")
        elif key not in known:
            block.unknown(key, known, place)
        elif block.section.has_own(key):
            block.report.warn(place, f"'{key}' is left out: {trainer} does not use it")


CLONING = ("imitation", "online_bc", "offline_bc")


def convert_cloning(block: Block, old: str, place: str) -> str:
    """Converts the section of a trainer that imitates; returns the name of the current trainer."""
    block.put(("trainer_type",), "bc", place, f"was {old}")
    block.report.became(f"trainer: {old}", "trainer_type: bc")
    if old == "offline_bc":
        block.ask_for(block.section.peek("demo_path"), block.section.place("demo_path"))
        block.move("demo_path", BCSettings, "hyperparameters")
    else:
        _teacher(block)
    return "bc"


def _teacher(block: Block) -> None:
    """Writes `heuristic` as the teacher; the old file does not say whether a person or the game's rule played it."""
    place = block.section.place("brain_to_imitate")
    name = block.section.take("brain_to_imitate")
    named = isinstance(name, str) and "<" not in name
    whose = f"'{name}'" if named else "the student's agents"
    remark = f"plays {whose}; a person, a model or your code instead: FILE.onnx, model:RUN, module:Class"
    block.put(("hyperparameters", "teacher"), "heuristic", place, remark)
    if named:
        block.put(("hyperparameters", "teacher_behavior"), name, place)
        block.report.became("brain_to_imitate", "hyperparameters.teacher_behavior")
        sentence = f"fill in: who plays '{name}'; the environment's own rule is assumed"
        block.report.warn(place, f"{sentence} (teacher: heuristic)")
    else:
        sentence = "no behavior to learn from is named: the environment's own rule plays the student's agents"
        block.report.warn(place, sentence)
